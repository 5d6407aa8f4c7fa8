"""Rendering of the page as a single, self-contained HTML file."""

import json
from importlib.resources import files
from pathlib import Path

from munkey.core.templates import render_template
from munkey.explore.contents import Contents, encode_json

ASSETS = Path(str(files("munkey.explore"))) / "assets"
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.umd.min.js")


def render_page(contents: Contents) -> str:
    """Render the page as HTML. Names are always escaped, in HTML, in JSON and on charts."""
    from markupsafe import Markup

    scripts = [(ASSETS / name).read_text(encoding="utf-8") for name in (*LIBRARIES, "page.js")]
    values = {
        "contents": contents,
        "style": Markup((ASSETS / "page.css").read_text(encoding="utf-8")),
        "scripts": [Markup(script) for script in scripts],
        "data": Markup(encode_contents(contents)),
    }
    return render_template(ASSETS / "page.html.j2", values)


def encode_contents(contents: Contents) -> str:
    """Encode the contents as JSON that can be embedded in a <script> element.

    Characters that could end the element are escaped.
    """
    text = json.dumps(
        contents, default=encode_json, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text

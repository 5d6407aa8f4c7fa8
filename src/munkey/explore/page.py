"""The page: a single file that needs no other."""

import json
from importlib.resources import files
from pathlib import Path

from munkey.core.templates import render_template
from munkey.explore.contents import Contents, encode_json

ASSETS = Path(str(files("munkey.explore"))) / "assets"
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.umd.min.js")


def render_page(contents: Contents) -> str:
    """Render the page as HTML. No name is ever read as markup: not in HTML, in JSON or on charts."""
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
    """Encode the contents as JSON, in which no character can end the <script> that holds it."""
    text = json.dumps(
        contents, default=encode_json, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text

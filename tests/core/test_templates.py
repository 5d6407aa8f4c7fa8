"""Templates: what is escaped, and what is an error."""

import pytest
from jinja2 import UndefinedError

from munkey.core.templates import render_template


def test_html_is_escaped_and_plain_text_is_not(tmp_path):
    for name in ("page.html.j2", "card.md.j2"):
        (tmp_path / name).write_text("{% if true %}\n{{ name }} {{ name | loud }}\n{% endif %}\n")
    filters = {"loud": str.upper}
    assert render_template(tmp_path / "page.html.j2", {"name": "a<b"}, filters) == "a&lt;b A&lt;B\n"
    assert render_template(tmp_path / "card.md.j2", {"name": "a<b"}, filters) == "a<b A<B\n"


def test_a_template_with_a_name_without_a_value_is_an_error(tmp_path):
    (tmp_path / "page.html.j2").write_text("{{ name }}")
    with pytest.raises(UndefinedError, match="name"):
        render_template(tmp_path / "page.html.j2", {})

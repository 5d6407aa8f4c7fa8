"""The code on the pages of the docs, as tests run it."""

import re

from tests.conftest import ROOT


def blocks(page: str, language: str, heading: str = "") -> list[str]:
    """The blocks of code of a language on docs/PAGE.md, in order; if a heading is named, those of its section."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    if heading:
        text = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def block(page: str, language: str, containing: str) -> str:
    """The first block of code of a page that contains a text."""
    return next(code for code in blocks(page, language) if containing in code)

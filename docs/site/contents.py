"""The order of the pages, as a newcomer reads them. It is kept out of the pages, which a code host shows as well."""

import re

from sphinx.application import Sphinx

CONTENTS = {  # of a page: headings, with the pages below each, named from its folder; * stands for any name
    "README": {
        "Start": ["docs/tutorial", "docs/method", "docs/by-design", "docs/glossary", "docs/faq"],
        "Results": ["docs/results", "docs/explore", "docs/audits", "docs/scenarios", "docs/claims"],
        "Use a model": ["docs/serving", "docs/memory", "docs/forgetting-everywhere"],
        "Run the experiment": [
            "docs/running",
            "docs/performance",
            "docs/cluster",
            "docs/tracking",
            "docs/publishing",
        ],
        "Build on it": [
            "docs/data",
            "Files of published data <data/README>",
            "docs/encoders",
            "docs/backbones",
            "docs/methods",
            "docs/extending",
            "docs/layout",
            "All packages <docs/reference/munkey>",
        ],
        "Project": ["CONTRIBUTING", "SECURITY", "CHANGELOG"],
    },
    "docs/methods": {"": ["methods/*"]},
}
REFERENCE = "docs/reference/"  # written by apidoc, with headings that say little


def toctree(heading: str, pages: list[str]) -> str:
    """The directive that puts pages into the navigation."""
    options = f":hidden:\n:glob:\n:caption: {heading}" if heading else ":hidden:\n:glob:"
    return "\n\n```{toctree}\n" + options + "\n\n" + "\n".join(pages) + "\n```\n"


def add(_: Sphinx, page: str, source: list[str]) -> None:
    """Append what stands below a page; shorten the headings of the reference."""
    source[0] += "".join(
        toctree(heading, pages) for heading, pages in CONTENTS.get(page, {}).items()
    )
    if page.startswith(REFERENCE):
        source[0] = re.sub(
            r"^Submodules\n-+\n|(?<=\w) (module|package)$", "", source[0], flags=re.MULTILINE
        )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", add)
    return {"parallel_read_safe": True}

"""`make site` builds a website from the docs: strictly, complete, and with nothing from the network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.conftest import ROOT
from tests.integration.conftest import Project, checkout

pytest.importorskip("sphinx", reason="the extra `site` is not installed")
pytestmark = pytest.mark.soak(long=True)
RECIPE = re.search(
    r"^site: .*\n\tsphinx-build (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
)[1]
LOADED = {"img": "src", "script": "src", "link": "href", "source": "src", "iframe": "src"}


class Links(HTMLParser):
    """What a page names: links that a reader may follow, and files that a browser loads by itself; ids on it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.followed: set[str] = set()
        self.loaded: set[str] = set()
        self.ids: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        if tag == "a" and given.get("href"):
            self.followed.add(given["href"])
        if given.get(LOADED.get(tag)):
            self.loaded.add(given[LOADED[tag]])


def build(project: Project) -> subprocess.CompletedProcess[str]:
    """What `make site` does."""
    return project.run(sys.executable, "-m", "sphinx", *RECIPE.split(), check=False, timeout=3600)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout with its site."""
    made = checkout(tmp_path_factory.mktemp("site") / "project")
    done = build(made)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def pages(project: Project) -> dict[Path, Links]:
    site = project.path / "site"
    return {path.relative_to(site): Links(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_and_every_package_is_on_it(pages: dict[Path, Links]) -> None:
    written = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/methods").glob("*.md"),
    ]
    packages = {
        path.parent.relative_to(ROOT / "src") for path in (ROOT / "src/munkey").rglob("__init__.py")
    }
    expected = {path.relative_to(ROOT).with_suffix(".html") for path in written}
    expected |= {Path("docs/reference", f"{'.'.join(package.parts)}.html") for package in packages}
    assert expected <= set(pages)
    reference = pages[Path("docs/reference/munkey.deploy.html")]
    assert "munkey.deploy.predictor.Predictor.forget" in reference.ids


def test_sections_of_numpydoc_are_lists_of_fields(project: Project) -> None:
    page = (project.path / "site/docs/reference/munkey.unlearn.html").read_text()
    assert 'Parameters<span class="colon">:</span>' in page and "----------" not in page


def test_every_link_leads_somewhere(project: Project, pages: dict[Path, Links]) -> None:
    site, missing = project.path / "site", []
    for page, links in pages.items():
        # Sphinx's own copies of the code
        written = {} if page.parts[0] == "_modules" else links.followed
        for link in {*written, *links.loaded}:
            address = urlsplit(link)
            target = (
                Path(site, page.parent, unquote(address.path)).resolve()
                if address.path
                else site / page
            )
            known = (
                pages.get(target.relative_to(site))
                if target.is_relative_to(site) and target.exists()
                else None
            )
            broken = (
                known and address.fragment and unquote(address.fragment) not in known.ids | {""}
            )
            if not address.scheme and (not target.exists() or broken):
                missing.append(f"{page}: {link}")
    assert missing == []


def test_nothing_comes_from_the_network(project: Project, pages: dict[Path, Links]) -> None:
    assert {
        link for links in pages.values() for link in links.loaded if urlsplit(link).netloc
    } == set()
    styles = [path.read_text() for path in (project.path / "site").rglob("*.css")]
    assert not any(re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style) for style in styles)


def test_it_can_be_searched(project: Project) -> None:
    index = (project.path / "site/searchindex.js").read_text()
    assert "docs/tutorial" in index and "certif" in index  # a word's stem


def test_a_broken_link_fails(project: Project) -> None:
    page = project.path / "docs/faq.md"
    text = page.read_text()
    page.write_text(f"{text}\n[Where?](nowhere.md) [And where?](results.md#no-such-place)\n")
    done = build(project)
    assert done.returncode != 0 and "nowhere.md" in done.stderr and "no-such-place" in done.stderr

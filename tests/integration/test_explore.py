"""The page of a real run: its numbers are those of the tables, and it draws."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from tests.explore.browser import launched, opened
from tests.integration.conftest import Project

pytestmark = pytest.mark.ci
PARTS = {"TA": "test", "RA": "retain", "FA": "forget"}


@pytest.fixture(scope="module")
def explored(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run whose page was made."""
    project = finished.copy(tmp_path_factory.mktemp("explored") / "project")
    project.make("explore")
    return project.path / "results/default"


def embedded(results: Path) -> dict:
    text = (results / "explore/digits.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="contents">(.*?)</script>', text, re.DOTALL)[1])


def test_numbers_equal_those_of_the_tables_to_the_digit(explored: Path) -> None:
    contents = embedded(explored)
    main = pd.read_csv(explored / "tables/main.csv")
    markdown = (explored / "tables/main.md").read_text().replace("*", "")
    compared = 0
    for _, line in main.iterrows():
        request = f"rate{line['rate']!r}"
        for metric, part in PARTS.items():
            shares = []
            for seed in contents["seeds"]:
                correct = contents["correct"][f"{seed}/{request}/{line['method']}"][part]
                counts = contents["counts"][f"{seed}/{request}"][part]
                shares.append(100 * sum(correct) / sum(counts))
            mean = sum(shares) / len(shares)
            assert f"{mean:.6f}" == f"{line[f'{metric}_mean']:.6f}", (line["method"], metric)
            compared += 1
    assert compared == len(main) * len(PARTS)
    assert contents["projection"].startswith("UMAP of the keys")
    for design in contents["designs"]:
        [row] = re.findall(rf"^\| {re.escape(design['title'])} .*", markdown, re.MULTILINE)
        printed = [cell.strip() for cell in row.split("|")]
        for heading in ("TA", "RA", "FA", "MIA", "Avg Gap"):
            assert design["cells"][heading] in printed, (design["title"], heading)


def test_a_browser_draws_the_page_with_the_cells_of_the_table(explored: Path) -> None:
    contents = embedded(explored)
    with launched() as browser, opened(browser, explored / "explore/digits.html") as tab:
        table = tab.locator("#designs table").inner_text()
        for design in contents["designs"]:
            if design["request"] == contents["requests"][0]["key"]:
                assert design["cells"]["TA"] in table
        assert tab.locator("#picture figure").count() == 1
        assert "make run TARGET=streams" in tab.locator("#requests").inner_text()


def test_the_page_is_small_and_ignored_by_dvc(explored: Path) -> None:
    assert (explored / "explore/digits.html").stat().st_size < 3e6
    ignored = (explored.parents[1] / ".dvcignore").read_text()
    assert "/results/*/explore/" in ignored.splitlines()

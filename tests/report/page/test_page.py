"""The report: text is escaped, tables are not; what stands where; where it came from."""

import base64
import re

import pandas as pd
import pytest

from munkey.core.files import write_text
from munkey.report.page import page
from munkey.report.tables.frontier import Design, collect_points
from munkey.report.tables.markup import TitledTable
from munkey.report.tables.summary import summarize
from tests.conftest import ROOT
from tests.report.inputs import KEYED_ROWS, MEASURED, ROWS, assert_in_order, compared, tidy

REPORT = ROOT / "workflow/report/page.html.j2"
PICTURE = "data:image/svg+xml;base64,AAAA"
SHARES = {"digits": {"cf": "2.4"}}


def report(**contents):
    """The page with these contents; all others are empty."""
    lists = ("datasets", "advice", "sentences", "frontiers", "chapters", "figures", "runs")
    page_contents = {key: [] for key in lists} | {
        "explored": [],
        "name": "small",
        "grid": "",
        "story": page.Chapter("story", "In short", []),
        "origin": {},
        "params": "",
    }
    return page.render_page(REPORT, **(page_contents | contents))


@pytest.fixture
def results():
    return page.PageResults(summarize(tidy(), ROWS), ROWS, SHARES)


def story(results):
    """The story of results in which no design was audited."""
    methods = set(results.main["method"])
    designs = []
    for row in results.rows:
        if row.name in methods:
            designs.append(Design(row.name, row.title, "weights", "", "–"))
    return page.make_story({"digits": collect_points(results.main, None, designs)}, results.main)


def test_the_page_escapes_text_but_not_tables():
    table = TitledTable("x < y", pd.DataFrame({"x": ["<b>1</b>"]}))
    chapter = page.Chapter("a", "A & B", [table], ["1 < 2"])
    text = report(grid="<script>", chapters=[chapter], params="a: <b>")
    assert " &lt;script&gt;" in text
    assert "<script>" not in text.split("<script>\n")[0]
    assert "<td><b>1</b></td>" in text
    assert "A &amp; B" in text
    assert "<h3>x &lt; y</h3>" in text
    assert "<p>1 &lt; 2</p>" in text
    assert "a: &lt;b&gt;" in text


def test_the_advice_is_at_the_top_of_the_page():
    text = report(advice=["digits: Deploy <LDA>."], grid="Seeds: 0.")
    assert_in_order(
        text, ["Seeds: 0.", '<p class="advice">digits: Deploy &lt;LDA&gt;.</p>', "<nav>"]
    )


def test_a_chapter_explains_its_columns_once_and_links_its_files():
    frame = pd.DataFrame({"Method": ["CF"], "FA": ["<b>1</b>"]})
    tables = [TitledTable("", frame)] * 2
    text = report(chapters=[page.Chapter("a", "A", tables, files=["../tables/main.csv"])])
    assert re.findall("<dt>(.*?)</dt>", text) == ["FA"]
    assert '<a href="../tables/main.csv">tables/main.csv</a>' in text
    assert text.count('<th title="forget accuracy: ') == text.count("<th>Method</th>") == 2


def test_sentences_in_cells_break_into_lines_and_numbers_with_intervals_do_not():
    """The failure: at a width of 1,200 pixels, a verdict was cut off."""
    verdict = "no attack tells deleted samples from those that were never seen"
    frame = pd.DataFrame({"share": ["-168.1 [-270.4, -114.4] †"], "verdict": [verdict]})
    text = report(chapters=[page.Chapter("a", "A", [TitledTable("", frame)])])
    assert f'<td class="words">{verdict}</td>' in text
    assert "<td>-168.1 [-270.4, -114.4] †</td>" in text
    assert "td.words { white-space: normal;" in text


def test_the_page_shows_data_sets_figures_origin_and_runs():
    text = report(
        datasets=["digits", "other"],
        figures=[page.Figure("pairs", "Pairs.", PICTURE, "../figures/pairs.svg")],
        origin={"Commit": "abc"},
        runs=[{"experiment": "digits", "name": "CF", "page": "http://localhost/#/1"}],
    )
    assert "<title>munkey: digits, other (small)</title>" in text
    assert "Configuration <b>small</b>" in text
    assert f'src="{PICTURE}"' in text
    assert 'href="../figures/pairs.svg"' in text
    assert "<dt>Commit</dt><dd>abc</dd>" in text
    assert "1 run in MLflow" in text
    assert '<a href="http://localhost/#/1">digits: CF</a>' in text
    assert '<a href="http://localhost">http://localhost</a>' in text
    assert "make ui" not in text
    assert "MLflow" not in report()


def test_runs_of_a_local_store_are_linked_with_the_command_that_serves_it():
    address = "http://127.0.0.1:5000/#/experiments/1/runs/2"
    text = report(runs=[{"experiment": "digits", "name": "CF", "page": address}])
    assert '<a href="http://127.0.0.1:5000">' in text
    assert "<code>make ui</code>" in text


@pytest.mark.parametrize("picture", ["frontier-digits", "forgetting"])
def test_the_story_comes_first_with_its_picture_and_its_terms(results, picture):
    gaps = page.Figure("forgetting", "Gaps.", PICTURE, "../figures/forgetting.svg")
    frontier = page.Figure("frontier-digits", "Frontier.", PICTURE, "../audit/digits/frontier.svg")
    text = report(
        sentences=["CF is best."],
        story=story(results),
        chapters=page.make_chapters(results),
        figures=[gaps],
        frontiers=[frontier] if picture == "frontier-digits" else [],
    )
    parts = [
        "CF is best.",
        f'id="{picture}"',
        "<dt>residual share [%]</dt>",
        "<td>not audited</td>",
        "../tables/main.csv",
        'id="main"',
    ]
    assert_in_order(text, parts)
    assert '<th title="how much of the effect' in text


def test_chapters_are_in_the_order_of_the_paper_with_tables_and_csv_files(
    results,
):
    chapters = {chapter.id: chapter for chapter in page.make_chapters(results)}
    assert list(chapters) == ["main", "runtime"]
    assert len(chapters["runtime"].tables) == 1
    (main,) = chapters["main"].tables
    assert main.title.startswith("digits: mean ± sd")
    assert "SCRUB" in main.frame.values
    assert "2.4" in main.frame["residual share [%]"].values
    assert chapters["main"].files == ["../tables/main.csv", "../metrics.csv"]


def test_the_page_has_no_chapter_and_no_link_for_missing_results(results):
    chapters = page.make_chapters(results)
    assert [chapter.id for chapter in chapters] == ["main", "runtime"]
    text = report(story=story(results), chapters=chapters)
    assert "Ablations" not in text
    assert "#figures" not in text
    assert 'id="figures"' not in text


def test_a_model_that_is_worse_than_its_keys_is_named_below_the_table_with_a_link():
    munkey = dict.fromkeys(("original-m", "munkey"), [(64, 70, 70, 50)] * 3)
    worse = compared(summarize(tidy(MEASURED | munkey), KEYED_ROWS))
    results = page.PageResults(worse, KEYED_ROWS, {})
    text = report(story=story(results), chapters=page.make_chapters(results))
    assert text.count("more accurate than MUNKEY by 11.0") == 2
    assert '<a href="../../../docs/data.md#underfitting">docs/data.md#underfitting</a>' in text
    assert (ROOT / "docs/data.md").read_text().count("## Underfitting\n") == 1


def test_ranks_have_a_chapter_if_there_are_enough_seeds(results):
    index = pd.MultiIndex.from_product(
        [["digits"], range(10), [0.1]], names=["dataset", "seed", "rate"]
    )
    ranks = pd.DataFrame({"CF": 1.0, "SSD": 2.0, "AMUN": 3.0}, index=index).reset_index()
    chapters = {}
    for chapter in page.make_chapters(results._replace(ranks=[ranks])):
        chapters[chapter.id] = chapter
    assert "critical difference 1.05" in chapters["ranks"].tables[0].title
    assert "only seeds" in chapters["ranks"].remarks[0]


def test_a_figure_has_its_picture_and_its_caption(tmp_path):
    write_text(tmp_path / "selection-digits.svg", "svg")
    figure = page.make_figure(tmp_path / "selection-digits.svg", "Digits.", pd.DataFrame())
    assert figure.name == "selection-digits"
    assert figure.caption == "Digits."
    assert figure.data == "data:image/svg+xml;base64,c3Zn"
    assert figure.file == "../figures/selection-digits.svg"


def test_the_figure_of_a_frontier_names_its_data_set_and_has_a_picture_for_a_phone(
    tmp_path, results
):
    write_text(tmp_path / "digits/frontier.svg", "svg")
    designs = [
        Design("cf", "CF", "weights", "", "–"),
        Design("retrain-t", "Retrain (T)", "anew", "", "–"),
    ]
    points = collect_points(results.main, None, designs)
    figure = page.make_frontier_figure(tmp_path / "digits", points)
    assert (figure.name, figure.file) == ("frontier-digits", "../audit/digits/frontier.svg")
    assert figure.caption == f"{page.FRONTIER} digits."
    assert figure.data == "data:image/svg+xml;base64,c3Zn"
    assert 'width="280.8pt"' in base64.b64decode(figure.narrow.partition(",")[2]).decode()


def test_the_origin_names_each_value_once_and_the_span_of_all_jobs():
    records = []
    for device, start, end, torch in (("CPU b", "02", "05", "2"), ("CPU a", "01", "03", "3")):
        versions = {"python": "3.11", "torch": torch}
        provenance = {"commit": "abc", "device": device, "versions": versions}
        times = {"started": f"2026-01-{start}", "ended": f"2026-01-{end}"}
        records.append(times | {"provenance": provenance})
    assert page.describe_origin(records) == {
        "Jobs ran": "2026-01-01 to 2026-01-05 (UTC)",
        "Machine": "CPU a, CPU b",
        "Commit": "abc",
        "Versions": "python 3.11, torch 2, torch 3",
    }


def test_pages_of_single_samples_are_linked_if_they_exist() -> None:
    assert '<a href="../explore/digits.html">digits</a>' in report(explored=["digits"])
    assert "../explore" not in report()


def test_a_chapter_shows_its_figures_before_its_tables():
    table = TitledTable("pairs", pd.DataFrame({"residual share [%]": ["2.4"]}))
    shares = page.Figure("shares", "Shares.", PICTURE, "../audit/digits/shares.svg", "data:narrow")
    text = report(chapters=[page.Chapter("audit", "What remains?", [table], figures=[shares])])
    assert_in_order(
        text, ['href="#audit"', '<h2 id="audit">', "data:narrow", "Shares.", "<td>2.4</td>"]
    )

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
from tests.report.inputs import KEYED_ROWS, MEASURED, ROWS, compared, tidy

REPORT = ROOT / "workflow/report/page.html.j2"
PICTURE = "data:image/svg+xml;base64,AAAA"
LEFT = {"digits": {"cf": "2.4"}}


def report(**contents):
    empty = {
        name: []
        for name in (
            "datasets",
            "advice",
            "sentences",
            "frontiers",
            "chapters",
            "figures",
            "runs",
            "explored",
        )
    }
    empty |= {
        "name": "small",
        "grid": "",
        "story": page.Chapter("story", "In short", []),
        "origin": {},
        "params": "",
    }
    return page.render_page(REPORT, **(empty | contents))


@pytest.fixture
def results():
    return page.PageResults(summarize(tidy(), ROWS), ROWS, LEFT)


def story(results):
    measured = set(results.main["method"])
    designs = [
        Design(row.name, row.title, "weights", "") for row in results.rows if row.name in measured
    ]
    return page.make_story({"digits": collect_points(results.main, None, designs)}, results.main)


def in_order(text, parts):
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_the_page_escapes_text_but_not_tables():
    chapter = page.Chapter(
        "a", "A & B", [TitledTable("x < y", pd.DataFrame({"x": ["<b>1</b>"]}))], ["1 < 2"]
    )
    text = report(grid="<script>", chapters=[chapter], params="a: <b>")
    assert (
        " &lt;script&gt;" in text
        and "<script>" not in text.split("<script>\n")[0]
        and "<td><b>1</b></td>" in text
    )
    assert (
        "A &amp; B" in text
        and "<h3>x &lt; y</h3>" in text
        and "<p>1 &lt; 2</p>" in text
        and "a: &lt;b&gt;" in text
    )


def test_what_to_deploy_stands_at_the_top_of_the_page():
    text = report(advice=["digits: Deploy <LDA>."], grid="Seeds: 0.")
    in_order(text, ["Seeds: 0.", '<p class="advice">digits: Deploy &lt;LDA&gt;.</p>', "<nav>"])


def test_a_chapter_explains_its_columns_once_and_links_its_files():
    frame = pd.DataFrame({"Method": ["CF"], "FA": ["<b>1</b>"]})
    text = report(
        chapters=[
            page.Chapter("a", "A", [TitledTable("", frame)] * 2, files=["../tables/main.csv"])
        ]
    )
    assert re.findall("<dt>(.*?)</dt>", text) == ["FA"]
    assert '<a href="../tables/main.csv">tables/main.csv</a>' in text
    assert text.count('<th title="forget accuracy: ') == text.count("<th>Method</th>") == 2


def test_sentences_in_cells_break_into_lines_and_numbers_with_intervals_do_not():
    """The failure: at a width of 1,200 pixels, a verdict was cut off."""
    verdict = "no attack tells deleted samples from those that were never seen"
    frame = pd.DataFrame({"share": ["-168.1 [-270.4, -114.4] †"], "verdict": [verdict]})
    text = report(chapters=[page.Chapter("a", "A", [TitledTable("", frame)])])
    assert (
        f'<td class="words">{verdict}</td>' in text and "<td>-168.1 [-270.4, -114.4] †</td>" in text
    )
    assert "td.words { white-space: normal;" in text


def test_the_page_shows_all_that_it_is_given():
    text = report(
        datasets=["digits", "other"],
        figures=[page.Figure("pairs", "Pairs.", PICTURE, "../figures/pairs.svg")],
        origin={"Commit": "abc"},
        runs=[{"experiment": "digits", "name": "CF", "page": "http://localhost/#/1"}],
    )
    assert (
        "<title>munkey: digits, other (small)</title>" in text
        and "Configuration <b>small</b>" in text
    )
    assert f'src="{PICTURE}"' in text and 'href="../figures/pairs.svg"' in text
    assert "<dt>Commit</dt><dd>abc</dd>" in text
    assert "1 run in MLflow" in text and '<a href="http://localhost/#/1">digits: CF</a>' in text
    assert '<a href="http://localhost">http://localhost</a>' in text and "make ui" not in text
    assert "MLflow" not in report()


def test_runs_in_a_store_of_its_own_are_seen_while_its_pages_are_served():
    address = "http://127.0.0.1:5000/#/experiments/1/runs/2"
    text = report(runs=[{"experiment": "digits", "name": "CF", "page": address}])
    assert '<a href="http://127.0.0.1:5000">' in text and "<code>make ui</code>" in text


def test_the_story_and_its_picture_come_first_and_its_columns_are_explained_beside_it(results):
    gaps = page.Figure("forgetting", "Gaps.", PICTURE, "../figures/forgetting.svg")
    contents = {
        "sentences": ["CF is best."],
        "story": story(results),
        "chapters": page.make_chapters(results),
        "figures": [gaps],
    }
    drawn = page.Figure("frontier-digits", "Frontier.", PICTURE, "../audit/digits/frontier.svg")
    for frontiers, picture in (([drawn], "frontier-digits"), ([], "forgetting")):
        text = report(**contents, frontiers=frontiers)
        parts = [
            "CF is best.",
            f'id="{picture}"',
            "<dt>residual share [%]</dt>",
            "<td>not audited</td>",
            "../tables/main.csv",
        ]
        in_order(text, [*parts, 'id="main"'])
    assert '<th title="how much of the effect' in text


def test_the_chapters_stand_in_the_order_of_the_paper_and_hold_its_tables_and_their_csv_files(
    results,
):
    chapters = {chapter.id: chapter for chapter in page.make_chapters(results)}
    assert list(chapters) == ["main", "runtime"]
    assert [len(chapter.tables) for chapter in chapters.values()] == [1] * 2
    (main,) = chapters["main"].tables
    assert main.title.startswith("digits: mean ± sd") and "SCRUB" in main.frame.values
    assert "2.4" in main.frame["residual share [%]"].values
    assert chapters["main"].files == ["../tables/main.csv", "../metrics.csv"]


def test_what_was_not_made_has_no_chapter_and_no_word_in_the_page(results):
    chapters = page.make_chapters(results)
    assert [chapter.id for chapter in chapters] == ["main", "runtime"]
    text = report(story=story(results), chapters=chapters)
    assert "Ablations" not in text and "#figures" not in text and 'id="figures"' not in text


def test_a_model_that_is_worse_than_its_keys_is_told_below_the_table_with_a_link():
    measured = MEASURED | {name: [(64, 70, 70, 50)] * 3 for name in ("original-m", "munkey")}
    worse = compared(summarize(tidy(measured), KEYED_ROWS))
    results = page.PageResults(worse, KEYED_ROWS, {})
    text = report(story=story(results), chapters=page.make_chapters(results))
    assert text.count("on the same keys, KNN is more accurate than MUNKEY by 11.0 points") == 2
    assert '<a href="../../../docs/data.md#underfitting">docs/data.md#underfitting</a>' in text
    assert (ROOT / "docs/data.md").read_text().count("## Underfitting\n") == 1


def test_ranks_have_a_chapter_where_there_is_enough_to_rank(results):
    index = pd.MultiIndex.from_product(
        [["digits"], range(10), [0.1]], names=["dataset", "seed", "rate"]
    )
    ranks = pd.DataFrame({"CF": 1.0, "SSD": 2.0, "AMUN": 3.0}, index=index).reset_index()
    chapters = {
        chapter.id: chapter for chapter in page.make_chapters(results._replace(ranks=[ranks]))
    }
    assert "critical difference 1.05" in chapters["ranks"].tables[0].title
    assert "only seeds" in chapters["ranks"].remarks[0]


def test_a_figure_has_its_picture_and_its_caption(tmp_path):
    write_text(tmp_path / "selection-digits.svg", "svg")
    made = page.make_figure(tmp_path / "selection-digits.svg", "Digits.", pd.DataFrame())
    assert made.name == "selection-digits"
    assert made.caption == "Digits."
    assert made.data == "data:image/svg+xml;base64,c3Zn"
    assert made.file == "../figures/selection-digits.svg"


def test_the_figure_of_a_frontier_names_its_data_set_and_has_a_picture_for_a_phone(
    tmp_path, results
):
    write_text(tmp_path / "digits/frontier.svg", "svg")
    designs = [Design("cf", "CF", "weights", ""), Design("retrain-t", "Retrain (T)", "anew", "")]
    made = page.make_frontier_figure(
        tmp_path / "digits", collect_points(results.main, None, designs)
    )
    assert (made.name, made.file) == ("frontier-digits", "../audit/digits/frontier.svg")
    assert (
        made.caption == f"{page.FRONTIER} digits." and made.data == "data:image/svg+xml;base64,c3Zn"
    )
    assert 'width="280.8pt"' in base64.b64decode(made.narrow.partition(",")[2]).decode()


def test_the_origin_names_each_value_once_and_the_whole_span():
    records = [
        {"started": f"2026-01-{start}", "ended": f"2026-01-{end}"}
        | {
            "provenance": {
                "commit": "abc",
                "device": device,
                "versions": {"python": "3.11", "torch": torch},
            }
        }
        for device, start, end, torch in (("CPU b", "02", "05", "2"), ("CPU a", "01", "03", "3"))
    ]
    assert page.describe_origin(records, "2026-02-01") == {
        "Report created": "2026-02-01",
        "Jobs ran": "2026-01-01 to 2026-01-05 (UTC)",
        "Machine": "CPU a, CPU b",
        "Commit": "abc",
        "Versions": "python 3.11, torch 2, torch 3",
    }


def test_pages_for_single_samples_are_linked_where_they_were_made() -> None:
    assert '<a href="../explore/digits.html">digits</a>' in report(explored=["digits"])
    assert "../explore" not in report()


def test_a_chapter_shows_its_figures_before_its_tables():
    table = TitledTable("pairs", pd.DataFrame({"residual share [%]": ["2.4"]}))
    shares = page.Figure("shares", "Shares.", PICTURE, "../audit/digits/shares.svg", "data:narrow")
    text = report(chapters=[page.Chapter("audit", "What remains?", [table], figures=[shares])])
    in_order(text, ['href="#audit"', '<h2 id="audit">', "data:narrow", "Shares.", "<td>2.4</td>"])

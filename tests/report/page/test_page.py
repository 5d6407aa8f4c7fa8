"""The report's page: text is escaped, tables are not; figures have captions; where the results came from."""

from dataclasses import replace

import pandas as pd

from munkey.core.files import write_text
from munkey.experiment.plan import exhibits
from munkey.report.page import page
from munkey.report.tables.ablations import summarize_cases
from munkey.report.tables.markup import Titled
from munkey.report.tables.summary import summarize
from tests.conftest import ROOT
from tests.report.inputs import CASE_ROWS, ROWS, cases, tidy

TEMPLATE = ROOT / "workflow/report/page.html.j2"


def page_of(**contents):
    empty = {
        "heading": page.Heading("small", [], ""),
        "story": page.chapter("story", "In short", []),
        "costs": [],
        "audits": [],
        "chapters": [],
        "figures": [],
        "origin": [],
        "runs": [],
        "params": "",
    }
    return page.Page(**empty | contents)


def test_the_page_escapes_text_but_not_tables():
    chapter = page.chapter("a", "A & B", [Titled("x < y", pd.DataFrame({"x": ["<b>1</b>"]}))], ["1 < 2"])
    text = page.report_page(
        page_of(heading=page.Heading("small", [], "<script>"), chapters=[chapter], params="a: <b>"), TEMPLATE
    )
    assert " &lt;script&gt;" in text and "<script>" not in text.split("<script>\n")[0] and "<td><b>1</b></td>" in text
    assert "A &amp; B" in text and "<h3>x &lt; y</h3>" in text and "<p>1 &lt; 2</p>" in text and "a: &lt;b&gt;" in text


def test_the_page_shows_all_that_it_is_given():
    text = page.report_page(
        page_of(
            heading=page.Heading("small", ["digits", "other"], ""),
            figures=[page.Figure("pairs", "Pairs.", "data:image/svg+xml;base64,AAAA", "../figures/pairs.svg")],
            origin=[page.Fact("Commit", "abc")],
            runs=[page.Link("digits: CF", "http://localhost/#/1")],
        ),
        TEMPLATE,
    )
    assert "<title>munkey: digits, other (small)</title>" in text and "Configuration <b>small</b>" in text
    assert 'src="data:image/svg+xml;base64,AAAA"' in text and 'href="../figures/pairs.svg"' in text
    assert "<dt>Commit</dt><dd>abc</dd>" in text
    assert "1 run in MLflow" in text and '<a href="http://localhost/#/1">digits: CF</a>' in text
    assert '<a href="http://localhost">http://localhost</a>' in text and "make ui" not in text
    assert "MLflow" not in page.report_page(page_of(), TEMPLATE)


def test_runs_in_a_store_of_its_own_are_seen_while_its_pages_are_served():
    local = page.Link("digits: CF", "http://127.0.0.1:5000/#/experiments/1/runs/2")
    text = page.report_page(page_of(runs=[local]), TEMPLATE)
    assert '<a href="http://127.0.0.1:5000">' in text and "<code>make ui</code>" in text


def test_the_story_comes_first_and_its_columns_are_explained_beside_it():
    summary, of_cases = summarize(tidy(), ROWS), summarize_cases(cases(), CASE_ROWS)
    results = page.PageResults(summary, of_cases, ROWS, CASE_ROWS, [], [], {"digits": {"cf": "2.4"}})
    picture = page.Figure("cost-digits", "Cost.", "data:image/svg+xml;base64,AAAA", "../audit/digits/cost.svg")
    text = page.report_page(
        page_of(story=page.story(results), costs=[picture], chapters=page.chapters(results)), TEMPLATE
    )
    parts = ['id="story"', 'id="cost-digits"', "<dt>left [%]</dt>", "<td>2.4</td>", "../tables/main.csv", 'id="main"']
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert '<th title="the residual share' in text


def test_tables_can_be_had_as_csv():
    grid = pd.DataFrame([{"dataset": "digits", "p_image": 0, "p_token": 0, "P_s": 0, "gap": 1, "reason": "why"}])
    results = page.PageResults(
        summarize(tidy(), ROWS), summarize_cases(cases(), CASE_ROWS), ROWS, CASE_ROWS, [grid], []
    )
    files = {chapter.id: [file.address for file in chapter.files] for chapter in page.chapters(results)}
    assert files["main"] == ["../tables/main.csv", "../metrics.csv"]
    assert files["ablations"] == ["../tables/ablations.csv"]
    assert files["selection"] == ["../selection/digits/table.csv"] and files["paper"] == ["../tables/paper.csv"]


def test_what_is_left_is_shown_before_all_else():
    chapter = page.chapter("digits", "digits", [Titled("pairs", pd.DataFrame({"left [%]": ["2.4"]}))])
    audits = [page.AuditChapter("digits", "data:image/svg+xml;base64,AAAA", {}, chapter)]
    chapters = [page.chapter("main", "Unlearning", [])]
    text = page.report_page(page_of(audits=audits, chapters=chapters), TEMPLATE)
    parts = [
        'href="#audit"',
        '<h2 id="story">',
        "base64,AAAA",
        '<h2 id="audit">',
        'href="../audit/index.html"',
        "<td>2.4</td>",
        'id="main"',
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "audit" not in page.report_page(page_of(chapters=chapters), TEMPLATE)


def test_the_main_table_of_the_page_has_what_is_left():
    summary, of_cases = summarize(tidy(), ROWS), summarize_cases(cases(), CASE_ROWS)
    results = page.PageResults(summary, of_cases, ROWS, CASE_ROWS, [], [], {"digits": {"cf": "2.4"}})
    main = page.chapters(results)[0]
    assert ">left [%]</th>" in main.tables[0].html and "<td>2.4</td>" in main.tables[0].html


def test_ranks_have_a_chapter_where_there_is_enough_to_rank():
    index = pd.MultiIndex.from_product([["digits"], range(10), [0.1]], names=["dataset", "seed", "rate"])
    ranks = pd.DataFrame({"CF": 1.0, "SSD": 2.0, "AMUN": 3.0}, index=index).reset_index()
    results = page.PageResults(summarize(tidy(), ROWS), summarize_cases(cases(), CASE_ROWS), ROWS, CASE_ROWS, [], [])
    names = {chapter.id: chapter for chapter in page.chapters(replace(results, ranks=[ranks]))}
    assert "critical difference 1.05" in names["ranks"].tables[0].title and "only seeds" in names["ranks"].remarks[0]
    assert "ranks" not in [chapter.id for chapter in page.chapters(results)]


def test_only_runs_that_mlflow_has_are_linked():
    run = {"experiment": "digits", "name": "CF", "page": "http://localhost/1"}
    assert page.links([run, run | {"page": ""}]) == [page.Link("digits: CF", "http://localhost/1")]


def test_the_chapters_stand_in_the_order_of_the_paper_and_hold_its_tables():
    grid = pd.DataFrame(
        [{"dataset": "digits", "p_image": 0.1, "p_token": 0.1, "P_s": 0.1, "gap": 1.0, "reason": "why"}]
    )
    results = page.PageResults(
        summarize(tidy(), ROWS), summarize_cases(cases(), CASE_ROWS), ROWS, CASE_ROWS, [grid], ["no comparison"]
    )
    chapters = page.chapters(results)
    run = [name for name in exhibits.ABLATION_TABLES if name != "encoders"]  # a chapter without a table is left out
    names = ["main", "runtime", *run, "selection", "paper"]
    assert [chapter.id for chapter in chapters] == names
    tables = {chapter.id: chapter.tables for chapter in chapters}
    assert [len(tables[name]) for name in names] == [1, 1, 1, 1, 1, 1, 1, 0]
    assert tables["main"][0].title.startswith("digits: mean ± sd") and "<td>SCRUB</td>" in tables["main"][0].html
    assert tables["selection"][0].title == "digits" and "<td>why</td>" in tables["selection"][0].html
    assert chapters[-1].remarks == ["no comparison"]


def test_a_figures_caption_names_its_data_set(tmp_path):
    for stem, words in (
        ("selection-digits", ["grid", "digits"]),
        ("retrieval-digits-rate0.1", ["Data set: digits, 10 % forgotten."]),
    ):
        path = tmp_path / f"{stem}.svg"
        write_text(path, "svg")
        made = page.figure(path)
        assert made.name == stem and all(word in made.caption for word in words)
        assert made.data.startswith("data:image/svg+xml;base64,") and made.file == f"../figures/{stem}.svg"


def record(device, started, ended, torch="2"):
    provenance = {"commit": "abc", "device": device, "versions": {"python": "3.11", "torch": torch}}
    return {"started": started, "ended": ended, "provenance": provenance}


def test_the_origin_names_each_value_once_and_the_whole_span():
    records = [record("CPU b", "2026-01-02", "2026-01-05"), record("CPU a", "2026-01-01", "2026-01-03", torch="3")]
    facts = dict(page.origin(records, "2026-02-01"))
    assert facts == {
        "Report made": "2026-02-01",
        "Jobs ran": "2026-01-01 to 2026-01-05 (UTC)",
        "Machine": "CPU a, CPU b",
        "Commit": "abc",
        "Versions": "python 3.11, torch 2, torch 3",
    }

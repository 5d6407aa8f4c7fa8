"""A run ends with what it was asked for, shows no table of anything else, and knows whether Ctrl-C stopped it."""

import os
import signal
from pathlib import Path
from threading import Event

import pytest

from munkey.core.files import CONFIGFILES, write_json, write_text
from munkey.core.paths import Layout
from munkey.experiment import outcome
from munkey.experiment.run.job import TOOK
from tests.plugins import written

LAYOUT = Layout("default")
MAIN, AUDITED = "tables/main.md", "tables/main-audited.md"
REPORT = "report/index.html"


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What a run says that was asked for these files, where these were made earlier, one after the other."""
    monkeypatch.chdir(tmp_path)

    def of(asked, made):
        for number, name in enumerate([*made, *(name for name in asked if name not in made)]):
            written(tmp_path, {f"results/default/{name}": f"| {name} |\n|-|\n| 1 |\n"})
            if name == "tracking.json":
                write_json(LAYOUT.tracking, {"uri": "sqlite:///mlflow.db"})
            os.utime(f"results/default/{name}", (number, number))
        return "\n".join(
            outcome.summarize_run({f"results/default/{name}" for name in asked}, LAYOUT)
        )

    return of


def test_the_main_run_shows_its_table_and_where_everything_lies(said):
    text = said([MAIN, "tables/runtime.md", "tracking.json"], ["metrics.csv"])
    assert text.startswith("tables/main.md") and "made " not in text and "page " not in text
    assert all(
        place in text
        for place in ("main.{csv,md,tex}", "default/metrics.csv", "default/logits", "make ui")
    )


DESIGNS = [
    {"name": "lda", "title": "LDA", "kind": "exact", "stored": "keys"},
    {"name": "cf", "title": "CF", "kind": "weights", "stored": "weights"},
]
SUMMARY = """dataset,rate,method,title,n,TA_mean,TA_sd
digits,0.1,lda,LDA,3,96.0,0.1
digits,0.1,cf,CF,3,98.0,0.1
"""
DIFFERENCES = """dataset,rate,method,other,seeds,tested,difference,low,high
digits,0.1,lda,cf,3,450,-2.0,-2.2,-1.8
"""
AUDIT = """name,path,role,verdict,flagged,contrast,share,share_low,share_high
lda,deployed,method,none found,,0.0,0.0,0.0,0.0
cf,deployed,method,residue,share,0.1,27.0,16.0,38.0
"""


@pytest.mark.parametrize(
    ("asked", "audit_made", "known"),
    [
        (MAIN, None, "it has not been audited (run `make audits`)"),
        (MAIN, 0, "it has not been audited (run `make audits`)"),  # older than the metrics
        (MAIN, 2, "its residual share is 27.0 [16.0, 38.0]%"),
        (AUDITED, 2, "its residual share is 27.0 [16.0, 38.0]%"),
    ],
)
def test_the_main_run_and_the_audits_end_with_what_to_deploy(
    tmp_path, monkeypatch, asked, audit_made, known
):
    monkeypatch.chdir(tmp_path)
    made = {
        "tables/main.csv": SUMMARY,
        "tables/differences.csv": DIFFERENCES,
        "metrics.csv": "",
        "audit/digits/table.csv": AUDIT,
        asked: "| a |\n|-|\n| 1 |",
    }
    for name, content in made.items():
        write_text(f"results/default/{name}", content)
    os.utime("results/default/metrics.csv", (1, 1))
    if audit_made is None:
        Path("results/default/audit/digits/table.csv").unlink()
    else:
        os.utime("results/default/audit/digits/table.csv", (audit_made, audit_made))
    lines = outcome.summarize_run({f"results/default/{asked}"}, LAYOUT, DESIGNS)
    text = " ".join("\n".join(lines).split())
    assert (
        "digits: Deploy LDA (96.00 ± 0.10%): the only design that deletes exactly; CF is more accurate by 2.0 points"
        f" (95% interval of the difference: [1.8, 2.2]), but {known}." in text
    )


def test_a_table_that_is_damaged_ends_no_run_before_it_says_where_everything_lies(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    written(
        tmp_path,
        {
            f"results/default/{name}": "| a |\n|-|\n"
            for name in (MAIN, "tables/main.csv", "metrics.csv")
        },
    )
    text = "\n".join(outcome.summarize_run({f"results/default/{MAIN}"}, LAYOUT, DESIGNS))
    assert "main.csv: its checksum" in text and "MLflow    make ui" in text


@pytest.mark.parametrize("asked", ["exports/digits/seed0/manifest.json", "figures/ranks.png"])
def test_what_makes_no_table_shows_none(said, asked):
    """The failure: with inference.k = 2, `make exports` ended with the table of an earlier run with k = 4."""
    folder, _, name = asked.rpartition("/")
    assert (
        said([asked], [MAIN, AUDITED, "metrics.csv"])
        == f"made      results/default/{folder}: {name}"
    )


def test_a_folder_is_named_once_though_another_lies_in_it(said):
    text = said(
        [f"exports/{name}" for name in ("0.json", "0/manifest.json", "1.json", "1/manifest.json")],
        [],
    )
    assert [line.split()[1] for line in text.splitlines()] == [
        f"results/default/exports{folder}:" for folder in ("", "/0", "/1")
    ]


def test_each_target_shows_its_own_table_and_page(said):
    text = said(
        [AUDITED, REPORT, "audit/digits/table.md", "audit/digits/cost.svg"], [MAIN, "metrics.csv"]
    )
    assert (
        text.startswith("tables/main-audited.md")
        and "page      results/default/report/index.html: open it" in text
    )
    assert "made      results/default/audit/digits: cost.svg, table.md" in text and MAIN not in text
    assert said(["tables/ablations.md"], [MAIN]).startswith("tables/ablations.md")


def test_many_files_of_a_folder_are_counted(said):
    text = said([f"figures/{number}.png" for number in range(10, 40)], [])
    assert text == "made      results/default/figures: 30 files, from 10.png to 39.png"


def test_a_page_that_an_earlier_run_made_is_marked_where_it_is_older_than_the_metrics(said):
    older = said([MAIN], [REPORT, "metrics.csv"]).splitlines()
    page = "page      results/default/report/index.html"
    assert older[-1] == f"{page}: older than these metrics; `make run TARGET=page` updates it"


def test_a_page_that_is_newer_than_the_metrics_is_named_alone(said):
    newer = said([MAIN], ["metrics.csv", REPORT]).splitlines()
    assert newer[-1] == "page      results/default/report/index.html"


@pytest.mark.parametrize(
    ("files", "again", "words"),
    [
        (
            ["a.npz"],
            True,
            ["a.npz is missing", "it is created again, with everything that", "gpu=1 -- a.npz`"],
        ),
        (
            ["a.npz", "b.npz"],
            True,
            ["2 files, e.g. a.npz, are missing", "they are created again"],
        ),
        (
            ["a.npz"],
            False,
            ["a.npz is missing", "no remaining job needs this", "gpu=1 -- a.npz`"],
        ),
    ],
)
def test_files_that_are_gone_are_named_with_what_follows_from_it(files, again, words, monkeypatch):
    monkeypatch.delenv(CONFIGFILES, raising=False)
    said = outcome.describe_lost_files(files, again)
    assert all(part in said for part in words) and ("stop this run" in said) == again


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (f"epoch 1\n{TOOK}1.20 s, 1.0 s of CPU\n", ["a.npz"]),
        ("epoch 1\n", []),  # stopped: it never made them
        (None, []),  # it has not run here
    ],
)
def test_files_are_gone_where_their_job_succeeded(log, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, {"b.npz": ""} if log is None else {"b.npz": "", "job.log": log})
    assert (
        outcome.find_lost_files([(["job.log"], ["b.npz", "a.npz"]), ([], ["target"])]) == expected
    )


def test_ctrl_c_is_noticed_and_does_what_it_did(monkeypatch):
    monkeypatch.setattr(outcome, "STOPPED", Event())
    before = signal.getsignal(signal.SIGINT)
    try:
        # in the background, it may be ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)
        outcome.notice_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert outcome.STOPPED.is_set()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        outcome.notice_ctrl_c()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)

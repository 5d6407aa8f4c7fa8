"""A run ends with what it was asked for, shows no table of anything else, and knows whether Ctrl-C stopped it."""

import os
import signal
from threading import Event

import pytest

from munkey.core.files import CONFIGFILES, write_json, write_text
from munkey.core.paths import Layout
from munkey.experiment import outcome
from munkey.experiment.run.job import TOOK
from tests.plugins import written

LAYOUT = Layout("default")
MAIN = "tables/main.md"
AUDITED = "tables/main-audited.md"
REPORT = "report/index.html"


@pytest.fixture
def summarize(tmp_path, monkeypatch):
    """The summary of a run of target files after earlier files were made, one after the other."""
    monkeypatch.chdir(tmp_path)

    def summarize_run(targets, earlier):
        names = dict.fromkeys([*earlier, *targets])
        for number, name in enumerate(names):
            written(tmp_path, {f"results/default/{name}": f"| {name} |\n|-|\n| 1 |\n"})
            if name == "tracking.json":
                write_json(LAYOUT.tracking, {"uri": "sqlite:///mlflow.db"})
            os.utime(f"results/default/{name}", (number, number))
        paths = {f"results/default/{name}" for name in targets}
        return "\n".join(outcome.summarize_run(paths, LAYOUT))

    return summarize_run


def test_the_main_run_shows_its_table_and_its_places(summarize):
    text = summarize([MAIN, "tables/runtime.md", "tracking.json"], ["metrics.csv"])
    assert text.startswith("tables/main.md")
    assert "made " not in text
    assert "page " not in text
    for place in ("main.{csv,md,tex}", "default/metrics.csv", "default/logits", "make ui"):
        assert place in text


DESIGNS = [
    {"name": "lda", "title": "LDA", "kind": "exact", "stored": "keys", "tried": "auto"},
    {"name": "cf", "title": "CF", "kind": "weights", "stored": "weights", "tried": "–"},
]
SUMMARY = """dataset,rate,method,title,n,TA_mean,TA_sd
digits,0.1,lda,LDA,3,96.0,0.1
digits,0.1,cf,CF,3,98.0,0.1
"""
DIFFERENCES = """dataset,rate,method,other,seeds,tested,difference,low,high
digits,0.1,lda,cf,3,450,-2.0,-2.2,-1.8
"""
AUDIT = """family,name,path,role,verdict,flagged,equal,pairs,p_pairs,contrast,share,share_low,share_high
lda,lda,deployed,method,none found,,True,3,1.0,0.0,0.0,0.0,0.0
vit,cf,deployed,method,residue,share,False,3,0.01,0.1,27.0,16.0,38.0
"""


@pytest.mark.parametrize(
    ("target", "audited_time", "residue"),
    [
        (MAIN, None, "(run `make audits`)"),
        (MAIN, 0, "(run `make audits`)"),  # older than the metrics
        (MAIN, 2, "27.0% [16.0, 38.0]"),
        (AUDITED, 2, "27.0% [16.0, 38.0]"),
    ],
)
def test_the_main_run_and_the_audits_end_with_what_to_deploy(
    tmp_path, monkeypatch, target, audited_time, residue
):
    """The audit itself does not need the metrics, so it may be older."""
    monkeypatch.chdir(tmp_path)
    files = {
        "tables/main.csv": SUMMARY,
        "tables/differences.csv": DIFFERENCES,
        "metrics.csv": "",
        "audit/digits/table.csv": AUDIT,
        MAIN: "| a |\n|-|\n| 1 |",
    }
    if audited_time is not None:
        files[AUDITED] = files[MAIN]
    for name, content in files.items():
        write_text(f"results/default/{name}", content)
    os.utime("results/default/audit/digits/table.csv", (0, 0))
    os.utime("results/default/metrics.csv", (1, 1))
    if audited_time is not None:
        os.utime(f"results/default/{AUDITED}", (audited_time, audited_time))
    lines = outcome.summarize_run({f"results/default/{target}"}, LAYOUT, DESIGNS)
    text = " ".join("\n".join(lines).split())
    assert "digits: Deploy LDA (96.00 ± 0.10%)" in text
    for part in ("CF", "2.0 points", "[1.8, 2.2]", residue):
        assert part in text.partition("deletes exactly")[2]


def test_a_run_with_a_damaged_table_still_names_its_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (MAIN, "tables/main.csv", "metrics.csv"):
        written(tmp_path, {f"results/default/{name}": "| a |\n|-|\n"})
    text = "\n".join(outcome.summarize_run({f"results/default/{MAIN}"}, LAYOUT, DESIGNS))
    assert "main.csv: its checksum" in text
    assert "MLflow    make ui" in text


@pytest.mark.parametrize("target", ["exports/digits/seed0/manifest.json", "figures/ranks.png"])
def test_a_target_without_a_table_shows_none(summarize, target):
    """The failure: with inference.k = 2, `make exports` ended with the table of an earlier run with k = 4."""
    folder, _, name = target.rpartition("/")
    text = summarize([target], [MAIN, AUDITED, "metrics.csv"])
    assert text == f"made      results/default/{folder}: {name}"


def test_a_folder_is_named_once_though_another_lies_in_it(summarize):
    names = ("0.json", "0/manifest.json", "1.json", "1/manifest.json")
    lines = summarize([f"exports/{name}" for name in names], []).splitlines()
    for line, folder in zip(lines, ("", "/0", "/1"), strict=True):
        assert line.split()[1] == f"results/default/exports{folder}:"


def test_a_target_shows_its_own_table_and_page(summarize):
    text = summarize(
        [AUDITED, REPORT, "audit/digits/table.md", "audit/digits/cost.svg"], [MAIN, "metrics.csv"]
    )
    assert text.startswith("tables/main-audited.md")
    assert "page      results/default/report/index.html: open it" in text
    assert "made      results/default/audit/digits: cost.svg, table.md" in text
    assert MAIN not in text
    assert summarize(["tables/ablations.md"], [MAIN]).startswith("tables/ablations.md")


def test_many_files_of_a_folder_are_counted(summarize):
    text = summarize([f"figures/{number}.png" for number in range(10, 40)], [])
    assert text == "made      results/default/figures: 30 files, from 10.png to 39.png"


def test_a_page_that_an_earlier_run_made_is_marked_where_it_is_older_than_the_metrics(summarize):
    older = summarize([MAIN], [REPORT, "metrics.csv"]).splitlines()
    page = "page      results/default/report/index.html"
    assert older[-1].startswith(f"{page}: older than these metrics")
    assert "`make run TARGET=page`" in older[-1]


def test_a_page_that_is_newer_than_the_metrics_is_named_alone(summarize):
    newer = summarize([MAIN], ["metrics.csv", REPORT]).splitlines()
    assert newer[-1] == "page      results/default/report/index.html"


@pytest.mark.parametrize(
    ("files", "created_again", "words"),
    [
        (
            ["a.npz"],
            True,
            ["a.npz is missing", "created again", "gpu=1 -- a.npz`"],
        ),
        (
            ["a.npz", "b.npz"],
            True,
            ["2 files, e.g. a.npz, are missing", "created again"],
        ),
        (
            ["a.npz"],
            False,
            ["a.npz is missing", "no remaining job", "gpu=1 -- a.npz`"],
        ),
    ],
)
def test_lost_files_are_named_with_the_consequences(files, created_again, words, monkeypatch):
    monkeypatch.delenv(CONFIGFILES, raising=False)
    message = outcome.describe_lost_files(files, created_again)
    for part in words:
        assert part in message
    assert ("stop this run" in message) == created_again


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (f"epoch 1\n{TOOK}1.20 s, 1.0 s of CPU\n", ["a.npz"]),
        ("epoch 1\n", []),  # stopped: it never made them
        (None, []),  # it has not run here
    ],
)
def test_missing_files_are_lost_if_their_job_succeeded(log, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, {"b.npz": ""})
    if log is not None:
        written(tmp_path, {"job.log": log})
    jobs = [(["job.log"], ["b.npz", "a.npz"]), ([], ["target"])]
    assert outcome.find_lost_files(jobs) == expected


def test_ctrl_c_is_noticed_and_passed_on(monkeypatch):
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

"""The leaderboard: every entry fits together, and what does not is found and named."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from munkey.core.files import read_json, write_csv, write_json
from munkey.evaluation.records import Evaluation
from munkey.experiment.params.load import ParamsError, load, read
from munkey.experiment.plan.plan import Plan
from munkey.experiment.run.provenance import params_digest
from tests.conftest import ROOT
from tools import entries, leaderboard, write_entry
from tools.entries import ENTRY, FOLDER, OVERLAY, RESULTS, Entry, Results
from tools.entry_faults import faults

ENTRIES = sorted(path.parent for path in (ROOT / FOLDER).glob(f"*/{ENTRY}"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
RUN = {"name": "mine", "seeds": [0, 1], "methods": ["cf", "munkey"], "forget": {"rates": [0.1, 0.02]}}
METRICS = ("TA", "RA", "FA", "MIA")


@pytest.mark.parametrize("folder", ENTRIES, ids=lambda folder: folder.name)
def test_an_entry_fits_together(folder: Path):
    entry = entries.read(folder)
    assert faults(entry) == []
    assert {path.name for path in folder.iterdir()} == {ENTRY, OVERLAY, RESULTS, f".{RESULTS}.sha256"}
    link = entry.said.link
    assert link.startswith("https://") or (ROOT / link).is_file()


# A run that is made up, and its entry


def write_record(path: str, settings: dict[str, Any], seconds: dict[str, float]) -> None:
    origin = {"commit": COMMIT, "device": "a CPU", "params_digest": params_digest(settings), "versions": {"torch": "2"}}
    write_json(path, {"started": "2026-11-22T10:00:00", "settings": settings, "provenance": origin} | seconds)


def lines_of(run: Evaluation) -> list[dict[str, object]]:
    """Metrics of a system: an oracle has 90, 92 at its seeds; each point of a method's gap is in all four."""
    gap = {"cf": 2.0, "munkey": 1.0}.get(run.method, 0.0) * (1 if run.rate == "0.1" else 3)
    values = dict.fromkeys(METRICS, 90.0 + 2 * run.seed - gap)
    values |= {"gap": gap, "unlearn_s": 0.5} if gap else {}
    return [run.key | {"metric": metric, "value": value} for metric, value in values.items()]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a finished run, and entries of its two methods without results."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    for name in RUN["methods"]:
        said = {"method": name, "authors": "We", "link": "https://we.org", "commit": COMMIT, "command": "make run"}
        (tmp_path / FOLDER / name).mkdir(parents=True)
        (tmp_path / FOLDER / name / ENTRY).write_text(yaml.safe_dump(said))
        (tmp_path / FOLDER / name / OVERLAY).write_text(yaml.safe_dump(RUN))
    made()
    return tmp_path


def made() -> None:
    """The records and metrics of a run with the overlay of cf."""
    plan = Plan(load(read([FOLDER / "cf" / OVERLAY])))
    for run in plan.main:
        if run.method in RUN["methods"]:
            write_record(run.record, plan.unlearn_settings("digits", run.method), {"unlearn_s": 0.5})
        else:
            write_record(run.record, plan.train_settings("digits", run.method[-1]), {})
    write_csv(plan.layout.all_metrics, [line for run in plan.main for line in lines_of(run)])


def entered(name: str = "cf") -> Entry:
    assert write_entry.main([f"{FOLDER}/{name}"]) is None
    return entries.read(FOLDER / name)


def audit(method: str, **found: object) -> None:
    line = {"name": method, "path": "deployed", "role": "method", "pairs": 8, "verdict": "residue"}
    numbers = {"share": 4.66, "share_low": 0.6, "share_high": 8.4}
    write_csv("results/mine/audit/digits/table.csv", [line | {"path": "image"} | numbers, line | numbers | found])
    plan = Plan(load(read([FOLDER / "cf" / OVERLAY])))
    for seed in range(16):
        write_record(audited(method, seed), plan.unlearn_settings("digits", method), {"unlearn_s": 0.5})


def audited(method: str, seed: int) -> str:
    return f"results/mine/models/digits/audit/pool/seed{seed}/rate0.1/{method}/record.json"


def test_a_run_becomes_an_entry_that_fits_together(project: Path):
    entry = entered()
    assert faults(entry) == []
    assert (entry.results.title, entry.results.oracle, entry.seeds) == ("CF", "retrain-t", [0, 1])
    assert entry.results.metrics["digits"]["0.02"]["cf"]["gap"] == [6, 6]
    assert entry.results.metrics["digits"]["0.1"]["retrain-t"]["TA"] == [90, 92]
    assert set(entry.results.jobs) == {
        *(
            f"digits/seed{seed}/rate{rate}/{system}"
            for seed in (0, 1)
            for rate in (0.1, 0.02)
            for system in ("cf", "retrain-t")
        ),
        *(f"digits/seed{seed}/full/original-t" for seed in (0, 1)),
    }
    assert entry.results.left == {}


ABOUT = (
    "*digits, n = 2 seeds: mean ± sd; test accuracy and seconds with 10 % forgotten;"
    " left: an audit's share and its 95 % interval*"
)


def test_the_board_has_what_leaves_least_first_and_what_was_not_audited_last(project: Path):
    audit("cf")
    assert write_entry.main([f"{FOLDER}/cf", f"{FOLDER}/munkey"]) is None
    run = "[0123456](../leaderboard/{}/overlay.yaml)"
    assert leaderboard.leaderboard().splitlines() == [
        ABOUT,
        "",
        "| Method | Test accuracy | left [%] | Avg Gap @10 % | Avg Gap @2 % | Seconds | Needs the data? | Authors"
        " | Run |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| [CF](https://we.org) | 89.00 ± 1.41 | 4.7 [0.6, 8.4] | 2.00 ± 1.00 | 6.00 ± 1.00 | 0.5 | retain | We | "
        + run.format("cf")
        + " |",
        "| [MUNKEY](https://we.org) | 90.00 ± 1.41 | – | 1.00 ± 1.00 | 3.00 ± 1.00 | 0.5 | no | We | "
        + run.format("munkey")
        + " |",
    ]


def test_of_entries_without_an_audit_the_smallest_gap_is_first(project: Path):
    assert write_entry.main([f"{FOLDER}/cf", f"{FOLDER}/munkey"]) is None
    board = leaderboard.leaderboard()
    assert board.index("MUNKEY") < board.index("CF")


@pytest.mark.parametrize(
    ("found", "cell"), [({"verdict": "no power"}, "no power"), ({"share_low": ""}, "4.7 –"), ({"share": ""}, "–")]
)
def test_an_audit_that_found_no_interval_says_so(project: Path, found: dict[str, object], cell: str):
    audit("munkey", **found)
    entered("munkey")
    (FOLDER / "cf" / ENTRY).unlink()
    assert f" | 90.00 ± 1.41 | {cell} | 1.00" in leaderboard.leaderboard()


@pytest.mark.parametrize("change", ["commit", "settings", "training", "missing"])
def test_an_audit_of_other_code_or_settings_is_refused(project: Path, change: str):
    audit("cf")
    record = read_json(audited("cf", 3))
    if change == "commit":
        record["provenance"]["commit"] = COMMIT[::-1]
    elif change == "settings":
        record["settings"]["method"] = {"lr_factor": 7.0}
    elif change == "training":
        record["settings"]["train"] = {"epochs": 7}
    write_json(audited("cf", 3), record)
    if change == "missing":
        Path(audited("cf", 3)).unlink()
    said = write_entry.main([f"{FOLDER}/cf"])
    assert said is not None and "is missing, or has another commit or other settings than the run's" in said


@pytest.mark.parametrize(
    ("section", "values"), [("source", {"limit_per_class": 20}), ("audit", {"pool_of": "hardest"})]
)
def test_entries_that_saw_other_samples_or_were_audited_on_others_stand_apart(
    project: Path, section: str, values: dict
):
    entered("munkey")
    (FOLDER / "cf" / OVERLAY).write_text(yaml.safe_dump(RUN | {section: values}))
    made()
    entered("cf")
    assert leaderboard.leaderboard().count("*digits, n = 2 seeds") == 2


def test_a_board_without_entries_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert leaderboard.leaderboard() == "*Nobody has entered yet.*"


def test_entries_of_other_settings_stand_in_tables_of_their_own(project: Path):
    entered("munkey")
    path = FOLDER / "cf" / RESULTS
    entered("cf")
    results = read_json(path)
    results["config"]["train"]["epochs"] = 41
    results["settings"] = {params_digest(each): each for each in map(with_epochs, results["settings"].values())}
    for name, job in results["jobs"].items():
        job["settings"] = next(
            digest for digest, each in results["settings"].items() if ("method" in each) == name.endswith("/cf")
        )
    write_json(path, results)
    assert leaderboard.leaderboard().count("*digits, n = 2 seeds") == 2


def with_epochs(settings: dict[str, Any]) -> dict[str, Any]:
    return settings | ({"train": settings["train"] | {"epochs": 41}} if "train" in settings else {})


def changed(entry: Entry, where: str, value: object) -> Entry:
    """The entry with a value of its results set, by its dotted place."""
    content: Any = deepcopy(entry.results.model_dump())
    *parents, last = where.split("|")
    section = content
    for name in parents:
        section = section[name]
    section[last] = value
    return replace(entry, results=Results.model_validate(content))


JOB = "digits/seed0/rate0.1/cf"


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("method", "scrub", "entry.yaml is about cf, results.json about scrub"),
        ("config|seeds", [0, 1, 2], "overlay.yaml has values that results.json was not run with"),
        ("config|unlearn|cf|lr_factor", 0.5, f"{JOB} was not run with `config` of results.json: its section 'method'"),
        ("config|train|epochs", 5, "its section 'train' differs"),
        (f"jobs|{JOB}|commit", "f" * 40, f"{JOB} was run at {'f' * 40}, entry.yaml says {COMMIT}"),
        (f"jobs|{JOB}|commit", f"{COMMIT}+changes", "+changes, entry.yaml says"),
        (f"jobs|{JOB}|settings", "0123", f"{JOB} was not run with `config`"),
        ("jobs", {}, "lacks the jobs digits/seed0/rate0.02/cf, "),
        ("metrics|digits|0.1|cf|TA", [95.0, 96.0], "digits, rate 0.1: the gaps are not those of the accuracies"),
        ("metrics|digits|0.1|cf|gap", [0.0, 0.0], "the gaps are not those"),
        ("metrics|digits|0.1|cf|TA", [88.0], "cf lacks values of TA, RA, FA, MIA for 2 seeds"),
        ("metrics|digits|0.02", {}, "rate 0.02: cf lacks values"),
    ],
)
def test_what_does_not_fit_is_named(project: Path, where: str, value: object, words: str):
    entry = entered()
    assert any(words in fault for fault in faults(changed(entry, where, value))), faults(changed(entry, where, value))


def test_searched_settings_of_a_method_may_be_any(project: Path):
    searched = changed(entered(), "config|search", True)
    digest = searched.results.jobs[JOB].settings
    settings = deepcopy(searched.results.settings[digest])
    settings["method"]["lr_factor"] = 0.25
    other = changed(
        changed(searched, f"settings|{params_digest(settings)}", settings),
        f"jobs|{JOB}|settings",
        params_digest(settings),
    )
    assert faults(other) == []


def test_settings_that_were_edited_do_not_have_their_digest(project: Path):
    entry = entered()
    digest = entry.results.jobs[JOB].settings
    wrong = changed(entry, f"settings|{digest}|method|lr_factor", 9.0)
    assert any(f"the settings listed under {digest} have the digest" in fault for fault in faults(wrong))


def test_a_board_with_an_entry_that_does_not_fit_is_not_made(project: Path):
    entered("cf")
    entered("munkey")
    (FOLDER / "cf" / OVERLAY).write_text(yaml.safe_dump(RUN | {"seeds": [7]}))
    with pytest.raises(ParamsError, match=r"leaderboard/cf: overlay\.yaml has values that"):
        leaderboard.leaderboard()


def test_results_that_were_edited_by_hand_are_refused(project: Path):
    entered()
    path = FOLDER / "cf" / RESULTS
    path.write_text(path.read_text().replace("90.0", "91.0"))
    with pytest.raises(ParamsError, match=r"results\.json is not what tools\.write_entry wrote"):
        entries.read(FOLDER / "cf")


@pytest.mark.parametrize("said", [{"commit": "main"}, {"link": "http://a"}, {"method": 3}, {"more": "x"}])
def test_an_entry_that_says_something_else_is_refused_with_the_key(project: Path, said: dict[str, object]):
    path = FOLDER / "cf" / ENTRY
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | said))
    (key,) = said
    assert f"leaderboard/cf/entry.yaml: {key}" in str(write_entry.main([f"{FOLDER}/cf"]))


def test_what_was_not_run_cannot_be_entered(project: Path):
    Path("results/mine/models/digits/seed0/rate0.1/cf/record.json").unlink()
    assert str(write_entry.main([f"{FOLDER}/cf"])).endswith(
        "is missing: run `command` of entry.yaml first (docs/leaderboard.md)"
    )
    path = FOLDER / "cf" / ENTRY
    path.write_text(path.read_text().replace("method: cf", "method: scrub"))
    assert write_entry.main([f"{FOLDER}/cf"]) == "`methods` of overlay.yaml does not list 'scrub'"
    path.unlink()
    assert f"{FOLDER}/cf/entry.yaml is missing: write it first" in str(write_entry.main([f"{FOLDER}/cf"]))
    assert "name the folder of an entry" in str(write_entry.main([]))

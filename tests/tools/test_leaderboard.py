"""The leaderboard: every entry fits together, and what does not is found and named."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from munkey.core.files import read_csv, read_json, write_csv, write_json
from munkey.evaluation.records import Evaluation
from munkey.experiment.params.load import ParamsError, load, read_params
from munkey.experiment.plan.plan import Plan
from tests.conftest import ROOT
from tools import leaderboard
from tools.leaderboard import ENTRY, FOLDER, METRICS, OVERLAY, RUN, faults, main, read

ENTRIES = sorted(path.parent for path in (ROOT / FOLDER).glob(f"*/{ENTRY}"))
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MINE = {"name": "mine", "seeds": [0, 1], "methods": ["cf", "munkey"], "forget": {"rates": [0.1, 0.02]}}
CF = FOLDER / "cf"


@pytest.mark.parametrize("folder", ENTRIES, ids=lambda folder: folder.name)
def test_an_entry_fits_together(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    entry = read(folder)
    assert list(faults(entry)) == []
    files = {ENTRY, OVERLAY, RUN, METRICS, f".{RUN}.sha256", f".{METRICS}.sha256"}
    assert {path.name for path in folder.iterdir()} == files
    assert entry.header.link.startswith("https://") or (ROOT / entry.header.link).is_file()


# A run that is made up, and its entries


def write_record(path: str, settings: dict[str, Any]) -> None:
    origin = {"commit": COMMIT, "device": "a CPU"}
    write_json(path, {"started": "2026-11-22T10:00:00", "settings": settings, "provenance": origin})


def lines_of(run: Evaluation) -> list[dict[str, object]]:
    """Metrics of a system: an oracle has 90, 92 at its seeds; each point of a method's gap is in all four."""
    gap = {"cf": 2.0, "munkey": 1.0}.get(run.method, 0.0) * (1 if run.rate == "0.1" else 3)
    values = dict.fromkeys(("TA", "RA", "FA", "MIA"), 90.0 + 2 * run.seed - gap)
    values |= {"gap": gap, "unlearn_s": 0.5} if gap else {}
    return [run.key | {"metric": metric, "value": value} for metric, value in values.items()]


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """In a project with a finished run, and entries of its two methods without results."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    for name in ("cf", "munkey"):
        own = {"method": name, "authors": "We", "link": "https://we.org", "commit": COMMIT, "command": "make run"}
        (FOLDER / name).mkdir(parents=True)
        (FOLDER / name / ENTRY).write_text(yaml.safe_dump(own))
        (FOLDER / name / OVERLAY).write_text(yaml.safe_dump(MINE))
    return run_again()


def run_again() -> Plan:
    """The records and metrics of a run with the overlay of cf."""
    plan = Plan(load(read_params([CF / OVERLAY])))
    for run in plan.main:
        write_record(run.record, plan.unlearn_settings("digits", run.method) if run.method in MINE["methods"] else {})
        write_record(run.training, {})
    write_csv(plan.layout.all_metrics, [line for run in plan.main for line in lines_of(run)])
    return plan


def audit(plan: Plan, method: str, **found: object) -> None:
    line = {"name": method, "path": "deployed", "role": "method", "pairs": 8, "verdict": "residue", "flagged": "share"}
    numbers = {"share": 4.66, "share_low": 0.6, "share_high": 8.4}
    write_csv("results/mine/audit/digits/table.csv", [line | {"path": "image"} | numbers, line | numbers | found])
    for seed in range(16):
        write_record(audited(method, seed), plan.unlearn_settings("digits", method))


def audited(method: str, seed: int) -> str:
    return f"results/mine/models/digits/audit/pool/seed{seed}/rate0.1/{method}/record.json"


def edit(path: Path, **changes: object) -> None:
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))


def test_a_run_becomes_entries_and_these_a_table_in_the_order_of_what_is_left(plan: Plan):
    audit(plan, "munkey")
    assert main(["leaderboard/munkey"]) is None
    audit(plan, "cf", share=-97.0, share_low=-98.0, share_high="")
    assert main(["leaderboard/cf"]) is None
    entry = read(CF)
    assert (entry.run.title, entry.run.oracle, entry.run.devices) == ("CF", "retrain-t", ["a CPU"])
    assert len(read_csv(CF / METRICS)) == 2 * 2 * (6 + 4)  # seeds, rates; of the method and its oracle
    assert list(faults(entry)) == []
    assert leaderboard.leaderboard().splitlines() == [
        "*digits, n = 2 seeds: mean ± sd; test accuracy and seconds with 10 % forgotten; left: an audit's share and its"
        " 95 % interval; †: flagged by an attack alone*",
        "",
        "| Method | Test accuracy | left [%] | Avg Gap @10 % | Avg Gap @2 % | Seconds | Needs the data? | Authors | Run"
        " |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| [MUNKEY](https://we.org) | 90.00 ± 1.41 | 4.7 [0.6, 8.4] | 1.00 ± 1.00 | 3.00 ± 1.00 | 0.5 | no | We |"
        " [0123456](../leaderboard/munkey/overlay.yaml) |",
        "| [CF](https://we.org) | 89.00 ± 1.41 | -97.0 – | 2.00 ± 1.00 | 6.00 ± 1.00 | 0.5 | retain | We |"
        " [0123456](../leaderboard/cf/overlay.yaml) |",
    ]


def test_what_is_flagged_comes_after_what_is_not_and_is_marked_where_an_attack_alone_found_it(plan: Plan):
    audit(plan, "munkey", share=-0.04, flagged="few square")
    assert main(["leaderboard/munkey"]) is None
    audit(plan, "cf", share=9.0, verdict="none found", flagged="")
    assert main(["leaderboard/cf"]) is None
    board = leaderboard.leaderboard()
    assert board.index("| 9.0 [0.6, 8.4] |") < board.index("| 0.0 [0.6, 8.4] † |")


def test_without_an_audit_that_could_tell_the_smaller_gap_comes_first(plan: Plan):
    audit(plan, "cf", verdict="no power")
    assert main(["leaderboard/cf", "leaderboard/munkey"]) is None
    board = leaderboard.leaderboard()
    assert board.index("MUNKEY") < board.index("CF") and "| no power |" in board and "| – |" in board


@pytest.mark.parametrize("of_audit", [False, True], ids=["run", "audit"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"provenance": {"commit": COMMIT[::-1], "device": "a CPU"}}, f"was made at {COMMIT[::-1]}, entry.yaml says"),
        ({"settings": {}}, "was made with other settings than overlay.yaml says: "),
        (None, "record.json is missing: run `command` of entry.yaml first (docs/leaderboard.md)"),
    ],
    ids=["commit", "settings", "missing"],
)
def test_a_run_or_an_audit_of_other_code_or_settings_is_refused(plan: Plan, change, why: str, of_audit: bool):
    audit(plan, "cf")
    path = audited("cf", 3) if of_audit else "results/mine/models/digits/seed0/rate0.1/cf/record.json"
    if change is None:
        Path(path).unlink()
    else:
        write_json(path, read_json(path) | change)
    refused = main(["leaderboard/cf"])
    assert refused is not None and refused.startswith(path) and why in refused
    assert not (CF / METRICS).exists()


def test_searched_settings_of_a_method_may_be_any(plan: Plan):
    edit(CF / OVERLAY, search=True)
    path = Path("results/mine/models/digits/seed0/rate0.1/cf/record.json")
    record = read_json(path)
    write_json(path, record | {"settings": record["settings"] | {"method": {"lr_factor": 9.0}}})
    assert main(["leaderboard/cf"]) is None


def test_a_board_without_entries_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert leaderboard.leaderboard() == "*Nobody has entered yet.*"


@pytest.mark.parametrize(
    ("section", "values", "tables"),
    [
        ("source", {"limit_per_class": 20}, 2),
        ("audit", {"pool_of": "hardest"}, 2),
        ("train", {"epochs": 41}, 2),
        ("source", {"path": "elsewhere"}, 1),
        ("unlearn", {"cf": {"lr_factor": 0.1}}, 1),
    ],
)
def test_entries_of_another_setting_stand_in_a_table_of_their_own(plan: Plan, section: str, values, tables: int):
    assert main(["leaderboard/munkey"]) is None
    edit(CF / OVERLAY, **{section: values})
    run_again()
    assert main(["leaderboard/cf"]) is None
    assert leaderboard.leaderboard().count("*digits, n = 2 seeds") == tables


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, ("cf", "TA", "95.0"), "the gaps are not those of the accuracies and the MIA"),
        (0, ("cf", "gap", "0.0"), "the gaps are not those"),
        (1, ("cf", "TA", ""), "lacks values of TA, RA, FA, MIA"),
        (2, ("scrub", "TA", "90"), "differ in the runs ('digits', 0.02, 0, 'scrub')"),
    ],
)
def test_numbers_that_do_not_fit_are_named(plan: Plan, place: int, value, words: str):
    assert main(["leaderboard/cf"]) is None
    method, metric, number = value
    lines = read_csv(CF / METRICS)
    if place == 2:
        lines.append(
            {"dataset": "digits", "rate": 0.02, "seed": 0, "method": method, "metric": metric, "value": number}
        )
    for line in lines:
        if (line["method"], line["metric"]) == (method, metric):
            line["value"] = number
    write_csv(CF / METRICS, lines)
    (fault,) = faults(read(CF))
    assert words in fault


@pytest.mark.parametrize(("name", "change"), [(OVERLAY, {"seeds": [0, 7]}), (ENTRY, {"commit": COMMIT[::-1]})])
def test_a_board_with_an_entry_that_was_edited_since_is_not_made(plan: Plan, name: str, change: dict[str, object]):
    assert main(["leaderboard/cf", "leaderboard/munkey"]) is None
    edit(CF / name, **change)
    with pytest.raises(ParamsError, match=r"leaderboard/cf: entry\.yaml or overlay\.yaml was edited after run\.json"):
        leaderboard.leaderboard()


def test_an_entry_stays_what_it_was_when_params_change(plan: Plan):
    assert main(["leaderboard/cf", "leaderboard/munkey"]) is None
    before = leaderboard.leaderboard()
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("datasets: [digits]", "datasets: [cifar10]"))
    edit(params, seeds=[5], train={"epochs": 1})
    assert leaderboard.leaderboard() == before


@pytest.mark.parametrize("name", [METRICS, RUN])
def test_results_that_were_edited_by_hand_are_refused(plan: Plan, name: str):
    assert main(["leaderboard/cf"]) is None
    (CF / name).write_text((CF / name).read_text().replace("2", "3"))
    with pytest.raises(ParamsError, match=r"cf: run\.json or metrics\.csv is not what tools\.leaderboard wrote"):
        read(CF)


@pytest.mark.parametrize("changes", [{"commit": "main"}, {"link": "http://a"}, {"method": 3}, {"more": "x"}])
def test_an_entry_that_says_something_else_is_refused_with_the_key(plan: Plan, changes: dict[str, object]):
    edit(CF / ENTRY, **changes)
    (key,) = changes
    assert f"leaderboard/cf/entry.yaml: {key}" in str(main(["leaderboard/cf"]))


def test_what_is_not_listed_or_not_written_cannot_be_entered(plan: Plan):
    edit(CF / ENTRY, method="scrub")
    assert main(["leaderboard/cf"]) == "`methods` of overlay.yaml does not list 'scrub'"
    (CF / ENTRY).unlink()
    assert "leaderboard/cf/entry.yaml is missing: write it first" in str(main(["leaderboard/cf"]))
    assert "name the folder of an entry" in str(main([]))

"""`munkey forget`: the named samples are deleted and no others; an unknown name is refused, unless that is allowed."""

import gc
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from munkey.cli.output import FAILED, FOUND_NOTHING
from munkey.deploy import certificate
from munkey.deploy.predictor import Predictor
from munkey.memory.database import Database
from munkey.memory.errors import LockedMemoryError
from munkey.memory.memory_file import Change, MemoryFile
from tests.cli.conftest import replace_model
from tests.conftest import raise_full_disk
from tests.deploy.inputs import IDS, holds_bytes, picture_in


def remaining_ids(model):
    with Predictor.load(model) as predictor:
        return predictor.ids.tolist()


def without(*ids):
    """The ids of the model without these."""
    return np.setdiff1d(IDS, ids).tolist()


def previewed_ids(munkey, model, *words):
    """The ids that a dry run would delete."""
    return munkey("forget", model, *words, "--dry-run", "--json").json["would_delete"]


def listed_ids(munkey, model, *words):
    return [sample["id"] for sample in munkey("list", model, *words, "--json").json["samples"]]


def add_like(model, ids, like, files=None, units=None, *, identical=False):
    """Add samples of class cat with the keys and tokens of others. identical: exact copies of them."""
    with Predictor.load(model) as predictor:
        memory = predictor._file.snapshot().memory
        rows = memory.find_rows(np.array(like))
        contents = memory.columns.contents[rows] if identical else None
        labels = [0] * len(rows)
        predictor._file.add(
            ids, memory.keys[rows], memory.tokens[rows], labels, files, units, contents
        )


def test_ids_are_deleted_and_the_head_of_the_chain_is_printed(munkey, model):
    result = munkey("forget", model, "--ids", "12, 10")
    assert result.code == 0
    assert result.err == ""
    assert "forgot 2 samples, 22 left; numbers 1 to 2" in result.out
    with Predictor.load(model) as predictor:
        assert f"head of the chain: {predictor.head}\n" in result.out
    assert remaining_ids(model) == without(10, 12)


@pytest.mark.parametrize(
    ("words", "times"),
    [
        (["--ids", "12", "--request", "S", "--no-purge"], 1),
        (["--ids", "12"], 0),
        (["--ids", "12", "--certificate", "certificate.json"], 0),
        (["--ids", "10", "--request", "R"], 0),
        (["--ids", "11", "--ignore-missing"], 0),
        (["--ids", "12", "--dry-run"], 0),
    ],
    ids=["deleted", "purged", "certified", "repeated", "nothing", "dry run"],
)
def test_remaining_bytes_are_mentioned_only_if_this_deletion_left_them(
    words, times, munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    munkey("forget", model, "--ids", "10", "--request", "R", "--no-purge")
    result = munkey("forget", model, *words)
    assert result.code == (FOUND_NOTHING if "--ignore-missing" in words else 0)
    assert result.out.count(f"`munkey purge {model}`") == times


def test_ids_of_a_file_and_source_files_count_together(munkey, model, tmp_path):
    (tmp_path / "ids").write_text("10\n12,\n\n14 16\n")
    ids = ["--ids", "16", "--ids-file", tmp_path / "ids"]
    files = ["--files", "pets/20.png", "--files", "pets/22.png"]
    result = munkey("forget", model, *ids, *files, "--json")
    assert result.code == 0
    assert remaining_ids(model) == without(10, 12, 14, 16, 20, 22)
    assert result.json["purged"] is True
    assert result.json["deleted"] == 6
    assert result.json["left"] == 18
    assert result.json["missing"] == []


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["--ids", "10,11,13"], ["11", "13"]),
        (["--files", "pets/10.png", "--files", "pets/x.png"], ["pets/x.png"]),
        (["--ids", "10,99", "--dry-run"], ["99"]),
    ],
)
def test_missing_samples_are_listed_and_nothing_is_deleted(words, missing, munkey, model):
    result = munkey("forget", model, *words, "--json")
    assert result.code == 2
    assert result.json["code"] == 2
    assert remaining_ids(model) == IDS.tolist()
    assert result.err == f"munkey: {result.json['error']}\n"
    assert f": {', '.join(missing)}" in result.err
    assert "othing was deleted" in result.err


def test_missing_samples_can_be_ignored(munkey, model):
    names = ["pets/x.png", "pets/12.png", os.fsdecode(b"caf\xe9.png")]  # the last is not UTF-8
    words = ["--ids", "10,11", "--files", *names, "--ignore-missing"]
    result = munkey("forget", model, *words, "--json")
    assert result.code == 0
    assert result.json["deleted"] == 2
    assert result.json["missing"][:2] == ["11", "pets/x.png"]
    assert remaining_ids(model) == without(10, 12)


def test_an_ambiguous_file_is_refused_and_nothing_is_deleted(munkey, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    add_like(model, [200], [10], [str(tmp_path / "pets" / "10.png")])
    result = munkey("forget", model, "--files", "pets/10.png", "--ids", "11", "--ignore-missing")
    assert result.code == 2
    assert "ids 10" in result.err
    assert "ids 200" in result.err
    assert remaining_ids(model) == [*IDS.tolist(), 200]
    assert munkey("forget", model, "--files", tmp_path / "pets" / "10.png").code == 0
    assert remaining_ids(model) == IDS.tolist()


def test_a_dry_run_lists_the_samples_and_changes_nothing(munkey, model):
    before = {path: path.read_bytes() for path in model.rglob("*")}
    files = ["--files", "pets/12.png", "--files", "pets/10.png"]  # one sample is named twice
    result = munkey("forget", model, "--ids", "10", *files, "--dry-run", "--json")
    assert result.code == 0
    assert result.json["would_delete"] == [10, 12]
    assert result.json["left"] == 22
    assert remaining_ids(model) == IDS.tolist()
    assert before == {path: path.read_bytes() for path in model.rglob("*")}


@pytest.mark.parametrize(
    "ids", ["", "x", "1.5", "-3", "1;2", "10,0x1f", "9" * 19, "9" * 5000, "\uff11"]
)
def test_a_malformed_id_is_refused(ids, munkey, model):
    result = munkey("forget", model, "--ids", ids)
    assert result.code == 2
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert len(result.err) < 200
    assert remaining_ids(model) == IDS.tolist()


CERTIFIED = ["--ids", "10", "--certificate", "made.json"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name what to forget: --ids, "),
        (["pets/10.png"], "Write --files before"),
        (["--class", "cat", "--unit", "Anna"], "together are ambiguous"),
        (["--files", "pets", "--unit", "Anna"], "together are ambiguous"),
        (["--ids", "10", "--csv", "requests.csv"], "or a --csv"),
        (["--csv", "requests.csv", "--request", "R"], "because the column `request`"),
        (["--ids", "10", "--salt-file", "salt"], "--certificate FILE"),
        (["--ids", "10", "--list-ids"], "--certificate FILE"),
        ([*CERTIFIED, "--no-purge"], "--no-purge"),
        (["--csv", "requests.csv", "--certificate", "made.json"], "{request}"),
        (["--class", "bird"], "class bird"),
        ([*CERTIFIED, "--salt-file", "made.json"], "its own file"),
        ([*CERTIFIED, "--salt-file", "MODEL/salt"], "is inside the model"),
        ([*CERTIFIED, "--salt-file", "requests.csv"], "its own salt"),
        (["--ids", "10", "--certificate", "requests.csv/made.json"], "is not a folder"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    words, message, munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requests.csv").write_text("id,request\n10,A\n12,B\n")
    result = munkey("forget", model, *replace_model(words, model))
    assert result.code == 2
    assert message in result.err
    assert remaining_ids(model) == IDS.tolist()


@pytest.mark.parametrize(
    ("words", "gone"),
    [
        (["--files", "pets/10.png", "pets/12.png", "pets/14.png"], [10, 12, 14]),
        (["--glob", "pets/1*.png"], [10, 12, 14, 16, 18]),
        (["--files", "glob:pets/1*.png"], [10, 12, 14, 16, 18]),
        (["--files", "pets"], IDS.tolist()),
        (["--files-from", "names"], [20, 22]),
        (["--files-from", "-"], [20, 22]),
        (["--class", "fish", "--ids", "10"], [10, *IDS[IDS % 3 == 2]]),
        (["--unit", "Anna"], [200, 201]),
    ],
    ids=str,
)
def test_samples_are_named_by_file_pattern_folder_list_class_or_unit(
    words, gone, munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names").write_text("pets/20.png\n\npets/22.png\n")
    add_twins(model)
    before = remaining_ids(model)
    for dry_run in (["--dry-run"], []):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"pets/20.png\npets/22.png")))
        result = munkey("forget", model, *words, *dry_run, "--json")
        assert result.code == 0
        assert not dry_run or result.json["would_delete"] == gone
    assert remaining_ids(model) == np.setdiff1d(before, gone).tolist()


def test_a_long_refusal_names_ten_and_counts_the_rest(munkey, model, tmp_path):
    (tmp_path / "ids").write_text("\n".join(map(str, range(1000, 101_000))))
    result = munkey("forget", model, "--ids-file", tmp_path / "ids", "--json")
    assert result.code == 2
    assert "1000, 1001, " in result.err
    assert "1010" not in result.err
    assert "100,000" in result.err
    assert len(result.out) < 500


def add_twins(model):
    """Add two samples of class cat and unit Anna: 200 is identical to 10, and 201 to 12."""
    add_like(model, [200, 201], [10, 12], units=["Anna", "Anna"], identical=True)


def test_exact_copies_are_named_and_deleted_if_requested(munkey, model):
    add_twins(model)
    dry_run = munkey("forget", model, "--ids", "10", "--dry-run")
    assert "would forget 1 sample (dog & co 1)" in dry_run.out
    assert "\nids 10\n" in dry_run.out
    assert "remain: ids 200, of unit Anna;" in dry_run.out
    result = munkey("forget", model, "--ids", "10")
    assert "remain: ids 200, of unit Anna;" in result.out
    assert f"`munkey forget {model} --ids 200`" in result.out
    dry_run = munkey("forget", model, "--ids", "12", "--also-identical", "--dry-run", "--json").json
    assert dry_run["would_delete"] == [12, 201]
    assert dry_run["identical"] == []
    assert dry_run["left"] == 23
    assert dry_run["copies"] == [{"id": 201, "unit": "Anna"}]
    result = munkey("forget", model, "--ids", "12", "--also-identical", "--json").json
    assert result["deleted"] == 2
    assert result["identical"] == []
    assert remaining_ids(model) == [*without(10, 12), 200]


def test_a_class_without_a_sample_is_named_and_can_be_excluded_from_answers(
    munkey, model, tmp_path
):
    picture = picture_in(tmp_path)
    predict = ["predict", model, picture, "--json"]
    emptied = munkey(*predict).json["predictions"][0]["class"]
    deletion = munkey("forget", model, "--class", emptied)
    assert f"no samples remain in class {emptied}\n" in deletion.out
    [answer] = munkey(*predict, "--only-held-classes").json["predictions"]
    assert answer["class"] != emptied
    assert answer["probabilities"][emptied] == 0


REQUESTS = """request,id,file,class,unit
2026-1,10,,,
2026-2,,pets/14.png,fish,
2026-2,16,,,
2026-3,,,cat,Anna
"""


def test_requests_of_a_csv_are_carried_out_once(munkey, model, tmp_path):
    add_twins(model)
    table = tmp_path / "requests.csv"
    table.write_text("\ufeff" + REQUESTS.replace(",", ";").replace("\n", "\r\n"))
    words = ["forget", model, "--csv", table, "--certificate", tmp_path / "made-{request}.json"]
    dry_run = munkey(*words, "--dry-run", "--json").json["requests"]
    assert [plan["would_delete"] for plan in dry_run] == [[10], [14, 16], [200, 201]]
    result = munkey(*words, "--json").json
    assert [entry["deleted"] for entry in result["requests"]] == [1, 2, 2]
    assert remaining_ids(model) == without(10, 14, 16)
    for entry in result["requests"]:
        receipt = certificate.read_certificate(tmp_path / f"made-{entry['request']}.json")
        assert receipt.request == entry["request"]
        assert receipt.rows == entry["deleted"]
        assert receipt.purged_at
        assert munkey("certificate", model, entry["certificate"], "--check").code == 0
    before = (tmp_path / "made-2026-1.json").read_bytes()
    for repeat in (munkey(*words, "--dry-run"), munkey(*words)):
        assert repeat.code == 0
        assert repeat.out.count(", so nothing was changed\n") == 3
        assert f"request 2026-2: carried out on {result['requests'][1]['when']}," in repeat.out
    log = munkey("log", model, "--json").json["log"]
    for logged, entry in zip(log, result["requests"], strict=True):
        assert logged.keys() == {
            *("first", "last", "when", "request", "deleted", "before", "head"),
        }
        assert logged.items() <= entry.items()
    assert (tmp_path / "made-2026-1.json").read_bytes() == before
    result = munkey("forget", model, "--ids", "18", "--request", "2026-1")
    assert result.code == 2
    assert "'2026-1' was carried out on" in result.err
    assert remaining_ids(model) == without(10, 14, 16)


def test_two_requests_never_share_a_certificate(munkey, model, tmp_path):
    table = tmp_path / "requests.csv"
    table.write_text("request,id\na/b,10\na-b,12\n")
    template = tmp_path / "made-{request}.json"
    result = munkey("forget", model, "--csv", table, "--certificate", template)
    assert result.code == 2
    assert "'a/b' and 'a-b'" in result.err
    assert str(tmp_path / "made-a-b.json") in result.err
    assert remaining_ids(model) == IDS.tolist()
    assert not list(tmp_path.glob("made-*"))


def test_a_request_that_found_nothing_is_not_recorded_and_can_be_corrected(munkey, model, tmp_path):
    add_twins(model)
    table = tmp_path / "requests.csv"
    table.write_text("request,unit\n1,Anna\n2,Bobb\n")
    words = ["forget", model, "--csv", table, "--ignore-missing"]
    certificates = ["--certificate", tmp_path / "{request}.json"]
    previewed = munkey(*words, "--dry-run")
    assert previewed.code == FOUND_NOTHING
    assert "request 2: found nothing now" in previewed.out
    for expected in ("request 1: forgot 2 samples", "request 1: carried out on"):
        result = munkey(*words, *certificates)
        assert result.code == FOUND_NOTHING
        assert expected in result.out
        assert "request 2: found nothing now" in result.out
        assert "unit Bobb (request 2)" in result.out
        assert result.out.count("carried out") == expected.count("carried out")
    assert [entry["request"] for entry in munkey("log", model, "--json").json["log"]] == ["1"]
    assert (tmp_path / "1.json").exists()
    assert not (tmp_path / "2.json").exists()
    requests = munkey(*words, "--json").json["requests"]
    assert [entry["found_nothing"] for entry in requests] == [False, True]
    table.write_text("request,unit\n1,Anna\n2,Bob\n")  # corrected, and under the same number
    add_like(model, [300], [10], units=["Bob"])
    result = munkey(*words)
    assert result.code == 0
    assert "request 2: forgot 1 sample" in result.out


def test_a_recorded_request_without_samples_is_reported_to_have_found_nothing(
    munkey, model, tmp_path
):
    with Predictor.load(model) as predictor:
        when = predictor._file.delete([], request="2").when.isoformat()
    for words in (["--dry-run"], []):
        result = munkey("forget", model, "--unit", "Bobb", "--request", "2", *words)
        assert result.code == FOUND_NOTHING
        assert f"request 2: found nothing on {when}" in result.out
    result = munkey("forget", model, "--ids", "10", "--request", "2")
    assert result.code == 2
    assert "request '2' found nothing on" in result.err
    assert "another number" in result.err
    result = munkey("certificate", model, tmp_path / "made.json", "--request", "2")
    assert result.code == 2
    assert not (tmp_path / "made.json").exists()


def test_a_request_whose_samples_an_earlier_one_deleted_is_recorded(munkey, model, tmp_path):
    (tmp_path / "requests.csv").write_text("request,id\n1,10\n2,10\n")
    for expected in ("now", "on 20"):  # once more: no name is refused as unknown
        result = munkey("forget", model, "--csv", tmp_path / "requests.csv")
        assert result.code == FOUND_NOTHING
        assert f"request 2: found nothing {expected}" in result.out
    assert [entry["deleted"] for entry in munkey("log", model, "--json").json["log"]] == [1, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (REQUESTS + "2026-4,99,,,\n2026-4,99,,,\n", "names: 99 (request 2026-4)"),
        (REQUESTS + "2026-4,18,pets/20.png,,\n", "18 and pets/20.png"),  # not the same sample
        (REQUESTS + "2026-4,18\n", "line 6: 2 cells"),
        (REQUESTS + ",18,,,\n", "line 6: no request number"),
        (REQUESTS + "NA,18,,,\n", "line 6: no request number"),
        (REQUESTS + "2026-4,,,,\n", "line 6: no sample is named\n"),
        (REQUESTS + '2026-4,"18\n', "line 6: unexpected end of data"),
        (REQUESTS + "2026-4,x,,,\n", "line 6: 'x' is not an id"),
        ("id,person\n10,Anna\n", "and nothing else; not 'id', 'person'"),
        ("id,class,label\n10,cat,cat\n", "each at most once"),
        ('id,"class\n10,cat\n', "line 2: unexpected end of data"),
        ("id,unit\n,NA\n", "line 2: no sample is named"),
        ("id,unit\n , \n10,\n  ,p9\n", "p9"),  # a blank cell is an empty one
        ("class,unit\ncat,NA\n", "line 2: 'NA' names no unit"),
        ("", "not an empty file"),
    ],
)
def test_a_faulty_csv_is_refused_as_a_whole(content, message, munkey, model, tmp_path):
    add_twins(model)
    (tmp_path / "requests.csv").write_text(content)
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv")
    assert result.code == 2
    assert message in result.err
    assert remaining_ids(model) == [*IDS.tolist(), 200, 201]


def test_a_file_of_ids_that_cannot_be_read_is_refused(munkey, model, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    for name, message in (
        ("missing", "No such file"),
        ("binary", "is not text in UTF-8"),
        (".", "is a folder"),
    ):
        result = munkey("forget", model, "--ids-file", tmp_path / name)
        assert result.code == 2
        assert message in result.err
        assert str(tmp_path / name) in result.err


@pytest.mark.parametrize(("content", "code"), [(b"10\n12\n", 0), (b"\xff\x00", 2)])
def test_ids_are_read_from_standard_input(content, code, munkey, model, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    result = munkey("forget", model, "--ids-file", "-")
    assert result.code == code
    if code == 0:
        assert remaining_ids(model) == without(10, 12)
    else:
        assert remaining_ids(model) == IDS.tolist()
        assert "standard input: is not text" in result.err


def test_a_certificate_holds_the_deletion_and_not_the_ids(munkey, model, tmp_path):
    file = tmp_path / "certificate.json"
    result = munkey("forget", model, "--ids", "10,12", "--certificate", file, "--json")
    receipt = certificate.read_certificate(file)
    assert result.code == 0
    assert receipt.rows == 2
    assert receipt.ids is None
    assert receipt.purged_at
    assert receipt.live == 22
    assert receipt.head == result.json["head"]
    assert receipt.ids_sha256 == certificate.hash_ids([10, 12], bytes.fromhex(result.json["salt"]))
    for page in (file, file.with_suffix(".html")):
        assert result.json["salt"] not in page.read_text()
    with_ids = tmp_path / "with-ids.json"
    munkey("forget", model, "--ids", "14,16", "--certificate", with_ids, "--list-ids")
    assert certificate.read_certificate(with_ids).ids == (14, 16)


def test_the_reason_for_a_missing_certificate_is_named(munkey, model, tmp_path):
    receipt = tmp_path / "certificate.json"
    for more in ([], ["--dry-run"]):
        words = ["--ids", "11", "--ignore-missing", "--certificate", receipt]
        result = munkey("forget", model, *words, *more)
        assert result.code == FOUND_NOTHING
        assert "certificate: none" in result.out
    dry_run = munkey("forget", model, "--ids", "10", "--certificate", receipt, "--dry-run")
    assert dry_run.code == 0
    assert f"would be written to {receipt}" in dry_run.out
    assert not receipt.exists()
    assert remaining_ids(model) == IDS.tolist()


@pytest.mark.parametrize(
    "words",
    [
        ["forget", "MODEL", "--ids", "12", "--certificate", "certificate.json"],
        ["certificate", "MODEL", "certificate.json"],
        ["certificate", "MODEL", "certificate.json", "--ids", "10", "--salt", "00"],
        ["certificate", "MODEL", "new.json", "--ids", "10"],
        ["certificate", "MODEL", "new.json", "--salt", "00"],
        ["certificate", "MODEL", "certificate.json", "--check", "--deletion", "1"],
    ],
    ids=" ".join,
)
def test_an_existing_certificate_is_not_overwritten_and_nothing_is_deleted(
    words, munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    munkey("forget", model, "--ids", "10", "--certificate", "certificate.json")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    result = munkey(*replace_model(words, model))
    assert result.code == 2
    assert result.err.count("\n") == 1
    assert remaining_ids(model) == without(10)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before


@pytest.mark.parametrize("prevented", [None, "a reader", "a full disk"])
def test_a_purge_that_fails_is_reported_and_stays_due(
    prevented, munkey, model, tmp_path, monkeypatch
):
    if prevented == "a reader":  # for longer than the purge waits
        monkeypatch.setattr(Database, "empty_log", lambda _: False)
    if prevented == "a full disk":
        monkeypatch.setattr(Database, "vacuum", raise_full_disk)
    file = tmp_path / "certificate.json"
    words = ["--files", "pets/10.png", "--certificate", file, "--wait", "0.1"]
    result = munkey("forget", model, *words, "--json")
    assert result.code == (FAILED if prevented else 0)
    assert result.json["deleted"] == 1
    assert result.json["purged"] is (prevented is None)
    purged_at = certificate.read_certificate(file).purged_at
    purged = munkey("inspect", model, "--json").json["purged"]
    if prevented:
        assert purged_at is None
        assert purged == "due"
        assert "may be left" in result.err
    else:
        assert purged_at is not None
        assert purged != "due"
        assert "may be left" not in result.err


def test_a_deletion_beside_foreign_files_fails_as_a_purge_does(munkey, model):
    foreign = model / "memory.db.bak"
    foreign.write_bytes(b"keys")
    result = munkey("forget", model, "--ids", "10", "--json")
    assert result.code == munkey("purge", model).code == FAILED
    assert result.json["deleted"] == 1
    assert foreign.name in result.json["unpurged"]
    assert foreign.name in result.err
    assert foreign.read_bytes() == b"keys"
    assert remaining_ids(model) == without(10)
    assert munkey("forget", model, "--ids", "12", "--no-purge").code == 0
    assert munkey("forget", model, "--ids", "14", "--dry-run").code == 0
    foreign.unlink()
    assert munkey("forget", model, "--ids", "14").code == 0


@pytest.mark.parametrize("fails", ["certificate", "close", "standard output"])
def test_committed_deletions_are_reported_whatever_fails_afterwards(
    fails, munkey, model, tmp_path, monkeypatch
):
    """As on a disk that is full."""
    receipt = tmp_path / "certificate.json"
    with monkeypatch.context() as patch:
        if fails == "standard output":
            patch.setattr(sys, "stdout", open("/dev/full", "w"))  # noqa: PTH123, SIM115
        else:
            places = {
                "certificate": (certificate, "write_new_file"),
                "close": (MemoryFile, "close"),
            }
            patch.setattr(*places[fails], raise_full_disk)
        words = ["--ids", "10,12", "--request", "R", "--certificate", receipt]
        result = munkey("forget", model, *words, "--json")
    gc.collect()  # an unclosed memory
    [entry] = munkey("log", model, "--json").json["log"]
    assert result.code == 4
    assert remaining_ids(model) == without(10, 12)
    assert "numbers 1 to 2 in the chain\n" in result.err
    assert f"\nhead of the chain: {entry['head']}\n" in result.err
    [salt] = re.findall("salt of its ids, not stored in any file: ([0-9a-f]{32})", result.err)
    if fails != "standard output":
        [deletion] = result.json["deletions"]
        assert deletion["head"] == entry["head"]
        assert deletion["first"] == 1
        assert deletion["last"] == 2
        assert deletion["salt"] == salt


def test_ids_and_salt_can_be_put_into_a_later_certificate(munkey, model, tmp_path):
    munkey("forget", model, "--ids", "10,12", "--request", "R")
    munkey("forget", model, "--ids", "16")
    later = tmp_path / "later.json"
    salt = ["--salt", "ab" * 16]
    for ids in ("10", "10,14", "10,12,18"):
        refused = munkey("certificate", model, later, "--request", "R", "--ids", ids, *salt)
        assert refused.code == 2
        assert "but the deletion has 2 samples" in refused.err
    assert munkey("certificate", model, later, "--request", "R", "--ids", "10,12", *salt).code == 0
    assert munkey("certificate", model, later, "--check", "--ids", "12,10", *salt).code == 0
    assert "were supplied afterwards" in " ".join(certificate.read_certificate(later).not_claimed)
    assert munkey("certificate", model, tmp_path / "none.json", "--request", "S").code == 2


def test_a_deletion_that_another_process_prevents_leaves_no_salt_and_can_be_tried_again(
    munkey, model, tmp_path, monkeypatch
):
    words = ["--ids", "10", "--certificate", tmp_path / "1.json", "--salt-file", tmp_path / "salt"]
    delete = Predictor.delete

    def refuse(*arguments, **options):
        assert (tmp_path / "salt").exists()  # before anything is deleted
        monkeypatch.setattr(Predictor, "delete", delete)
        raise LockedMemoryError("another process is changing it; try again")

    monkeypatch.setattr(Predictor, "delete", refuse)
    assert munkey("forget", model, *words).code != 0
    assert remaining_ids(model) == IDS.tolist()
    assert not (tmp_path / "salt").exists()
    assert munkey("forget", model, *words).code == 0
    assert (tmp_path / "salt").exists()


def test_a_salt_can_be_kept_in_a_file_that_only_its_owner_reads(munkey, model, tmp_path):
    receipt = tmp_path / "certificate.json"
    salt = tmp_path / "secret" / "salt"
    words = ["--ids", "10", "--certificate", receipt, "--salt-file", salt]
    result = munkey("forget", model, *words, "--json")
    assert result.code == 0
    assert "salt" not in result.json
    assert salt.stat().st_mode & 0o777 == 0o600
    text = salt.read_text().strip()
    assert text not in result.out
    assert certificate.hash_ids([10], bytes.fromhex(text)) in receipt.read_text()
    words = ["--check", "--ids", "10", "--salt-file", salt]
    assert munkey("certificate", model, receipt, *words).code == 0
    words = ["--ids", "12", "--certificate", tmp_path / "2.json", "--salt-file", salt]
    repeat = munkey("forget", model, *words)
    assert repeat.code == 2
    assert "needs its own salt" in repeat.err
    assert remaining_ids(model) == without(10)


def test_ctrl_c_names_finished_requests_and_their_certificate_can_be_written_later(
    munkey, model, tmp_path, monkeypatch
):
    table = tmp_path / "requests.csv"
    table.write_text("request, id\nA , 10\nB,12\n")
    words = ["forget", model, "--csv", table, "--certificate", tmp_path / "made-{request}.json"]
    delete = Change.delete

    def delete_until_ctrl_c(change, rows, *, request, block_return):
        if request == "B":
            raise KeyboardInterrupt
        return delete(change, rows, request=request, block_return=block_return)

    with monkeypatch.context() as patch:
        patch.setattr(Change, "delete", delete_until_ctrl_c)
        result = munkey(*words)
    assert result.code == 130
    assert "interrupted" in result.err
    assert "request A: forgot 1" in result.err
    repeat = munkey(*words)
    receipt = tmp_path / "made-A.json"
    assert f"`munkey certificate {model} {receipt} --request A`" in repeat.out
    assert remaining_ids(model) == without(10, 12)
    assert munkey(*words, "--json").json["requests"][0]["certificate"] is None
    assert munkey("certificate", model, receipt, "--request", "A").code == 0
    assert munkey(*words, "--json").json["requests"][0]["certificate"] == str(receipt)


@pytest.mark.parametrize(
    ("option", "content"),
    [
        ("--ids-file", ",id\n0,10\n1,12\n"),  # Series.to_csv()
        ("--ids-file", "\ufeffId;Unit\r\n10;p1\r\n12;p1\r\n;\r\n"),
        ("--ids-file", "10, 12\n"),
        ("--files-from", "file,unit\npets/10.png,p1\npets/12.png,p1\n"),
        ("--files-from", "\ufeffpets/10.png\r\n\r\npets/12.png\r\n"),
    ],
)
def test_lists_may_be_columns_of_a_table(option, content, munkey, model, tmp_path):
    (tmp_path / "list.csv").write_text(content)
    assert munkey("forget", model, option, tmp_path / "list.csv").code == 0
    assert remaining_ids(model) == without(10, 12)


@pytest.mark.parametrize(
    ("option", "header", "message"),
    [("--ids-file", "id", "no ids; write"), ("--files-from", "file", "name what")],
)
def test_a_list_with_a_header_alone_is_refused(option, header, message, munkey, model, tmp_path):
    """The failure: the header itself was taken for an id."""
    (tmp_path / "list.csv").write_text(f"{header}\n")
    result = munkey("forget", model, option, tmp_path / "list.csv")
    assert result.code == 2
    assert message in result.err
    assert remaining_ids(model) == IDS.tolist()


def test_an_unknown_name_is_reported_also_if_its_request_was_carried_out(munkey, model, tmp_path):
    """The failure: at the second run, only "carried out" was left of a request with one good name."""
    add_like(model, [200, 201], [10, 12], units=["Cy", "Ida"])
    (tmp_path / "requests.csv").write_text("request,unit\n13,Cy\n13,Idda\n")
    words = ("forget", model, "--csv", tmp_path / "requests.csv", "--ignore-missing")
    for part in ("forgot 1 sample", "carried out on"):
        result = munkey(*words)
        assert result.code == 0
        assert part in result.out
        assert "for 'Idda': 'Ida'." in result.out
    assert remaining_ids(model) == [*IDS.tolist(), 201]
    (tmp_path / "requests.csv").write_text("request,unit\n13,Cy\n13,Ida\n")
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--ignore-missing")
    assert result.code == 2
    assert "Nothing was changed, for other requests" in result.err


@pytest.mark.parametrize("content", ["request,unit\n", "\ufeffrequest;unit\r\n;\r\n"])
def test_a_file_without_requests_changes_nothing(content, munkey, model, tmp_path):
    (tmp_path / "requests.csv").write_text(content)
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv")
    assert result.code == 0
    assert result.out.startswith(f"{tmp_path}/requests.csv: no requests")
    assert remaining_ids(model) == IDS.tolist()
    assert munkey("log", model, "--json").json["log"] == []


def test_requests_as_a_spreadsheet_writes_them_are_carried_out(munkey, model, tmp_path):
    """Semicolons, a header with capitals, an index column, an empty line at the end, 1.0 for request 1."""
    add_like(model, [200, 201], [10, 12], units=["7", "NA"])
    (tmp_path / "requests.csv").write_bytes(
        b"\xef\xbb\xbf;Request;Unit;Id\r\n0;1.0;7.0;\r\n1;2;NA;10\r\n;;;\r\n"
    )
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--json").json["requests"]
    assert [(entry["request"], entry["deleted"]) for entry in result] == [("1", 1), ("2", 1)]
    assert remaining_ids(model) == [*without(10), 201]


def test_names_keep_their_line_breaks_and_stay_on_one_line(munkey, model, tmp_path):
    add_like(model, [200, 201], [10, 12], units=["U\n1", "U1"])
    samples = munkey("list", model, "--ids", "200")
    assert samples.out.splitlines()[1].split()[:3] == ["200", "cat", "U\\n1"]
    assert len(samples.out.splitlines()) == 3
    (tmp_path / "requests.csv").write_text('request,unit\nR," U\n1\n"\n')
    assert munkey("forget", model, "--csv", tmp_path / "requests.csv", "--block-return").code == 0
    assert remaining_ids(model) == [*IDS.tolist(), 201]
    assert munkey("inspect", model, "--json").json["blocked pictures"] == 1
    refusal = munkey("forget", model, "--ids", "200", "--ignore-missing", "--request", "1\n2")
    assert "request 1\\n2: found nothing now" in refusal.out


def test_characters_that_standard_output_cannot_encode_are_escaped(munkey, model, monkeypatch):
    munkey("forget", model, "--ids", "10", "--request", "é")
    for words in ([], ["--json"]):
        with monkeypatch.context() as patch:
            written = io.BytesIO()
            stdout = io.TextIOWrapper(written, "ascii")
            patch.setattr(sys, "stdout", stdout)
            assert munkey("log", model, *words).code == 0
            stdout.flush()
        assert rb"\xe9" in written.getvalue() or rb"\u00e9" in written.getvalue()


def test_no_byte_remains_after_a_deletion_unless_the_purge_is_postponed(munkey, model):
    add_like(model, [200, 201], [10, 12], ["pets/A-200.png", "pets/A-201.png"], ["Zoe", "Kim"])
    key = read_key_bytes(model, 14)
    assert holds_bytes(model, b"pets/A-200.png")
    assert holds_bytes(model, b"Kim")
    assert holds_bytes(model, key)
    postponed = munkey("forget", model, "--ids", "200", "--no-purge", "--json")
    assert postponed.code == 0
    assert postponed.json["purged"] is False
    assert munkey("inspect", model, "--json").json["purged"] == "due"
    result = munkey("forget", model, "--unit", "Kim", "--ids", "14", "--json")
    assert result.code == 0
    assert result.json["purged"] is True
    for name in (b"pets/A-200.png", b"pets/A-201.png", b"Zoe", b"Kim", key):
        assert not holds_bytes(model, name)
    assert munkey("inspect", model, "--json").json["purged"].startswith("20")


def read_key_bytes(model, sample_id):
    """Bytes in the middle of the key of a sample, which no other key has. SQLite may split a whole key."""
    with Predictor.load(model) as predictor:
        memory = predictor._file.snapshot().memory
        [row] = memory.find_rows(np.array([sample_id]))
        key = memory.keys[row]
        start = int(np.flatnonzero(key)[8])
        return key[start : start + 16].tobytes()


def test_a_memory_that_stays_busy_is_locked_and_nothing_is_changed(munkey, model):
    with Predictor.load(model) as predictor, predictor._file.hold_off_changes():
        for words in (["forget", model, "--ids", "10"], ["purge", model]):
            result = munkey(*words, "--wait", "0.1")
            assert result.code == 3
            assert "busy by another process" in result.err
            assert "0.1 s" in result.err
            assert "nothing was changed" in result.err
        assert munkey("forget", model, "--ids", "10", "--dry-run").code == 0
        assert munkey("list", model).code == munkey("verify", model).code == 0
    assert remaining_ids(model) == IDS.tolist()
    assert munkey("log", model, "--json").json["log"] == []


def test_two_processes_that_forget_at_the_same_time_both_succeed(model):
    command = [sys.executable, "-m", "munkey.cli", "forget", str(model), "--json", "--ids"]
    processes = []
    for ids in ("10,12", "14,16"):
        processes.append(subprocess.Popen([*command, ids], stdout=subprocess.PIPE, text=True))
    results = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(result["first"] for result in results) == [1, 3]
    assert remaining_ids(model) == without(10, 12, 14, 16)
    with Predictor.load(model) as predictor:
        assert predictor.verify().sound
        assert not predictor.is_purge_due


def add_units(model, units):
    """Add a sample of each unit, with ids from 200 on."""
    ids = range(200, 200 + len(units))
    add_like(model, list(ids), IDS[: len(units)], units=units)


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("Zoe\u0308 ", "Zo\u00eb"),  # of an older memory, from a Mac
        ("Zo\u00eb", " Zoe\u0308"),
        ("7.0", "7"),
    ],
)
def test_units_are_found_as_people_type_them(name, typed, munkey, model, tmp_path):
    add_units(model, [name])
    assert listed_ids(munkey, model, "--unit", typed) == [200]
    assert previewed_ids(munkey, model, "--unit", typed) == [200]
    (tmp_path / "requests.csv").write_text(f"request,class,unit\n1,cat,{typed}\n2,,{typed}\n")
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--dry-run", "--json")
    assert result.json["requests"][0]["would_delete"] == [200]


def test_all_spellings_of_a_unit_are_one(munkey, model):
    add_units(model, ["7", "7.0"])
    for typed in ("7", "7.0", " 7"):
        assert previewed_ids(munkey, model, "--unit", typed) == [200, 201]


def test_a_typed_name_that_means_no_unit_is_refused(munkey, model):
    result = munkey("forget", model, "--unit", "NA", "--ids", "10", "--ignore-missing")
    assert result.code == 2
    assert "'NA', which is no unit" in result.err
    assert remaining_ids(model) == IDS.tolist()


def test_ids_are_read_as_pandas_writes_them(munkey, model, tmp_path):
    (tmp_path / "requests.csv").write_text("id,unit\n10.0,\n 12 ,\n")
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--dry-run", "--json")
    assert result.json["requests"][0]["would_delete"] == [10, 12]


def test_a_request_number_has_one_spelling_everywhere(munkey, model, tmp_path):
    table = tmp_path / "requests.csv"
    table.write_text("request,id\nZoe\u0308 ,10\nZo\u00eb,12\n")
    certificate = tmp_path / "{request}.json"
    result = munkey("forget", model, "--csv", table, "--certificate", certificate, "--json")
    [deletion] = result.json["requests"]
    assert deletion["request"] == "Zo\u00eb"
    assert deletion["certificate"] == str(tmp_path / "Zo\u00eb.json")
    assert remaining_ids(model) == without(10, 12)
    repeat = munkey("forget", model, "--ids", "10", "--request", " Zoe\u0308", "--json")
    assert repeat.json["request"] == "Zo\u00eb"
    assert repeat.json["repeated"]


@pytest.mark.parametrize("command", ["list", "forget"])
def test_similar_unit_names_are_suggested_in_quotes(command, munkey, model, tmp_path):
    """Which names are similar: tests/data/intake/test_unit_names.py."""
    typed = "Anan K."
    add_units(model, ["Anna K.", "Bob"])
    result = munkey(command, model, "--unit", typed)
    assert result.code == 2
    assert f"unit {typed}. " in result.err
    assert f"for '{typed}': 'Anna K.'." in result.err
    assert "Bob" not in result.err
    assert remaining_ids(model) == [*IDS.tolist(), 200, 201]
    (tmp_path / "requests.csv").write_text(f"request,class,unit\n1,cat,{typed}\n")
    result = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--ignore-missing")
    assert result.code == FOUND_NOTHING
    assert f"for '{typed}': 'Anna K.'" in result.out


def test_a_class_is_found_as_people_type_it_or_named(munkey, model):
    expected = munkey("list", model, "--class", "cat", "--json").json
    assert munkey("list", model, "--class", " cat ", "--json").json == expected
    for command in ("list", "forget"):
        result = munkey(command, model, "--class", "Cat")
        assert result.code == 2
        assert "for 'Cat': 'cat'." in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unit", "Nobody"], "unit Nobody"),
        (["--ids", "10,999"], "999"),
    ],
)
def test_list_refuses_an_unknown_name(words, message, munkey, model):
    result = munkey("list", model, *words)
    assert result.code == 2
    assert result.out == ""
    assert f"has these names: {message}" in result.err


def test_the_samples_without_a_unit_can_be_listed(munkey, model):
    add_units(model, ["Anna K.", None])
    assert listed_ids(munkey, model, "--no-unit") == [*IDS.tolist(), 201]
    words = ["--no-unit", "--unit", "Anna K.", "--ids", "200,201"]
    assert listed_ids(munkey, model, *words) == [200, 201]


def add_files(model, files, first=200):
    """Add a sample from each file, with ids from `first` on."""
    ids = range(first, first + len(files))
    add_like(model, list(ids), [10] * len(files), files)


@pytest.mark.parametrize("by", ["files", "csv", "request"])
def test_a_name_with_brackets_deletes_no_picture_of_another_person(by, munkey, model, tmp_path):
    """The failure: once IMG[1].png was gone, the same command deleted IMG1.png."""
    add_files(model, ["pets/IMG[1].png", "pets/IMG1.png"])
    (tmp_path / "requests.csv").write_text("file\npets/IMG[1].png\n")
    words = {
        "files": ["--files", "pets/IMG[1].png"],
        "csv": ["--csv", tmp_path / "requests.csv"],
        "request": ["--files", "pets/IMG[1].png", "--request", "7"],
    }[by]
    first = munkey("forget", model, *words, "--json")
    outcome = first.json
    if by == "csv":
        [outcome] = first.json["requests"]
    assert outcome["deleted"] == 1
    assert outcome["patterns"] == []
    repeat = munkey("forget", model, *words)
    assert repeat.code == (0 if by == "request" else 2)
    other = munkey("forget", model, *words[:2], "--ignore-missing")
    assert other.code == FOUND_NOTHING
    assert remaining_ids(model) == [*IDS.tolist(), 201]


def test_a_pattern_needs_its_prefix_and_the_receipt_names_it(munkey, model, tmp_path):
    add_files(model, ["pets/IMG[1].png", "pets/IMG1.png", "pets/[x]/2.png"])
    refused = munkey("forget", model, "--files", "pets/IMG*")
    assert refused.code == 2
    assert "glob:PATTERN" in refused.err
    (tmp_path / "requests.csv").write_text("request,file\n1,glob:pets/IMG*\n2,pets/[x]\n")
    words = ("forget", model, "--csv", tmp_path / "requests.csv")
    dry_run = munkey(*words, "--dry-run", "--json").json["requests"]
    assert [entry["would_delete"] for entry in dry_run] == [[200, 201], [202]]
    assert [entry["patterns"] for entry in dry_run] == [["glob:pets/IMG*"], []]
    result = munkey("forget", model, "--glob", "pets/IMG*", "--files", "pets/[x]/2.png")
    assert result.out.startswith("forgot 3 samples, 24 left")
    assert "\ngiven as patterns: glob:pets/IMG*\n" in result.out
    expanded = munkey("forget", model, "--glob", "pets/10.png", "pets/12.png")
    assert expanded.code == 2
    assert "in quotes" in expanded.err


def test_a_repeated_request_whose_pattern_matches_more_files_lists_them_and_advises_ids(
    munkey, model
):
    """The failure: the message advised another number, and that deleted another person's picture."""
    add_files(model, ["pets/IMG1.png", "pets/IMG2.png"])
    words = ("forget", model, "--glob", "pets/IMG*", "--request", "7")
    assert munkey(*words).code == 0
    add_files(model, ["pets/IMG3.png"], first=300)
    refused = munkey(*words)
    assert refused.code == 2
    assert "perhaps of somebody else: ids 300." in refused.err
    assert "send their ids with another number" in refused.err


def test_a_repeated_request_for_files_gives_no_hint_about_names(munkey, model, tmp_path):
    (tmp_path / "requests.csv").write_text("request,file\n1,pets/10.png\n")
    assert munkey("forget", model, "--csv", tmp_path / "requests.csv").code == 0
    repeat = munkey("forget", model, "--csv", tmp_path / "requests.csv")
    assert repeat.code == 0
    assert "carried out on" in repeat.out
    assert "imilar" not in repeat.out
    assert "Name a source file" not in repeat.out


def test_a_spreadsheet_is_told_to_be_saved_as_csv(munkey, model, tmp_path):
    (tmp_path / "requests.xlsx").write_bytes(b"PK\x03\x04" + bytes(60))
    result = munkey("forget", model, "--csv", tmp_path / "requests.xlsx")
    assert result.code == 2
    assert "save it as 'CSV UTF-8'" in result.err


def test_files_are_found_as_people_type_them(munkey, model):
    add_like(model, [200], [10], ["pets/Zoe\u0308/1.png"])
    for typed in (
        "pets/Zo\u00eb/1.png",
        " pets/Zo\u00eb/1.png ",
        "pets/Zo\u00eb",
        "glob:pets/Zo\u00eb/*.png",
    ):
        assert previewed_ids(munkey, model, "--files", typed) == [200], typed
    result = munkey("forget", model, "--files", "Pets/10.png")
    assert result.code == 2
    assert "for 'Pets/10.png': 'pets/10.png'." in result.err

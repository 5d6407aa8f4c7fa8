"""`munkey forget`: what is named goes, and nothing else; what is not there stops it, unless that is allowed."""

import io
import os
import sys

import numpy as np
import pytest

from munkey.deploy import certificate
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.ledger import Ledger
from tests.deploy.inputs import IDS


def left(model):
    with Predictor.load(model) as predictor:
        return predictor.ids.tolist()


def without(*ids):
    return [one for one in IDS.tolist() if one not in ids]


def test_ids_go_and_the_head_of_the_chain_is_printed(munkey, model):
    ended = munkey("forget", model, "--ids", "12, 10")
    with Predictor.load(model) as predictor:
        assert ended == (0, f"forgot 2 samples, 22 left\nhead of the chain: {predictor.head}\n", "")
    assert left(model) == without(10, 12)


def test_ids_of_a_file_and_source_files_count_together(munkey, model, tmp_path):
    (tmp_path / "ids").write_text("10\n12,\n\n14 16\n")
    ended = munkey(
        "forget", model, "--ids", "16", "--ids-file", tmp_path / "ids", "--files", "pets/20.png", "--files",
        "pets/22.png", "--json",
    )  # fmt: skip
    assert ended.code == 0 and left(model) == without(10, 12, 14, 16, 20, 22) and ended.json["purged"] is False
    assert (ended.json["deleted"], ended.json["left"], ended.json["missing"]) == (6, 18, [])


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["--ids", "10,11,13"], ["11", "13"]),
        (["--files", "pets/10.png", "--files", "pets/x.png"], ["pets/x.png"]),
        (["--ids", "10,99", "--dry-run"], ["99"]),
    ],
)
def test_what_is_not_there_is_listed_and_nothing_is_deleted(words, missing, munkey, model):
    ended = munkey("forget", model, *words, "--json")
    assert (ended.code, ended.json["code"], left(model)) == (2, 2, IDS.tolist())
    assert ended.err == f"munkey: {ended.json['error']}\n" and ended.err.endswith(f": {', '.join(missing)}\n")


def test_what_is_not_there_may_be_passed_over(munkey, model):
    words = ["--ids", "10,11", "--files", "pets/x.png", "--files", "pets/12.png", "--ignore-missing", "--json"]
    ended = munkey("forget", model, *words)
    assert (ended.code, ended.json["deleted"], ended.json["missing"]) == (0, 2, ["11", "pets/x.png"])
    assert left(model) == without(10, 12)


def test_a_file_whose_name_is_not_utf_8_may_be_passed_over(munkey, model):
    ended = munkey("forget", model, "--ids", "10", "--files", os.fsdecode(b"caf\xe9.png"), "--ignore-missing", "--json")
    assert (ended.code, ended.json["deleted"]) == (0, 1) and left(model) == without(10)


def test_a_file_that_can_be_two_is_refused_and_nothing_is_deleted(munkey, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Predictor.load(model, writer=True) as predictor:
        row = predictor.store.view.rows(np.array([0]))
        predictor.store.add([200], row.keys, row.tokens, [0], [str(tmp_path / "pets" / "10.png")])
    ended = munkey("forget", model, "--files", "pets/10.png", "--ids", "11", "--ignore-missing")
    assert ended.code == 2 and "ids 10" in ended.err and "ids 200" in ended.err
    assert left(model) == [*IDS.tolist(), 200]
    assert munkey("forget", model, "--files", tmp_path / "pets" / "10.png").code == 0
    assert left(model) == IDS.tolist()


def test_a_dry_run_says_what_would_go_and_changes_nothing(munkey, model):
    before = {path: path.stat().st_mtime_ns for path in model.rglob("generation-*/*")}
    files = ["--files", "pets/12.png", "--files", "pets/10.png"]  # one sample is named twice
    ended = munkey("forget", model, "--ids", "10", *files, "--dry-run", "--json")
    assert (ended.code, ended.json["would_delete"], ended.json["left"]) == (0, [10, 12], 22)
    assert left(model) == IDS.tolist()
    assert before == {path: path.stat().st_mtime_ns for path in model.rglob("generation-*/*")}


@pytest.mark.parametrize("ids", ["", "x", "1.5", "-3", "1;2", "10,0x1f", "9" * 19, "9" * 5000, "\uff11"])
def test_what_is_no_id_is_refused(ids, munkey, model):
    ended = munkey("forget", model, "--ids", ids)
    assert ended.code == 2 and ended.out == "" and ended.err.count("\n") == 1 and len(ended.err) < 200
    assert left(model) == IDS.tolist()


def test_nothing_named_is_refused(munkey, model):
    assert munkey("forget", model) == (2, "", "munkey: name what to forget: --ids, --ids-file or --files\n")


def test_a_file_of_ids_that_cannot_be_read_is_refused(munkey, model, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    for name, said in (("missing", "No such file"), ("binary", "is not text in UTF-8"), (".", "is a folder")):
        ended = munkey("forget", model, "--ids-file", tmp_path / name)
        assert ended.code == 2 and said in ended.err and str(tmp_path / name) in ended.err


@pytest.mark.parametrize(("content", "code"), [(b"10\n12\n", 0), (b"\xff\x00", 2)])
def test_ids_are_read_from_standard_input(content, code, munkey, model, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    ended = munkey("forget", model, "--ids-file", "-")
    assert ended.code == code and left(model) == without(*([] if code else [10, 12]))
    assert not code or "munkey: standard input: is not text in UTF-8" in ended.err


def test_a_certificate_holds_the_deletion_and_not_the_ids(munkey, model, tmp_path):
    ended = munkey("forget", model, "--ids", "10,12", "--certificate", tmp_path / "receipt.json", "--json")
    made = certificate.read_certificate(tmp_path / "receipt.json")
    assert ended.code == 0 and (made.rows, made.ids, made.rows_zeroed) == (2, None, True)
    assert (made.before.live, made.after.live) == (24, 22) and made.after.head == ended.json["head"]
    assert made.ids_sha256 == certificate.salted([10, 12], bytes.fromhex(ended.json["salt"]))
    assert ended.json["salt"] not in (tmp_path / "receipt.json").read_text() + (tmp_path / "receipt.html").read_text()
    munkey("forget", model, "--ids", "14,16", "--certificate", tmp_path / "traces.json", "--list-ids")
    assert certificate.read_certificate(tmp_path / "traces.json").ids == (14, 16)


def test_it_says_why_there_is_no_certificate(munkey, model, tmp_path):
    receipt = tmp_path / "receipt.json"
    for more in ([], ["--dry-run"]):
        ended = munkey("forget", model, "--ids", "11", "--ignore-missing", "--certificate", receipt, *more)
        assert ended.code == 0 and "certificate: none, since there is nothing to delete" in ended.out
    planned = munkey("forget", model, "--ids", "10", "--certificate", receipt, "--dry-run")
    assert planned.code == 0 and f"certificate: would be written to {receipt}" in planned.out
    refused = munkey("forget", model, "--ids", "10", "--list-ids")
    assert refused.code == 2 and "--certificate FILE" in refused.err
    assert not receipt.exists() and left(model) == IDS.tolist()


@pytest.mark.parametrize(
    "words",
    [
        ["forget", "MODEL", "--ids", "12", "--certificate", "receipt.json"],
        ["certificate", "MODEL", "receipt.json"],
        ["certificate", "MODEL", "receipt.json", "--ids", "10", "--salt", "00"],
        ["certificate", "MODEL", "new.json", "--ids", "10"],
        ["certificate", "MODEL", "new.json", "--salt", "00"],
        ["certificate", "MODEL", "receipt.json", "--check", "--deletion", "1"],
    ],
    ids=" ".join,
)
def test_a_certificate_is_never_overwritten_and_nothing_is_deleted_then(words, munkey, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    munkey("forget", model, "--ids", "10", "--certificate", "receipt.json")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    ended = munkey(*[model if word == "MODEL" else word for word in words])
    assert ended.code == 2 and ended.err.count("\n") == 1 and left(model) == without(10)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before


@pytest.mark.parametrize("prevented", [False, True])
def test_a_purge_that_was_prevented_is_said_and_not_claimed(prevented, munkey, model, tmp_path, monkeypatch):
    if prevented:  # as by a process that reads for as long as SQLite waits
        monkeypatch.setattr(Ledger, "empty_wal", lambda _: False)
    ended = munkey("forget", model, "--files", "pets/10.png", "--certificate", tmp_path / "receipt.json", "--json")
    assert ended.code == 0 and ended.json["purged"] is not prevented
    assert certificate.read_certificate(tmp_path / "receipt.json").purged is not prevented
    assert ("names of source files may be left" in ended.err) is prevented


def test_a_certificate_that_cannot_be_written_does_not_hide_the_deletion(munkey, model, tmp_path):
    (tmp_path / "file").touch()
    ended = munkey("forget", model, "--ids", "10", "--certificate", tmp_path / "file" / "receipt.json")
    assert (
        ended.code == 4 and "the samples are forgotten" in ended.err and "`munkey certificate` writes one" in ended.err
    )
    assert left(model) == without(10)


def test_a_model_that_another_process_writes_is_locked(munkey, model):
    with Predictor.load(model, writer=True):
        ended = munkey("forget", model, "--ids", "10")
        assert ended.code == 3 and "a memory has one writer at a time" in ended.err
        assert munkey("forget", model, "--ids", "10", "--dry-run").code == 0

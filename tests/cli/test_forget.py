"""`munkey forget`: what is named goes, and nothing else; what is not there stops it, unless that is allowed."""

import errno
import gc
import io
import json
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from munkey.cli.output import FAILED, FOUND_NOTHING
from munkey.deploy import certificate
from munkey.deploy.predictor import Predictor
from munkey.memory.database import Database
from munkey.memory.memory_file import Change, MemoryFile
from tests.deploy.inputs import IDS, picture_in


def left(model):
    with Predictor.load(model) as predictor:
        return predictor.ids.tolist()


def without(*ids):
    return [one for one in IDS.tolist() if one not in ids]


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


def test_ids_go_and_the_head_of_the_chain_is_printed(munkey, model):
    ended = munkey("forget", model, "--ids", "12, 10")
    with Predictor.load(model) as predictor:
        assert ended == (
            0,
            f"forgot 2 samples, 22 left; numbers 1 to 2 in the chain\nhead of the chain: {predictor.head}\n",
            "",
        )
    assert left(model) == without(10, 12)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ids", "12", "--request", "S", "--no-purge"], 1),
        (["--ids", "12"], 0),
        (["--ids", "12", "--certificate", "receipt.json"], 0),
        (["--ids", "10", "--request", "R"], 0),
        (["--ids", "11", "--ignore-missing"], 0),
        (["--ids", "12", "--dry-run"], 0),
    ],
    ids=["deleted", "purged", "certified", "repeated", "nothing", "dry run"],
)
def test_that_bytes_stay_is_said_only_where_this_deletion_left_them(
    words, said, munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    munkey("forget", model, "--ids", "10", "--request", "R", "--no-purge")
    ended = munkey("forget", model, *words)
    assert ended.code == (FOUND_NOTHING if "--ignore-missing" in words else 0)
    assert ended.out.count(f"remain in the directory until you run `munkey purge {model}`") == said


def test_ids_of_a_file_and_source_files_count_together(munkey, model, tmp_path):
    (tmp_path / "ids").write_text("10\n12,\n\n14 16\n")
    ended = munkey(
        "forget", model, "--ids", "16", "--ids-file", tmp_path / "ids", "--files", "pets/20.png", "--files",
        "pets/22.png", "--json",
    )  # fmt: skip
    assert (
        ended.code == 0
        and left(model) == without(10, 12, 14, 16, 20, 22)
        and ended.json["purged"] is True
    )
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
    assert ended.err == f"munkey: {ended.json['error']}\n"
    assert f": {', '.join(missing)}" in ended.err
    assert "othing was deleted" in ended.err


def test_what_is_not_there_may_be_passed_over(munkey, model):
    names = ["pets/x.png", "pets/12.png", os.fsdecode(b"caf\xe9.png")]  # the last is not UTF-8
    ended = munkey(
        "forget", model, "--ids", "10,11", "--files", *names, "--ignore-missing", "--json"
    )
    assert (ended.code, ended.json["deleted"], ended.json["missing"][:2]) == (
        0,
        2,
        ["11", "pets/x.png"],
    )
    assert left(model) == without(10, 12)


def test_a_file_that_can_be_two_is_refused_and_nothing_is_deleted(
    munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    add_like(model, [200], [10], [str(tmp_path / "pets" / "10.png")])
    ended = munkey("forget", model, "--files", "pets/10.png", "--ids", "11", "--ignore-missing")
    assert ended.code == 2 and "ids 10" in ended.err and "ids 200" in ended.err
    assert left(model) == [*IDS.tolist(), 200]
    assert munkey("forget", model, "--files", tmp_path / "pets" / "10.png").code == 0
    assert left(model) == IDS.tolist()


def test_a_dry_run_says_what_would_go_and_changes_nothing(munkey, model):
    before = {path: path.read_bytes() for path in model.rglob("*")}
    files = ["--files", "pets/12.png", "--files", "pets/10.png"]  # one sample is named twice
    ended = munkey("forget", model, "--ids", "10", *files, "--dry-run", "--json")
    assert (ended.code, ended.json["would_delete"], ended.json["left"]) == (0, [10, 12], 22)
    assert left(model) == IDS.tolist()
    assert before == {path: path.read_bytes() for path in model.rglob("*")}


@pytest.mark.parametrize(
    "ids", ["", "x", "1.5", "-3", "1;2", "10,0x1f", "9" * 19, "9" * 5000, "\uff11"]
)
def test_what_is_no_id_is_refused(ids, munkey, model):
    ended = munkey("forget", model, "--ids", ids)
    assert (
        ended.code == 2 and ended.out == "" and ended.err.count("\n") == 1 and len(ended.err) < 200
    )
    assert left(model) == IDS.tolist()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "munkey: name what to forget: --ids, --ids-file, --files,"),
        (["pets/10.png"], "Write --files before"),
        (["--class", "cat", "--unit", "Anna"], "together are ambiguous"),
        (["--ids", "10", "--csv", "requests.csv"], "or a --csv"),
        (["--csv", "requests.csv", "--request", "R"], "because the column `request`"),
        (["--ids", "10", "--salt-file", "salt"], "--certificate FILE"),
        (["--ids", "10", "--list-ids"], "--certificate FILE"),
        (["--ids", "10", "--certificate", "made.json", "--no-purge"], "--no-purge"),
        (
            ["--csv", "requests.csv", "--certificate", "made.json"],
            "include {request} in the file name",
        ),
        (["--class", "bird"], "'bird' is not the name of a class"),
        (
            ["--ids", "10", "--certificate", "made.json", "--salt-file", "made.json"],
            "its own file",
        ),
        (
            ["--ids", "10", "--certificate", "made.json", "--salt-file", "MODEL/salt"],
            "is inside the model's directory",
        ),
        (
            ["--ids", "10", "--certificate", "made.json", "--salt-file", "requests.csv"],
            "its own salt",
        ),
        (
            ["--ids", "10", "--certificate", "requests.csv/made.json"],
            "requests.csv is not a folder",
        ),
    ],
)
def test_what_can_mean_two_things_is_refused(words, said, munkey, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requests.csv").write_text("id,request\n10,A\n12,B\n")
    ended = munkey("forget", model, *[word.replace("MODEL", str(model)) for word in words])
    assert ended.code == 2 and said in ended.err and left(model) == IDS.tolist()


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
def test_samples_are_named_as_a_person_has_them(words, gone, munkey, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "names").write_text("pets/20.png\n\npets/22.png\n")
    with_twins(model)
    before = left(model)
    for dry_run in (["--dry-run"], []):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"pets/20.png\npets/22.png")))
        ended = munkey("forget", model, *words, *dry_run, "--json")
        assert ended.code == 0 and (not dry_run or ended.json["would_delete"] == gone)
    assert left(model) == [one for one in before if one not in gone]


def test_a_long_refusal_names_ten_and_counts_the_rest(munkey, model, tmp_path):
    (tmp_path / "ids").write_text("\n".join(map(str, range(1000, 101_000))))
    ended = munkey("forget", model, "--ids-file", tmp_path / "ids", "--json")
    assert (
        ended.code == 2
        and "1000, 1001, " in ended.err
        and "1010" not in ended.err
        and "100,000" in ended.err
    )
    assert len(ended.out) < 500


def with_twins(model):
    """Add two samples of class cat and unit Anna: 200 is identical to 10, and 201 to 12."""
    add_like(model, [200, 201], [10, 12], units=["Anna", "Anna"], identical=True)


def test_exact_copies_are_named_and_go_where_that_is_asked(munkey, model):
    with_twins(model)
    planned = munkey("forget", model, "--ids", "10", "--dry-run")
    assert (
        "would forget 1 sample (dog & co 1) and keep 25\nids 10\nexact copies of these remain: ids 200, of unit Anna;"
        in planned.out
    )
    ended = munkey("forget", model, "--ids", "10")
    assert (
        f"remain: ids 200, of unit Anna; to forget them too, run `munkey forget {model} --ids 200`"
        in ended.out
    )
    planned = munkey("forget", model, "--ids", "12", "--also-identical", "--dry-run", "--json").json
    assert (planned["would_delete"], planned["identical"], planned["left"]) == ([12, 201], [], 23)
    assert planned["copies"] == [{"id": 201, "unit": "Anna"}]
    ended = munkey("forget", model, "--ids", "12", "--also-identical", "--json").json
    assert (ended["deleted"], ended["identical"]) == (2, []) and left(model) == [
        *without(10, 12),
        200,
    ]


def test_a_class_without_a_sample_is_said_and_can_be_kept_from_answers(munkey, model, tmp_path):
    picture = picture_in(tmp_path)
    emptied = munkey("predict", model, picture, "--json").json["predictions"][0]["class"]
    assert (
        f"no samples remain in class {emptied}\n" in munkey("forget", model, "--class", emptied).out
    )
    [answer] = munkey("predict", model, picture, "--only-held-classes", "--json").json[
        "predictions"
    ]
    assert answer["class"] != emptied and answer["probabilities"][emptied] == 0


REQUESTS = """request,id,file,class,unit
2026-1,10,,,
2026-2,,pets/14.png,fish,
2026-2,16,,,
2026-3,,,cat,Anna
"""


def test_requests_of_a_csv_are_carried_out_once(munkey, model, tmp_path):
    with_twins(model)
    (tmp_path / "requests.csv").write_text(
        "\ufeff" + REQUESTS.replace(",", ";").replace("\n", "\r\n")
    )
    words = [
        "forget",
        model,
        "--csv",
        tmp_path / "requests.csv",
        "--certificate",
        tmp_path / "made-{request}.json",
    ]
    planned = munkey(*words, "--dry-run", "--json").json["requests"]
    assert [plan["would_delete"] for plan in planned] == [[10], [14, 16], [200, 201]]
    ended = munkey(*words, "--json").json
    assert [one["deleted"] for one in ended["requests"]] == [1, 2, 2] and left(model) == without(
        10, 14, 16
    )
    for one in ended["requests"]:
        made = certificate.read_certificate(tmp_path / f"made-{one['request']}.json")
        assert (made.request, made.rows) == (one["request"], one["deleted"]) and made.purged_at
        assert munkey("certificate", model, one["certificate"], "--check").code == 0
    before = (tmp_path / "made-2026-1.json").read_bytes()
    for again in (munkey(*words, "--dry-run"), munkey(*words)):
        assert again.code == 0 and again.out.count(", so nothing was changed\n") == 3
        assert f"request 2026-2: carried out on {ended['requests'][1]['when']}," in again.out
    assert munkey("log", model, "--json").json["log"] == [
        {
            name: one[name]
            for name in ("first", "last", "when", "request", "deleted", "before", "head")
        }
        for one in ended["requests"]
    ]
    assert (tmp_path / "made-2026-1.json").read_bytes() == before
    ended = munkey("forget", model, "--ids", "18", "--request", "2026-1")
    assert (
        ended.code == 2
        and "'2026-1' was carried out on" in ended.err
        and left(model) == without(10, 14, 16)
    )


def test_two_requests_never_share_a_certificate(munkey, model, tmp_path):
    table = tmp_path / "requests.csv"
    table.write_text("request,id\na/b,10\na-b,12\n")
    template = tmp_path / "made-{request}.json"
    ended = munkey("forget", model, "--csv", table, "--certificate", template)
    assert ended.code == 2
    assert f"requests 'a/b' and 'a-b' would both write {tmp_path / 'made-a-b.json'}" in ended.err
    assert left(model) == IDS.tolist() and not list(tmp_path.glob("made-*"))


def test_a_request_that_found_nothing_never_reads_as_carried_out(munkey, model, tmp_path):
    with_twins(model)
    table = tmp_path / "requests.csv"
    table.write_text("request,unit\n1,Anna\n2,Bobb\n")
    words = ["forget", model, "--csv", table, "--ignore-missing"]
    certificates = ["--certificate", tmp_path / "{request}.json"]
    previewed = munkey(*words, "--dry-run")
    assert previewed.code == FOUND_NOTHING
    assert "request 2: found nothing now; would delete nothing" in previewed.out
    for expected in ("request 1: forgot 2 samples", "request 1: carried out on"):
        ended = munkey(*words, *certificates)
        assert ended.code == FOUND_NOTHING and expected in ended.out
        assert "request 2: found nothing now; deleted nothing" in ended.out
        assert "not in the memory" in ended.out and "unit Bobb (request 2)" in ended.out
        assert ended.out.count("carried out") == expected.count("carried out")
    assert [one["request"] for one in munkey("log", model, "--json").json["log"]] == ["1"]
    assert (tmp_path / "1.json").exists() and not (tmp_path / "2.json").exists()
    assert [one["found_nothing"] for one in munkey(*words, "--json").json["requests"]] == [
        False,
        True,
    ]
    table.write_text("request,unit\n1,Anna\n2,Bob\n")  # corrected, and under the same number
    add_like(model, [300], [10], units=["Bob"])
    ended = munkey(*words)
    assert ended.code == 0 and "request 2: forgot 1 sample" in ended.out


def test_a_memory_that_recorded_a_request_without_samples_says_that_it_found_nothing(
    munkey, model, tmp_path
):
    with Predictor.load(model) as predictor:
        when = predictor._file.delete([], request="2").when.isoformat()
    for words in (["--dry-run"], []):
        ended = munkey("forget", model, "--unit", "Bobb", "--request", "2", *words)
        assert (
            ended.code == FOUND_NOTHING
            and f"request 2: found nothing on {when}; deleted nothing" in ended.out
        )
    ended = munkey("forget", model, "--ids", "10", "--request", "2")
    assert (
        ended.code == 2
        and "request '2' found nothing on" in ended.err
        and "another number" in ended.err
    )
    ended = munkey("certificate", model, tmp_path / "made.json", "--request", "2")
    assert ended.code == 2 and not (tmp_path / "made.json").exists()


def test_a_request_whose_samples_went_with_another_one_of_its_table_is_recorded(
    munkey, model, tmp_path
):
    (tmp_path / "requests.csv").write_text("request,id\n1,10\n2,10\n")
    for expected in ("now", "on 20"):  # once more: no name is refused as unknown
        ended = munkey("forget", model, "--csv", tmp_path / "requests.csv")
        assert ended.code == FOUND_NOTHING and f"request 2: found nothing {expected}" in ended.out
    assert [one["deleted"] for one in munkey("log", model, "--json").json["log"]] == [1, 0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            REQUESTS + "2026-4,99,,,\n2026-4,99,,,\n",
            "has these names: 99 (request 2026-4). Nothing was deleted\n",
        ),
        (REQUESTS + "2026-4,18,pets/20.png,,\n", "18 and pets/20.png"),  # not the same sample
        (REQUESTS + "2026-4,18\n", "line 6: 2 cells, but the header has 5"),
        (REQUESTS + ",18,,,\n", "line 6: no request number"),
        (REQUESTS + "2026-4,,,,\n", "line 6: no sample is named\n"),
        (REQUESTS + '2026-4,"18\n', "line 6: unexpected end of data"),
        (REQUESTS + "2026-4,x,,,\n", "line 6: 'x' is not an id"),
        ("id,person\n10,Anna\n", "and nothing else; not 'id', 'person'"),
        ("id,class,label\n10,cat,cat\n", "each at most once"),
        ('id,"class\n10,cat\n', "line 2: unexpected end of data"),
        ("id,unit\n,NA\n", "line 2: no sample is named"),
        ("id,unit\n , \n10,\n  ,p9\n", "p9"),  # a blank cell is an empty one
        (
            "class,unit\ncat,NA\n",
            "line 2: 'NA' names no unit; leave the cell empty to name the whole class",
        ),
        ("", "not an empty file"),
    ],
)
def test_a_csv_that_makes_no_sense_is_refused_as_a_whole(content, said, munkey, model, tmp_path):
    with_twins(model)
    (tmp_path / "requests.csv").write_text(content)
    ended = munkey("forget", model, "--csv", tmp_path / "requests.csv")
    assert ended.code == 2 and said in ended.err and left(model) == [*IDS.tolist(), 200, 201]


def test_a_file_of_ids_that_cannot_be_read_is_refused(munkey, model, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    for name, said in (
        ("missing", "No such file"),
        ("binary", "is not text in UTF-8"),
        (".", "is a folder"),
    ):
        ended = munkey("forget", model, "--ids-file", tmp_path / name)
        assert ended.code == 2 and said in ended.err and str(tmp_path / name) in ended.err


@pytest.mark.parametrize(("content", "code"), [(b"10\n12\n", 0), (b"\xff\x00", 2)])
def test_ids_are_read_from_standard_input(content, code, munkey, model, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    ended = munkey("forget", model, "--ids-file", "-")
    assert ended.code == code and left(model) == without(*([] if code else [10, 12]))
    assert not code or "munkey: standard input: is not text in UTF-8" in ended.err


def test_a_certificate_holds_the_deletion_and_not_the_ids(munkey, model, tmp_path):
    ended = munkey(
        "forget", model, "--ids", "10,12", "--certificate", tmp_path / "receipt.json", "--json"
    )
    made = certificate.read_certificate(tmp_path / "receipt.json")
    assert ended.code == 0 and (made.rows, made.ids) == (2, None) and made.purged_at
    assert made.live == 22 and made.head == ended.json["head"]
    assert made.ids_sha256 == certificate.hash_ids([10, 12], bytes.fromhex(ended.json["salt"]))
    assert (
        ended.json["salt"]
        not in (tmp_path / "receipt.json").read_text() + (tmp_path / "receipt.html").read_text()
    )
    munkey(
        "forget", model, "--ids", "14,16", "--certificate", tmp_path / "traces.json", "--list-ids"
    )
    assert certificate.read_certificate(tmp_path / "traces.json").ids == (14, 16)


def test_it_says_why_there_is_no_certificate(munkey, model, tmp_path):
    receipt = tmp_path / "receipt.json"
    for more in ([], ["--dry-run"]):
        ended = munkey(
            "forget", model, "--ids", "11", "--ignore-missing", "--certificate", receipt, *more
        )
        assert (
            ended.code == FOUND_NOTHING
            and "certificate: none, because there is nothing to delete" in ended.out
        )
    planned = munkey("forget", model, "--ids", "10", "--certificate", receipt, "--dry-run")
    assert planned.code == 0 and f"certificate: would be written to {receipt}" in planned.out
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
def test_a_certificate_is_never_overwritten_and_nothing_is_deleted_then(
    words, munkey, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    munkey("forget", model, "--ids", "10", "--certificate", "receipt.json")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.*")}
    ended = munkey(*[model if word == "MODEL" else word for word in words])
    assert ended.code == 2 and ended.err.count("\n") == 1 and left(model) == without(10)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.*")} == before


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("prevented", [None, "a reader", "a full disk"])
def test_a_purge_that_was_prevented_is_said_and_is_due(
    prevented, munkey, model, tmp_path, monkeypatch
):
    if prevented == "a reader":  # for longer than the purge waits
        monkeypatch.setattr(Database, "empty_log", lambda _: False)
    if prevented == "a full disk":
        monkeypatch.setattr(Database, "vacuum", full)
    ended = munkey(
        "forget",
        model,
        "--files",
        "pets/10.png",
        "--certificate",
        tmp_path / "receipt.json",
        "--wait",
        "0.1",
        "--json",
    )
    assert ended.code == (FAILED if prevented else 0)
    assert ended.json["deleted"] == 1 and ended.json["purged"] is (prevented is None)
    made = certificate.read_certificate(tmp_path / "receipt.json")
    assert (made.purged_at is None) == ("bytes of the samples may be left in it" in ended.err)
    assert (made.purged_at is None) is (prevented is not None)
    assert (munkey("inspect", model, "--json").json["purged"] == "due") is (prevented is not None)


def test_a_deletion_beside_files_that_are_not_the_models_fails_as_a_purge_does(munkey, model):
    foreign = model / "memory.db.bak"
    foreign.write_bytes(b"keys")
    ended = munkey("forget", model, "--ids", "10", "--json")
    assert ended.code == munkey("purge", model).code == FAILED
    assert ended.json["deleted"] == 1 and foreign.name in ended.json["unpurged"]
    assert foreign.name in ended.err and left(model) == without(10)
    assert munkey("forget", model, "--ids", "12", "--no-purge").code == 0
    assert munkey("forget", model, "--ids", "14", "--dry-run").code == 0
    foreign.unlink()
    assert munkey("forget", model, "--ids", "14").code == 0


@pytest.mark.parametrize("fails", ["certificate", "close", "standard output"])
def test_what_was_committed_is_said_whatever_fails_afterwards(
    fails, munkey, model, tmp_path, monkeypatch
):
    """As on a disk that is full."""
    receipt = tmp_path / "receipt.json"
    with monkeypatch.context() as patch:
        if fails == "standard output":
            patch.setattr(sys, "stdout", open("/dev/full", "w"))  # noqa: PTH123, SIM115
        else:
            place = (
                (certificate, "write_new_file") if fails == "certificate" else (MemoryFile, fails)
            )
            patch.setattr(*place, full)
        ended = munkey(
            "forget", model, "--ids", "10,12", "--request", "R", "--certificate", receipt, "--json"
        )
    gc.collect()  # an unclosed memory
    [entry] = munkey("log", model, "--json").json["log"]
    assert ended.code == 4 and left(model) == without(10, 12)
    assert (
        "numbers 1 to 2 in the chain\n" in ended.err
        and f"\nhead of the chain: {entry['head']}\n" in ended.err
    )
    [salt] = re.findall("salt of its ids, not stored in any file: ([0-9a-f]{32})", ended.err)
    if fails != "standard output":
        [said] = ended.json["deletions"]
        assert (said["head"], said["first"], said["last"], said["salt"]) == (
            entry["head"],
            1,
            2,
            salt,
        )


def test_ids_and_salt_can_be_put_into_a_later_certificate(munkey, model, tmp_path):
    munkey("forget", model, "--ids", "10,12", "--request", "R")
    munkey("forget", model, "--ids", "16")
    later, salt = tmp_path / "later.json", ["--salt", "ab" * 16]
    for ids in ("10", "10,14", "10,12,18"):
        refused = munkey("certificate", model, later, "--request", "R", "--ids", ids, *salt)
        assert refused.code == 2 and "but the deletion has 2 samples" in refused.err
    assert munkey("certificate", model, later, "--request", "R", "--ids", "10,12", *salt).code == 0
    assert munkey("certificate", model, later, "--check", "--ids", "12,10", *salt).code == 0
    assert any(
        "were supplied afterwards" in line
        for line in certificate.read_certificate(later).not_claimed
    )
    assert munkey("certificate", model, tmp_path / "none.json", "--request", "S").code == 2


def test_a_salt_can_be_kept_in_a_file_that_only_its_owner_reads(munkey, model, tmp_path):
    receipt, salt = tmp_path / "receipt.json", tmp_path / "secret" / "salt"
    ended = munkey(
        "forget", model, "--ids", "10", "--certificate", receipt, "--salt-file", salt, "--json"
    )
    assert ended.code == 0 and "salt" not in ended.json and salt.stat().st_mode & 0o777 == 0o600
    text = salt.read_text().strip()
    assert (
        text not in ended.out
        and certificate.hash_ids([10], bytes.fromhex(text)) in receipt.read_text()
    )
    assert (
        munkey("certificate", model, receipt, "--check", "--ids", "10", "--salt-file", salt).code
        == 0
    )
    again = munkey(
        "forget", model, "--ids", "12", "--certificate", tmp_path / "2.json", "--salt-file", salt
    )
    assert again.code == 2 and "needs its own salt" in again.err and left(model) == without(10)


def test_ctrl_c_says_what_is_done_and_the_certificate_of_it_can_be_made_up_for(
    munkey, model, tmp_path, monkeypatch
):
    (tmp_path / "requests.csv").write_text("request, id\nA , 10\nB,12\n")
    words = [
        "forget",
        model,
        "--csv",
        tmp_path / "requests.csv",
        "--certificate",
        tmp_path / "made-{request}.json",
    ]
    delete = Change.delete

    def interrupted(change, rows, *, request, block_return):
        if request == "B":
            raise KeyboardInterrupt
        return delete(change, rows, request=request, block_return=block_return)

    with monkeypatch.context() as patch:
        patch.setattr(Change, "delete", interrupted)
        ended = munkey(*words)
    assert (
        ended.code == 130
        and "interrupted. However, the following is already done" in ended.err
        and "request A: forgot 1" in ended.err
    )
    again = munkey(*words)
    made = tmp_path / "made-A.json"
    assert (
        f"to write it, run `munkey certificate {model} {made} --request A`" in again.out
        and left(model) == without(10, 12)
    )
    assert munkey(*words, "--json").json["requests"][0]["certificate"] is None
    assert munkey("certificate", model, made, "--request", "A").code == 0
    assert munkey(*words, "--json").json["requests"][0]["certificate"] == str(made)


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
    assert left(model) == without(10, 12)


@pytest.mark.parametrize(
    ("option", "said"), [("--ids-file", "no ids; write"), ("--files-from", "name what")]
)
def test_a_list_with_a_header_alone_names_nothing(option, said, munkey, model, tmp_path):
    """The failure: the header itself was taken for an id."""
    (tmp_path / "list.csv").write_text(f"{'id' if option == '--ids-file' else 'file'}\n")
    ended = munkey("forget", model, option, tmp_path / "list.csv")
    assert ended.code == 2 and said in ended.err and left(model) == IDS.tolist()


def test_a_mistyped_name_is_named_also_where_its_request_was_carried_out(munkey, model, tmp_path):
    """The failure: at the second run, only "carried out" was left of a request with one good name."""
    add_like(model, [200, 201], [10, 12], units=["Cy", "Ida"])
    (tmp_path / "requests.csv").write_text("request,unit\n13,Cy\n13,Idda\n")
    words = ("forget", model, "--csv", tmp_path / "requests.csv", "--ignore-missing")
    for said in ("forgot 1 sample", "carried out on"):
        ended = munkey(*words)
        assert ended.code == 0 and said in ended.out and "for 'Idda': 'Ida'." in ended.out
    assert left(model) == [*IDS.tolist(), 201]
    (tmp_path / "requests.csv").write_text("request,unit\n13,Cy\n13,Ida\n")
    ended = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--ignore-missing")
    assert ended.code == 2 and "Nothing was changed, for other requests" in ended.err


@pytest.mark.parametrize("content", ["request,unit\n", "\ufeffrequest;unit\r\n;\r\n"])
def test_a_file_without_requests_says_so_and_changes_nothing(content, munkey, model, tmp_path):
    (tmp_path / "requests.csv").write_text(content)
    ended = munkey("forget", model, "--csv", tmp_path / "requests.csv")
    assert (ended.code, ended.out) == (
        0,
        f"{tmp_path}/requests.csv: no requests, so nothing was changed\n",
    )
    assert left(model) == IDS.tolist() and munkey("log", model, "--json").json["log"] == []


def test_requests_as_a_spreadsheet_writes_them_are_carried_out(munkey, model, tmp_path):
    """Semicolons, a header with capitals, an index column, an empty line at the end, and 7.0 for unit 7."""
    add_like(model, [200, 201], [10, 12], units=["7", "NA"])
    (tmp_path / "requests.csv").write_bytes(
        b"\xef\xbb\xbf;Request;Unit;Id\r\n0;1;7.0;\r\n1;2;NA;10\r\n;;;\r\n"
    )
    ended = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--json").json["requests"]
    assert [(one["request"], one["deleted"]) for one in ended] == [("1", 1), ("2", 1)]
    assert left(model) == [*without(10), 201]


def test_requests_in_another_encoding_are_refused_with_what_to_do(munkey, model, tmp_path):
    (tmp_path / "requests.csv").write_bytes("request,unit\n1,Zoë\n".encode("utf-16"))
    ended = munkey("forget", model, "--csv", tmp_path / "requests.csv")
    assert ended.code == 2 and "UTF-16" in ended.err and "Save it as 'CSV UTF-8'" in ended.err


def test_names_keep_their_blanks_and_stay_on_one_line(munkey, model, tmp_path):
    add_like(model, [200, 201], [10, 12], units=[" U1\n", "U1"])
    listed = munkey("list", model, "--ids", "200")
    assert (
        listed.out.splitlines()[1].split()[:3] == ["200", "cat", "U1\\n"]
        and len(listed.out.splitlines()) == 3
    )
    (tmp_path / "requests.csv").write_text('request,unit\nR," U1\n"\n')
    assert munkey("forget", model, "--csv", tmp_path / "requests.csv", "--block-return").code == 0
    assert (
        left(model) == [*IDS.tolist(), 201]
        and munkey("inspect", model, "--json").json["blocked pictures"] == 1
    )
    found = munkey("forget", model, "--ids", "200", "--ignore-missing", "--request", "1\n2")
    assert "request 1\\n2: found nothing now; deleted nothing" in found.out
    assert "none of the samples is in the memory" in found.out


def test_what_standard_output_cannot_encode_is_escaped(munkey, model, monkeypatch):
    munkey("forget", model, "--ids", "10", "--request", "é")
    for words in ([], ["--json"]):
        with monkeypatch.context() as patch:
            patch.setattr(
                sys, "stdout", stdout := io.TextIOWrapper(written := io.BytesIO(), "ascii")
            )
            assert munkey("log", model, *words).code == 0
            stdout.flush()
        assert rb"\xe9" in written.getvalue() or rb"\u00e9" in written.getvalue()


def holding(folder, name):
    """The files below a folder that hold a name, in any byte."""
    return [file for file in folder.rglob("*") if file.is_file() and name in file.read_bytes()]


def test_no_byte_is_left_once_it_ends_unless_the_purge_is_put_off(munkey, model):
    add_like(model, [200, 201], [10, 12], ["pets/A-200.png", "pets/A-201.png"], ["Zoe", "Kim"])
    key = numbers_of_key(model, 14)
    assert holding(model, b"pets/A-200.png") and holding(model, b"Kim") and holding(model, key)
    put_off = munkey("forget", model, "--ids", "200", "--no-purge", "--json")
    assert put_off.code == 0 and put_off.json["purged"] is False
    assert munkey("inspect", model, "--json").json["purged"] == "due"
    ended = munkey("forget", model, "--unit", "Kim", "--ids", "14", "--json")
    assert ended.code == 0 and ended.json["purged"] is True
    for name in (b"pets/A-200.png", b"pets/A-201.png", b"Zoe", b"Kim", key):
        assert not holding(model, name)
    assert munkey("inspect", model, "--json").json["purged"].startswith("20")


def numbers_of_key(model, one):
    """Bytes in the middle of the key of a sample, which no other key has. SQLite may split a whole key."""
    with Predictor.load(model) as predictor:
        memory = predictor._file.snapshot().memory
        [row] = memory.find_rows(np.array([one]))
        key = memory.keys[row]
        start = int(np.flatnonzero(key)[8])
        return key[start : start + 16].tobytes()


def test_a_change_waits_for_another_one(munkey, model):
    begun = threading.Event()

    def change() -> None:
        with Predictor.load(model) as predictor, predictor._file.hold_off_changes():
            begun.set()
            time.sleep(0.2)

    changing = threading.Thread(target=change)
    changing.start()
    assert begun.wait(60)
    assert munkey("forget", model, "--ids", "10", "--wait", "20").code == 0
    changing.join()
    assert left(model) == without(10)


def test_a_memory_that_stays_busy_is_locked_and_nothing_is_changed(munkey, model):
    with Predictor.load(model) as predictor, predictor._file.hold_off_changes():
        for words in (["forget", model, "--ids", "10"], ["purge", model]):
            ended = munkey(*words, "--wait", "0.1")
            assert ended.code == 3 and "busy by another process for more than 0.1 s" in ended.err
            assert "nothing was changed, try again" in ended.err
        assert munkey("forget", model, "--ids", "10", "--dry-run").code == 0
        assert munkey("list", model).code == munkey("verify", model).code == 0
    assert left(model) == IDS.tolist() and munkey("log", model, "--json").json["log"] == []


def test_two_processes_that_forget_at_the_same_time_both_succeed(model):
    command = [sys.executable, "-m", "munkey.cli", "forget", str(model), "--json", "--ids"]
    running = [
        subprocess.Popen([*command, ids], stdout=subprocess.PIPE, text=True)
        for ids in ("10,12", "14,16")
    ]
    ended = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert sorted(one["first"] for one in ended) == [1, 3]
    assert left(model) == without(10, 12, 14, 16)
    with Predictor.load(model) as predictor:
        assert predictor.verify().sound and not predictor.is_purge_due


def test_an_open_model_answers_without_what_another_process_forgot(munkey, model, tmp_path):
    picture = picture_in(tmp_path)
    with Predictor.load(model, device="cpu") as predictor:
        nearest = int(predictor.predict(picture).neighbors.ids[0, 0])
        assert munkey("forget", model, "--ids", nearest).code == 0
        assert nearest not in predictor.predict(picture).neighbors.ids
        assert predictor.ids.tolist() == without(nearest)


def with_units(model, units):
    ids = range(200, 200 + len(units))
    add_like(model, list(ids), IDS[: len(units)], units=units)


@pytest.mark.parametrize(
    ("held", "typed"),
    [
        ("Zoe\u0308", "Zo\u00eb"),  # of an older memory, from a Mac
        ("Zo\u00eb", "Zoe\u0308"),
        ("Zo\u00eb", " Zo\u00eb "),
        ("Zoe\u0308 ", "Zo\u00eb"),
        ("7", "7.0"),
        ("7.0", "7"),
    ],
)
def test_units_are_found_as_people_type_them(held, typed, munkey, model, tmp_path):
    with_units(model, [held])
    assert [
        one["id"] for one in munkey("list", model, "--unit", typed, "--json").json["samples"]
    ] == [200]
    assert munkey("forget", model, "--unit", typed, "--dry-run", "--json").json["would_delete"] == [
        200
    ]
    (tmp_path / "requests.csv").write_text(f"request,class,unit\n1,cat,{typed}\n2,,{typed}\n")
    ended = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--dry-run", "--json")
    assert ended.json["requests"][0]["would_delete"] == [200]


def test_a_unit_that_is_called_exactly_so_comes_first(munkey, model):
    with_units(model, ["7", "7.0"])
    for typed, expected in (("7", [200]), ("7.0", [201]), (" 7", [200, 201])):
        assert (
            munkey("forget", model, "--unit", typed, "--dry-run", "--json").json["would_delete"]
            == expected
        )


@pytest.mark.parametrize("typed", ["anna k.", "AnnaK.", "Anna K", "Ana K.", "Anan K."])
@pytest.mark.parametrize("command", ["list", "forget"])
def test_near_names_are_offered_in_quotes(typed, command, munkey, model, tmp_path):
    with_units(model, ["Anna K.", "Bob"])
    ended = munkey(command, model, "--unit", typed)
    assert ended.code == 2 and f"unit {typed}. " in ended.err
    assert f"Similar unit names for '{typed}': 'Anna K.'." in ended.err and "Bob" not in ended.err
    assert left(model) == [*IDS.tolist(), 200, 201]
    (tmp_path / "requests.csv").write_text(f"request,class,unit\n1,cat,{typed}\n")
    ended = munkey("forget", model, "--csv", tmp_path / "requests.csv", "--ignore-missing")
    assert ended.code == FOUND_NOTHING and f"for '{typed}': 'Anna K.'" in ended.out


def test_a_class_is_found_as_people_type_it_or_named(munkey, model):
    expected = munkey("list", model, "--class", "cat", "--json").json
    assert munkey("list", model, "--class", " cat ", "--json").json == expected
    for command in ("list", "forget"):
        ended = munkey(command, model, "--class", "Cat")
        assert (
            ended.code == 2
            and "'Cat' is not the name of a class of this model; similar: 'cat';" in ended.err
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--unit", "Nobody"], "unit Nobody"),
        (["--files", "pets/10.png", "pets/999.png"], "pets/999.png"),
        (["--files", "nowhere/*.png"], "nowhere/*.png"),
        (["--ids", "10,999"], "999"),
    ],
)
def test_a_list_of_a_name_that_nothing_has_is_refused(words, said, munkey, model):
    ended = munkey("list", model, *words)
    assert (ended.code, ended.out) == (2, "")
    assert f"has these names: {said}" in ended.err


def test_the_samples_without_a_unit_can_be_listed(munkey, model):
    with_units(model, ["Anna K.", None])
    listed = munkey("list", model, "--no-unit", "--json").json["samples"]
    assert [one["id"] for one in listed] == [*IDS.tolist(), 201]
    words = ["--no-unit", "--unit", "Anna K.", "--ids", "200,201"]
    listed = munkey("list", model, *words, "--json").json["samples"]
    assert [one["id"] for one in listed] == [200, 201]


def with_files(model, files, first=200):
    """Add a sample from each file, with ids from `first` on."""
    ids = range(first, first + len(files))
    add_like(model, list(ids), [10] * len(files), files)


@pytest.mark.parametrize("by", ["files", "csv", "request"])
def test_a_name_with_brackets_never_takes_somebody_elses_picture(by, munkey, model, tmp_path):
    """The failure: once IMG[1].png was gone, the same command deleted IMG1.png."""
    with_files(model, ["pets/IMG[1].png", "pets/IMG1.png"])
    (tmp_path / "requests.csv").write_text("file\npets/IMG[1].png\n")
    words = {
        "files": ["--files", "pets/IMG[1].png"],
        "csv": ["--csv", tmp_path / "requests.csv"],
        "request": ["--files", "pets/IMG[1].png", "--request", "7"],
    }[by]
    first = munkey("forget", model, *words, "--json")
    outcome = first.json["requests"][0] if by == "csv" else first.json
    assert (outcome["deleted"], outcome["patterns"]) == (1, [])
    again = munkey("forget", model, *words)
    assert again.code == (0 if by == "request" else 2)
    other = munkey("forget", model, *words[:2], "--ignore-missing")
    assert other.code == FOUND_NOTHING
    assert left(model) == [*IDS.tolist(), 201]


def test_a_pattern_is_asked_for_and_the_receipt_says_so(munkey, model, tmp_path):
    with_files(model, ["pets/IMG[1].png", "pets/IMG1.png", "pets/[x]/2.png"])
    refused = munkey("forget", model, "--files", "pets/IMG*")
    assert refused.code == 2 and "for a pattern, write glob:PATTERN" in refused.err
    (tmp_path / "requests.csv").write_text("request,file\n1,glob:pets/IMG*\n2,pets/[x]\n")
    words = ("forget", model, "--csv", tmp_path / "requests.csv")
    planned = munkey(*words, "--dry-run", "--json").json["requests"]
    assert [one["would_delete"] for one in planned] == [[200, 201], [202]]
    assert [one["patterns"] for one in planned] == [["glob:pets/IMG*"], []]
    ended = munkey("forget", model, "--glob", "pets/IMG*", "--files", "pets/[x]/2.png")
    assert ended.out.startswith("forgot 3 samples, 24 left")
    assert "\ngiven as patterns: glob:pets/IMG*\n" in ended.out
    expanded = munkey("forget", model, "--glob", "pets/10.png", "pets/12.png")
    assert expanded.code == 2 and "Put the pattern after --glob in quotes" in expanded.err


def test_a_request_whose_names_match_others_now_names_them_and_advises_ids(munkey, model):
    """The failure: the message advised another number, and that deleted somebody else's picture."""
    with_files(model, ["pets/IMG1.png", "pets/IMG2.png"])
    words = ("forget", model, "--glob", "pets/IMG*", "--request", "7")
    assert munkey(*words).code == 0
    with_files(model, ["pets/IMG3.png"], first=300)
    refused = munkey(*words)
    assert refused.code == 2 and "perhaps of somebody else: ids 300." in refused.err
    assert "send their ids with another number" in refused.err


def test_a_repeated_request_for_files_gives_no_hint_about_names(munkey, model, tmp_path):
    (tmp_path / "requests.csv").write_text("request,file\n1,pets/10.png\n")
    assert munkey("forget", model, "--csv", tmp_path / "requests.csv").code == 0
    again = munkey("forget", model, "--csv", tmp_path / "requests.csv")
    assert again.code == 0 and "carried out on" in again.out
    assert "imilar" not in again.out and "Name a source file" not in again.out


def test_a_spreadsheet_is_told_to_be_saved_as_csv(munkey, model, tmp_path):
    (tmp_path / "requests.xlsx").write_bytes(b"PK\x03\x04" + bytes(60))
    ended = munkey("forget", model, "--csv", tmp_path / "requests.xlsx")
    assert ended.code == 2 and "save it as 'CSV UTF-8'" in ended.err


def test_files_are_found_as_people_type_them(munkey, model):
    add_like(model, [200], [10], ["pets/Zoe\u0308/1.png"])
    for typed in (
        "pets/Zo\u00eb/1.png",
        " pets/Zo\u00eb/1.png ",
        "pets/Zo\u00eb",
        "glob:pets/Zo\u00eb/*.png",
    ):
        assert munkey("forget", model, "--files", typed, "--dry-run", "--json").json[
            "would_delete"
        ] == [200], typed
    ended = munkey("forget", model, "--files", "Pets/10.png")
    assert (
        ended.code == 2
        and "for 'Pets/10.png': 'pets/10.png'. Name a source file by the path that" in ended.err
    )

"""A deletion's certificate: its fields, that every change of it is found, that a restored backup contradicts it."""

import hashlib
import json
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from munkey import ForgettingNCM, Predictor
from munkey.deploy import certificate
from munkey.deploy.certificate import Certificate, CertificateError
from munkey.deploy.model.manifest import compute_digest
from munkey.memory.memory_file import MemoryFile
from tests.memory.inputs import create, raw

IDS = raw(12)[0]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[MemoryFile]:
    with create(tmp_path / "memory.db") as created:
        yield created


def certify_deletion(file: MemoryFile, ids: np.ndarray) -> Certificate:
    """The certificate of a deletion of these rows."""
    receipt = file.delete(ids)
    return certificate.certify(receipt, live=len(file.snapshot().memory))


def test_a_certificate_has_rows_numbers_and_heads_of_its_deletion(file):
    file.delete(IDS[:1])
    before = file.head
    issued = certify_deletion(file, IDS[[3, 5]])
    assert issued.rows == 2
    assert issued.sequences == range(2, 4)
    assert issued.memory == file.read_state().store.hex()
    assert issued.before == before
    assert issued.head == file.head
    assert issued.live == 9
    assert certificate.find_faults(issued, file) == []


def test_an_earlier_deletion_is_certified_from_the_chain(file):
    issued = [certify_deletion(file, IDS[part]) for part in ([0], [1, 2, 3], [4])]
    for sequence, index in ((1, 0), (2, 1), (3, 1), (4, 1), (5, 2), (None, 2)):
        receipt = certificate.find_receipt(file.log(), sequence)
        again = certificate.certify(receipt)
        for name in ("first", "rows", "deleted", "before", "head"):
            assert getattr(again, name) == getattr(issued[index], name)
    for sequence in (0, -1, 6):
        with pytest.raises(CertificateError, match="5 deleted samples"):
            certificate.find_receipt(file.log(), sequence)


def test_an_empty_deletion_gets_no_certificate(file):
    with pytest.raises(CertificateError, match="nothing was deleted"):
        certificate.certify(file.delete(IDS[:0]))
    with pytest.raises(CertificateError, match="0 deleted samples"):
        certificate.find_receipt(file.log())


def test_a_certificate_lists_ids_only_if_requested(file, tmp_path):
    issued = certificate.add_ids(certify_deletion(file, IDS[[7, 2]]), IDS[[7, 2]].tolist(), b"salt")
    certificate.write_certificate(issued, tmp_path / "certificate.json")
    for name in ("certificate.json", "certificate.html"):
        text = (tmp_path / name).read_text()
        assert str(IDS[7]) not in text
        assert str(IDS[2]) not in text
        assert b"salt".hex() not in text
    listed = certificate.add_ids(issued, IDS[[7, 2]].tolist(), b"salt", list_ids=True)
    assert listed.ids == tuple(sorted(IDS[[7, 2]].tolist()))
    assert "itself a trace" in listed.not_claimed[-1]
    assert listed.sha256 == compute_digest(listed) != issued.sha256


def test_the_salted_hash_of_ids_does_not_depend_on_their_order():
    content = b"salt" + (2).to_bytes(8, "little") + (258).to_bytes(8, "little")
    expected = hashlib.sha256(content).hexdigest()
    assert certificate.hash_ids([258, 2], b"salt") == expected
    assert certificate.hash_ids([2, 258, 2], b"salt") == expected
    assert certificate.hash_ids([258], b"salt") != expected
    assert certificate.hash_ids([258, 2], b"another") != expected


def test_the_hash_of_a_certificate_can_be_computed_without_munkey(file, tmp_path):
    certificate.write_certificate(certify_deletion(file, IDS[:1]), tmp_path / "certificate.json")
    value = json.loads((tmp_path / "certificate.json").read_text())
    digest = value.pop("sha256")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == digest


def test_a_file_that_was_changed_is_refused(file, tmp_path):
    path = tmp_path / "certificate.json"
    issued = certify_deletion(file, IDS[:2])
    certificate.write_certificate(issued, path)
    assert certificate.read_certificate(path) == issued
    path.write_text(path.read_text().replace('"rows": 2', '"rows": 3'))
    with pytest.raises(CertificateError, match="was changed"):
        certificate.read_certificate(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", "{", '{"kind": "something else"}', "\0\xff"])
def test_a_file_that_is_no_certificate_is_refused(content, tmp_path):
    (tmp_path / "certificate.json").write_text(content)
    with pytest.raises(CertificateError, match="not a certificate"):
        certificate.read_certificate(tmp_path / "certificate.json")
    with pytest.raises(CertificateError, match=r"No such file"):
        certificate.read_certificate(tmp_path / "missing.json")


def test_a_restored_backup_or_another_memory_contradicts_a_certificate(file, tmp_path):
    file.copy(tmp_path / "backup.db")
    issued = certify_deletion(file, IDS[:2])
    file.purge()
    assert certificate.find_faults(issued, file) == []
    with MemoryFile.open(tmp_path / "backup.db") as backup:
        (fault,) = certificate.find_faults(issued, backup)
        assert "this is an older copy" in fault
        backup.delete(IDS[3:5])  # the backup goes its own way
        (fault,) = certificate.find_faults(issued, backup)
        assert "another deletion in its place" in fault
    with create(tmp_path / "other.db") as other:
        other.delete(IDS[:1])
        (fault,) = certificate.find_faults(issued, other)
        assert issued.memory in fault
        assert other.read_state().store.hex() in fault


@pytest.mark.parametrize(
    ("false_fields", "message"),
    [
        ({"first": 2}, "another deletion in its place"),
        ({"first": 2, "rows": 3}, "another deletion in its place"),
        ({"deleted": "2020-01-01T00:00:00.000000+00:00"}, "another deletion in its place"),
        ({"before": "0" * 64}, "another deletion in its place"),
        ({"head": "0" * 64}, "another deletion in its place"),
        ({"rows": 1}, "another deletion in its place"),
        ({"rows": 5}, "this is an older copy"),
        ({"request": "another"}, "another deletion in its place"),
        ({"ids": (1, 2, 3)}, "it is for 2 rows, but lists 3 ids"),
        ({"ids": (1, 1)}, "it is for 2 rows, but lists 1 id"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_false_field_that_is_sealed_contradicts_the_memory(false_fields, message, file):
    file.delete(IDS[5:7])
    issued = certify_deletion(file, IDS[:2])
    forged = issued.model_copy(update=false_fields).seal()
    assert message in "; ".join(certificate.find_faults(forged, file))


def test_a_request_number_that_was_forged_in_the_log_is_found(file):
    """Certificate and log of requests say the same; the chain does not."""
    file.delete(IDS[:2], request="R-1")
    connection = sqlite3.connect(file.path, isolation_level=None)
    connection.execute("UPDATE deletions SET request = 'R-9'")
    connection.close()
    forged = certificate.certify(certificate.find_receipt(file.log()))
    assert forged.request == "R-9"
    [fault] = certificate.find_faults(forged, file)
    assert "log of requests" in fault
    assert "changed at deletion 1" in fault


def test_a_check_leaves_ids_unconfirmed_since_their_salt_is_chosen_by_the_writer(file):
    ids = IDS[:2].tolist()
    issued = certificate.add_ids(certify_deletion(file, IDS[:2]), ids, b"salt", list_ids=True)
    assert certificate.find_faults(issued, file, ids, b"salt") == []
    limits = certificate.describe_unconfirmed_fields(issued)
    assert {"ids", "ids_sha256", "live"} <= set(limits)


def test_a_forged_certificate_of_ids_that_the_memory_holds_or_of_another_number_is_found(file):
    """Sealed anew, with a salt of its own."""
    issued = certify_deletion(file, IDS[:2])
    forged = certificate.add_ids(issued, IDS[4:6].tolist(), b"another")
    [fault] = certificate.find_faults(forged, file, IDS[4:6].tolist(), b"another")
    assert fault.endswith(f"given ids: {IDS[4]}, {IDS[5]}")
    forged = certificate.add_ids(issued, [10**6], b"another")
    assert certificate.find_faults(forged, file, [10**6], b"another") == [
        "it is for 2 rows, not for 1 id"
    ]


def test_an_id_that_came_back_as_another_row_contradicts_no_certificate(file):
    issued = certificate.add_ids(certify_deletion(file, IDS[:2]), IDS[:2].tolist(), b"salt")
    _, keys, tokens = raw(12)
    file.add(IDS[:1], keys[:1], tokens[:1])
    assert certificate.find_faults(issued, file, IDS[:2].tolist(), b"salt") == []


def test_the_page_states_all_digests_and_limits_and_loads_nothing(file, tmp_path):
    issued = certificate.add_ids(certify_deletion(file, IDS[:2]), IDS[:2].tolist(), b"salt")
    page = certificate.write_certificate(issued, tmp_path / "certificate.json").read_text()
    words = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert "2 samples were deleted from the memory" in words
    assert "samples in the memory 12 10" in words
    assert "Anyone who has the ids and the salt can recompute it" in words
    for digest in (issued.before, issued.head, issued.memory, issued.sha256, issued.ids_sha256):
        assert digest in words
    assert all(" ".join(line.split()) in words.replace("&#39;", "'") for line in issued.not_claimed)
    assert not re.search(r"<script|<link|<img|https?://", page)
    assert "<script" not in certificate.render_page(
        issued.model_copy(update={"not_claimed": ("<script>alert(1)</script>",)})
    )
    for ids, start in ((None, "Instead, the certificate"), ((10,), "The certificate also")):
        named = issued.model_copy(update={"ids": ids, "ids_sha256": "0" * 64})
        page = " ".join(certificate.render_page(named).split())
        assert f"{start} contains a hash of the ids" in page


@pytest.mark.parametrize(
    ("purged_at", "message"),
    [
        (
            "2026-01-01T00:00:00.000000+00:00",
            "The memory was purged on 2026-01-01 00:00:00 UTC: since then, no byte of them",
        ),
        (None, "A purge was still due: bytes of them may have been left in unused parts"),
    ],
)
def test_the_page_claims_a_purge_only_after_one(purged_at, message, file):
    issued = certificate.certify(file.delete(IDS[:1]), purged_at=purged_at)
    assert message in " ".join(certificate.render_page(issued).split())


def test_a_purge_is_certified_only_of_deletions_before_it_and_of_a_folder_that_was_checked(
    tmp_path,
):
    rows = np.eye(6)
    ForgettingNCM().fit(rows, [0, 1] * 3).save(tmp_path / "model")
    with Predictor.load(tmp_path / "model") as model:
        model.forget([0])
        assert model.certificate().purged_at is None
        model.purge()
        purged_at = model.certificate().purged_at
        assert purged_at == model.purged_at
        assert purged_at > model.certificate().deleted
        model.forget([1])
        assert model.certificate(1).purged_at == purged_at
        assert model.certificate(2).purged_at is None
        (tmp_path / "model" / "copy.db").write_bytes((tmp_path / "model/memory.db").read_bytes())
        assert model.purge() == ("copy.db",)
        assert model.certificate(2).purged_at is None
        (tmp_path / "model" / "copy.db").unlink()
        assert model.certificate(2).purged_at == model.purged_at > purged_at


@pytest.mark.parametrize("existing_name", ["certificate.json", "certificate.html"])
def test_an_existing_file_is_not_overwritten(existing_name, file, tmp_path):
    (tmp_path / existing_name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(CertificateError, match=rf"{existing_name}: exists already"):
        certificate.write_certificate(
            certify_deletion(file, IDS[:1]), tmp_path / "certificate.json"
        )
    assert [path.name for path in tmp_path.glob("certificate*")] == [existing_name]


def test_a_certificate_that_cannot_be_written_leaves_no_page(file, tmp_path, monkeypatch):
    write_new_file = certificate.write_new_file

    def write_json_only(path, text):
        if path.suffix != ".json":
            raise OSError("full")
        write_new_file(path, text)

    monkeypatch.setattr(certificate, "write_new_file", write_json_only)
    with pytest.raises(OSError, match="full"):
        certificate.write_certificate(
            certify_deletion(file, IDS[:1]), tmp_path / "certificate.json"
        )
    assert not list(tmp_path.glob("certificate*"))


def test_a_file_is_whole_on_the_disk_before_it_has_a_name(tmp_path, monkeypatch):
    path = tmp_path / "salt.txt"
    synced = []

    def log_fsync(handle: int) -> None:
        synced.append((os.fstat(handle).st_size, path.exists()))

    monkeypatch.setattr(os, "fsync", log_fsync)
    certificate.write_new_file(path, "salt")
    assert synced == [(4, False)]
    assert path.read_text() == "salt"


def test_a_new_file_does_not_replace_another_of_its_name(tmp_path):
    (tmp_path / "salt.txt").write_text("another")
    with pytest.raises(FileExistsError, match=r"already exists.*salt\.txt"):
        certificate.write_new_file(tmp_path / "salt.txt", "salt")
    assert (tmp_path / "salt.txt").read_text() == "another"


@pytest.mark.parametrize("nameless", [True, False])
def test_a_process_killed_while_it_writes_a_certificate_leaves_no_trace_of_ids(
    nameless, file, tmp_path, monkeypatch
):
    """Where a file system has no nameless files, the next certificate of that name removes the rest."""
    issued = certificate.add_ids(
        certify_deletion(file, IDS[:1]), IDS[:1].tolist(), b"salt", list_ids=True
    )
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    child = os.fork()
    if child == 0:
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        certificate.write_certificate(issued, tmp_path / "out" / "certificate.json")
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert len(list((tmp_path / "out").iterdir())) == (not nameless)
    certificate.write_certificate(issued, tmp_path / "out" / "certificate.json")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "certificate.json",
        "certificate.html",
    }

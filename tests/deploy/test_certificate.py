"""A deletion's certificate: what it holds, that no change goes unseen, that a restored backup contradicts it."""

import hashlib
import json
import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from munkey.core.files import UnwritableFileError
from munkey.deploy import certificate
from munkey.deploy.certificate import Certificate, CertificateError
from munkey.deploy.model.manifest import compute_digest
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import create, raw
from tests.deploy.store.test_damage import sql

IDS = raw(12)[0]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    with create(tmp_path / "memory") as made:
        yield made


def deleted(store: Store, ids: np.ndarray) -> Certificate:
    receipt = store.delete(ids)
    return certificate.certify(store, receipt, live=int(store.view.live.sum()))


def test_it_holds_what_the_chain_holds(store):
    store.delete(IDS[:1])
    before, made = store.head, deleted(store, IDS[[3, 5]])
    assert (made.rows, made.sequences, made.memory) == (2, range(2, 4), store.state.store.hex())
    assert (made.before, made.head, made.live) == (before, store.head, 9)
    assert certificate.find_faults(made, store) == []


def test_zeros_are_claimed_only_once_they_are_on_the_disk(store):
    receipt = store.delete(IDS[:1])
    assert not certificate.certify(store, receipt).rows_zeroed
    store.purge()
    assert (
        certificate.certify(store, receipt).rows_zeroed
        and not certificate.certify(store, receipt).purged
    )


def test_an_earlier_deletion_is_certified_from_the_chain(store):
    made = [deleted(store, IDS[part]) for part in ([0], [1, 2, 3], [4])]
    for sequence, index in ((1, 0), (2, 1), (3, 1), (4, 1), (5, 2), (None, 2)):
        receipt = certificate.find_receipt(store, sequence)
        again = certificate.certify(store, receipt)
        for name in ("first", "rows", "deleted", "before", "head"):
            assert getattr(again, name) == getattr(made[index], name)
    for sequence in (0, -1, 6):
        with pytest.raises(
            CertificateError, match="the chain has 5 deleted samples, and none has the number"
        ):
            certificate.find_receipt(store, sequence)


def test_nothing_is_certified_where_nothing_was_deleted(store):
    with pytest.raises(CertificateError, match="nothing was deleted"):
        certificate.certify(store, store.delete(IDS[:0]))
    with pytest.raises(CertificateError, match="the chain has 0 deleted samples"):
        certificate.find_receipt(store)


def test_ids_stand_in_it_only_if_they_are_asked_for(store, tmp_path):
    made = certificate.add_ids(deleted(store, IDS[[7, 2]]), IDS[[7, 2]].tolist(), b"salt")
    certificate.write_certificate(made, tmp_path / "receipt.json")
    for file in ("receipt.json", "receipt.html"):
        text = (tmp_path / file).read_text()
        assert str(IDS[7]) not in text and str(IDS[2]) not in text and b"salt".hex() not in text
    listed = certificate.add_ids(made, IDS[[7, 2]].tolist(), b"salt", list_ids=True)
    assert (
        listed.ids == tuple(sorted(IDS[[7, 2]].tolist()))
        and "itself a trace" in listed.not_claimed[-1]
    )
    assert listed.sha256 == compute_digest(listed) != made.sha256


def test_who_holds_ids_and_salt_can_show_that_they_are_meant():
    expected = hashlib.sha256(
        b"salt" + (2).to_bytes(8, "little") + (258).to_bytes(8, "little")
    ).hexdigest()
    assert (
        certificate.hash_ids([258, 2], b"salt")
        == certificate.hash_ids([2, 258, 2], b"salt")
        == expected
    )
    assert (
        certificate.hash_ids([258], b"salt")
        != expected
        != certificate.hash_ids([258, 2], b"another")
    )


def test_its_hash_can_be_computed_without_munkey(store, tmp_path):
    certificate.write_certificate(deleted(store, IDS[:1]), tmp_path / "receipt.json")
    value = json.loads((tmp_path / "receipt.json").read_text())
    said = value.pop("sha256")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == said


def test_a_file_that_was_changed_is_refused(store, tmp_path):
    path = tmp_path / "receipt.json"
    made = deleted(store, IDS[:2])
    certificate.write_certificate(made, path)
    assert certificate.read_certificate(path) == made
    path.write_text(path.read_text().replace('"rows": 2', '"rows": 3'))
    with pytest.raises(CertificateError, match=r"receipt\.json: was changed after it was written"):
        certificate.read_certificate(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", "{", '{"kind": "something else"}', "\0\xff"])
def test_what_is_no_certificate_is_refused(content, tmp_path):
    (tmp_path / "receipt.json").write_text(content)
    with pytest.raises(
        CertificateError, match=r"receipt\.json: not a certificate \(its fields are not those that"
    ):
        certificate.read_certificate(tmp_path / "receipt.json")
    with pytest.raises(CertificateError, match=r"No such file"):
        certificate.read_certificate(tmp_path / "missing.json")


def test_a_restored_backup_or_another_memory_does_not_bear_it_out(store, tmp_path):
    store.close()
    shutil.copytree(tmp_path / "memory", tmp_path / "backup")
    with Store.open(tmp_path / "memory") as current:
        made = deleted(current, IDS[:2])
        current.compact()
        assert certificate.find_faults(made, current) == []
    with Store.open(tmp_path / "backup") as backup:
        (fault,) = certificate.find_faults(made, backup)
        assert (
            "ends with deleted sample 2, but the chain of this memory has only 0: this is an older copy"
            in fault
        )
        backup.delete(IDS[3:5])  # the backup goes its own way
        (fault,) = certificate.find_faults(made, backup)
        assert "another deletion in its place" in fault
    with create(tmp_path / "other") as other:
        other.delete(IDS[:1])
        (fault,) = certificate.find_faults(made, other)
        assert (
            fault
            == f"the certificate is for the memory {made.memory}, but this is {other.state.store.hex()}"
        )


@pytest.mark.parametrize(
    ("lie", "said"),
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
def test_a_resealed_lie_is_found_by_the_memory(lie, said, store):
    store.delete(IDS[5:7])
    made = deleted(store, IDS[:2])
    assert said in "; ".join(certificate.find_faults(made.model_copy(update=lie).seal(), store))


def test_a_request_number_that_was_forged_in_the_log_is_found(store, tmp_path):
    """Certificate and ledger say the same; the chain does not."""
    store.delete(IDS[:2], request="R-1")
    sql("UPDATE deletions SET request = 'R-9'")(tmp_path / "memory")
    forged = certificate.certify(store, certificate.find_receipt(store))
    assert forged.request == "R-9"
    [fault] = certificate.find_faults(forged, store)
    assert (
        "the log of requests, or the list of blocked contents, was changed at deletion 1" in fault
    )


def test_nothing_confirms_ids_since_who_writes_a_certificate_chooses_hash_and_salt(store):
    ids = IDS[:2].tolist()
    made = certificate.add_ids(deleted(store, IDS[:2]), ids, b"salt", list_ids=True)
    assert certificate.find_faults(made, store, ids, b"salt") == []
    said = certificate.describe_unconfirmed_fields(made)
    assert said["ids"] == "that the ids in it are those of the deletion"
    assert said["ids_sha256"] == "that the ids behind its salted hash are those of the deletion"
    assert said["live"] == "how many samples were left"


def test_a_forged_certificate_of_ids_that_the_memory_holds_or_of_another_number_is_found(store):
    """Sealed anew, with a salt of its own."""
    made = deleted(store, IDS[:2])
    forged = certificate.add_ids(made, IDS[4:6].tolist(), b"another")
    [fault] = certificate.find_faults(forged, store, IDS[4:6].tolist(), b"another")
    assert fault == f"the memory holds samples of the given ids: {IDS[4]}, {IDS[5]}"
    forged = certificate.add_ids(made, [10**6], b"another")
    assert certificate.find_faults(forged, store, [10**6], b"another") == [
        "it is for 2 rows, not for 1 id"
    ]


def test_an_id_that_came_back_as_another_row_contradicts_no_certificate(store):
    made = certificate.add_ids(deleted(store, IDS[:2]), IDS[:2].tolist(), b"salt")
    _, keys, tokens = raw(12)
    store.add(IDS[:1], keys[:1], tokens[:1])
    assert certificate.find_faults(made, store, IDS[:2].tolist(), b"salt") == []


def test_the_page_says_it_in_words_and_loads_nothing(store, tmp_path):
    made = certificate.add_ids(deleted(store, IDS[:2]), IDS[:2].tolist(), b"salt")
    page = certificate.write_certificate(made, tmp_path / "receipt.json").read_text()
    words = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    assert (
        "2 samples were deleted from the memory" in words and "samples in the memory 12 10" in words
    )
    assert "Anyone who has the ids and the salt can recompute it" in words
    for said in (made.before, made.head, made.memory, made.sha256, made.ids_sha256):
        assert said in words
    assert all(" ".join(line.split()) in words.replace("&#39;", "'") for line in made.not_claimed)
    assert not re.search(r"<script|<link|<img|https?://", page)
    assert "<script" not in certificate.render_page(
        made.model_copy(update={"not_claimed": ("<script>alert(1)</script>",)})
    )
    for ids, start in ((None, "Instead, the certificate"), ((10,), "The certificate also")):
        named = made.model_copy(update={"ids": ids, "ids_sha256": "0" * 64})
        page = " ".join(certificate.render_page(named).split())
        assert f"{start} contains a hash of the ids" in page


@pytest.mark.parametrize(
    ("purged", "said"),
    [
        (True, "No byte of them, or of the names"),
        (False, "The names of their source files and units may have"),
    ],
)
def test_the_page_claims_a_purge_only_after_one(purged, said, store):
    assert said in certificate.render_page(
        certificate.certify(store, store.delete(IDS[:1]), purged=purged)
    )


@pytest.mark.parametrize("there", ["receipt.json", "receipt.html"])
def test_a_file_that_is_there_is_not_overwritten(there, store, tmp_path):
    (tmp_path / there).symlink_to(tmp_path / "nowhere")
    with pytest.raises(
        CertificateError, match=rf"{there}: exists already, and certificates are never overwritten"
    ):
        certificate.write_certificate(deleted(store, IDS[:1]), tmp_path / "receipt.json")
    assert [path.name for path in tmp_path.glob("receipt*")] == [there]


def test_a_certificate_that_cannot_be_written_leaves_no_page(store, tmp_path, monkeypatch):
    whole = certificate.write_new_file
    monkeypatch.setattr(
        certificate,
        "write_new_file",
        lambda path, text: whole(path, text) if path.suffix == ".json" else 1 / 0,
    )
    with pytest.raises(ZeroDivisionError):
        certificate.write_certificate(deleted(store, IDS[:1]), tmp_path / "receipt.json")
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]


def test_a_file_is_whole_on_the_disk_before_it_has_a_name(tmp_path, monkeypatch):
    path, synced = tmp_path / "salt.txt", []
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append((os.fstat(handle).st_size, path.exists()))
    )
    certificate.write_new_file(path, "salt")
    assert synced == [(4, False)] and path.read_text() == "salt"


def test_a_file_that_appears_while_it_is_written_is_named_and_stays(tmp_path):
    (tmp_path / "salt.txt").write_text("another")
    with pytest.raises(
        UnwritableFileError, match=r"cannot be written \(File exists\): '.*salt\.txt'"
    ):
        certificate.write_new_file(tmp_path / "salt.txt", "salt")
    assert (tmp_path / "salt.txt").read_text() == "another"


@pytest.mark.parametrize("nameless", [True, False])
def test_a_certificate_that_is_killed_leaves_no_trace_of_ids(
    nameless, store, tmp_path, monkeypatch
):
    """Where a file system has no nameless files, the next certificate of that name removes what is left."""
    made = certificate.add_ids(deleted(store, IDS[:1]), IDS[:1].tolist(), b"salt", list_ids=True)
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    if not (child := os.fork()):
        os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        certificate.write_certificate(made, tmp_path / "out" / "receipt.json")
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert len(list((tmp_path / "out").iterdir())) == (not nameless)
    certificate.write_certificate(made, tmp_path / "out" / "receipt.json")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"receipt.json", "receipt.html"}

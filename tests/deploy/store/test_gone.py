"""After a purge, nothing of a deleted row is in any file."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from munkey.audits.attacks.storage import extract_traces as traces_of
from munkey.deploy.store import recovery
from munkey.deploy.store import store as module
from munkey.deploy.store.rows import compute_log_entry
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import create, raw


def traces(store: Store, rows: np.ndarray) -> dict[str, list[bytes]]:
    """The bytes by which rows are recognized."""
    view = store.view
    return {
        "keys": [traces_of(key)[0] for key in view.keys[rows]],
        "tokens": [traces_of(token)[0] for token in view.tokens[rows]],
        **{
            name: [np.array(one).tobytes() for one in view.records[name][rows]]
            for name in ("salt", "commitment", "id")
        },
    }


def found(folder: Path, searched: dict[str, list[bytes]]) -> dict[str, int]:
    """How many of them are in any file of the folder."""
    stored = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return {
        name: sum(any(one in file for file in stored) for one in each)
        for name, each in searched.items()
    }


@pytest.mark.parametrize("count", [3, 70], ids=["few", "many"])
@pytest.mark.parametrize("then", ["purge", "compact"])
@pytest.mark.parametrize("watched", [True, False], ids=["a reader is open", "no reader"])
def test_nothing_is_left_of_deleted_rows(then, watched, count, folder, monkeypatch):
    monkeypatch.setattr(module, "MAX_ERASED_AT_ONCE", 20)
    ids, keys, tokens = raw(120)
    with Store.create(folder, ids, keys, tokens) as store:
        reader = Store.open(folder) if watched else None
        gone, kept = np.arange(5, 5 + count), np.arange(80, 90)
        searched, control = traces(store, gone), traces(store, kept)
        assert set(found(folder, searched).values()) == {count}
        store.delete(ids[gone])
        assert any((folder / name).stat().st_size for name in ("store.db-wal", "store.db-shm"))
        getattr(store, then)()
        assert set(found(folder, searched).values()) == {0}
        assert set(found(folder, control).values()) == {10}
        assert (folder / "store.db-wal").stat().st_size == 0
        if reader is not None:
            assert np.count_nonzero(reader.view.live) == 120 - count
            reader.close()
        assert set(found(folder, searched).values()) == {0}


def test_few_deleted_rows_are_gone_even_before_a_purge_and_their_log_entries_are_there(folder):
    ids, keys, tokens = raw(20)
    with Store.create(folder, ids, keys, tokens) as store:
        searched = traces(store, np.arange(3))
        entries = [compute_log_entry(commitment) for commitment in searched["commitment"]]
        store.delete(ids[:3])
        assert set(found(folder, searched).values()) == {0}
        assert found(folder, {"log": entries}) == {"log": 3}


def test_a_reader_that_keeps_the_write_ahead_log_is_named_and_a_purge_works_later(
    folder, monkeypatch
):
    ids, keys, tokens = raw(20)
    with Store.create(folder, ids, keys, tokens) as store, Store.open(folder) as reader:
        store._ledger._connection.execute("PRAGMA busy_timeout=0")
        reading = reader._ledger._connection
        reading.execute("BEGIN")
        reading.execute("SELECT * FROM state").fetchall()
        store.delete(ids[:3])
        with pytest.raises(BlockingIOError, match="purge again"):
            store.purge()
        reading.execute("COMMIT")
        store.purge()
        assert store.verify().sound


def test_rows_of_an_older_copy_that_was_put_under_a_newer_ledger_are_erased(folder):
    ids, keys, tokens = raw(20)
    with Store.create(folder, ids, keys, tokens) as store:
        searched = traces(store, np.arange(5))
    shutil.copytree(folder / "generation-1", folder.parent / "older")
    with Store.open(folder, writer=True) as store:
        receipt = store.delete(ids[:5])
        store.purge()
        assert store.are_zero(receipt.sequences) and set(found(folder, searched).values()) == {0}
    shutil.rmtree(folder / "generation-1")
    shutil.copytree(folder.parent / "older", folder / "generation-1")
    with Store.open(folder, writer=True) as store:
        assert set(found(folder, searched).values()) == {5} and not store.are_zero(
            receipt.sequences
        )
        assert store.purge() == () and store.are_zero(receipt.sequences)
        assert set(found(folder, searched).values()) == {0} and store.verify().sound


def test_a_generation_that_comes_back_while_the_memory_is_open_goes_with_the_next_purge(folder):
    ids, keys, tokens = raw(20)
    with Store.create(folder, ids, keys, tokens) as store:
        searched = traces(store, np.arange(5))
        store.delete(ids[:5])
        shutil.copytree(folder / "generation-1", folder.parent / "older")
        (folder.parent / "older" / "keys").write_bytes(keys.tobytes())
        store.compact()
        shutil.copytree(folder.parent / "older", folder / "generation-1")
        assert found(folder, searched)["keys"] == 5
        assert store.purge() == () and set(found(folder, searched).values()) == {0}
        assert not (folder / "generation-1").exists()


def test_what_is_not_the_memorys_is_named_and_stays_and_bytes_behind_the_last_row_go(folder):
    create(folder).close()
    (folder / "generation-backup").mkdir()
    for place in ("notes.txt", "generation-backup/keys", "generation-1/mine"):
        (folder / place).write_text("x")
    with (folder / "generation-1" / "keys").open("ab") as keys:
        keys.write(bytes(36))
    named = ("generation-1/mine", "generation-backup", "notes.txt")
    with Store.open(folder) as reader:
        report = reader.verify()
        assert report.sound and report.foreign == (
            *named,
            "generation-1/keys, 36 bytes after its last row",
        )
        assert str(report).endswith(
            f"; not checked, since not part of it: {', '.join(report.foreign)}"
        )
    with Store.open(folder, writer=True) as store:
        with (folder / "generation-1" / "live").open("ab") as live:
            live.write(b"x")
        assert store.purge() == named and store.compact() == ("generation-1", *named[1:])
        assert (folder / "generation-1/mine").read_text() == "x"


def test_files_that_were_replaced_while_the_memory_was_open_are_not_called_purged(folder):
    with create(folder) as store:
        keys = folder / "generation-1" / "keys"
        content = keys.read_bytes()
        keys.unlink()
        keys.write_bytes(content)
        with pytest.raises(OSError, match="keys: was replaced while the memory was open"):
            store.purge()


def test_a_memory_that_is_compacted_while_it_is_searched_for_foreign_files_names_none(folder):
    with create(folder) as store:
        (folder / "generation-1" / "mine").write_text("x")
        state = store.state
        assert recovery.list_foreign_files(folder, state) == ("generation-1/mine",)
        (folder / "generation-1" / "mine").unlink()
        store.compact()
        (folder / "mine").write_text("x")
        assert recovery.list_foreign_files(folder, state) == ()

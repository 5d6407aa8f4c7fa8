"""After a purge, nothing of a deleted row is in any file."""

from pathlib import Path

import numpy as np
import pytest

from munkey.audits.attacks.storage import trace
from munkey.deploy.store import store as module
from munkey.deploy.store.rows import entry
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import raw


def traces(store: Store, rows: np.ndarray) -> dict[str, list[bytes]]:
    """The bytes by which rows are recognized."""
    view = store.view
    return {
        "keys": [trace(key) for key in view.keys[rows]],
        "tokens": [trace(token) for token in view.tokens[rows]],
        **{
            name: [np.array(one).tobytes() for one in view.records[name][rows]] for name in ("salt", "commitment", "id")
        },
    }


def found(folder: Path, searched: dict[str, list[bytes]]) -> dict[str, int]:
    """How many of them are in any file of the folder."""
    stored = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return {name: sum(any(one in file for file in stored) for one in each) for name, each in searched.items()}


@pytest.mark.parametrize("count", [3, 70], ids=["few", "many"])
@pytest.mark.parametrize("then", ["purge", "compact"])
@pytest.mark.parametrize("watched", [True, False], ids=["a reader is open", "no reader"])
def test_nothing_is_left_of_deleted_rows(then, watched, count, folder, monkeypatch):
    monkeypatch.setattr(module, "ERASED_AT_ONCE", 20)
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
        entries = [entry(commitment) for commitment in searched["commitment"]]
        store.delete(ids[:3])
        assert set(found(folder, searched).values()) == {0}
        assert found(folder, {"log": entries}) == {"log": 3}


def test_a_reader_that_keeps_the_write_ahead_log_is_named_and_a_purge_works_later(folder, monkeypatch):
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

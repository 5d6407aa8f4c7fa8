"""A damaged memory is refused with a sentence, and nothing in it is changed."""

import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from munkey.deploy.errors import OTHER_VERSION
from munkey.deploy.store.errors import UnreadableMemoryError
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import content, create, files_of, raw, units_of

IDS, KEYS, TOKENS = raw(12)


def files(folder: Path) -> dict[str, bytes]:
    """All but the lock and what SQLite makes when a file is opened."""
    paths = [
        path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"lock", "store.db-shm"}
    ]
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in paths if path.stat().st_size
    }


def sql(statement: str):
    def change(folder: Path) -> None:
        connection = sqlite3.connect(folder / "store.db")
        connection.execute(statement)
        connection.commit()
        connection.close()

    return change


def rows(folder: Path, name: str) -> Path:
    return folder / "generation-1" / name


def cut(name: str):
    return lambda folder: rows(folder, name).write_bytes(rows(folder, name).read_bytes()[:-1])


def swapped(folder: Path) -> None:
    """All rows of another memory of the same shape."""
    create(folder.parent / "other", seed=1).close()
    shutil.rmtree(folder / "generation-1")
    shutil.copytree(folder.parent / "other" / "generation-1", folder / "generation-1")


def not_a_number(folder: Path) -> None:
    keys = np.array(np.frombuffer(rows(folder, "keys").read_bytes(), "<f4"))
    keys[20] = np.nan
    rows(folder, "keys").write_bytes(keys.tobytes())


def linked(folder: Path) -> None:
    rows(folder, "keys").rename(folder.parent / "elsewhere")
    rows(folder, "keys").symlink_to(folder.parent / "elsewhere")


def linked_generation(folder: Path) -> None:
    (folder / "generation-1").rename(folder.parent / "elsewhere")
    (folder / "generation-1").symlink_to(folder.parent / "elsewhere")


def in_place_of(name: str, make):
    """Something that is no plain file, where the memory's own file would be."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return change


DAMAGES = {
    **{f"{name} cut": cut(name) for name in ("keys", "tokens", "records", "live")},
    "keys away": lambda folder: rows(folder, "keys").unlink(),
    "rows away": lambda folder: shutil.rmtree(folder / "generation-1"),
    "ledger away": lambda folder: (folder / "store.db").unlink(),
    "ledger cut": lambda folder: (folder / "store.db").write_bytes(
        (folder / "store.db").read_bytes()[:5000]
    ),
    "ledger empty": lambda folder: (folder / "store.db").write_bytes(b""),
    "ledger is text": lambda folder: (folder / "store.db").write_text("hello " * 999),
    "keys and tokens exchanged": lambda folder: (
        rows(folder, "keys").rename(folder / "x"),
        rows(folder, "tokens").rename(rows(folder, "keys")),
        (folder / "x").rename(rows(folder, "tokens")),
    ),
    "rows of another memory": swapped,
    "NaN": not_a_number,
    "a link": linked,
    "a link to a folder": linked_generation,
    "the lock is a link": in_place_of(
        "lock", lambda path: path.symlink_to(path.parents[1] / "elsewhere")
    ),
    "the lock is a pipe": in_place_of("lock", os.mkfifo),
    "the lock is a folder": in_place_of("lock", os.mkdir),
    "the log is a link": in_place_of(
        "store.db-wal", lambda path: path.symlink_to(path.parents[1] / "elsewhere")
    ),
    "the log is a pipe": in_place_of("store.db-wal", os.mkfifo),
    "the index of the log is a link": in_place_of(
        "store.db-shm", lambda path: path.symlink_to("store.db")
    ),
    "another version": sql("PRAGMA user_version=5"),
    "another program's": sql("PRAGMA application_id=7"),
    "no state": sql("DELETE FROM state"),
    "two states": sql("INSERT INTO state SELECT * FROM state"),
    "no log": sql("DROP TABLE log"),
    "no chain": sql("DELETE FROM log"),
    "another last link": sql("UPDATE log SET head = randomblob(32)"),
    "a link more": sql("INSERT INTO log SELECT 2, at, entry, randomblob(32) FROM log"),
    "fewer zeros": sql("UPDATE state SET erased = 0"),
    "no seal": sql("UPDATE state SET seal = NULL"),
    "fewer rows": sql("UPDATE state SET rows = 11"),
    "the source file of another row": sql(
        "UPDATE sources SET file = (SELECT file FROM sources WHERE row = 4) WHERE row = 3"
    ),
    "a source file away": sql("DELETE FROM sources WHERE row = 3"),
    "more rows": sql("UPDATE state SET rows = 1 << 40"),
    "fewer than none": sql("UPDATE state SET rows = -1"),
    "rows in words": sql("UPDATE state SET rows = 'many'"),
    "wider keys": sql("UPDATE state SET key_width = 1 << 40"),
    "width changed": sql("UPDATE state SET key_width = 8, token_width = 8"),
    "another generation": sql("UPDATE state SET generation = 2"),
    "dead rows that are not there": sql("UPDATE dead SET row = 99"),
    "dead rows in words": sql("UPDATE dead SET row = 'a'"),
    "no dead rows": sql("DELETE FROM dead"),
    "other dead rows": sql("UPDATE dead SET row = 1"),
    "a trigger": sql("CREATE TRIGGER again AFTER INSERT ON dead BEGIN DELETE FROM dead; END"),
    "no source files": sql("DROP TABLE sources"),
    "a view without end": sql(
        "CREATE VIEW more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n"
    ),
    "another name": sql("UPDATE state SET store = randomblob(16)"),
    "a name that is none": sql("UPDATE state SET store = 'x'"),
}


@pytest.mark.parametrize("writer", [True, False], ids=["writer", "reader"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused_with_a_sentence_and_nothing_changes(damage, writer, folder):
    with create(folder) as store:
        store.delete(IDS[:1])
    DAMAGES[damage](folder)
    before = files(folder)
    to_do = OTHER_VERSION if damage == "another version" else "put an undamaged copy there"
    with pytest.raises(UnreadableMemoryError, match=rf"^/.*\. Nothing was changed; {to_do}$"):
        Store.open(folder, writer=writer)
    assert files(folder) == before


def test_a_chain_that_is_erased_after_a_compaction_is_refused(folder):
    with create(folder) as store:
        store.delete(IDS[:2])
        store.compact()
    sql("DELETE FROM log")(folder)
    for writer in (True, False):
        with pytest.raises(
            UnreadableMemoryError, match="last link of its chain of deletions, was changed"
        ):
            Store.open(folder, writer=writer)


def test_what_is_no_memory_is_left_alone(folder):
    folder.mkdir()
    (folder / "mine").write_text("x")
    for path in (folder, folder / "mine", folder / "nothing"):
        for writer in (True, False):
            with pytest.raises(UnreadableMemoryError, match="not a memory"):
                Store.open(path, writer=writer)
    assert files(folder) == {"mine": b"x"} and not (folder / "lock").exists()


FOUND = {
    "UPDATE log SET entry = randomblob(32) WHERE sequence = 2": "broken at link 2",
    "UPDATE log SET at = at + 1 WHERE sequence = 1": "broken at link 1",
    "DELETE FROM log WHERE sequence = 2": "broken at link 2",
    "INSERT INTO dead SELECT sequence + 3, row FROM dead": "repeated or unknown rows",
    "INSERT INTO sources VALUES (1000, 'a trace', NULL)": "source files and units that belong to no live row: 1",
    "UPDATE dead SET sequence = sequence + 9 WHERE sequence = 3": "those of the dead rows: 1 have another sequence",
}


@pytest.mark.parametrize("statement", FOUND)
def test_a_changed_chain_is_found(statement, folder):
    with create(folder) as store:
        store.delete(IDS[:1])
        store.delete(IDS[1:3])
    sql(statement)(folder)
    with Store.open(folder) as reader:
        report = reader.verify()
    assert (
        not report.sound
        and FOUND[statement] in str(report)
        and str(report).startswith("NOT VERIFIED: ")
    )


def test_a_row_that_is_put_back_is_found(folder):
    with Store.create(folder, IDS, KEYS, TOKENS) as store:
        before = {
            name: rows(folder, name).read_bytes() for name in ("keys", "tokens", "records", "live")
        }
        store.delete(IDS[:2])
    for name, data in before.items():
        rows(folder, name).write_bytes(data)
    with Store.open(folder) as reader:  # `dead` hides them again; their bytes are back
        assert not reader.view.live[:2].any() and "2 rows dead and not zero: 0, 1" in str(
            reader.verify()
        )
    sql("DELETE FROM dead")(folder)
    for name, data in before.items():
        rows(folder, name).write_bytes(data)
    with Store.open(folder) as reader:
        assert "2 rows deleted and back: 0, 1" in str(reader.verify())


def test_a_lost_write_ahead_log_is_refused_and_does_not_bring_back_what_it_deleted(folder):
    """A copy of the folder without `store.db-wal`, say. The rows are hidden, and the ledger does not know why."""
    store = create(folder)
    store.delete(IDS[:2])
    shutil.copytree(folder, folder.parent / "copy")
    (folder.parent / "copy" / "store.db-wal").unlink()
    store.close()
    for writer in (True, False):
        with pytest.raises(
            UnreadableMemoryError, match=r"does not know of 2 deleted rows, 0, 1.*store\.db-wal"
        ):
            Store.open(folder.parent / "copy", writer=writer)


def test_a_row_that_stands_twice_is_found(folder):
    Store.create(folder, IDS, KEYS, TOKENS).close()
    for name in ("keys", "tokens", "records"):
        data = np.frombuffer(rows(folder, name).read_bytes(), "u1").reshape(12, -1).copy()
        data[4] = data[3]
        rows(folder, name).write_bytes(data.tobytes())
    with Store.open(folder) as reader:
        assert "2 rows with an id that another row has too: 3, 4" in str(reader.verify())


def test_a_folder_that_is_not_the_memorys_is_left_alone_and_stops_nothing(folder):
    create(folder).close()
    (folder.parent / "mine").mkdir()
    (folder / "generation-2").symlink_to(folder.parent / "mine")
    (folder / "generation-backup").mkdir()
    for place in ("generation-1/mine", "generation-backup/keys"):
        (folder / place).write_text("x")
    with Store.open(folder, writer=True) as store:
        store.delete(IDS[:1])
        store.compact()
        store.compact()
        assert len(content(store)) == 11 and store.verify().sound
    assert (
        (folder / "generation-1/mine").read_text()
        == (folder / "generation-backup/keys").read_text()
        == "x"
    )
    assert [path.name for path in (folder / "generation-1").iterdir()] == ["mine"]


def test_a_restored_backup_is_found_by_the_published_head(folder):
    with create(folder) as store:
        store.delete(IDS[:1])
    shutil.copytree(folder, folder.parent / "backup")
    with Store.open(folder, writer=True) as store:
        published = store.delete(IDS[1:2]).after
    with Store.open(folder) as now, Store.open(folder.parent / "backup") as restored:
        assert now.verify(published).sound and restored.verify().sound
        assert "older copy" in str(restored.verify(published))


def test_a_flipped_byte_of_the_ledger_is_noticed_or_changes_nothing_that_can_be_found(folder):
    """All over its file, the indexes of names among it, by which `forget --files` finds a person."""
    with create(folder, 30) as store:
        ids, digests = raw(30)[0], np.array(store.view.records["content"])
        store.delete(ids[:3], request="R-1")
        store.delete(ids[3:5], block_return=True)
        store.purge()

    def findable(store: Store) -> tuple[object, ...]:
        files, units = files_of(ids), sorted({unit for unit in units_of(ids) if unit})
        by_name = [store.find_ids_by_source(one).tolist() for one in files] + [
            store.find_ids_by_source(one, "unit").tolist() for one in units
        ]
        rows = np.arange(30)
        return (
            content(store),
            by_name,
            store.read_sources(rows),
            store.log(),
            store.are_blocked(digests).tolist(),
        )

    with Store.open(folder) as store:
        expected = findable(store)
    path, noticed = folder / "store.db", 0
    data, places = path.read_bytes(), []
    # what SQLite uses lies at the begin and the end of a page
    for page in range(0, len(data), 4096):
        places += [*range(page, page + 96, 23), *range(page + 4096 - 1200, page + 4096, 101)]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            with Store.open(folder) as store:
                noticed += (unsound := not store.verify().sound)
                assert unsound or findable(store) == expected, f"byte {place}"
        except UnreadableMemoryError:
            noticed += 1
        for beside in folder.glob("store.db-*"):
            beside.unlink()
    assert noticed > len(places) // 20


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["keys", "tokens", "records", "live", "db"]),
    st.integers(0, 1 << 20),
    st.integers(1, 255),
)
def test_a_changed_byte_is_refused_found_or_harmless(folder, name, place, mask):
    """It never crashes, and never shows a row that is not what was stored."""
    shutil.rmtree(folder, ignore_errors=True)
    with create(folder, 60) as store:
        store.delete(raw(60)[0][:5])
        model = content(store)
    path = folder / "store.db" if name == "db" else rows(folder, name)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= mask
    path.write_bytes(data)
    try:
        with Store.open(folder, writer=True) as store:
            report = store.verify()
            assert not report.sound or content(store) == model
    except UnreadableMemoryError:
        pass

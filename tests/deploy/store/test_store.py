"""Each operation of a durable memory, by values."""

import doctest
import hashlib
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from munkey.deploy.store import store as module
from munkey.deploy.store.errors import ClosedMemoryError, UnknownIdsError
from munkey.deploy.store.store import MAX_ERASED_AT_ONCE, Store
from tests.deploy.store.inputs import content, create, expected, files_of, raw, units_of

IDS, KEYS, TOKENS = raw(12)


def test_what_was_created_is_read(folder):
    with create(folder) as store, Store.open(folder) as reader:
        assert content(store) == content(reader) == expected(IDS, KEYS, TOKENS, np.arange(12))
        assert np.array_equal(store.view.keys, KEYS) and np.array_equal(reader.view.tokens, TOKENS)
        assert reader.view.ids.tolist() == IDS.tolist() and reader.view.labels.tolist() == list(
            range(12)
        )


def test_maps_cannot_be_written(folder):
    with create(folder) as store:
        for array in (store.view.keys, store.view.tokens, store.view.records, store.view.live):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


def test_deleted_rows_are_gone_for_every_reader_at_once(folder):
    with create(folder) as store, Store.open(folder) as reader:
        view = reader.view
        store.delete(IDS[[3, 5]])
        kept = [row for row in range(12) if row not in (3, 5)]
        for seen in (content(store), content(reader)):
            assert seen == expected(IDS[kept], KEYS[kept], TOKENS[kept], np.array(kept))
        copied = view.copy_rows(np.array([[3, 4], [6, 5]]))
        assert copied.live.tolist() == [[False, True], [True, False]]
        assert copied.ids.tolist() == [[0, IDS[4]], [IDS[6], 0]]
        assert np.array_equal(copied.tokens[0], [np.zeros(8), TOKENS[4]])


def test_a_row_deleted_while_it_is_copied_is_not_handed_out(folder):
    with create(folder) as store:
        view = store.view

        class Deleting:
            """Tokens during whose copying the row is deleted; the bytes are those from before."""

            def __getitem__(self, rows):
                before = np.array(view.tokens[rows])
                store.delete(IDS[[3]])
                return before

        interrupted = type(view)(view.generation, view.keys, Deleting(), view.records, view.live)
        copied = interrupted.copy_rows(np.array([3, 4]))
        assert (
            copied.live.tolist() == [False, True]
            and not copied.tokens[0].any()
            and copied.ids[0] == 0
        )


def packed(number: int) -> bytes:
    return number.to_bytes(8, "little")


def test_the_chain_by_hand(folder):
    with create(folder) as store:
        name, records = store.state.store, np.array(store.view.records)
        receipt = store.delete(IDS[[5, 3]], request="Nº 7")
    at = int(receipt.when.timestamp() * 1e6 + 0.5)
    head = hashlib.sha256(name).digest()
    assert (receipt.store, receipt.before, receipt.sequences) == (
        name.hex(),
        head.hex(),
        range(1, 3),
    )
    files, units = files_of(IDS), units_of(IDS)
    whole = [1, 2, at]  # first and last number, time; nothing was blocked
    mark = hashlib.sha256(
        b"".join(map(packed, whole)) + hashlib.sha256(b"").digest() + "Nº 7".encode()
    ).digest()
    for sequence, row in enumerate(sorted([3, 5], key=lambda row: IDS[row]), start=1):
        salt, added = records[row]["salt"].tobytes(), records[row]["added"].tobytes()
        hidden = (
            name
            + salt
            + packed(int(IDS[row]))
            + packed(row)
            + hashlib.sha256(KEYS[row]).digest()[:16]
            + added
        )
        source = f'["{files[row]}", ' + (f'"{units[row]}"]' if units[row] else "null]")
        commitment = hashlib.sha256(
            hidden + KEYS[row].tobytes() + TOKENS[row].tobytes() + source.encode()
        ).digest()
        assert records[row]["commitment"].tobytes() == commitment
        numbers, mark_once = packed(sequence) + packed(at), mark if sequence == 1 else b""
        head = hashlib.sha256(
            head + numbers + hashlib.sha256(commitment).digest() + mark_once
        ).digest()
    assert receipt.after == head.hex()
    with Store.open(folder) as reader:
        assert reader.head == head.hex()


def test_receipts_follow_each_other(folder):
    with create(folder) as store:
        first, second, none = (
            store.delete(IDS[:2]),
            store.delete([IDS[4], IDS[4]]),
            store.delete([]),
        )
    assert (second.before, second.sequences) == (first.after, range(3, 4))
    assert abs((datetime.now(UTC) - second.when).total_seconds()) < 600
    assert (none.before, none.after, len(none.sequences)) == (second.after, second.after, 0)


def test_unknown_ids_are_all_named_and_nothing_is_deleted(folder):
    with create(folder) as store:
        store.delete(IDS[:1])
        head = store.head
        with pytest.raises(
            UnknownIdsError, match=rf"3 ids not in the memory.*7, 8, {IDS[0]}"
        ) as refused:
            store.delete([8, IDS[2], 7, IDS[0]])
        assert refused.value.ids == [7, 8, IDS[0]]
        assert store.head == head and IDS[2] in content(store) and store.verify().sound


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([1.5], "whole numbers"),
        ([True], "whole numbers"),
        (["1"], "whole numbers"),
        ({"1"}, "whole numbers"),
        ("12", "list of whole"),
        (b"12", "list of whole"),
        ([[1]], "list of whole"),
        (3, "list of whole"),
        ([-1], "between 0"),
        ([1 << 63], "between 0"),
        ([1 << 64], "between 0 and 2\\^63 - 1, but these range from 18446744073709551616"),
        ([3, 1 << 70], "from 3 to 1180591620717411303424"),
        ([-(1 << 70)], "between 0 and"),
        ([None], "whole numbers"),
    ],
)
def test_ids_of_a_wrong_type_are_refused(folder, ids, said):
    with create(folder) as store:
        for operation in (store.delete, lambda ids: store.add(ids, KEYS[:1], TOKENS[:1])):
            with pytest.raises(ValueError, match=said):
                operation(ids)
        assert content(store) == expected(IDS, KEYS, TOKENS, np.arange(12))


@pytest.mark.parametrize(
    ("ids", "keys", "tokens", "said"),
    [
        ([1, 1], KEYS[:2], TOKENS[:2], "more than once"),
        ([1], KEYS[:2], TOKENS[:1], "keys must be"),
        ([1], KEYS[:1, :5], TOKENS[:1], "takes keys of 9"),
        ([1], KEYS[:1], TOKENS[:1, :0], "tokens must be"),
        ([1], KEYS[:1].astype(int), TOKENS[:1], "keys must be"),
        ([1], np.full((1, 9), np.nan), TOKENS[:1], "row 0 is not"),
        ([1], KEYS[:1], np.full((1, 8), 1e300), "finite"),
        (IDS[:1], KEYS[:1], TOKENS[:1], "already"),
    ],
)
def test_rows_that_do_not_fit_are_refused(folder, ids, keys, tokens, said):
    with create(folder) as store:
        with pytest.raises(ValueError, match=said):
            store.add(ids, keys, tokens)
        assert content(store) == expected(IDS, KEYS, TOKENS, np.arange(12))
        assert store.verify().sound


def test_labels_are_as_many_as_ids(folder):
    with create(folder) as store, pytest.raises(ValueError, match="2 labels for 1 ids"):
        store.add([1], KEYS[:1], TOKENS[:1], [0, 1])


def test_an_empty_memory_takes_rows(folder):
    with Store.create(folder, IDS[:0], KEYS[:0], TOKENS[:0]) as store, Store.open(folder) as reader:
        assert store.verify().sound and content(reader) == {}
        store.add(IDS, KEYS, TOKENS)
        assert content(store) == content(reader) == expected(IDS, KEYS, TOKENS)
        store.delete(IDS)
        store.compact()
        assert content(reader) == {} and reader.verify(store.head).sound


def test_many_rows_are_hidden_first_and_called_zero_only_when_they_were_overwritten(folder):
    ids, keys, tokens = raw(MAX_ERASED_AT_ONCE + 100)
    with Store.create(folder, ids, keys, tokens) as store, Store.open(folder) as reader:
        view, many = reader.view, slice(MAX_ERASED_AT_ONCE + 1)
        store.delete(ids[many])
        assert np.count_nonzero(view.live) == 99 and view.keys[0].any()
        assert not view.copy_rows(np.arange(MAX_ERASED_AT_ONCE + 1)).tokens.any()
        said = f"{MAX_ERASED_AT_ONCE + 1:,} dead rows, hidden and"
        assert f"{said} all but {MAX_ERASED_AT_ONCE + 1:,} of them zero;" in str(reader.verify())
        store.settle()
        assert not view.keys[many].any() and not view.records[many]["salt"].any()
        assert f"{said} zero;" in str(store.verify()) and f"{said} zero;" in str(reader.verify())


def test_a_row_that_is_hidden_without_a_deletion_is_named(folder):
    with create(folder), Store.open(folder) as reader:
        with (folder / "generation-1" / "live").open("r+b") as live:
            live.seek(4)
            live.write(b"\0")
        assert "1 row hidden and never deleted: 4" in str(reader.verify())


def test_every_few_deletions_all_are_settled(folder, monkeypatch):
    monkeypatch.setattr(module, "MAX_ERASED_AT_ONCE", 0)
    monkeypatch.setattr(module, "MAX_PENDING_DELETIONS", 3)
    with create(folder) as store:
        for row in range(2):
            store.delete(IDS[[row]])
        assert store.view.keys[:2].any(axis=1).all()
        store.delete(IDS[[2]])
        assert not store.view.keys[:3].any() and store.view.keys[3:].any(axis=1).all()


def test_a_view_of_before_a_compaction_shows_nothing_and_the_next_one_all(folder):
    ids, keys, tokens = raw(2500)  # more than two blocks
    with Store.create(folder, ids, keys, tokens) as store, Store.open(folder) as reader:
        before = reader.view
        store.delete(ids[::7])
        store.compact()
        assert not before.live.any() and not before.keys.any()
        kept = np.arange(2500) % 7 > 0
        assert content(reader) == content(store) == expected(ids[kept], keys[kept], tokens[kept])
        assert reader.view.generation == 2 and reader.view.live.all() and reader.verify().sound
        assert sorted(path.name for path in folder.glob("generation-*")) == ["generation-2"]


def test_a_memory_that_was_created_and_closed_keeps_no_file_open(folder):
    before = sorted(Path("/proc/self/fd").iterdir())
    create(folder).close()
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_compaction_keeps_no_file_of_what_was_there_before_open(folder):
    with create(folder) as store:
        store.delete(IDS[:3])
        before = len(list(Path("/proc/self/fd").iterdir()))
        store.compact()
        assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("operation", ["add", "delete", "compact", "purge"])
def test_a_failure_closes_the_store_and_opening_it_again_finds_it_whole(
    folder, operation, monkeypatch
):
    store = create(folder)
    before = content(store)
    with monkeypatch.context() as patched:
        patched.setattr("munkey.deploy.store.disk.write", lambda *_: 1 / 0)
        patched.setattr("munkey.deploy.store.disk.sync", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            {
                "add": lambda: store.add([5], KEYS[:1], TOKENS[:1]),
                "delete": lambda: store.delete(IDS[:1]),
                "compact": store.compact,
                "purge": lambda: (store._pending_rows.append(np.array([], int)), store.purge()),
            }[operation]()
    with pytest.raises(ClosedMemoryError):
        store.add([5], KEYS[:1], TOKENS[:1])
    with Store.open(folder, writer=True) as store:
        after = content(store)
        assert after == before or (
            operation == "delete" and after == {i: before[i] for i in IDS[1:].tolist()}
        )
        assert store.verify().sound


def test_the_example_of_the_docstring_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [example] = doctest.DocTestFinder(recurse=False).find(Store, "Store", module)
    failed, tried = doctest.DocTestRunner().run(example)
    assert (failed, tried) == (0, 4)

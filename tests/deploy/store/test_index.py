"""An index file is whole and of this memory, or refused; it never holds a key, nor after a purge a deleted row."""

import hashlib
import shutil

import numpy as np
import pytest
from safetensors.numpy import load, save

from munkey.deploy.store.index import DIGEST, NAME, UNFINISHED, UnreadableIndexError
from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import WIDTHS, create, numbers, raw
from tests.deploy.store.test_gone import found, traces

IDS = raw(40)[0]
LISTS = np.arange(40) % 3


def indexed(folder, seed=0):
    """A memory of 40 rows in three lists, with its index."""
    store = create(folder, 40, seed)
    assert store.write_index(store.view, numbers(3, 99, WIDTHS[0]), LISTS)
    return store


def lists(store):
    index = store.read_index()
    return [index.members(number).tolist() for number in range(len(index.ends))]


def file(folder, generation=1):
    return folder / f"generation-{generation}" / NAME


def test_an_index_lists_rows_by_centroid_and_is_read_again(folder):
    indexed(folder).close()
    with Store.open(folder) as reader:
        assert lists(reader) == [list(range(start, 40, 3)) for start in range(3)]
        assert reader.read_index().covered == 40
        np.testing.assert_array_equal(reader.read_index().centroids, numbers(3, 99, WIDTHS[0]))


def test_a_single_list_is_read_too(folder):
    with create(folder, 40) as store:
        assert store.write_index(store.view, numbers(1, 99, WIDTHS[0]), np.zeros(40, dtype=int))
        assert lists(store) == [list(range(40))]


@pytest.mark.parametrize("later", [False, True], ids=["purged", "deleted before it was written"])
def test_deleted_rows_are_listed_until_a_purge_only(later, folder):
    with indexed(folder) as store:
        store.delete(IDS[[0, 4]])
        assert lists(store)[0][0] == 0  # a number, and filtered by `live`
        if later:
            store.write_index(store.view, numbers(3, 99, WIDTHS[0]), LISTS)
        else:
            store.purge()
        assert lists(store) == [list(range(3, 40, 3)), [1, *range(7, 40, 3)], list(range(2, 40, 3))]
        assert store.read_index().moment.sequence == 2


def test_a_compaction_carries_the_index_along_with_new_numbers(folder):
    with indexed(folder) as store:
        store.add(*raw(5, 7))
        keys = store.view.keys.copy()
        expected = [[keys[row].tobytes() for row in rows if row not in (0, 4)] for rows in lists(store)]
        store.delete(IDS[[0, 4]])
        store.compact()
        assert store.read_index().covered == 38 and len(store.view.live) == 43
        assert [[store.view.keys[row].tobytes() for row in rows] for rows in lists(store)] == expected
        assert not file(folder).exists()


def test_an_index_of_a_view_from_before_a_compaction_is_not_written(folder):
    with indexed(folder) as store:
        before = store.view
        store.compact()
        written = file(folder, 2).read_bytes()
        assert not store.write_index(before, numbers(3, 99, WIDTHS[0]), LISTS)
        assert file(folder, 2).read_bytes() == written


def refused(folder, why):
    with Store.open(folder) as reader, pytest.raises(UnreadableIndexError, match=rf"index: .*{why}.*Search\.build"):
        reader.read_index()


def test_a_cut_index_and_any_flipped_bit_of_one_are_found(folder):
    indexed(folder).close()
    whole, random = file(folder).read_bytes(), np.random.default_rng(0)
    for kept in (0, 1, DIGEST, DIGEST + 8, 500, -1):
        file(folder).write_bytes(whole[:kept])
        refused(folder, "damaged")
    for place in random.integers(len(whole), size=50):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(random.integers(8))
        file(folder).write_bytes(damaged)
        refused(folder, "damaged")


CONTENTS = {
    "a row that is not there": {"rows": np.arange(1, 41, dtype=np.int32)},
    "a negative row": {"rows": np.arange(-1, 39, dtype=np.int32)},
    "a row twice": {"rows": np.zeros(40, dtype=np.int32)},
    "lists that go back": {"ends": np.array([14, 10, 40])},
    "a first list that ends before it starts": {"ends": np.array([-1, 10, 40])},
    "lists that end too early": {"ends": np.array([1, 2, 3])},
    "one list more than centroids": {"ends": np.array([14, 27, 40, 40])},
    "no lists": {"ends": np.zeros(0, dtype=np.int64), "centroids": np.zeros((0, 9), np.float32)},
    "NaN": {"centroids": np.full((3, 9), np.nan, dtype=np.float32)},
    "floats for rows": {"rows": np.arange(40, dtype=np.float32)},
    "more rows than the memory": {"numbers": np.array([41, 1, 0])},
    "narrow centroids": {"centroids": np.zeros((3, 4), np.float32)},
    "two numbers": {"numbers": np.array([40, 1])},
    "words for numbers": {"numbers": np.zeros((3, 2))},
    "a deletion that was not": {"numbers": np.array([40, 1, 5])},
    "no name": {"store": np.zeros(0, dtype=np.uint8)},
}


@pytest.mark.parametrize("name", CONTENTS)
def test_an_index_that_makes_no_sense_is_refused_although_its_digest_fits(name, folder):
    indexed(folder).close()
    content = save(load(file(folder).read_bytes()[DIGEST:]) | CONTENTS[name])
    file(folder).write_bytes(hashlib.sha256(content).digest() + content)
    refused(folder, "")


def test_an_index_without_one_of_its_parts_is_refused(folder):
    indexed(folder).close()
    parts = load(file(folder).read_bytes()[DIGEST:])
    for name in parts:
        content = save({other: part for other, part in parts.items() if other != name})
        file(folder).write_bytes(hashlib.sha256(content).digest() + content)
        refused(folder, "damaged")


def test_an_index_of_another_memory_or_generation_is_refused(folder):
    indexed(folder.parent / "other", seed=1).close()
    with indexed(folder) as store:
        old = file(folder).read_bytes()
        store.compact()
        file(folder, 2).write_bytes(old)
    refused(folder, "another generation")
    shutil.copy(file(folder.parent / "other"), file(folder, 2))
    refused(folder, "another memory")


def test_an_index_of_a_newer_copy_is_refused_and_an_older_one_is_not(folder):
    indexed(folder).close()
    shutil.copytree(folder, folder.parent / "backup")
    with Store.open(folder, writer=True) as store:
        store.delete(IDS[:1])
        store.write_index(store.view, numbers(3, 99, WIDTHS[0]), LISTS)
    with Store.open(folder.parent / "backup", writer=True) as backup:
        backup.delete(IDS[5:6])
        assert backup.read_index().moment.sequence == 0
        shutil.copy(file(folder), file(folder.parent / "backup"))
    refused(folder.parent / "backup", "other deletions")


def test_a_link_or_a_folder_in_its_place_is_refused(folder):
    indexed(folder).close()
    file(folder).rename(folder.parent / "elsewhere")
    file(folder).symlink_to(folder.parent / "elsewhere")
    refused(folder, "cannot be read")
    file(folder).unlink()
    file(folder).mkdir()
    refused(folder, "cannot be read")


@pytest.mark.parametrize("then", ["purge", "compact"])
def test_a_purge_or_compaction_removes_an_index_that_cannot_be_read(then, folder):
    with indexed(folder) as store:
        file(folder).write_bytes(b"broken")
        getattr(store, then)()
        assert store.read_index() is None and not list(folder.rglob("index*"))
        assert store.verify().sound


@pytest.mark.parametrize("then", ["purge", "compact", "open"])
def test_what_a_killed_writer_left_of_an_index_is_removed(then, folder):
    store = indexed(folder)
    key = traces(store, np.arange(3, 4))["keys"]
    unfinished = file(folder).with_name(UNFINISHED)
    unfinished.write_bytes(b"".join(key))
    file(folder).with_name("keys").rename(folder.parent / "keys")
    assert found(folder, {"keys": key}) == {"keys": 1}  # there, and nowhere else
    (folder.parent / "keys").rename(file(folder).with_name("keys"))
    if then == "open":
        store.close()
        store = Store.open(folder, writer=True)
    else:
        getattr(store, then)()
    assert not list(folder.rglob(UNFINISHED))
    store.close()


def test_an_index_holds_nothing_of_a_row_but_its_number(folder):
    with indexed(folder) as store:
        searched = traces(store, np.arange(40))
        assert set(found(folder, searched).values()) == {40}
        (folder.parent / "indexes").mkdir()
        shutil.copy(file(folder), folder.parent / "indexes")
        assert set(found(folder.parent / "indexes", searched).values()) == {0}


def test_what_is_left_of_an_index_when_all_rows_are_gone(folder):
    with indexed(folder) as store:
        store.delete(IDS)
        store.compact()
        assert store.read_index().covered == 0
        assert lists(store) == [[], [], []]

"""The memory as a value: rows are dropped, added, and found, and no earlier memory changes."""

import pickle
import threading

import numpy as np
import pytest

from munkey.core.ids import NO_NEIGHBOR
from munkey.memory.memory import Columns, Memory, make_columns


def rows(ids, numbers=None, width=3) -> Columns:
    """Rows whose values follow from their ids. numbers: of the rows, or else 1, 2, ..."""
    ids = np.array(ids, dtype=np.int64)
    if numbers is None:
        numbers = range(1, len(ids) + 1)
    keys = np.repeat(ids[:, None], width, axis=1).astype(np.float32)
    contents = np.zeros((len(ids), 16), np.uint8)
    contents[:, 0] = ids % 4  # ids that differ by 4 are copies of one another
    return make_columns(
        ids,
        keys,
        keys[:, :1] * 2,
        labels=ids % 2,
        units=np.array([f"u{one % 3}" for one in ids], object),
        files=np.array([f"{one}.png" for one in ids], object),
        contents=contents,
        added=10 * ids,
        numbers=np.array(numbers, np.int64),
    )


def live_values(memory: Memory) -> list[tuple]:
    """All live rows, as Python values."""
    *columns, _ = memory.columns.take(memory.live_rows)  # all but the row numbers
    return list(zip(*(column.tolist() for column in columns), strict=True))


def expected_values(ids) -> list[tuple]:
    """The live rows of a new memory with these ids."""
    return live_values(Memory.create(rows(sorted(ids))))


def test_rows_are_sorted_by_id_whatever_their_order():
    memory = Memory.create(rows([9, 2, 30, 7]))
    assert memory.ids.tolist() == [2, 7, 9, 30]
    assert live_values(memory) == expected_values([2, 7, 9, 30])
    assert memory.columns.numbers.tolist() == [2, 4, 1, 3]
    assert memory.find_numbers(np.array([3, 1, 5, 0])).tolist() == [3, 2, -1, -1]


def test_dropping_and_adding_leave_earlier_memories_as_they_were():
    first = Memory.create(rows(range(0, 40, 2)))
    second = first.drop(first.find_rows(np.array([4])))
    third = second.add(rows([100, 99], numbers=[21, 22]))
    assert len(first) == 20
    assert len(second) == 19
    assert len(third) == 21
    assert np.shares_memory(first.keys, third.keys)  # nothing was copied
    assert live_values(first) == expected_values(range(0, 40, 2))
    assert live_values(third) == expected_values({*range(0, 40, 2), 99, 100} - {4})
    with pytest.raises(ValueError, match="read-only"):
        third.keys[0] = 0


def test_an_id_can_come_back_and_one_below_others_is_sorted_in():
    memory = Memory.create(rows([1, 5, 9])).drop(np.array([1]))
    again = memory.add(rows([5, 3], numbers=[4, 5]))
    assert live_values(again) == expected_values([1, 3, 5, 9])
    assert len(memory) == 2
    with pytest.raises(ValueError, match="already in the memory"):
        again.add(rows([9], numbers=[6]))
    with pytest.raises(ValueError, match="more than once"):
        again.add(rows([11, 11], numbers=[6, 7]))


def test_two_memories_that_grow_from_one_do_not_see_each_other():
    first = Memory.create(rows([1, 2]))
    one = first.add(rows([5], numbers=[3]))
    other = first.add(rows([6], numbers=[3]))
    assert live_values(one) == expected_values([1, 2, 5])
    assert live_values(other) == expected_values([1, 2, 6])


def test_a_memory_is_packed_when_over_a_tenth_is_dead_and_numbers_are_not_used_again():
    memory = Memory.create(rows(range(100)))
    few = memory.drop(np.arange(10))
    many = memory.drop(np.arange(90, 100)).drop(np.arange(2))
    assert len(few.live) == 100
    assert len(many.live) == len(many) == 88
    assert many.next_number == 101
    assert live_values(many) == expected_values(range(2, 90))
    packed = few.pack()
    assert len(packed.live) == 90
    assert packed.pack() is packed
    assert live_values(packed) == live_values(few)
    empty = memory.drop(np.arange(100))
    assert len(empty) == 0
    assert empty.find_rows(np.array([3])).tolist() == [NO_NEIGHBOR]
    assert live_values(empty.add(rows([3], numbers=[101]))) == expected_values([3])


def test_changes_between_two_memories_are_found_by_row_number():
    first = Memory.create(rows(range(30)))
    second = first.drop(np.array([3, 4])).add(rows([50, 51], numbers=[31, 32]))
    packed = (first.pack(), Memory.create(second.pack().columns))
    for before, after in ((first, second), packed):
        dropped, added = after.find_changes(before)
        assert before.ids[dropped].tolist() == [3, 4]
        assert after.ids[added].tolist() == [50, 51]
    # A row that came back is another row.
    back = second.add(rows([3], numbers=[33]))
    dropped, added = back.find_changes(first)
    assert first.ids[dropped].tolist() == [3, 4]
    assert back.ids[added].tolist() == [3, 50, 51]


def test_a_row_that_was_added_and_dropped_again_is_no_change():
    first = Memory.create(rows(range(40)))
    both = first.add(rows([50, 51], numbers=[41, 42]))
    later = both.drop(both.find_rows(np.array([50])))
    assert np.shares_memory(first.keys, later.keys)
    dropped, added = later.find_changes(first)
    assert dropped.tolist() == []
    assert later.ids[added].tolist() == [51]


def test_a_row_that_is_named_twice_is_dropped_once():
    memory = Memory.create(rows(range(40))).drop(np.array([7, 7]))
    assert len(memory) == len(memory.live_rows) == 39


def test_copies_units_and_files_are_found_among_live_rows():
    memory = Memory.create(rows(range(12))).drop(np.array([8]))
    assert memory.find_copies(np.array([0])).tolist() == [4]
    assert memory.find_units(["u0"]).tolist() == [0, 3, 6, 9]
    assert memory.find_units(["u0", "u1", "nobody"]).tolist() == [0, 1, 3, 4, 6, 7, 9, 10]
    assert memory.find_files(["8.png"]).tolist() == []
    assert memory.find_files([]).tolist() == []


def test_a_pickle_holds_no_dead_rows_and_no_spare_room():
    memory = Memory.create(rows(range(1000, 1100))).drop(np.array([7]))
    pickled = pickle.dumps(memory)
    assert b"1008.png" in pickled
    assert b"1007.png" not in pickled
    again = pickle.loads(pickled)
    assert live_values(again) == live_values(memory)
    assert again.next_number == memory.next_number


def test_the_bound_of_the_keys_follows_rows_that_are_added():
    memory = Memory.create(rows([1, 2]))
    assert 2 * 3**0.5 <= memory.longest_key < 4
    longer = memory.add(rows([50], numbers=[3]))
    assert longer.longest_key >= 50 * 3**0.5


def test_a_memory_after_random_changes_equals_a_new_one():
    random = np.random.default_rng(0)
    memory = Memory.create(rows(range(50)))
    ids = set(range(50))
    snapshots = []
    for step in range(400):
        snapshots.append((memory, sorted(ids)))
        if random.integers(2) and ids:
            gone = random.choice(sorted(ids), min(len(ids), int(random.integers(1, 4))), False)
            memory = memory.drop(memory.find_rows(gone))
            ids -= set(gone.tolist())
        else:
            high = 60 + 10 * step if random.integers(4) else 60
            new = sorted(set(random.integers(0, high, 3).tolist()) - ids)
            numbers = memory.next_number + np.arange(len(new))
            memory = memory.add(rows(new, numbers=numbers))
            ids |= set(new)
        assert live_values(memory) == expected_values(ids)
        numbers = memory.columns.numbers[memory.live_rows]
        assert memory.find_numbers(numbers).tolist() == memory.live_rows.tolist()
    for earlier, expected in snapshots[::20]:
        assert live_values(earlier) == expected_values(expected)
        dropped, added = memory.find_changes(earlier)
        remaining = set(expected) - set(earlier.ids[dropped].tolist())
        assert remaining | set(memory.ids[added].tolist()) == ids


def test_threads_that_add_to_one_memory_do_not_disturb_each_other():
    first = Memory.create(rows(range(10)))
    results = {}

    def grow(start: int) -> None:
        memory = first
        for step in range(50):
            memory = memory.add(rows([start + step], numbers=[memory.next_number]))
        results[start] = memory

    threads = [threading.Thread(target=grow, args=(start,)) for start in (100, 1000, 5000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for start, memory in results.items():
        assert live_values(memory) == expected_values([*range(10), *range(start, start + 50)])

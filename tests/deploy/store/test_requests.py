"""What a deletion was asked under, exact copies, and contents that may not come back."""

from dataclasses import replace

import numpy as np
import pytest

from munkey.deploy.store.store import Store
from tests.deploy.store.inputs import create, raw
from tests.deploy.store.test_damage import sql

IDS, KEYS, TOKENS = raw(12)
CONTENTS = np.arange(12, dtype=np.uint8)[:, None].repeat(16, axis=1)
CONTENTS[[4, 9]] = CONTENTS[1]  # three copies
CONTENTS[7] = [*CONTENTS[1][:15], 99]  # alike in its first bytes


def test_a_request_is_carried_out_once(folder):
    with create(folder) as store, Store.open(folder) as reader:
        first = store.delete(IDS[:2], request="R-1")
        again = store.delete(IDS[:2], request="R-1")
        assert (first.request, first.repeated) == ("R-1", False)
        assert again == replace(first, repeated=True)
        with pytest.raises(
            ValueError,
            match=r"'R-1' was carried out at 20.*still holds 2 ids of these; .* another num",
        ):
            store.delete(IDS[:4], request="R-1")
        assert reader.find_receipt("R-1") == again and reader.find_receipt("R-2") is None
        assert store.deletions == 2 and store.verify(first.after).sound


def test_the_log_has_an_entry_a_deletion_also_where_nothing_was_there_to_delete(folder):
    with create(folder) as store:
        receipts = [
            store.delete(IDS[:2], request="R-1"),
            store.delete([], request="R-2"),
            store.delete([]),  # no request, nothing to delete: nothing to record
            store.delete(IDS[2:3]),
        ]
        store.compact()
        store.delete(IDS[3:4], request="R-3")
        assert store.verify().sound
    with Store.open(folder) as reader:
        log = reader.log()
        assert [(len(it.sequences), it.request) for it in log] == [
            (2, "R-1"),
            (0, "R-2"),
            (1, None),
            (1, "R-3"),
        ]
        assert log[:3] == [*receipts[:2], receipts[3]]
        assert log[1].before == log[1].after == log[0].after and log[3].after == reader.head


@pytest.mark.parametrize("request_number", ["", 7, "\udcff", b"R"])
def test_what_is_no_request_number_is_refused_before_anything_is_done(request_number, folder):
    with (
        create(folder) as store,
        pytest.raises(ValueError, match="a request must be a non-empty string"),
    ):
        store.delete(IDS[:1], request=request_number)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE deletions SET request = 'R-9' WHERE number = 1",
        "UPDATE deletions SET request = NULL WHERE number = 2",
        "UPDATE deletions SET at = at + 1 WHERE number = 2",
        "DELETE FROM deletions WHERE number = 2",
        "DELETE FROM blocked",
        "INSERT INTO blocked VALUES (randomblob(32), 1)",
        "UPDATE blocked SET hash = randomblob(32)",
    ],
)
def test_a_changed_log_of_requests_is_found(statement, folder):
    with create(folder) as store:
        store.delete(IDS[:1], request="R-1")
        store.delete([], request="R-2")
        store.delete(IDS[1:2], block_return=True)
        assert store.verify().sound
    sql(statement)(folder)
    with Store.open(folder) as reader:
        assert "the log of requests, or the list of blocked contents, was changed" in str(
            reader.verify()
        )


def test_copies_are_found_by_content(folder):
    with (
        Store.create(folder, IDS, KEYS, TOKENS, contents=CONTENTS) as store,
        Store.open(folder) as reader,
    ):
        assert reader.find_copies(np.array([1])).tolist() == [4, 9]
        assert reader.find_copies(np.array([1, 4, 2])).tolist() == [9]
        assert set(reader.find_ids_by_content(CONTENTS[[1, 2]]).tolist()) == set(
            IDS[[1, 2, 4, 9]].tolist()
        )
        store.delete(IDS[[4]])
        assert reader.find_copies(np.array([1])).tolist() == [9]
        store.compact()
        assert set(reader.find_ids_by_content(CONTENTS[[1]]).tolist()) == set(IDS[[1, 9]].tolist())
        assert store.verify().sound


def test_without_contents_equal_keys_are_copies(folder):
    keys = KEYS.copy()
    keys[3] = keys[8]
    with Store.create(folder, IDS, keys, TOKENS) as store:
        assert (
            store.find_copies(np.array([8])).tolist() == [3]
            and store.find_copies(np.array([0])).size == 0
        )


def test_a_blocked_content_does_not_come_back(folder):
    with Store.create(folder, IDS, KEYS, TOKENS, contents=CONTENTS) as store:
        store.delete(IDS[:1])
        store.delete(IDS[1:3], block_return=True)
        store.compact()
        assert store.are_blocked(CONTENTS).tolist() == [row in {1, 2, 4, 9} for row in range(12)]
        with pytest.raises(ValueError, match=r"blocked since then: \[6\], so nothing was added"):
            store.add([5, 6], KEYS[:2], TOKENS[:2], contents=CONTENTS[[0, 2]])
        assert len(store.find_ids_by_content(CONTENTS[[0]])) == 0
        store.add([5, 6], KEYS[:2], TOKENS[:2], contents=CONTENTS[[0, 2]], allow_blocked=True)
        assert store.find_ids_by_content(CONTENTS[[2]]).tolist() == [6]
        store.delete([6], block_return=True)  # is blocked already
        assert store.verify().sound
    assert not any(CONTENTS[1].tobytes() in path.read_bytes() for path in folder.glob("store.db*"))


@pytest.mark.parametrize(
    "contents", [CONTENTS[:2, :8], CONTENTS[:2].astype(int), CONTENTS[0], CONTENTS[:3]]
)
def test_what_is_no_content_is_refused(contents, folder):
    with create(folder) as store, pytest.raises(ValueError, match="contents"):
        store.add([5, 6], KEYS[:2], TOKENS[:2], contents=contents)


@pytest.mark.parametrize(
    "ids", [set(IDS[:2].tolist()), (one for one in IDS[:2].tolist()), dict.fromkeys(IDS[:2]).keys()]
)
def test_sets_and_generators_of_ids_are_accepted(ids, folder):
    with create(folder) as store:
        assert len(store.delete(ids).sequences) == 2 and store.verify().live == 10

"""The source file of a row is kept, renumbered and forgotten together with it."""

import re

import numpy as np
import pytest

from munkey.core.console import pluralize
from munkey.deploy.store.ledger import Ledger, LedgerState
from munkey.deploy.store.matrices import Matrices
from munkey.deploy.store.rows import NO_SOURCE, RECORD
from munkey.deploy.store.store import Store
from munkey.deploy.store.verify import find_mismatched_rows
from tests.deploy.store.inputs import add, create, files_of, raw, sources, units_of
from tests.deploy.store.test_damage import sql

IDS, KEYS, TOKENS = raw(12)


def known(store: Store) -> dict[int, object]:
    """Source file, unit and time of addition of each live row, by id."""
    rows = np.flatnonzero(store.view.live)
    told = zip(store.read_sources(rows), store.view.records["added"][rows].tolist(), strict=True)
    return dict(zip(store.view.ids[rows].tolist(), told, strict=True))


def test_rows_are_found_by_file_and_unit_which_are_forgotten_and_renumbered_with_them(folder):
    gone, kept = IDS[[0, 5, 11]], np.delete(IDS, [0, 5, 11])
    with create(folder) as store, Store.open(folder) as reader:
        before = known(store)
        assert [source for source, at in before.values() if at > 1.7e15] == sources(IDS)
        store.delete(gone)
        left = {one: told for one, told in before.items() if one not in gone}
        assert known(store) == known(reader) == left and store.read_sources(np.array([0])) == [
            NO_SOURCE
        ]
        add(store, 3, seed=7)
        left = known(store)
        for then in (list, store.compact):
            then()
            assert known(store) == known(reader) == left and len(left) == 12
            for one, file in zip(kept.tolist(), files_of(kept), strict=True):
                assert (
                    store.find_ids_by_source(file).tolist()
                    == reader.find_ids_by_source(file).tolist()
                    == [one]
                )
            assert reader.find_ids_by_source(files_of(gone)[1]).size == 0
            for unit in set(units_of(kept)) - {None}:
                mine = [one for one, (source, _) in left.items() if source[1] == unit]
                assert sorted(reader.find_ids_by_source(unit, "unit").tolist()) == sorted(mine)
        assert store.verify().sound


def test_some_rows_have_none_and_some_share_one(folder):
    with Store.create(folder, IDS[:3], KEYS[:3], TOKENS[:3], files=["a", None, "a"]) as store:
        assert store.read_sources(np.arange(3)) == [("a", None), NO_SOURCE, ("a", None)]
        assert sorted(store.find_ids_by_source("a").tolist()) == sorted(IDS[[0, 2]].tolist())


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        (
            "UPDATE sources SET file = (SELECT file FROM sources AS other WHERE other.row = 8) WHERE row = 7",
            "7",
        ),
        ("UPDATE sources SET file = file || 'x' WHERE row = 7", "7"),
        ("DELETE FROM sources WHERE row IN (7, 8)", "7, 8"),
    ],
)
def test_a_name_that_is_not_the_rows_own_is_found(statement, rows, folder):
    with create(folder, 60) as store:  # of so many, opening looks at every third
        store.delete(raw(60)[0][:3])
    sql(statement)(folder)
    with Store.open(folder) as reader:
        assert (
            f"{pluralize(len(rows.split()), 'row')} not matching their commitment: {rows}"
            in str(reader.verify())
        )


def test_a_row_that_is_deleted_while_it_is_verified_is_no_problem(folder, monkeypatch):
    """The ledger drops its name first: it is hidden only then."""
    with create(folder) as store, Store.open(folder) as reader:
        seen, hide = [], Matrices.hide

        def verified_first(*arguments):
            monkeypatch.setattr(Matrices, "hide", hide)
            seen.append(find_mismatched_rows(reader._ledger, reader.view, np.arange(12)).tolist())
            hide(*arguments)

        monkeypatch.setattr(Matrices, "hide", verified_first)
        store.delete(IDS[:2])
        assert seen == [[]]


@pytest.mark.parametrize("files", [["a"], ["a", 7], ["a", b"b"], ["a", "\udcff"]])
def test_what_names_no_file_is_refused_and_nothing_added(files, folder):
    with create(folder) as store:
        ids, keys, tokens = raw(2, seed=3)
        with pytest.raises(ValueError, match="source file"):
            store.add(ids, keys, tokens, files=files)
        assert len(known(store)) == 12


def test_a_purge_leaves_no_byte_of_their_names(folder):
    """After this many changes SQLite alone, with `secure_delete`, left two of the 6,401 names in its pages (3.46)."""
    random, held = np.random.default_rng(3), {}
    folder.mkdir()
    Ledger.create(folder / "store.db", LedgerState(b"0" * 16, 1, 1, 1, 0, 0, bytes(32)), {})
    ledger, rows, gone = Ledger(folder / "store.db"), 0, []
    for _ in range(200):
        if random.random() < 0.5 or not held:
            count = int(random.choice([1, 5, 100, 400]))
            names = [
                f"{random.integers(1 << 40):011x}/{'x' * random.integers(60)}.png"
                for _ in range(count)
            ]
            new = {rows + place: (name, name[::-1]) for place, name in enumerate(names)}
            rows += count
            ledger.record_zeros(0, len(new), new)
            held |= new
        else:
            some = random.choice(
                list(held), min(len(held), int(random.choice([1, 20, 300]))), replace=False
            )
            ledger.delete(some, np.zeros(len(some), RECORD), 0, None, False)
            gone += [held.pop(one)[0][:11].encode() for one in some.tolist()]
    ledger.vacuum()
    assert ledger.empty_wal()
    stored = set(re.findall(rb"(?=([0-9a-f]{11}))", (folder / "store.db").read_bytes()))
    ledger.close()
    assert not stored & set(gone)
    assert stored >= {name[:11].encode() for name, _ in held.values()}

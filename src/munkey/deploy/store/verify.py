"""Verification of a memory: its chain and all commitments, recomputed from the disk."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import pluralize
from munkey.deploy.store.ledger import Ledger
from munkey.deploy.store.matrices import BLOCK, MemoryView
from munkey.deploy.store.rows import Rows, compute_commitments, compute_log_entry
from munkey.memory.chain import ChainLink, compute_first_head, compute_next_head


@dataclass(frozen=True)
class Report:
    """The result of a verification.

    Attributes
    ----------
    live, dead : int
        Number of live rows, and of dead rows.
    unsettled : int
        Number of dead rows that were not checked, because their zeros may not be on disk yet.
    deletions : int
        Number of links in the chain.
    head : str
        The head of the chain, in hexadecimal.
    problems : tuple of str
        One sentence per fault.
    foreign : tuple of str
        Files in the folder that do not belong to the memory (`recovery.list_foreign_files`). They
        were not checked.
    """

    live: int
    dead: int
    unsettled: int
    deletions: int
    head: str
    problems: tuple[str, ...]
    foreign: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        foreign = ""
        if self.foreign:
            foreign = f"; not checked, since not part of it: {', '.join(self.foreign)}"
        if self.problems:
            return f"NOT VERIFIED: {'; '.join(self.problems)}{foreign}"
        if self.unsettled:
            zero = f"all but {self.unsettled:,} of them zero"
        else:
            zero = "zero"
        return (
            f"verified: the commitments of {pluralize(self.live, 'live row')} match, and no deleted"
            " row was put back (a picture that was added again is another row);"
            f" {pluralize(self.dead, 'dead row')}, hidden and {zero}; an unbroken chain of"
            f" {pluralize(self.deletions, 'deleted sample')} that ends in {self.head}{foreign}"
        )


def split_blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    """Split row numbers into blocks of at most BLOCK, to bound the memory that copies take."""
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def select_rows(
    view: MemoryView, rows: np.ndarray, condition: Callable[[Rows], ArrayLike]
) -> np.ndarray:
    """Return the rows that meet a condition. condition: maps a block of rows to (n,) bool."""
    matches = [rows[:0]]
    for block in split_blocks(rows):
        meets_condition = np.asarray(condition(view.take_rows(block)), dtype=bool)
        matches.append(block[meets_condition])
    return np.concatenate(matches)


def find_mismatched_rows(ledger: Ledger, view: MemoryView, rows: np.ndarray) -> np.ndarray:
    """Return the rows that do not match their commitment, except rows deleted during the check."""
    store = ledger.read_state().store
    wrong_rows = rows[:0]
    for block in split_blocks(rows):
        stored_rows = view.take_rows(block)
        expected = compute_commitments(store, stored_rows, ledger.read_sources(block))
        is_wrong = (expected != stored_rows.records["commitment"]).any(axis=1)
        wrong_rows = np.append(wrong_rows, block[is_wrong])
    # A row that was deleted during the check is not wrong. The ledger removes its source and lists
    # it as dead before the row is hidden, so check both.
    return np.setdiff1d(wrong_rows[view.live[wrong_rows]], ledger.list_dead_rows())


def find_nonzero_rows(view: MemoryView, rows: np.ndarray) -> np.ndarray:
    """Return the rows whose record, key, or token has any bit that is not zero."""

    def has_bits(stored_rows: Rows) -> np.ndarray:
        is_nonzero = np.zeros(len(stored_rows.keys), dtype=bool)
        for matrix in stored_rows:  # records, keys, and tokens
            row_bytes = matrix.view("u1").reshape(len(matrix), -1)
            is_nonzero |= row_bytes.any(axis=1)
        return is_nonzero

    return select_rows(view, rows, has_bits)


def find_returned_rows(view: MemoryView, rows: np.ndarray, entries: set[bytes]) -> np.ndarray:
    """Return the live rows that were deleted according to the log. entries: those of the log."""

    def is_in_log(stored_rows: Rows) -> list[bool]:
        return [
            compute_log_entry(commitment.tobytes()) in entries
            for commitment in stored_rows.records["commitment"]
        ]

    matches = select_rows(view, rows, is_in_log)
    return matches[view.live[matches]]


def find_rows_with_repeated_ids(view: MemoryView, rows: np.ndarray) -> np.ndarray:
    """Return the live rows that share their id with another live row."""
    ids = view.ids[rows]
    live = view.live[rows]  # read last: the id of a concurrently deleted row reads as zero
    _, group_of_row, group_sizes = np.unique(ids[live], return_inverse=True, return_counts=True)
    return rows[live][group_sizes[group_of_row] > 1]


def find_nonfinite_rows(view: MemoryView, rows: np.ndarray) -> np.ndarray:
    """Return the rows whose key or token contains NaN or infinity."""

    def is_nonfinite(stored_rows: Rows) -> np.ndarray:
        is_finite = np.isfinite(stored_rows.keys).all(axis=1)
        is_finite &= np.isfinite(stored_rows.tokens).all(axis=1)
        return ~is_finite

    return select_rows(view, rows, is_nonfinite)


def find_chain_faults(ledger: Ledger, links: list[ChainLink]) -> Iterator[str]:
    """Describe changes in the chain, or in the log of requests that it covers."""
    false_deletion = ledger.find_false_deletion()
    if false_deletion:
        yield (
            "the log of requests, or the list of blocked contents, was changed at deletion"
            f" {false_deletion}"
        )
    head = compute_first_head(ledger.read_state().store)
    for expected_sequence, link in enumerate(links, start=1):
        head = compute_next_head(head, link.sequence, link.at, link.entry, link.mark)
        if link.sequence != expected_sequence or link.head != head:
            yield f"the chain of deletions is broken at link {expected_sequence}"
            return


def format_first_rows(rows: np.ndarray) -> str:
    """Format the five smallest row numbers, with an ellipsis if there are more."""
    text = ", ".join(map(str, np.sort(rows)[:5].tolist()))
    if len(rows) > 5:
        text += ", …"
    return text


def find_problems(
    ledger: Ledger, view: MemoryView, links: list[ChainLink], published: str | None
) -> Iterator[str]:
    """Describe each fault of a memory. Concurrent deletions and additions are not faults.

    published: a head that must be in the chain.
    """
    integrity = ledger.check_integrity()
    if integrity != "ok":
        yield f"SQLite finds its file damaged: {integrity}"
    # Read in this order, because the memory may change meanwhile: a hidden row is dead in the
    # ledger if that is read later, and a dead row is counted in the state if that is read last.
    hidden_rows = np.flatnonzero(~view.live)
    dead_rows = ledger.list_dead_rows()
    state = ledger.read_state()
    yield from find_chain_faults(ledger, links)
    heads = {link.head.hex() for link in links} | {compute_first_head(state.store).hex()}
    if published is not None and published not in heads:
        yield (
            f"the published head {published} is not in the chain: this is an older copy, or another"
            " memory"
        )
    unchained_count = ledger.count_unchained()
    if unchained_count:
        yield (
            "the last links of the chain of deletions are not those of the dead rows:"
            f" {unchained_count} have another sequence number"
        )
    is_repeated = len(np.unique(dead_rows)) != len(dead_rows)
    if is_repeated or not np.isin(dead_rows, np.arange(state.rows)).all():
        yield "the list of dead rows has repeated or unknown rows"
        return
    stray_sources = ledger.count_stray_sources()
    if stray_sources:
        yield f"source files and units that belong to no live row: {stray_sources}"
    # Rows that must be zero on disk. Rows deleted since the last `settle` need not be.
    erased_rows = np.setdiff1d(
        dead_rows[dead_rows < len(view.live)], ledger.list_dead_rows(after=state.erased)
    )
    live_rows = np.flatnonzero(view.live)
    rows_by_fault = {
        "hidden and never deleted": np.setdiff1d(hidden_rows, dead_rows),
        "dead and not hidden": erased_rows[view.live[erased_rows]],
        "dead and not zero": find_nonzero_rows(view, erased_rows),
        "not matching their commitment": find_mismatched_rows(ledger, view, live_rows),
        "deleted and back": find_returned_rows(view, live_rows, {link.entry for link in links}),
        "with an id that another row has too": find_rows_with_repeated_ids(view, live_rows),
        "with numbers that are not finite": find_nonfinite_rows(view, live_rows),
    }
    for fault, rows in rows_by_fault.items():
        if len(rows):
            yield f"{pluralize(len(rows), 'row')} {fault}: {format_first_rows(rows)}"


def check_memory(
    ledger: Ledger, view: MemoryView, published: str | None, foreign: Iterable[str]
) -> Report:
    """Check a memory.

    published: a head that must be in the chain. foreign: files in the memory's folder that do not
    belong to it.
    """
    links = ledger.list_links()
    problems = tuple(find_problems(ledger, view, links, published))
    live_count = int(np.count_nonzero(view.live))
    return Report(
        live=live_count,
        dead=len(view.live) - live_count,
        unsettled=len(ledger.list_dead_rows(after=ledger.read_state().erased)),
        deletions=len(links),
        head=ledger.get_last_link().head.hex(),
        problems=problems,
        foreign=tuple(foreign),
    )

"""Whether a memory is what its chain says: recomputed from what is on the disk."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import counted
from munkey.deploy.store.chain import ChainLink, first_head, next_head
from munkey.deploy.store.ledger import Ledger
from munkey.deploy.store.matrices import BLOCK, MemoryView
from munkey.deploy.store.rows import Rows, commitments, entry


@dataclass(frozen=True)
class Report:
    """What `verify` found. live, dead: rows; deletions: links of the chain, which ends in head (hexadecimal).

    unsettled: dead rows whose zeros need not be on the disk yet, so they were not looked at; problems: a sentence for
    each thing that is not as it must be; foreign: what lies beside it and was not looked at, as `recovery.foreign`.
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
        besides = (
            f"; not part of it, and not looked at: {', '.join(self.foreign)}"
            if self.foreign
            else ""
        )
        if self.problems:
            return f"NOT VERIFIED: {'; '.join(self.problems)}{besides}"
        zero = f"all but {self.unsettled:,} of them zero" if self.unsettled else "zero"
        return (
            f"verified: {counted(self.live, 'live row')} with the right commitment, none of them a deleted row put back"
            f" (a picture that was added anew is another row); {counted(self.dead, 'dead row')}, hidden and {zero};"
            f" an unbroken chain of {counted(self.deletions, 'deleted sample')} that ends in {self.head}{besides}"
        )


def blocks(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def chosen(view: MemoryView, rows: np.ndarray, which: Callable[[Rows], ArrayLike]) -> np.ndarray:
    """Those of the rows that `which` is true of, (n,) bool of a part of them."""
    found = [np.asarray(which(view.rows(block)), dtype=bool) for block in blocks(rows)]
    return rows[np.concatenate(found)] if found else rows


def mismatched(ledger: Ledger, view: MemoryView, rows: np.ndarray) -> np.ndarray:
    """Which of these rows do not match their commitment and have not been deleted meanwhile either."""
    store, suspects = ledger.state().store, rows[:0]
    for block in blocks(rows):
        part, sources = view.rows(block), ledger.sources_of(block)
        wrong = (commitments(store, part, sources) != part.records["commitment"]).any(axis=1)
        suspects = np.append(suspects, block[wrong])
    # the ledger drops a name before a row is hidden
    return np.setdiff1d(suspects[view.live[suspects]], ledger.dead())


def nonzero(view: MemoryView, rows: np.ndarray) -> np.ndarray:
    """Which of these rows hold any bit that is not zero."""
    return chosen(
        view,
        rows,
        lambda part: np.any(
            [array.view("u1").reshape(len(array), -1).any(axis=1) for array in part], axis=0
        ),
    )


def returned(view: MemoryView, rows: np.ndarray, entries: set[bytes]) -> np.ndarray:
    """Which of these rows stand in the log as deleted."""
    back = chosen(
        view,
        rows,
        lambda part: [entry(one.tobytes()) in entries for one in part.records["commitment"]],
    )
    return back[view.live[back]]


def repeated(view: MemoryView, rows: np.ndarray) -> np.ndarray:
    """Which of these rows share their id with another one."""
    ids = view.ids[rows]
    live = view.live[rows]  # looked at last: the id of a row that is deleted meanwhile is zero
    _, which, counts = np.unique(ids[live], return_inverse=True, return_counts=True)
    return rows[live][counts[which] > 1]


def breaks(ledger: Ledger, links: list[ChainLink]) -> Iterator[str]:
    """Where the chain does not follow from its first head, or the log of requests is not what it covers."""
    if place := ledger.unmarked():
        yield f"the log of requests, or the list of blocked contents, was changed at deletion {place} of the log"
    head = first_head(ledger.state().store)
    for place, link in enumerate(links, start=1):
        head = next_head(head, link.sequence, link.at, link.entry, link.mark)
        if link.sequence != place or link.head != head:
            yield f"the chain of deletions is broken at link {place}"
            return


def listed(rows: np.ndarray) -> str:
    return f"{', '.join(map(str, np.sort(rows)[:5].tolist()))}{', …' if len(rows) > 5 else ''}"


def problems(
    ledger: Ledger, view: MemoryView, links: list[ChainLink], published: str | None
) -> Iterator[str]:
    """A sentence for each thing that is wrong. Rows that are deleted or added while it runs are not a problem."""
    if (said := ledger.integrity()) != "ok":
        yield f"SQLite finds its file damaged: {said}"
    # In this order: what is hidden is dead by the ledger already, and what is dead is among the rows of a later state.
    hidden, dead, state = np.flatnonzero(~view.live), ledger.dead(), ledger.state()
    yield from breaks(ledger, links)
    heads = {link.head.hex() for link in links} | {first_head(state.store).hex()}
    if published is not None and published not in heads:
        yield f"the head {published} was published and is not in the chain: this is an older copy, or another memory"
    if unchained := ledger.unchained():
        yield f"the chain of deletions does not end in those of the dead rows: {unchained} have another number"
    if len(np.unique(dead)) != len(dead) or not np.isin(dead, np.arange(state.rows)).all():
        yield "the list of dead rows makes no sense"
        return
    if stray := ledger.stray_sources():
        yield f"source files and units that belong to no live row: {stray}"
    erased = np.setdiff1d(dead[dead < len(view.live)], ledger.dead(after=state.erased))
    live = np.flatnonzero(view.live)
    sentences = {
        "hidden and never deleted": np.setdiff1d(hidden, dead),
        "dead and not hidden": erased[view.live[erased]],
        "dead and not zero": nonzero(view, erased),
        "not matching their commitment": mismatched(ledger, view, live),
        "deleted and back": returned(view, live, {link.entry for link in links}),
        "with an id that another row has too": repeated(view, live),
        "with numbers that are not finite": chosen(
            view, live, lambda part: ~np.isfinite(np.hstack([part.keys, part.tokens])).all(axis=1)
        ),
    }
    yield from (
        f"{counted(len(rows), 'row')} {what}: {listed(rows)}"
        for what, rows in sentences.items()
        if len(rows)
    )


def verified(
    ledger: Ledger, view: MemoryView, published: str | None, foreign: tuple[str, ...]
) -> Report:
    links = ledger.links()
    found = tuple(problems(ledger, view, links, published))
    live, unsettled = (
        int(np.count_nonzero(view.live)),
        len(ledger.dead(after=ledger.state().erased)),
    )
    return Report(
        live, len(view.live) - live, unsettled, len(links), ledger.last().head.hex(), found, foreign
    )

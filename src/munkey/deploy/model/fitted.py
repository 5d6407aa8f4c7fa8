"""A model of a family that is fitted, in use: it has no weights of its own, they follow from the rows that are left."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from munkey.core.ids import NOBODY
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model.manifest import Manifest
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.ledger import Position
from munkey.deploy.store.store import Store
from munkey.memory.sums import BLOCK, MOST, Sums
from munkey.models.family import FAMILIES, FittedArchitecture, FittedFamily, Retrieval, System

if TYPE_CHECKING:
    from torch import nn

    from munkey.deploy.model.retrieval import RetrievedRows
    from munkey.memory.neighbors import Neighbors
    from munkey.settings import DataSettings

NO_CLASS = "has a row with a label that means no class"


class LiveSums:
    """Sums over the live rows of a memory: the only place that adds its rows, and takes them out
    again.

    Two values say which rows are in. `_counted`: the first so many live rows, in the order of the
    memory. Rows that are added come behind these, a compaction keeps the order, and a deletion
    takes out those of its rows that are among them. `_head`: where the chain of deletions ended
    then. If it ends elsewhere, another process has deleted rows whose keys nobody can read any
    more, and the sums are made anew from all rows.

    The sums are exact, so it does not matter in which order rows came and went.
    """

    def __init__(self, store: Store, empty: Sums) -> None:
        """empty: of no rows."""
        self._store = store
        self.empty = empty
        self._lock = threading.RLock()
        self._sums: Sums | None = None
        self._counted = 0
        self._head = b""
        self._position: Position | None = None  # at which the sums were those of all live rows
        # keys and labels that are yet to be taken out
        self._deleted: list[tuple[np.ndarray, np.ndarray]] = []

    def delete(self, rows: np.ndarray, delete: Callable[[], Receipt]) -> Receipt:
        """Delete rows, and note what those that are in the sums have put into them: it leaves
        before the next answer.

        rows: their numbers in the present generation; delete: does it.
        """
        with self._lock:
            sums = self._sums
            counted = self._counted_among(rows)
            if sums is None or counted is None:
                self._sums = None
                return delete()
            receipt = delete()
            if receipt.repeated:
                return receipt
            # another thread deleted through the store itself
            if bytes.fromhex(receipt.before) != self._head:
                self._sums = None
                return receipt
            self._deleted.append(counted)
            self._counted -= len(counted[1])
            self._head = bytes.fromhex(receipt.after)
            if sum(len(labels) for _, labels in self._deleted) >= BLOCK:
                self._take_out(sums)
            return receipt

    def _counted_among(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Keys and labels of those rows that are in the sums; None where there are no sums, or old ones."""
        if self._sums is None:
            return None
        with self._store.snapshot() as (position, view):
            if position.head != self._head:
                return None
            # The last row that is in; behind it come those that were added since.
            last = np.flatnonzero(view.live)[self._counted - 1] if self._counted else -1
            counted_rows = rows[rows <= last]
            return view.keys[counted_rows], view.labels[counted_rows]

    @contextmanager
    def current(self) -> Iterator[tuple[Position, Sums]]:
        """The sums of the rows that are live now, and where the memory stands. Not to be kept: they
        change in place.
        """
        with self._lock:
            with summable(self._store.folder):
                position = self._update()
            assert self._sums is not None
            yield position, self._sums

    def _update(self) -> Position:
        """Put in what was added, take out what was deleted, or start anew. Returns where the memory
        stands.
        """
        if self._sums is not None and self._position == self._store.position:
            return self._position
        while True:
            with self._store.snapshot() as (position, view):
                sums = self._sums
                if sums is None or position.head != self._head:
                    sums = deepcopy(self.empty)
                    self._counted = 0
                    self._head = position.head
                    self._deleted.clear()
                self._sums = None  # a failure from here on leaves none, rather than a part
                self._take_out(sums)
                added_rows = np.flatnonzero(view.live)[self._counted :]
                for start in range(0, len(added_rows), BLOCK):
                    rows = view.rows(added_rows[start : start + BLOCK])
                    sums.add(rows.keys, rows.records["label"])
            # else rows were deleted or added while they were read
            if self._store.position == position:
                self._sums = sums
                self._counted += len(added_rows)
                self._position = position
                return position

    def _take_out(self, sums: Sums) -> None:
        if self._deleted:
            keys, labels = (np.concatenate(parts) for parts in zip(*self._deleted, strict=True))
            sums.add(keys, labels, sign=-1)
            self._deleted.clear()


@contextmanager
def summable(folder: Path) -> Iterator[None]:
    """What rows that make no sense cause in sums, or torch's in a covariance, becomes
    UnreadableModelError.
    """
    try:
        yield
    except (ValueError, IndexError, RuntimeError) as error:
        said = f"its rows cannot be summed ({error}): `verify` says whether the memory is damaged"
        raise UnreadableModelError(folder, said) from error


class SolvedHead(NamedTuple):
    """Weights that follow from the rows at a position, of these classes, by number."""

    position: Position
    head: "nn.Module"
    classes: np.ndarray


class FittedModel:
    """Answers of a family that is fitted, about the rows of a store."""

    def __init__(self, manifest: Manifest, store: Store) -> None:
        assert manifest.settings is not None
        self.manifest, self.store = manifest, store
        self.family = cast(FittedFamily, FAMILIES[manifest.family])
        self.section = self.family.section({manifest.family: manifest.settings})
        self.k = max(self.family.neighbors_read(self.section).values(), default=0)
        self._architecture = FittedArchitecture(
            len(manifest.classes), store.state.key_width, manifest.settings
        )
        empty = self.family.empty_sums(self._architecture)
        self.sums = LiveSums(store, empty) if empty is not None else None
        self._solved: SolvedHead | None = None
        self._present: SolvedHead | None = None

    def require_room(self, added: int) -> None:
        """Raise ValueError where the memory would hold more rows than can be summed exactly."""
        if self.sums is not None and int(np.count_nonzero(self.store.view.live)) + added > MOST:
            raise ValueError(
                f"{self.family.title} holds at most {MOST:,} samples, so nothing was added"
            )

    def digests(self, *, anew: bool = False) -> dict[str, str]:
        """SHA-256 of what answers now: of `sums` and `weights`, or of the `rows` that vote; and at which `head` of the
        chain, with how many rows `live`. anew: of what the rows that are left give, whatever answered so far.
        """
        if anew:
            return FittedModel(self.manifest, self.store).digests()
        if self.sums is None:
            position, digests = self._row_digests()
        else:
            with self._solved_now() as (position, sums, head):
                arrays = [sums.counts, sums.firsts]
                if sums.seconds is not None:
                    arrays.append(sums.seconds)
                weights = [buffer.numpy() for buffer in head.buffers()]
                digests = {"sums": _digest(arrays), "weights": _digest(weights)}
        return {"head": position.head.hex(), "live": str(position.live)} | digests

    def _row_digests(self) -> tuple[Position, dict[str, str]]:
        """The digest of the rows that vote, by ascending id, and where the memory stood when they
        were read.
        """
        while True:
            with self.store.snapshot() as (position, view):
                rows = np.flatnonzero(view.live)
                rows = rows[np.argsort(view.ids[rows])]
                digest = _digest([view.keys[rows], view.labels[rows]])
            if self.store.position == position:  # else rows were deleted while they were read
                return position, {"rows": digest}

    @contextmanager
    def _solved_now(self) -> Iterator[tuple[Position, Sums, "nn.Module"]]:
        """Where the memory stands, its sums, which are not to be kept, and the weights that follow: solved once for
        each position.
        """
        assert self.sums is not None
        while True:
            with self.sums.current() as (position, sums):
                if self._solved is None or self._solved.position != position:
                    self._solved = self._solved_at(position, sums, np.arange(len(sums.counts)))
                if self._solved is not None:
                    yield position, sums, self._solved.head
                    return

    def _solved_at(self, position: Position, sums: Sums, classes: np.ndarray) -> SolvedHead | None:
        """The weights of these classes, by number, that follow from the rows at a position.

        None where a family reads the rows themselves, and these were deleted or moved while they were read.
        """
        with summable(self.store.folder):
            own_sums = sums.of(classes)
            settings = self.section
            if self.family.reads_rows(settings):
                with self.store.snapshot() as (_, view):
                    rows = np.flatnonzero(view.live)
                    rows = rows[np.argsort(view.ids[rows])]
                    keys = view.keys[rows]
                    labels = view.labels[rows]
                if self.store.position != position:
                    return None
                places = np.full(len(sums.counts), NOBODY)
                places[classes] = np.arange(len(classes))
                settings = self.family.calibrated(settings, own_sums, keys, places[labels])
            return SolvedHead(position, self.family.solved(own_sums, settings), classes)

    def head(self) -> "nn.Module | None":
        """The weights that follow from the rows that are live now; None for a family without
        weights.

        Raises UnreadableModelError for a damaged memory.
        """
        if self.sums is None:
            return None
        with self._solved_now() as (_, _, head):
            return head

    def present_head(self) -> SolvedHead:
        """As `head`, of the classes that have rows alone, in ascending order of what they are
        called.

        It is that of a fit to the rows, to the bit: the weights also depend, in the last bit, on
        the order of classes.
        """
        assert self.sums is not None
        while True:
            with self.sums.current() as (position, sums):
                if self._present is None or self._present.position != position:
                    classes = self._ascending(np.flatnonzero(sums.counts))
                    self._present = self._solved_at(position, sums, classes)
                if self._present is not None:
                    return self._present

    def present_classes(self) -> np.ndarray:
        """The numbers of the classes that have rows, in ascending order of what they are called."""
        with self.store.snapshot() as (_, view):
            rows = np.flatnonzero(view.live)
            labels = view.labels[rows]
            labels = labels[view.live[rows]]  # looked at last: what is deleted meanwhile is zero
        if len(labels) and (labels.min() < 0 or labels.max() >= len(self.manifest.classes)):
            raise UnreadableModelError(self.store.folder, NO_CLASS)
        return self._ascending(np.flatnonzero(np.bincount(labels)))

    def _ascending(self, classes: np.ndarray) -> np.ndarray:
        names = self.manifest.classes
        numbers = classes.tolist()
        if any(names[number] is None for number in numbers):
            raise UnreadableModelError(self.store.folder, NO_CLASS)
        return np.array(sorted(numbers, key=names.__getitem__), dtype=np.int64)

    def logits(self, keys: np.ndarray, retrieved: "RetrievedRows") -> np.ndarray:
        """Logits (N, C) of pictures with these keys (N, d). Raises UnreadableModelError for a damaged memory."""
        return self._asked(keys, self.head(), retrieved, len(self.manifest.classes))

    def present_logits(
        self, keys: np.ndarray, retrieve: "Callable[[np.ndarray], RetrievedRows]"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the classes that have rows, as `present_classes`, and logits (N, C) among
        these alone.

        They are those of a fit to the rows, to the bit. retrieve: finds the neighbors of keys, if
        the family asks any.
        """
        from munkey.deploy.model.retrieval import no_rows

        if self.sums is not None:
            solved = self.present_head()
            return solved.classes, self._asked(
                keys, solved.head, no_rows(len(keys)), len(solved.classes)
            )
        while True:
            position = self.store.position
            classes = self.present_classes()
            retrieved = retrieve(keys)
            # else rows of other classes may have come meanwhile
            if self.store.position == position:
                break
        places = np.full(len(self.manifest.classes), NOBODY)
        places[classes] = np.arange(len(classes))
        tokens = places[retrieved.labels].astype(np.float32)[..., None]
        return classes, self._asked(keys, None, replace(retrieved, tokens=tokens), len(classes))

    def _asked(
        self, keys: np.ndarray, head: "nn.Module | None", retrieved: "RetrievedRows", classes: int
    ) -> np.ndarray:
        """Logits (N, classes) of weights or of neighbors, whose tokens are the numbers of their
        classes.
        """
        from munkey.data.image_set import ImageSet

        pixels = np.zeros((len(keys), 1, 1, 3), dtype=np.uint8)
        samples = ImageSet(
            pixels, np.arange(len(keys)), np.arange(len(keys)), np.zeros(len(keys), dtype=np.int64)
        )
        architecture = FittedArchitecture(
            classes, self._architecture.key_dim, self._architecture.settings
        )
        system = System(self.family.name, architecture, head, retrieved.memory("cpu"))
        unread_data = cast("DataSettings", self.manifest.data)
        asked = Retrieval(retrieved.neighbors, keys=keys)
        return self.family.logits(system, samples, unread_data, "cpu", asked)

    def weights(self, neighbors: "Neighbors") -> np.ndarray:
        """How much each neighbor counts (N, K), as in `munkey.deploy.model.model.LoadedNetwork`."""
        import torch

        weights = self.family.vote_weights(
            self.section,
            torch.from_numpy(neighbors.ids != NOBODY),
            torch.from_numpy(neighbors.cosines),
        )
        return (weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-12)).numpy()


def _digest(arrays: list[np.ndarray]) -> str:
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)
    ).hexdigest()

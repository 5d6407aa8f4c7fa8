"""A model of a fitted family: KNN, LDA, NCM, RanPAC, or KRR.

Its weights, if it has any, are computed from the rows in the memory.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from munkey.core.ids import NO_NEIGHBOR
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model.manifest import Manifest
from munkey.deploy.store.ledger import Position
from munkey.deploy.store.store import Store
from munkey.memory.chain import Receipt
from munkey.memory.sums import BLOCK, MAX_ROWS, Sums
from munkey.models.family import (
    FAMILIES,
    FittedArchitecture,
    FittedFamily,
    FittedRows,
    Retrieval,
    System,
)

if TYPE_CHECKING:
    from torch import nn

    from munkey.deploy.model.retrieval import RetrievedRows
    from munkey.memory.neighbors import Neighbors
    from munkey.settings import DataSettings

UNKNOWN_LABEL = "has a row whose label is not a class"


def list_fixed_constants(manifest: Manifest) -> list[str]:
    """List the constants of a fitted family that deletions do not recompute; none for MUNKEY."""
    family = FAMILIES[manifest.family]
    if not isinstance(family, FittedFamily) or manifest.settings is None:
        return []
    constants = family.list_constants(family.validate_section(manifest.settings))
    if manifest.estimator is not None and manifest.estimator.bound is not None:
        constants.append("bound")
    return constants


class LiveSums:
    """Sums over the live rows of a memory, updated when rows are added or deleted.

    The sums cover the first `_covered_count` live rows, in the order of the memory. New rows come
    after these, a compaction keeps the order, and a deletion subtracts those of its rows that are
    covered. `_head` is the head of the chain of deletions at the last update. If the head has
    changed since, another process has deleted rows, whose keys are gone; then the sums are
    recomputed from all rows.

    The sums are exact, so they do not depend on the order of additions and deletions. empty: sums
    over no rows.
    """

    def __init__(self, store: Store, empty: Sums) -> None:
        self._store = store
        self.empty = empty
        self._lock = threading.RLock()
        self._sums: Sums | None = None
        self._covered_count = 0
        self._head = b""
        # Keys and labels of deleted rows that have not been subtracted yet.
        self._deleted: list[tuple[np.ndarray, np.ndarray]] = []

    def delete(self, rows: np.ndarray, delete_from_store: Callable[[], Receipt]) -> Receipt:
        """Delete rows and queue their keys and labels, which are subtracted from the sums later.

        rows: row numbers in the current generation. delete_from_store: deletes them from the store
        and returns the receipt.
        """
        with self._lock:
            sums = self._sums
            # Read the rows before the deletion, which overwrites them.
            keys_and_labels = self._read_covered_rows(rows)
            if sums is None or keys_and_labels is None:
                self._sums = None
                return delete_from_store()
            receipt = delete_from_store()
            if receipt.repeated:
                return receipt
            if bytes.fromhex(receipt.before) != self._head:
                # Rows were deleted directly through the store, so the sums are out of date.
                self._sums = None
                return receipt
            self._deleted.append(keys_and_labels)
            _, labels = keys_and_labels
            self._covered_count -= len(labels)
            self._head = bytes.fromhex(receipt.after)
            deleted_count = sum(len(deleted_labels) for _, deleted_labels in self._deleted)
            if deleted_count >= BLOCK:
                self._subtract_deleted(sums)
            return receipt

    def _read_covered_rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Read the keys and labels of the given rows, except for rows that the sums do not cover.

        Returns None if there are no sums, or if rows were deleted since the last update.
        """
        if self._sums is None:
            return None
        with self._store.snapshot() as (position, view):
            if position.head != self._head:
                return None
            if self._covered_count:
                last_covered_row = np.flatnonzero(view.live)[self._covered_count - 1]
            else:
                last_covered_row = -1
            covered_rows = rows[rows <= last_covered_row]  # later rows were added since
            return view.keys[covered_rows], view.labels[covered_rows]

    @contextmanager
    def update(self) -> Iterator[tuple[Position, Sums]]:
        """Yield the position of the memory, and the sums over its live rows.

        Use the sums only inside the block, because they change in place. Raises
        UnreadableModelError if the rows cannot be summed.
        """
        with self._lock:
            with translate_sum_errors(self._store.folder):
                position = self._update_sums()
            assert self._sums is not None
            yield position, self._sums

    def _update_sums(self) -> Position:
        """Bring the sums up to date with the memory, and return its position.

        Subtracts deleted rows, and adds new ones. If another process has deleted rows, the sums are
        recomputed from all rows.
        """
        position = self._store.position
        covers_all_rows = position.head == self._head and position.live == self._covered_count
        sums = self._sums
        if sums is not None and covers_all_rows:
            # No rows were added, so none need to be read, and no lock of the memory is taken.
            # Unset meanwhile, so that a failure leaves no wrong sums.
            self._sums = None
            self._subtract_deleted(sums)
            self._sums = sums
            return position
        while True:
            with self._store.snapshot() as (position, view):
                sums = self._sums
                if sums is None or position.head != self._head:
                    sums = deepcopy(self.empty)
                    self._covered_count = 0
                    self._head = position.head
                    self._deleted.clear()
                # Here, too: unset until the sums are complete again.
                self._sums = None
                self._subtract_deleted(sums)
                added_rows = np.flatnonzero(view.live)[self._covered_count :]
                for start in range(0, len(added_rows), BLOCK):
                    rows = view.take_rows(added_rows[start : start + BLOCK])
                    sums.add(rows.keys, rows.records["label"])
            if self._store.position == position:
                self._sums = sums
                self._covered_count += len(added_rows)
                return position
            # Rows were added or deleted during the read. The sums stay unset, so the next attempt
            # starts with no rows.

    def _subtract_deleted(self, sums: Sums) -> None:
        """Subtract the rows that were deleted since the last time."""
        if not self._deleted:
            return
        keys = np.concatenate([keys for keys, _ in self._deleted])
        labels = np.concatenate([labels for _, labels in self._deleted])
        sums.add(keys, labels, sign=-1)
        self._deleted.clear()


@contextmanager
def translate_sum_errors(folder: Path) -> Iterator[None]:
    """Turn errors that sums or torch raise for invalid rows into UnreadableModelError."""
    try:
        yield
    except (ValueError, IndexError, RuntimeError) as error:
        why = f"its rows cannot be summed ({error}): `verify` says whether the memory is damaged"
        raise UnreadableModelError(folder, why) from error


class SolvedHead(NamedTuple):
    """Weights that were computed from the rows at a position.

    classes: (C,), the class index of each output of the head.
    """

    position: Position
    head: "nn.Module"
    classes: np.ndarray


class FittedModel:
    """The model of a fitted family, from the rows of a memory."""

    def __init__(self, manifest: Manifest, store: Store) -> None:
        assert manifest.settings is not None, "not the manifest of a fitted family"
        self.manifest = manifest
        self.store = store
        self.family = cast(FittedFamily, FAMILIES[manifest.family])
        self.section = self.family.read_section({manifest.family: manifest.settings})
        # The family may use several numbers of neighbors, or none. The largest serves all of them.
        self.k = max(self.family.count_neighbors(self.section).values(), default=0)
        self._architecture = FittedArchitecture(
            classes=len(manifest.classes),
            key_dim=store.state.key_width,
            settings=manifest.settings,
        )
        empty = self.family.make_sums(self._architecture)
        self.sums: LiveSums | None = None
        if empty is not None:
            self.sums = LiveSums(store, empty)
        self._solved_head: SolvedHead | None = None
        self._head_of_present_classes: SolvedHead | None = None

    def require_room(self, added_count: int) -> None:
        """Raise ValueError if more rows would exceed the number that the family can be fitted to.

        added_count: the number of rows to add.
        """
        if self.sums is None:
            return
        max_rows = MAX_ROWS  # the limit of exact sums
        if self.family.max_rows:
            max_rows = min(max_rows, self.family.max_rows)
        live_count = int(np.count_nonzero(self.store.view.live))
        if live_count + added_count > max_rows:
            raise ValueError(
                f"{self.family.title} holds at most {max_rows:,} samples, so nothing was added"
            )

    def digests(self, *, recompute: bool = False) -> dict[str, str]:
        """Return the SHA-256 of the `sums` and the `rows` from which answers are computed.

        Only of those that the family reads. Both are exact, so they do not depend on the machine or
        on the number of threads, as the last bits of weights do. The result also has the `head` of
        the chain and the number of `live` rows, as strings. recompute: compute the sums from the
        remaining rows, without earlier ones.
        """
        if recompute:
            return FittedModel(self.manifest, self.store).digests()
        reads_rows = self.sums is None or self.family.reads_rows(self.section)
        while True:
            digests = {}
            if self.sums is None:
                position = self.store.position
            else:
                with self.sums.update() as (position, sums):
                    arrays = [sums.counts, sums.class_sums]
                    if sums.outer_products is not None:
                        arrays.append(sums.outer_products)
                    digests["sums"] = _hash_arrays(arrays)
            if reads_rows:
                with self.store.snapshot() as (_, view):
                    rows = np.flatnonzero(view.live)
                    rows = rows[np.argsort(view.ids[rows])]
                    digests["rows"] = _hash_arrays([view.keys[rows], view.labels[rows]])
            if self.store.position == position:  # otherwise, rows changed during the read
                return {"head": position.head.hex(), "live": str(position.live)} | digests

    def has_altered_weights(self) -> bool:
        """Return whether the current weights differ from those that the remaining rows give here.

        Only this process can tell, because their last bits depend on its machine and its threads.
        """
        head = self.solve_head()
        recomputed_head = FittedModel(self.manifest, self.store).solve_head()
        if head is None or recomputed_head is None:
            return False
        buffers = zip(head.buffers(), recomputed_head.buffers(), strict=True)
        return any(
            buffer.numpy().tobytes() != recomputed.numpy().tobytes()
            for buffer, recomputed in buffers
        )

    @contextmanager
    def _solve_current_head(self) -> Iterator[tuple[Position, Sums, "nn.Module"]]:
        """Yield the memory's position, its sums, and the weights that are computed from them.

        The weights are computed only once per position. Use the sums only inside the block.
        """
        assert self.sums is not None, "the family has no weights"
        while True:
            with self.sums.update() as (position, sums):
                if self._solved_head is None or self._solved_head.position != position:
                    all_classes = np.arange(len(sums.counts))
                    self._solved_head = self._solve_head(position, sums, all_classes)
                if self._solved_head is not None:
                    yield position, sums, self._solved_head.head
                    return
                # Rows were deleted during the read. Repeat it at the new position.

    def _solve_head(self, position: Position, sums: Sums, classes: np.ndarray) -> SolvedHead | None:
        """Compute the weights of some classes from the rows at a position.

        classes: (C,), their class indices. Returns None if the family needs the rows themselves,
        not only their sums, and the memory is no longer at this position.
        """
        with translate_sum_errors(self.store.folder):
            class_sums = sums.select(classes)
            fitted_rows = None
            if self.family.reads_rows(self.section):
                fitted_rows = self._read_fitted_rows(position, classes)
                if fitted_rows is None:
                    return None
            head = self.family.solve(class_sums, self.section, fitted_rows)
            return SolvedHead(position, head, classes)

    def _read_fitted_rows(self, position: Position, classes: np.ndarray) -> FittedRows | None:
        """Read all live rows, sorted by id, with labels that are indices into `classes`.

        Returns None if the memory is no longer at this position.
        """
        with self.store.snapshot() as (_, view):
            rows = np.flatnonzero(view.live)
            rows = rows[np.argsort(view.ids[rows])]
            ids = view.ids[rows]
            keys = view.keys[rows]
            labels = view.labels[rows]
        if self.store.position != position:
            return None
        return FittedRows(ids, keys, self._index_classes(classes)[labels])

    def _index_classes(self, classes: np.ndarray) -> np.ndarray:
        """Return the index in `classes` of each class of the model; -1 for other classes."""
        index_of_class = np.full(len(self.manifest.classes), -1)
        index_of_class[classes] = np.arange(len(classes))
        return index_of_class

    def solve_head(self) -> "nn.Module | None":
        """Compute the weights of all classes from the live rows; None for a family without weights.

        Raises UnreadableModelError if the memory is damaged.
        """
        if self.sums is None:
            return None
        with self._solve_current_head() as (_, _, head):
            return head

    def solve_head_of_present_classes(self) -> SolvedHead:
        """Compute the weights of only those classes that have rows, sorted by class name.

        They equal those of a fit to the rows, bit for bit. They are computed once per position of
        the memory. Only for families with sums. Raises UnreadableModelError if the memory is
        damaged.
        """
        assert self.sums is not None, "the family has no weights"
        while True:
            with self.sums.update() as (position, sums):
                head = self._head_of_present_classes
                if head is None or head.position != position:
                    # Sorted as in a fit, because the order of the classes changes the last bits.
                    classes = self._sort_classes(np.flatnonzero(sums.counts))
                    head = self._solve_head(position, sums, classes)
                    self._head_of_present_classes = head
                if head is not None:
                    return head
                # Rows were deleted during the read. Repeat it at the new position.

    def find_present_classes(self) -> np.ndarray:
        """Return the indices of the classes that have rows, sorted by class name.

        Raises UnreadableModelError if a row has a label that is not a class.
        """
        with self.store.snapshot() as (_, view):
            rows = np.flatnonzero(view.live)
            labels = view.labels[rows]
            is_live = view.live[rows]  # read last: a concurrently deleted row reads as zero
            labels = labels[is_live]
        if len(labels) and (labels.min() < 0 or labels.max() >= len(self.manifest.classes)):
            raise UnreadableModelError(self.store.folder, UNKNOWN_LABEL)
        return self._sort_classes(np.flatnonzero(np.bincount(labels)))

    def _sort_classes(self, classes: np.ndarray) -> np.ndarray:
        """Sort class indices by class name.

        Raises UnreadableModelError if a class has no name.
        """
        # The names can be compared, because all of them are strings or all are numbers. mypy cannot
        # know this, so the type is Any.
        names: list[Any] = self.manifest.classes
        if any(names[label] is None for label in classes):
            raise UnreadableModelError(self.store.folder, UNKNOWN_LABEL)
        sorted_classes = sorted(classes.tolist(), key=lambda label: names[label])
        return np.array(sorted_classes, dtype=np.int64)

    def compute_logits(self, keys: np.ndarray, retrieved_rows: "RetrievedRows") -> np.ndarray:
        """Compute logits (N, C) of keys (N, d) for all classes.

        retrieved_rows: the neighbors of the keys; empty if the family needs none. Raises
        UnreadableModelError if the memory is damaged.
        """
        return self._compute_logits(
            keys, self.solve_head(), retrieved_rows, len(self.manifest.classes)
        )

    def compute_present_logits(
        self, keys: np.ndarray, retrieve: "Callable[[np.ndarray], RetrievedRows]"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute logits (N, C) of keys (N, d) for the classes that have rows.

        They equal those of a fit to the rows, bit for bit. retrieve: finds the neighbors of keys,
        if the family needs them. Returns the class indices (C,), in the order of
        `find_present_classes`, and the logits.
        """
        from munkey.deploy.model.retrieval import make_empty_rows

        if self.sums is not None:
            solved_head = self.solve_head_of_present_classes()
            neighbors = make_empty_rows(len(keys))
            logits = self._compute_logits(
                keys, solved_head.head, neighbors, len(solved_head.classes)
            )
            return solved_head.classes, logits
        while True:
            position = self.store.position
            classes = self.find_present_classes()
            retrieved_rows = retrieve(keys)
            if self.store.position == position:
                break
            # Rows were added or deleted in between, perhaps the first or last of a class. Repeat.
        if not len(classes):
            return classes, np.zeros((len(keys), 0), dtype=np.float32)
        # The token of a row is its class: here, the index among the classes that have rows.
        tokens = self._index_classes(classes)[retrieved_rows.labels].astype(np.float32)[..., None]
        retrieved_rows = replace(retrieved_rows, tokens=tokens)
        return classes, self._compute_logits(keys, None, retrieved_rows, len(classes))

    def _compute_logits(
        self,
        keys: np.ndarray,
        head: "nn.Module | None",
        retrieved_rows: "RetrievedRows",
        classes: int,
    ) -> np.ndarray:
        """Compute logits (N, classes) with a head, or from neighbors, whose tokens are classes.

        classes: number of classes.
        """
        from munkey.data.image_set import ImageSet

        # These families read only keys, so pictures and labels are blank.
        rows = np.arange(len(keys))
        blank_images = np.zeros((len(keys), 1, 1, 3), dtype=np.uint8)
        blank_labels = np.zeros(len(keys), dtype=np.int64)
        samples = ImageSet(blank_images, rows=rows, ids=rows.copy(), labels=blank_labels)
        architecture = replace(self._architecture, classes=classes)
        system = System(self.family.name, architecture, head, retrieved_rows.to_memory("cpu"))
        # The settings of the pictures are None for a model of embeddings. These families ignore them.
        unread_data = cast("DataSettings", self.manifest.data)
        retrieval = Retrieval(retrieved_rows.neighbors, keys=keys)
        return self.family.predict_logits(system, samples, unread_data, "cpu", retrieval)

    def weigh_neighbors(self, neighbors: "Neighbors") -> np.ndarray:
        """Return the weight of each neighbor (N, K) in the vote.

        The weights of a picture sum to 1, unless it has no neighbors.
        """
        import torch

        present = torch.from_numpy(neighbors.ids != NO_NEIGHBOR)
        cosines = torch.from_numpy(neighbors.cosines)
        weights = self.family.weigh_votes(self.section, present, cosines)
        total = weights.sum(dim=1, keepdim=True)
        return (weights / total.clamp(min=1e-12)).numpy()  # avoids 0 / 0 without neighbors


def _hash_arrays(arrays: list[np.ndarray]) -> str:
    """Return the SHA-256 of the concatenated bytes of all arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

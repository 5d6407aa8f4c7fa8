"""A model of a fitted family: KNN, LDA, NCM, RanPAC, or KRR.

Its weights, if it has any, are computed from the rows in the memory.
"""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from munkey.core.ids import NO_NEIGHBOR
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model.manifest import Manifest
from munkey.memory.following_sums import FollowingSums
from munkey.memory.memory_file import MemoryPosition, Snapshot, State, parse_classes
from munkey.memory.sums import MAX_ROWS, Sums
from munkey.models.family import (
    FAMILIES,
    FittedArchitecture,
    FittedFamily,
    FittedRows,
    Retrieval,
    System,
)

if TYPE_CHECKING:
    from collections.abc import Callable

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


@contextmanager
def translate_sum_errors(path: Path) -> Iterator[None]:
    """Turn errors that sums or torch raise for invalid rows into UnreadableModelError."""
    try:
        yield
    except (ValueError, IndexError, RuntimeError) as error:
        why = f"its rows cannot be summed ({error}): `verify` says whether the memory is damaged"
        raise UnreadableModelError(path, why) from error


class SolvedHead(NamedTuple):
    """Weights that were computed from the rows at a position.

    classes: (C,), the class index of each output of the head.
    """

    position: MemoryPosition
    head: "nn.Module"
    classes: np.ndarray


class FittedModel:
    """The model of a fitted family, from the rows of a memory.

    path: the memory, for error messages. state: the state of the memory.
    """

    def __init__(self, path: Path, manifest: Manifest, state: State) -> None:
        assert manifest.settings is not None, "not the manifest of a fitted family"
        self.path = path
        self.manifest = manifest
        self._state = state
        self.family = cast(FittedFamily, FAMILIES[manifest.family])
        self.section = self.family.read_section({manifest.family: manifest.settings})
        # The family may use several numbers of neighbors, or none. The largest serves all of them.
        self.k = max(self.family.count_neighbors(self.section).values(), default=0)
        self._architecture = FittedArchitecture(
            classes=len(parse_classes(state.classes).names),
            key_dim=state.key_width,
            settings=manifest.settings,
        )
        empty = self.family.make_sums(self._architecture)
        self.sums = None if empty is None else FollowingSums(empty)
        self._solved_head: SolvedHead | None = None
        self._head_of_present_classes: SolvedHead | None = None

    @contextmanager
    def _sum_rows(self, snapshot: Snapshot) -> Iterator[Sums]:
        """Yield the sums over the rows of a snapshot. Use them only inside the block."""
        assert self.sums is not None, "the family has no sums"
        with ExitStack() as stack:
            with translate_sum_errors(self.path):
                following = self.sums.follow(snapshot.memory, len(snapshot.classes.names))
                sums = stack.enter_context(following)
            yield sums

    def require_room(self, snapshot: Snapshot, added_count: int) -> None:
        """Raise ValueError if more rows would exceed the number that the family can be fitted to.

        added_count: the number of rows to add.
        """
        if self.sums is None:
            return
        max_rows = MAX_ROWS  # the limit of exact sums
        if self.family.max_rows:
            max_rows = min(max_rows, self.family.max_rows)
        if len(snapshot.memory) + added_count > max_rows:
            raise ValueError(
                f"{self.family.title} holds at most {max_rows:,} samples, so nothing was added"
            )

    def digests(self, snapshot: Snapshot, *, recompute: bool = False) -> dict[str, str]:
        """Return the SHA-256 of those `sums` and `rows` from which the family computes answers.

        Both are exact, so they do not depend on the machine or on the number of threads, as the last
        bits of weights do. The result also has the `head` of the chain and the number of `live` rows.
        recompute: compute the sums from the remaining rows, without earlier ones.
        """
        if recompute:
            return FittedModel(self.path, self.manifest, self._state).digests(snapshot)
        digests = {"head": snapshot.head.hex(), "live": str(len(snapshot.memory))}
        if self.sums is not None:
            with self._sum_rows(snapshot) as sums:
                arrays = [sums.counts, sums.class_sums]
                if sums.outer_products is not None:
                    arrays.append(sums.outer_products)
                digests["sums"] = _hash_arrays(arrays)
        if self.sums is None or self.family.reads_rows(self.section):
            memory = snapshot.memory
            rows = memory.live_rows
            digests["rows"] = _hash_arrays([memory.keys[rows], memory.labels[rows]])
        return digests

    def has_altered_weights(self, snapshot: Snapshot) -> bool:
        """Return whether the current weights differ from those that the remaining rows give here.

        Only this process can tell, because their last bits depend on its machine and its threads.
        """
        head = self.solve_head(snapshot)
        recomputed_head = FittedModel(self.path, self.manifest, self._state).solve_head(snapshot)
        if head is None or recomputed_head is None:
            return False
        buffers = zip(head.buffers(), recomputed_head.buffers(), strict=True)
        return any(
            buffer.numpy().tobytes() != recomputed.numpy().tobytes()
            for buffer, recomputed in buffers
        )

    def solve_head(self, snapshot: Snapshot) -> "nn.Module | None":
        """Compute the weights of all classes from the live rows; None for a family without weights.

        They are computed only once per position of the memory. Raises UnreadableModelError if the
        memory is damaged.
        """
        if self.sums is None:
            return None
        with self._sum_rows(snapshot) as sums:
            if self._solved_head is None or self._solved_head.position != snapshot.position:
                all_classes = np.arange(len(sums.counts))
                self._solved_head = self._solve_head(snapshot, sums, all_classes)
            return self._solved_head.head

    def solve_head_of_present_classes(self, snapshot: Snapshot) -> SolvedHead:
        """Compute the weights of only those classes that have rows, sorted by class name.

        They equal those of a fit to the rows, bit for bit. Only for families with sums. Raises
        UnreadableModelError if the memory is damaged.
        """
        with self._sum_rows(snapshot) as sums:
            head = self._head_of_present_classes
            if head is None or head.position != snapshot.position:
                # Sorted as in a fit, because the order of the classes changes the last bits.
                classes = self._sort_classes(snapshot, np.flatnonzero(sums.counts))
                head = self._solve_head(snapshot, sums, classes)
                self._head_of_present_classes = head
            return head

    def _solve_head(self, snapshot: Snapshot, sums: Sums, classes: np.ndarray) -> SolvedHead:
        """Compute the weights of some classes from the rows. classes: (C,), their class indices."""
        with translate_sum_errors(self.path):
            class_sums = sums.select(classes)
            fitted_rows = None
            if self.family.reads_rows(self.section):
                memory = snapshot.memory
                rows = memory.live_rows
                labels = _index_classes(snapshot, classes)[memory.labels[rows]]
                fitted_rows = FittedRows(memory.ids[rows], memory.keys[rows], labels)
            section = self.family.select_classes(self.section, classes)
            head = self.family.solve(class_sums, section, fitted_rows)
            return SolvedHead(snapshot.position, head, classes)

    def find_present_classes(self, snapshot: Snapshot) -> np.ndarray:
        """Return the indices of the classes that have rows, sorted by class name.

        Raises UnreadableModelError if a row has a label that is not a class.
        """
        labels = snapshot.memory.labels[snapshot.memory.live_rows]
        if len(labels) and (labels.min() < 0 or labels.max() >= len(snapshot.classes.names)):
            raise UnreadableModelError(self.path, UNKNOWN_LABEL)
        return self._sort_classes(snapshot, np.flatnonzero(np.bincount(labels)))

    def _sort_classes(self, snapshot: Snapshot, classes: np.ndarray) -> np.ndarray:
        """Sort class indices by class name.

        Raises UnreadableModelError if a class has no name.
        """
        # The names can be compared, because all of them are strings or all are numbers. mypy cannot
        # know this, so the type is Any.
        names: Any = snapshot.classes.names
        if any(names[label] is None for label in classes):
            raise UnreadableModelError(self.path, UNKNOWN_LABEL)
        sorted_classes = sorted(classes.tolist(), key=lambda label: names[label])
        return np.array(sorted_classes, dtype=np.int64)

    def compute_logits(
        self, snapshot: Snapshot, keys: np.ndarray, retrieved_rows: "RetrievedRows"
    ) -> np.ndarray:
        """Compute logits (N, C) of keys (N, d) for all classes.

        retrieved_rows: the neighbors of the keys; empty if the family needs none. Raises
        UnreadableModelError if the memory is damaged.
        """
        class_count = len(snapshot.classes.names)
        return self._compute_logits(keys, self.solve_head(snapshot), retrieved_rows, class_count)

    def compute_present_logits(
        self, snapshot: Snapshot, keys: np.ndarray, retrieve: "Callable[[], RetrievedRows]"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute logits (N, C) of keys (N, d) for the classes that have rows.

        They equal those of a fit to the rows, bit for bit. retrieve: finds the neighbors of the
        keys, if the family needs them. Returns the class indices (C,), in the order of
        `find_present_classes`, and the logits.
        """
        from munkey.deploy.model.retrieval import make_empty_rows

        if self.sums is not None:
            solved_head = self.solve_head_of_present_classes(snapshot)
            classes = solved_head.classes
            neighbors = make_empty_rows(len(keys))
            return classes, self._compute_logits(keys, solved_head.head, neighbors, len(classes))
        classes = self.find_present_classes(snapshot)
        if not len(classes):
            return classes, np.zeros((len(keys), 0), dtype=np.float32)
        retrieved_rows = retrieve()
        # The token of a row is its class: here, the index among the classes that have rows.
        indices = _index_classes(snapshot, classes)[retrieved_rows.labels]
        retrieved_rows = replace(retrieved_rows, tokens=indices.astype(np.float32)[..., None])
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


def _index_classes(snapshot: Snapshot, classes: np.ndarray) -> np.ndarray:
    """Return the index in `classes` of each class of a memory; -1 for other classes."""
    index_of_class = np.full(len(snapshot.classes.names), -1)
    index_of_class[classes] = np.arange(len(classes))
    return index_of_class


def _hash_arrays(arrays: list[np.ndarray]) -> str:
    """Return the SHA-256 of the concatenated bytes of all arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

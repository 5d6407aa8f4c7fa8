"""A model of a family that is fitted, in use: it has no weights of its own, they follow from the rows that are left."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, cast

import numpy as np

from munkey.core.ids import NOBODY
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model.manifest import Manifest
from munkey.deploy.store.store import Store
from munkey.memory.sums import BLOCK, MOST, Sums
from munkey.models.family import FAMILIES, FittedArchitecture, FittedFamily, Retrieval, System

if TYPE_CHECKING:
    from torch import nn

    from munkey.deploy.model.retrieval import RetrievedRows
    from munkey.memory.neighbors import Neighbors
    from munkey.settings import DataSettings


class LiveSums:
    """Sums over the live rows of a memory. Exact, so it is no matter which rows came and left in which order.

    They are made from all rows where they are first needed, and after another process has deleted; from then on, rows
    that this process deletes are subtracted, and those that were added are added.
    """

    def __init__(self, store: Store, empty: Sums) -> None:
        """empty: of no rows."""
        self._store, self.empty, self._lock = store, empty, threading.RLock()
        self._sums: Sums | None = None
        self._moment = 0, 0  # how many rows were deleted and are left: between them, they tell which rows these are
        self._gone: list[tuple[np.ndarray, np.ndarray]] = []  # keys and labels that are yet to be subtracted
        self._head: tuple[tuple[int, int], nn.Module] | None = None

    @contextmanager
    def leaving(self, rows: np.ndarray) -> Iterator[None]:
        """While rows are deleted: what they add to the sums is noted, and subtracted before the next answer."""
        with self._lock:
            if self._sums is None:
                yield
                return
            view, (deleted, left) = self._store.view, self._moment
            keys, labels = view.keys[rows], view.labels[rows]
            yield
            if self._store.deletions == deleted + len(rows):  # else nothing was deleted, or by others too
                self._gone.append((keys, labels))
                self._moment = deleted + len(rows), left - len(rows)
                if sum(len(gone) for _, gone in self._gone) >= BLOCK:
                    self._subtract(self._sums)

    def _subtract(self, sums: Sums) -> None:
        if self._gone:
            keys, labels = (np.concatenate(parts) for parts in zip(*self._gone, strict=True))
            sums.add(keys, labels, sign=-1)
            self._gone.clear()

    def head(self, family: "FittedFamily", architecture: FittedArchitecture) -> "nn.Module":
        """The head that follows from the rows that are live now. Raises UnreadableModelError for a damaged memory."""
        with self._lock:
            while self._head is None or self._head[0] != self._now():
                moment = self._now()
                try:
                    sums = self._of(moment)
                    if sums is not None and moment == self._now():  # else somebody deleted meanwhile
                        self._sums, self._moment = sums, moment
                        self._head = moment, family.solved(sums, family.settings_of(architecture))
                except (ValueError, IndexError, RuntimeError) as error:  # torch's, of a covariance that is none
                    said = f"its rows cannot be summed ({error}): `verify` says whether the memory is damaged"
                    raise UnreadableModelError(self._store.folder, said) from error
            return self._head[1]

    def digests(self, family: "FittedFamily", architecture: FittedArchitecture) -> dict[str, str]:
        """SHA-256 of the sums, and of the weights that follow from them."""
        with self._lock:
            head, sums = self.head(family, architecture), self._sums
            assert sums is not None
            summed = [sums.counts, sums.firsts, *([] if sums.seconds is None else [sums.seconds])]
            return {"sums": _digest(summed), "weights": _digest([each.numpy() for each in head.buffers()])}

    def _now(self) -> tuple[int, int]:
        deleted = self._store.deletions
        return deleted, int(np.count_nonzero(self._store.view.live))

    def _of(self, moment: tuple[int, int]) -> Sums | None:
        """The sums at a moment; None where a row was deleted while they were made."""
        sums, (deleted, left) = self._sums, self._moment
        if sums is None or deleted != moment[0] or left > moment[1]:
            sums, left = deepcopy(self.empty), 0
            self._gone.clear()
        self._subtract(sums)
        view, self._sums = self._store.view, None
        new = np.flatnonzero(view.live)[left:]
        for start in range(0, len(new), BLOCK):
            rows = view.rows(new[start : start + BLOCK])
            if not view.live[new[start : start + BLOCK]].all():
                return None
            sums.add(rows.keys, rows.records["label"])
        return sums


class FittedModel:
    """Answers of a family that is fitted, about the rows of a store."""

    def __init__(self, manifest: Manifest, store: Store) -> None:
        assert manifest.settings is not None
        self.manifest, self.store = manifest, store
        self.family = cast(FittedFamily, FAMILIES[manifest.family])
        self.section = self.family.section({manifest.family: manifest.settings})
        self.k = max(self.family.neighbors_read(self.section).values(), default=0)
        self._architecture = FittedArchitecture(len(manifest.classes), store.state.key_width, manifest.settings)
        empty = self.family.empty_sums(self._architecture)
        self.sums = LiveSums(store, empty) if empty is not None else None

    def require_room(self, added: int) -> None:
        """Raise ValueError where the memory would hold more rows than can be summed exactly."""
        if self.sums is not None and int(np.count_nonzero(self.store.view.live)) + added > MOST:
            raise ValueError(f"{self.family.title} holds at most {MOST:,} samples, so nothing was added")

    def digests(self, *, anew: bool) -> dict[str, str]:
        """SHA-256 of what answers now: of `sums` and `weights`, or of the `rows` that vote; and at which `head` of the
        chain, with how many rows `live`. anew: of what the rows that are left give, whatever answered so far.
        """
        moment = {"head": self.store.head, "live": str(np.count_nonzero(self.store.view.live))}
        if self.sums is None:
            view = self.store.view
            rows = np.flatnonzero(view.live)
            rows = rows[np.argsort(view.ids[rows])]
            return moment | {"rows": _digest([view.keys[rows], view.labels[rows]])}
        sums = LiveSums(self.store, self.sums.empty) if anew else self.sums
        return moment | sums.digests(self.family, self._architecture)

    def logits(self, keys: np.ndarray, retrieved: "RetrievedRows") -> np.ndarray:
        """Logits (N, C) of pictures with these keys (N, d). Raises UnreadableModelError for a damaged memory."""
        from munkey.data.image_set import ImageSet

        pixels = np.zeros((len(keys), 1, 1, 3), dtype=np.uint8)
        samples = ImageSet(pixels, np.arange(len(keys)), np.arange(len(keys)), np.zeros(len(keys), dtype=np.int64))
        head = self.sums.head(self.family, self._architecture) if self.sums else None
        system = System(self.family.name, self._architecture, head, retrieved.memory("cpu"))
        asked, data = Retrieval(retrieved.neighbors, keys=keys), cast("DataSettings", self.manifest.data)  # unread
        return self.family.logits(system, samples, data, "cpu", asked)

    def weights(self, neighbors: "Neighbors") -> np.ndarray:
        """How much each neighbor counts (N, K), as in `munkey.deploy.model.model.LoadedNetwork`."""
        import torch

        weights = self.family.vote_weights(
            self.section, torch.from_numpy(neighbors.ids != NOBODY), torch.from_numpy(neighbors.cosines)
        )
        return (weights / weights.sum(dim=1, keepdim=True).clamp(min=1e-12)).numpy()


def _digest(arrays: list[np.ndarray]) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)).hexdigest()

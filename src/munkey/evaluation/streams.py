"""Requests one after another: each method goes on from its own last result, with the retain set that is left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from munkey.core.diverged import DivergedError
from munkey.core.randomness import Stage
from munkey.data.forget_sets import ForgetSplit
from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.encoders.keys import Keys
from munkey.memory.neighbors import nearest
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.settings import DataSettings, InferenceSettings, Sections


@dataclass(frozen=True)
class Stream:
    """Sorted ids. kept: training samples that no request is about; requests: in their order; added: what comes after
    each request with its labels, none for most; it is deleted by none.
    """

    kept: np.ndarray
    requests: Sequence[np.ndarray]
    added: Sequence[np.ndarray]

    def additions(self, done: int) -> np.ndarray:
        """All that has been added after so many requests."""
        return np.sort(np.concatenate([self.kept[:0], *self.added[:done]]))

    def members(self, done: int) -> np.ndarray:
        """The training samples that are left after so many requests, without additions."""
        return np.sort(np.concatenate([self.kept, *self.requests[done:]]))

    def request(self, number: int) -> ForgetSplit:
        """What the request of this number, from 1, forgets and what a method may still use."""
        left = np.union1d(self.members(number), self.additions(number - 1))
        return ForgetSplit(left, self.requests[number - 1])


def stream_of(split: ForgetSplit, new: np.ndarray, requests: int, additions: Sequence[int], stage: Stage) -> Stream:
    """The forget set of a split in so many requests of equal size, in an order drawn from `stage`.

    new: ids of samples that no model was trained on; as many as a request has of them come after each request that
    `additions` lists. Raises ValueError where requests would be empty.
    """
    if len(split.forget) < requests:
        raise ValueError(f"{len(split.forget)} samples cannot be forgotten in {requests} requests: raise audit.pool")
    generator = stage.numpy_generator()
    parts = [np.sort(part) for part in np.array_split(generator.permutation(split.forget), requests)]
    coming, added = generator.permutation(new), []
    for number, part in enumerate(parts, 1):
        taken, coming = np.split(coming, [len(part) if number in additions else 0])
        added.append(np.sort(taken))
    return Stream(split.retain, parts, added)


class Answered(NamedTuple):
    """What a system answers after some of the requests. logits: (N, C) of all samples of the data set."""

    done: int
    seconds: float
    logits: np.ndarray


@dataclass(frozen=True)
class Asker:
    """Asks a system about every sample of a data set, what was added in its memory. keys: of all; depth: neighbors."""

    dataset: Dataset
    keys: Keys | None
    settings: Sections
    depth: int
    device: str

    def answers(self, system: System, added: np.ndarray) -> np.ndarray:
        """Logits (N, C). added: ids. Raises DivergedError where they are not finite."""
        family, samples = FAMILIES[system.family], image_set(self.dataset, self.dataset.ids)
        data, retrieval = DataSettings.typed(self.settings["data"]), None
        if self.keys is not None and system.memory is not None:
            inference = None
            if family.reads_inference:
                inference = InferenceSettings.typed(self.settings["inference"])
            if len(added):
                labels = self.dataset.labels[self.dataset.rows(added)]
                system = family.extended(system, self.of(added), labels, inference)
            assert system.memory is not None
            members = self.of(system.memory.ids.numpy())
            near = None if family.asks_keys else nearest(self.keys, members, self.depth)
            retrieval = Retrieval(near, inference, self.keys.keys)
        logits = family.logits(system, samples, data, self.device, retrieval)
        if not np.isfinite(logits).all():
            raise DivergedError("answers are not finite")
        return logits

    def of(self, ids: np.ndarray) -> Keys:
        """The keys of these samples."""
        assert self.keys is not None
        return Keys(ids, self.keys.keys[self.dataset.rows(ids)])


def moments(
    stream: Stream, system: System, forget: Callable[[System, ForgetSplit, int], tuple[System, float]], ask: Asker
) -> list[Answered]:
    """A method's answers before the first and after each request. forget: what is left, and how long it took [s]."""
    found = [Answered(0, 0.0, ask.answers(system, stream.additions(0)))]
    for number in range(1, len(stream.requests) + 1):
        system, seconds = forget(system, stream.request(number), number)
        found.append(Answered(number, seconds, ask.answers(system, stream.additions(number))))
    return found

"""Streams of requests: a method goes on from its own last result, with the remaining retain set."""

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
from munkey.memory.neighbors import find_nearest
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.settings import DataSettings, InferenceSettings, Sections


@dataclass(frozen=True)
class Stream:
    """A sequence of requests; all ids are sorted.

    Attributes
    ----------
    retained
        The ids of training samples that no request deletes.
    requests
        The ids to forget of each request, in order.
    added
        The ids of samples that are added after each request, often none. No request deletes them.
    """

    retained: np.ndarray
    requests: Sequence[np.ndarray]
    added: Sequence[np.ndarray]

    def additions(self, done: int) -> np.ndarray:
        """Return the ids of all samples that are added within the first `done` requests."""
        return np.sort(np.concatenate([self.retained[:0], *self.added[:done]]))

    def members(self, done: int) -> np.ndarray:
        """Return the ids of the remaining training samples after `done` requests, without additions."""
        return np.sort(np.concatenate([self.retained, *self.requests[done:]]))

    def request(self, number: int) -> ForgetSplit:
        """Return the retain and forget set of a request, numbered from 1."""
        retain = np.union1d(self.members(number), self.additions(number - 1))
        return ForgetSplit(retain, self.requests[number - 1])


def draw_stream(
    split: ForgetSplit,
    new: np.ndarray,
    requests: int,
    additions: Sequence[int],
    stage: Stage,
) -> Stream:
    """Divide the forget set of a split into `requests` equal parts, in an order drawn from `stage`.

    After each request that `additions` lists, as many of them are added as the request deletes.
    Raises ValueError if requests would be empty.

    Parameters
    ----------
    new
        The ids of samples that no model was trained on.
    """
    if len(split.forget) < requests:
        raise ValueError(
            f"{len(split.forget)} samples cannot be forgotten in {requests} requests: raise"
            " audit.pool"
        )
    generator = stage.numpy_generator()
    parts = np.array_split(generator.permutation(split.forget), requests)
    new_order = generator.permutation(new)
    added = []
    used = 0
    for number, part in enumerate(parts, start=1):
        size = len(part) if number in additions else 0
        added.append(np.sort(new_order[used : used + size]))
        used += size
    return Stream(split.retain, [np.sort(part) for part in parts], added)


class StreamAnswers(NamedTuple):
    """The answers of a system after `done` requests.

    Attributes
    ----------
    seconds
        The seconds that the last request took.
    logits
        The logits (N, C) of all samples.
    """

    done: int
    seconds: float
    logits: np.ndarray


@dataclass(frozen=True)
class StreamEvaluator:
    """Asks a system about every sample of a data set.

    Attributes
    ----------
    keys
        The keys of all samples, for a family with a memory.
    settings
        The sections `data` and, for a family that reads it, `inference`.
    depth
        The number of neighbors to retrieve.
    """

    dataset: Dataset
    keys: Keys | None
    settings: Sections
    depth: int
    device: str

    def predict_logits(self, system: System, added: np.ndarray) -> np.ndarray:
        """Return logits (N, C) of the system with added samples.

        Raises DivergedError if they are not finite.
        """
        family = FAMILIES[system.family]
        samples = image_set(self.dataset, self.dataset.ids)
        data = DataSettings.parse(self.settings["data"])
        retrieval = None
        if self.keys is not None and system.memory is not None:
            inference = None
            if family.reads_inference:
                inference = InferenceSettings.parse(self.settings["inference"])
            if len(added):
                labels = self.dataset.labels[self.dataset.rows(added)]
                system = family.add_samples(system, self.select_keys(added), labels, inference)
            assert system.memory is not None
            near = None
            if not family.needs_query_keys:
                members = self.select_keys(system.memory.ids.numpy())
                near = find_nearest(self.keys, members, self.depth)
            retrieval = Retrieval(near, inference, self.keys.keys)
        logits = family.predict_logits(system, samples, data, self.device, retrieval)
        if not np.isfinite(logits).all():
            raise DivergedError("answers are not finite")
        return logits

    def select_keys(self, ids: np.ndarray) -> Keys:
        """Return the keys of these samples."""
        assert self.keys is not None
        return Keys(ids, self.keys.keys[self.dataset.rows(ids)])


def answer_stream(
    stream: Stream,
    system: System,
    forget: Callable[[System, ForgetSplit, int], tuple[System, float]],
    evaluator: StreamEvaluator,
) -> list[StreamAnswers]:
    """Return the answers of a system before the first and after each request.

    Parameters
    ----------
    forget
        A function (system, split, number of the request) -> (unlearned system, seconds).
    """
    answers = [StreamAnswers(0, 0.0, evaluator.predict_logits(system, stream.additions(0)))]
    for number in range(1, len(stream.requests) + 1):
        system, seconds = forget(system, stream.request(number), number)
        logits = evaluator.predict_logits(system, stream.additions(number))
        answers.append(StreamAnswers(number, seconds, logits))
    return answers

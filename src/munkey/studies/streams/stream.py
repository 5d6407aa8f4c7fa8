"""Streams of requests, in which each request starts from the result of the previous one."""

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
    """A sequence of forget requests. All arrays of ids are sorted.

    Attributes
    ----------
    retained
        The ids of the training samples that no request deletes.
    requests
        The ids that each request deletes, in order.
    added
        For each request, the ids of the samples that are added after it, often none. No request
        deletes them.
    """

    retained: np.ndarray
    requests: Sequence[np.ndarray]
    added: Sequence[np.ndarray]

    def get_additions(self, done: int) -> np.ndarray:
        """Return the ids of all samples that have been added once `done` requests are done."""
        no_ids = self.retained[:0]  # np.concatenate needs an array even if `done` is 0
        return np.sort(np.concatenate([no_ids, *self.added[:done]]))

    def get_members(self, done: int) -> np.ndarray:
        """Return the ids of the original training samples that remain after `done` requests."""
        return np.sort(np.concatenate([self.retained, *self.requests[done:]]))

    def get_request(self, number: int) -> ForgetSplit:
        """Return the retain set and the forget set of a request. The first request is number 1."""
        retain = np.union1d(self.get_members(number), self.get_additions(number - 1))
        return ForgetSplit(retain, self.requests[number - 1])


def draw_stream(
    split: ForgetSplit,
    new: np.ndarray,
    requests: int,
    additions: Sequence[int],
    stage: Stage,
) -> Stream:
    """Divide the forget set at random into `requests` parts whose sizes differ by at most one.

    Raises ValueError if there are fewer samples to forget than requests.

    Parameters
    ----------
    new
        The ids of samples that no model was trained on.
    additions
        The numbers of the requests after which new samples are added: as many as the request
        deletes, or all that remain of `new` if they are fewer.
    stage
        The source of randomness.
    """
    if len(split.forget) < requests:
        raise ValueError(
            f"cannot divide {len(split.forget)} samples into {requests} requests: increase"
            " audit.pool"
        )
    generator = stage.numpy_generator()
    parts = np.array_split(generator.permutation(split.forget), requests)
    shuffled_new = generator.permutation(new)
    added = []
    start = 0
    for number, part in enumerate(parts, start=1):
        size = len(part) if number in additions else 0
        added.append(np.sort(shuffled_new[start : start + size]))
        start += size
    return Stream(split.retain, [np.sort(part) for part in parts], added)


class StreamEvaluation(NamedTuple):
    """The evaluation of a system after a number of requests.

    Attributes
    ----------
    done
        The number of requests so far.
    seconds
        How many seconds the last request took; 0 before the first request.
    logits
        The logits (N, C) of all samples.
    """

    done: int
    seconds: float
    logits: np.ndarray


@dataclass(frozen=True)
class StreamEvaluator:
    """Predicts every sample of a data set with the systems of a stream.

    Attributes
    ----------
    keys
        The keys of all samples, in the order of the data set; None if the family has no memory.
    settings
        The sections `data` and, if the family reads it, `inference`.
    depth
        The number of neighbors to retrieve per sample.
    """

    dataset: Dataset
    keys: Keys | None
    settings: Sections
    depth: int
    device: str

    def predict_logits(self, system: System, added: np.ndarray) -> np.ndarray:
        """Return the logits (N, C) of a system after adding samples to its memory.

        Raises DivergedError if any logit is not finite.

        Parameters
        ----------
        added
            The ids of the samples to add.
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
            if not family.asks_keys:
                members = self.select_keys(system.memory.ids.numpy())
                near = find_nearest(self.keys, members, self.depth)
            retrieval = Retrieval(near, inference, self.keys.keys)
        logits = family.predict_logits(system, samples, data, self.device, retrieval)
        if not np.isfinite(logits).all():
            raise DivergedError("logits are not finite")
        return logits

    def select_keys(self, ids: np.ndarray) -> Keys:
        """Return the keys of these samples."""
        assert self.keys is not None
        return Keys(ids, self.keys.keys[self.dataset.rows(ids)])


def evaluate_stream(
    stream: Stream,
    system: System,
    forget: Callable[[System, ForgetSplit, int], tuple[System, float]],
    evaluator: StreamEvaluator,
) -> list[StreamEvaluation]:
    """Evaluate a system before the first request and after each request.

    Parameters
    ----------
    forget
        A function (system, split, request number) -> (unlearned system, seconds).
    """
    logits = evaluator.predict_logits(system, stream.get_additions(0))
    evaluations = [StreamEvaluation(done=0, seconds=0.0, logits=logits)]
    for number in range(1, len(stream.requests) + 1):
        system, seconds = forget(system, stream.get_request(number), number)
        logits = evaluator.predict_logits(system, stream.get_additions(number))
        evaluations.append(StreamEvaluation(done=number, seconds=seconds, logits=logits))
    return evaluations

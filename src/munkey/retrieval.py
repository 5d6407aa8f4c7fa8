"""Which neighbours a sample retrieves before and after deletion: examples for the paper's retrieval figure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from munkey.data import Dataset
from munkey.memory import rank_weights, similarity_weights
from munkey.panels import Neighbor, Retrieval, Status

if TYPE_CHECKING:
    from munkey.params import InferenceParams


@dataclass(frozen=True)
class Step:
    """What every sample of a data set finds and answers. ids, cosines: (N, >= K); logits: (N, C)."""

    ids: np.ndarray
    cosines: np.ndarray
    logits: np.ndarray


def examples(
    dataset: Dataset, forgotten: np.ndarray, before: Step, after: Step, settings: "InferenceParams"
) -> list[Retrieval]:
    """A test sample and a forget sample, each before and after the ids `forgotten` were deleted.

    The test sample is the one that gave the largest weight to deleted rows; the forget sample the first whose answer
    changed, or the first if none did. Both are thus chosen to show what deletion does, not at random.
    """
    weights = weigh(before.cosines[:, : settings.k], settings)
    lost = np.where(np.isin(before.ids[:, : settings.k], forgotten), weights, 0).sum(axis=1)
    test = int(np.where(dataset.splits == "test", lost, -1).argmax())
    changed = before.logits.argmax(axis=1) != after.logits.argmax(axis=1)
    rows = dataset.rows(forgotten)
    own = int(rows[changed[rows]][0] if changed[rows].any() else rows[0])
    titles = {test: "test sample", own: "forget sample"}
    return [_row(dataset, forgotten, row, title, before, after, settings) for row, title in titles.items()]


def weigh(cosines: np.ndarray, settings: "InferenceParams") -> np.ndarray:
    """The weight of each of K neighbours (N, K), as `settings` fuses them."""
    present = torch.ones(cosines.shape, dtype=torch.bool)
    if settings.fusion == "rank":
        return rank_weights(present).numpy()
    return similarity_weights(torch.from_numpy(cosines), present, settings.temperature).numpy()


def _row(
    dataset: Dataset,
    forgotten: np.ndarray,
    row: int,
    title: str,
    before: Step,
    after: Step,
    settings: "InferenceParams",
) -> Retrieval:
    label, earlier = dataset.labels[row], set(before.ids[row, : settings.k].tolist())

    def neighbours(step: Step, *, later: bool) -> list[Neighbor]:
        found, weights = step.ids[row, : settings.k], weigh(step.cosines[[row], : settings.k], settings)[0]
        panel = []
        for sample, weight in zip(found.tolist(), weights.tolist(), strict=True):
            place = dataset.rows(np.array([sample]))[0]
            status: Status = "correct" if dataset.labels[place] == label else "wrong class"
            if sample in forgotten:
                status = "forgotten"
            elif later and sample not in earlier:
                status = "new"
            panel.append(Neighbor(dataset.images[place], dataset.classes[dataset.labels[place]], weight, status))
        return panel

    return Retrieval(
        title,
        dataset.images[row],
        dataset.classes[label],
        neighbours(before, later=False),
        dataset.classes[before.logits[row].argmax()],
        neighbours(after, later=True),
        dataset.classes[after.logits[row].argmax()],
    )

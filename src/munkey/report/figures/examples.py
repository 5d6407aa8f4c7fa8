"""Examples for the figure of retrieval: which samples to show, and what they retrieve before and after deletion."""

from dataclasses import dataclass

import numpy as np
import torch

from munkey.data.prepared import Dataset
from munkey.memory.exemplars import fusion_weights
from munkey.memory.neighbors import Neighbors
from munkey.report.figures.retrieval import Answer, Example, Retrieved, Status
from munkey.settings import InferenceSettings


@dataclass(frozen=True)
class Snapshot:
    """What every sample of a data set retrieves, and the logits (N, C) for it, at one point in time."""

    neighbors: Neighbors
    logits: np.ndarray


def examples(
    dataset: Dataset,
    forgotten: np.ndarray,
    before: Snapshot,
    after: Snapshot,
    settings: InferenceSettings,
) -> list[Example]:
    """A test sample and a forget sample, before and after the ids `forgotten` were deleted from the memory.

    The test sample is the one that gave the largest weight to deleted rows. The forget sample is the first one whose
    predicted class changed, or the first one if none did. Both are chosen to show the effect of deletion.
    """
    near = before.neighbors.first(settings.k)
    lost = np.where(np.isin(near.ids, forgotten), weights(near.cosines, settings), 0).sum(axis=1)
    test = int(np.where(dataset.splits == "test", lost, -1).argmax())
    changed, rows = (
        before.logits.argmax(axis=1) != after.logits.argmax(axis=1),
        dataset.rows(forgotten),
    )
    forget = int(rows[changed[rows]][0] if changed[rows].any() else rows[0])
    shown = []
    for row, title in {test: "test sample", forget: "forget sample"}.items():
        answers = [
            _answer(dataset, forgotten, near.ids[row], each, row, settings)
            for each in (before, after)
        ]
        shown.append(
            Example(title, dataset.images[row], dataset.classes[dataset.labels[row]], *answers)
        )
    return shown


def weights(cosines: np.ndarray, settings: InferenceSettings) -> np.ndarray:
    """The weight of each of K neighbors (N, K), as `settings` fuses them."""
    present = torch.ones(cosines.shape, dtype=torch.bool)
    return fusion_weights(
        torch.from_numpy(cosines), present, settings.fusion, settings.temperature
    ).numpy()


def _answer(
    dataset: Dataset,
    forgotten: np.ndarray,
    earlier: np.ndarray,
    snapshot: Snapshot,
    row: int,
    settings: InferenceSettings,
) -> Answer:
    """What the sample in a row retrieves, and which class is predicted. earlier: ids that it retrieved before."""
    near = snapshot.neighbors.of(np.array([row])).first(settings.k)
    neighbors = []
    for sample, weight in zip(
        near.ids[0].tolist(), weights(near.cosines, settings)[0].tolist(), strict=True
    ):
        place = dataset.rows(np.array([sample]))[0]
        status: Status = (
            "correct" if dataset.labels[place] == dataset.labels[row] else "wrong class"
        )
        if sample in forgotten:
            status = "forgotten"
        elif sample not in earlier:
            status = "new"
        neighbors.append(
            Retrieved(dataset.images[place], dataset.classes[dataset.labels[place]], weight, status)
        )
    return Answer(neighbors, dataset.classes[snapshot.logits[row].argmax()])

"""Examples for the figure of retrieval: the samples to show, and their neighbors before and after deletion."""

from dataclasses import dataclass

import numpy as np
import torch

from munkey.data.prepared import Dataset
from munkey.memory.exemplars import fusion_weights
from munkey.memory.neighbors import Neighbors
from munkey.report.figures.retrieval import Answer, Example, RetrievedNeighbor, Status
from munkey.settings import InferenceSettings


@dataclass(frozen=True)
class Snapshot:
    """The neighbors of every sample of a data set, and the logits (N, C) for it, at one point in time."""

    neighbors: Neighbors
    logits: np.ndarray


def examples(
    dataset: Dataset,
    forgotten: np.ndarray,
    before: Snapshot,
    after: Snapshot,
    settings: InferenceSettings,
) -> list[Example]:
    """Return a test sample and a forget sample, before and after the ids `forgotten` were deleted from the memory.

    The test sample is the one that gave the largest weight to deleted rows. The forget sample is
    the first one whose predicted class changed, or the first one if none did. Both are chosen to
    show the effect of deletion.
    """
    near = before.neighbors.truncate(settings.k)
    lost = np.where(np.isin(near.ids, forgotten), weights(near.cosines, settings), 0).sum(axis=1)
    test = int(np.where(dataset.splits == "test", lost, -1).argmax())
    forget_rows = dataset.rows(forgotten)
    has_changed = before.logits.argmax(axis=1) != after.logits.argmax(axis=1)
    changed_rows = forget_rows[has_changed[forget_rows]]
    forget = int([*changed_rows, *forget_rows][0])
    pictures = []
    for row, title in {test: "test sample", forget: "forget sample"}.items():
        earlier = near.ids[row]
        example = Example(
            title,
            dataset.images[row],
            dataset.classes[dataset.labels[row]],
            _answer(dataset, forgotten, earlier, before, row, settings),
            _answer(dataset, forgotten, earlier, after, row, settings),
        )
        pictures.append(example)
    return pictures


def weights(cosines: np.ndarray, settings: InferenceSettings) -> np.ndarray:
    """Return the weight of each of K neighbors (N, K), as `settings` fuses them."""
    is_present = torch.ones(cosines.shape, dtype=torch.bool)
    fused = fusion_weights(
        torch.from_numpy(cosines), is_present, settings.fusion, settings.temperature
    )
    return fused.numpy()


def _answer(
    dataset: Dataset,
    forgotten: np.ndarray,
    earlier: np.ndarray,
    snapshot: Snapshot,
    row: int,
    settings: InferenceSettings,
) -> Answer:
    """Return the neighbors and the predicted class of the sample in a row.

    Parameters
    ----------
    earlier
        Ids that it retrieved before.
    """
    near = snapshot.neighbors.select(np.array([row])).truncate(settings.k)
    ids = near.ids[0]
    neighbors = []
    for sample, place, weight in zip(
        ids, dataset.rows(ids), weights(near.cosines, settings)[0].tolist(), strict=True
    ):
        status: Status = "wrong class"
        if sample in forgotten:
            status = "forgotten"
        elif sample not in earlier:
            status = "new"
        elif dataset.labels[place] == dataset.labels[row]:
            status = "correct"
        label = dataset.classes[dataset.labels[place]]
        neighbors.append(RetrievedNeighbor(dataset.images[place], label, weight, status))
    return Answer(neighbors, dataset.classes[snapshot.logits[row].argmax()])

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


def choose_examples(
    dataset: Dataset,
    forgotten: np.ndarray,
    before: Snapshot,
    after: Snapshot,
    settings: InferenceSettings,
) -> list[Example]:
    """Choose a test sample and a forget sample; return both with their neighbors before and after deletion.

    The test sample is the one that gave the largest weight to deleted rows. The forget sample is
    the first one whose predicted class changed, or the first one if none did. Both are chosen to
    show the effect of deletion.

    Parameters
    ----------
    forgotten
        Ids that were deleted from the memory.
    """
    neighbors = before.neighbors.truncate(settings.k)
    weights = compute_weights(neighbors.cosines, settings)
    deleted_weight = np.where(np.isin(neighbors.ids, forgotten), weights, 0).sum(axis=1)
    test_row = int(np.where(dataset.splits == "test", deleted_weight, -1).argmax())
    forget_rows = dataset.rows(forgotten)
    has_changed = before.logits.argmax(axis=1) != after.logits.argmax(axis=1)
    changed_rows = forget_rows[has_changed[forget_rows]]
    forget_row = int([*changed_rows, *forget_rows][0])
    chosen = []
    for row, title in {test_row: "test sample", forget_row: "forget sample"}.items():
        earlier = neighbors.ids[row]
        example = Example(
            title,
            dataset.images[row],
            dataset.classes[dataset.labels[row]],
            _make_answer(dataset, forgotten, earlier, before, row, settings),
            _make_answer(dataset, forgotten, earlier, after, row, settings),
        )
        chosen.append(example)
    return chosen


def compute_weights(cosines: np.ndarray, settings: InferenceSettings) -> np.ndarray:
    """Return the weight of each of K neighbors (N, K), as `settings` fuses them."""
    is_present = torch.ones(cosines.shape, dtype=torch.bool)
    fused = fusion_weights(
        torch.from_numpy(cosines), is_present, settings.fusion, settings.temperature
    )
    return fused.numpy()


def _make_answer(
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
        Ids of the neighbors that the sample had before deletion.
    """
    neighbors = snapshot.neighbors.select(np.array([row])).truncate(settings.k)
    ids = neighbors.ids[0]
    rows = dataset.rows(ids)
    weights = compute_weights(neighbors.cosines, settings)[0].tolist()
    retrieved = []
    for neighbor_id, neighbor_row, weight in zip(ids, rows, weights, strict=True):
        status: Status = "wrong class"
        if neighbor_id in forgotten:
            status = "forgotten"
        elif neighbor_id not in earlier:
            status = "new"
        elif dataset.labels[neighbor_row] == dataset.labels[row]:
            status = "correct"
        label = dataset.classes[dataset.labels[neighbor_row]]
        retrieved.append(RetrievedNeighbor(dataset.images[neighbor_row], label, weight, status))
    return Answer(retrieved, dataset.classes[snapshot.logits[row].argmax()])

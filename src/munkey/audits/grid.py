"""Residual shares of a family over a grid of training settings: when do weights remember?"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.attacks.residual_share import residual_share
from munkey.audits.evidence import Pairs
from munkey.audits.family_audit import collect_numbers
from munkey.audits.read_evidence import read_halves, read_path_margins
from munkey.audits.registry import NoFinding
from munkey.core.diverged import DIVERGED, explain_divergence
from munkey.core.files import read_npz
from munkey.evaluation.records import DEPLOYED

SPLITS = ("val", "test")


class Setting(TypedDict):
    """A point of the grid.

    Attributes
    ----------
    knobs
        The values of the varied settings, by dotted name.
    before, after
        The logit files before and after deletion, one per model.
    alone
        The logit files of the model's head used alone, as a system of its own, after deletion;
        empty if the model has no head, or if the plan does not include that family.
    """

    name: str
    knobs: dict[str, object]
    before: list[str]
    after: list[str]
    alone: list[str]


class GridModels(NamedTuple):
    """The models of a setting.

    Attributes
    ----------
    margins
        The margins (S, N) by path.
    means
        The means over models of P_s and of the accuracies `val` and `test`, in percent.
    """

    margins: dict[str, np.ndarray]
    means: dict[str, float]


def make_grid_rows(
    settings: Sequence[Setting],
    paths: Sequence[str],
    forgotten: Sequence[np.ndarray],
    units: Mapping[int, str],
) -> Iterator[list[dict[str, object]]]:
    """Yield the rows of each setting, one for each path: shares, accuracies in percent, and P_s.

    If a model diverged, its setting has a single row, with the reason instead of numbers.

    Parameters
    ----------
    forgotten
        For each seed, the ids that its model forgets.
    units
        The unit of each id, if the halves consist of whole units; otherwise empty.
    """
    for setting in settings:
        facts: dict[str, object] = {"setting": setting["name"], **setting["knobs"]}
        reason = _find_divergence(setting["before"] + setting["after"])
        if reason:
            pairs = len(setting["before"]) // 2
            yield [{**facts, "path": DEPLOYED, "pairs": pairs, DIVERGED: reason}]
            continue
        halves = read_halves(setting["before"][0], forgotten, units)
        before = _read_models(setting["before"], paths)
        after = _read_models(setting["after"], paths)
        head_accuracies = []
        for arrays in map(read_npz, setting["alone"]):
            if not explain_divergence(arrays):
                head_accuracies.append(_measure_accuracy(arrays, "test"))
        nothing = Pairs(before.margins[DEPLOYED], halves)
        reference = residual_share(nothing)
        # A grid has at least two pairs, and training always leaves a contrast.
        assert not isinstance(reference, NoFinding)
        rows = []
        for path in paths:
            row = facts | {"path": path, "pairs": nothing.count}
            share = residual_share(Pairs(after.margins[path], halves, nothing))
            row |= collect_numbers(share, attacks={})
            row["nothing"] = reference.contrast
            row["nothing_p"] = reference.p_pairs
            row["P_s"] = before.means["P_s"]
            for split in SPLITS:
                row[f"{split}_before"] = before.means[split]
            for split in SPLITS:
                row[f"{split}_after"] = after.means[split]
            if head_accuracies:
                row["alone_after"] = np.mean(head_accuracies)
            rows.append(row)
        yield rows


def _find_divergence(files: Sequence[str]) -> str:
    """Return why the first diverged model diverged, or an empty string if none did."""
    for file in files:
        reason = explain_divergence(read_npz(file))
        if reason:
            return reason
    return ""


def _read_models(files: Sequence[str], paths: Sequence[str]) -> GridModels:
    """Read margins and accuracies of models from their logit files."""
    from munkey.evaluation.metrics import measure_pathways

    rows_by_path: dict[str, list[np.ndarray]] = {path: [] for path in paths}
    values_by_name: dict[str, list[float]] = defaultdict(list)
    for file in files:
        arrays = read_npz(file)
        for path, rows in rows_by_path.items():
            rows.append(read_path_margins(arrays, path))
        for split in SPLITS:
            values_by_name[split].append(_measure_accuracy(arrays, split))
        logits_by_pathway = {}
        for name in ("image", "token", "both"):
            logits_by_pathway[name] = arrays[f"{name}_logits"]
        pathways = measure_pathways(logits_by_pathway, arrays["memory_labels"])
        values_by_name["P_s"].append(pathways["P_s"])
    margins = {path: np.stack(rows) for path, rows in rows_by_path.items()}
    means = {name: float(np.mean(values)) for name, values in values_by_name.items()}
    return GridModels(margins, means)


def _measure_accuracy(arrays: Mapping[str, np.ndarray], split: str) -> float:
    from munkey.evaluation.metrics import compute_accuracy

    in_split = arrays["splits"] == split
    return compute_accuracy(arrays["logits"][in_split], arrays["labels"][in_split])

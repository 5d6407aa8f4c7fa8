"""Residual shares of a family over a grid of training settings: when do weights remember?"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from typing_extensions import TypedDict

from munkey.audits.attacks.residual_share import residual_share
from munkey.audits.evidence import Pairs
from munkey.audits.family_audit import DEPLOYED, collect_numbers
from munkey.audits.read_evidence import read_halves, read_path_margins
from munkey.audits.registry import NoFinding
from munkey.core.diverged import DIVERGED, explain_divergence
from munkey.core.files import read_npz

SPLITS = ("val", "test")


class Setting(TypedDict):
    """A point of the grid.

    Attributes
    ----------
    knobs
        Values by dotted name.
    before, after
        Files of logits, a model each.
    alone
        The same after deletion, of the family whose head the model has; empty where it has
        none, or that family is not in the plan.
    """

    name: str
    knobs: dict[str, object]
    before: list[str]
    after: list[str]
    alone: list[str]


class GridModels(NamedTuple):
    """Models of a setting.

    Attributes
    ----------
    margins
        (S, N) by path.
    means
        Of P_s, val and test accuracy.
    """

    margins: dict[str, np.ndarray]
    means: dict[str, float]


def grid_lines(
    settings: Sequence[Setting],
    paths: Sequence[str],
    forgotten: Sequence[np.ndarray],
    units: Mapping[int, str],
) -> Iterator[list[dict[str, object]]]:
    """For each setting, a line for each path: shares and accuracies in percent, P_s.

    If a model of a setting diverged, its line says so and has no numbers.
    """
    for setting in settings:
        facts: dict[str, object] = {"setting": setting["name"], **setting["knobs"]}
        reasons = [
            explain_divergence(read_npz(file)) for file in setting["before"] + setting["after"]
        ]
        if any(reasons):
            pairs = len(setting["before"]) // 2
            first_reason = next(filter(None, reasons))
            yield [{**facts, "path": DEPLOYED, "pairs": pairs, DIVERGED: first_reason}]
            continue
        halves = read_halves(setting["before"][0], forgotten, units)
        before = _read_models(setting["before"], paths)
        after = _read_models(setting["after"], paths)
        head_accuracies = []
        for arrays in map(read_npz, setting["alone"]):
            if not explain_divergence(arrays):
                head_accuracies.append(_accuracy(arrays, "test"))
        nothing = Pairs(before.margins[DEPLOYED], halves)
        reference = residual_share(nothing)
        assert not isinstance(reference, NoFinding)  # a grid has at least two pairs
        lines = []
        for path in paths:
            line = facts | {"path": path, "pairs": nothing.count}
            line |= collect_numbers(residual_share(Pairs(after.margins[path], halves, nothing)), {})
            line["nothing"] = reference.contrast
            line["nothing_p"] = reference.p_pairs
            line["P_s"] = before.means["P_s"]
            line |= {f"{split}_before": before.means[split] for split in SPLITS}
            line |= {f"{split}_after": after.means[split] for split in SPLITS}
            if head_accuracies:
                line["alone_after"] = np.mean(head_accuracies)
            lines.append(line)
        yield lines


def _read_models(files: Sequence[str], paths: Sequence[str]) -> GridModels:
    from munkey.evaluation.metrics import measure_pathways

    phi: dict[str, list[np.ndarray]] = {path: [] for path in paths}
    measured: dict[str, list[float]] = {name: [] for name in (*SPLITS, "P_s")}
    for file in files:
        arrays = read_npz(file)
        for path, rows in phi.items():
            rows.append(read_path_margins(arrays, path))
        for split in SPLITS:
            measured[split].append(_accuracy(arrays, split))
        cut = {name: arrays[f"{name}_logits"] for name in ("image", "token", "both")}
        measured["P_s"].append(measure_pathways(cut, arrays["memory_labels"])["P_s"])
    means = {name: float(np.mean(values)) for name, values in measured.items()}
    return GridModels({path: np.stack(rows) for path, rows in phi.items()}, means)


def _accuracy(arrays: Mapping[str, np.ndarray], split: str) -> float:
    from munkey.evaluation.metrics import accuracy

    among = arrays["splits"] == split
    return accuracy(arrays["logits"][among], arrays["labels"][among])

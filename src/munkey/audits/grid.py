"""What the weights keep, and why: residual shares of one family over a grid of the knobs that it is trained with."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from munkey.audits.attacks.residual_share import residual_share
from munkey.audits.evidence import Halves, Pairs
from munkey.audits.family_audit import DEPLOYED, numbers
from munkey.audits.margins import margins
from munkey.audits.read_evidence import halves_of
from munkey.audits.registry import Refused
from munkey.core.files import read_npz


class Setting(TypedDict):
    """A point of the grid. knobs: values by dotted name; before, after: files of logits, a model each."""

    name: str
    knobs: dict[str, object]
    before: list[str]
    after: list[str]


class Models(NamedTuple):
    """One system of a setting. margins: (S, N) by path; accuracy: by split, P_s: means over models; P_s of members."""

    margins: dict[str, np.ndarray]
    accuracy: dict[str, float]
    sensitivity: float


def grid_lines(
    settings: Sequence[Setting], paths: Sequence[str], forgotten: Sequence[np.ndarray]
) -> Iterator[list[dict[str, object]]]:
    """For each setting, a line for each path: shares in percent, accuracies in percent, P_s before deletion."""
    for setting in settings:
        halves = halves_of(setting["before"][0], forgotten)
        before, after = (_models(files, paths) for files in (setting["before"], setting["after"]))
        yield [_line(setting, path, before, after, halves) for path in paths]


def _line(setting: Setting, path: str, before: Models, after: Models, halves: Halves) -> dict[str, object]:
    nothing = Pairs(before.margins[DEPLOYED], halves)
    share, reference = residual_share(Pairs(after.margins[path], halves, nothing)), residual_share(nothing)
    assert not isinstance(reference, Refused)  # a grid has two pairs at least
    return {
        "setting": setting["name"],
        **setting["knobs"],
        **{"path": path, "pairs": len(nothing.margins) // 2},
        **numbers(share, {}),
        **{"nothing": reference.contrast, "nothing_p": reference.p_pairs, "P_s": before.sensitivity},
        **_accuracies(before, "before"),
        **_accuracies(after, "after"),
    }


def _accuracies(models: Models, when: str) -> dict[str, object]:
    return {f"{split}_{when}": value for split, value in models.accuracy.items()}


def _models(files: Sequence[str], paths: Sequence[str]) -> Models:
    phi: dict[str, list[np.ndarray]] = {path: [] for path in paths}
    accuracies: list[dict[str, float]] = []
    sensitivities: list[float] = []
    for file in files:
        arrays = read_npz(file)
        for path, rows in phi.items():
            rows.append(margins(arrays["logits" if path == DEPLOYED else f"path_{path}"], arrays["labels"]))
        accuracies.append({split: _accuracy(arrays, split) for split in ("val", "test")})
        sensitivities.append(_sensitivity(arrays))
    means = {split: float(np.mean([each[split] for each in accuracies])) for split in accuracies[0]}
    return Models({path: np.stack(rows) for path, rows in phi.items()}, means, float(np.mean(sensitivities)))


def _accuracy(arrays: Mapping[str, np.ndarray], split: str) -> float:
    from munkey.evaluation.metrics import accuracy

    rows = arrays["splits"] == split
    return accuracy(arrays["logits"][rows], arrays["labels"][rows])


def _sensitivity(arrays: Mapping[str, np.ndarray]) -> float:
    from munkey.evaluation.metrics import accuracy, pathway_sensitivity

    members = arrays["labels"][np.searchsorted(arrays["ids"], arrays["memory_ids"])]
    return pathway_sensitivity(
        **{name: accuracy(arrays[f"{name}_logits"], members) for name in ("image", "token", "both")}
    )

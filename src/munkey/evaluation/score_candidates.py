"""Judging candidates of a search on validation and forget set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from munkey.core.console import progress
from munkey.data import forget_sets
from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.evaluation import metrics
from munkey.evaluation.search import Candidate
from munkey.models import system
from munkey.models.family import FAMILIES
from munkey.settings import DataSettings

Judge = Callable[[Path], Candidate]


class Found(TypedDict):
    """What a search found, as it is written. chosen: position of the candidate; search_s: seconds of all of it."""

    chosen: int
    original_val_accuracy: float
    search_s: float
    candidates: list[dict[str, object]]


def judge(dataset: Dataset, forget_file: Path, data: DataSettings, device: str) -> Judge:
    """A function from the file of a system to its accuracies on the validation set and on the forget set."""
    ids = dataset.ids_of("val"), forget_sets.split(dataset, forget_file).forget
    val, forget = (image_set(dataset, part) for part in ids)

    def judged(path: Path) -> Candidate:
        loaded = system.load(path, device=device)
        answers = [FAMILIES[loaded.family].logits(loaded, part, data, device, None) for part in (val, forget)]
        return Candidate(metrics.accuracy(answers[0], val.labels), metrics.accuracy(answers[1], forget.labels))

    return judged


def all_of(judge: Judge, paths: Sequence[Path]) -> list[Candidate]:
    """The candidates in these files, judged one after the other."""
    return [judge(path) for path in progress(paths, "candidate", "candidates")]


def found(
    candidates: Sequence[Candidate],
    records: Sequence[Mapping[str, object]],
    chosen: int,
    original_val_accuracy: float,
    judging_s: float,
) -> Found:
    """The outcome of a search, with the settings, accuracies and seconds of every candidate."""
    seconds = [record["unlearn_s"] for record in records]
    table = []
    for record, candidate in zip(records, candidates, strict=True):
        settings = record["settings"]
        assert isinstance(settings, Mapping)
        line = {"settings": settings["method"], "gap": candidate.gap, "unlearn_s": record["unlearn_s"]}
        table.append(line | asdict(candidate))
    print(f"chosen: {table[chosen]}")
    return Found(
        chosen=chosen,
        original_val_accuracy=original_val_accuracy,
        search_s=judging_s + sum(float(str(s)) for s in seconds),
        candidates=table,
    )

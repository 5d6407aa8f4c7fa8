"""Search for the settings of a method on validation data alone (app. B.2): which unlearned model to take."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

from munkey.data import forget_sets
from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.evaluation import metrics
from munkey.models import system
from munkey.models.family import FAMILIES
from munkey.settings import DataSettings


@dataclass(frozen=True)
class Candidate:
    """The accuracies of one candidate in percent. Neither the test set nor the oracle takes part in the choice."""

    val_accuracy: float
    forget_accuracy: float

    @property
    def gap(self) -> float:
        """The validation utility gap |val - forget| (sec. 3.2)."""
        return abs(self.val_accuracy - self.forget_accuracy)


class SearchResult(TypedDict):
    """What a search found, as it is written. chosen: position of the candidate; search_s: seconds of all of it."""

    chosen: int
    original_val_accuracy: float
    search_s: float
    candidates: list[dict[str, object]]


def scorer(dataset: Dataset, forget_file: Path, data: DataSettings, device: str) -> Callable[[Path], Candidate]:
    """A function from the file of a system to its accuracies on the validation set and on the forget set."""
    ids = dataset.ids_of("val"), forget_sets.split(dataset, forget_file).forget
    val, forget = (image_set(dataset, part) for part in ids)

    def score(path: Path) -> Candidate:
        loaded = system.load(path, device=device)
        answers = [FAMILIES[loaded.family].logits(loaded, part, data, device, None) for part in (val, forget)]
        return Candidate(metrics.accuracy(answers[0], val.labels), metrics.accuracy(answers[1], forget.labels))

    return score


def choose(candidates: Sequence[Candidate], original_val_accuracy: float, drop: float | None) -> int:
    """The position of the candidate with the smallest gap; the first of equal ones.

    drop: only candidates that lose at most this many points of the original's validation accuracy are eligible. If all
    lose more, the one that loses least is taken. None: no such limit [ours: by its gap alone, a collapsed model wins].
    """
    if drop is None:
        eligible = list(range(len(candidates)))
    else:
        eligible = [i for i, c in enumerate(candidates) if original_val_accuracy - c.val_accuracy <= drop]
    if not eligible:
        return max(range(len(candidates)), key=lambda i: candidates[i].val_accuracy)
    return min(eligible, key=lambda i: candidates[i].gap)


def search_result(
    candidates: Sequence[Candidate],
    records: Sequence[Mapping[str, object]],
    chosen: int,
    original_val_accuracy: float,
    scoring_s: float,
) -> SearchResult:
    """The outcome of a search, with the settings, accuracies and seconds of every candidate."""
    seconds = [record["unlearn_s"] for record in records]
    table = []
    for record, candidate in zip(records, candidates, strict=True):
        settings = record["settings"]
        assert isinstance(settings, Mapping)
        line = {"settings": settings["method"], "gap": candidate.gap, "unlearn_s": record["unlearn_s"]}
        table.append(line | asdict(candidate))
    print(f"chosen: {table[chosen]}")
    return SearchResult(
        chosen=chosen,
        original_val_accuracy=original_val_accuracy,
        search_s=scoring_s + sum(float(str(s)) for s in seconds),
        candidates=table,
    )

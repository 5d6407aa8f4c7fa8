"""Search for the settings of a method on validation data alone (app. B.2): which unlearned model to take.

`munkey search-summary results/default/search/digits` prints, for each method, every candidate with its mean validation
gap and its worst loss of validation accuracy over all seeds and rates, best first: what params.yaml commits as tuned.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypedDict

from munkey.core.diverged import DIVERGED
from munkey.core.files import read_json
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
    """What a search found, as it is written. chosen: position of the candidate; search_s: seconds of all of it.

    A candidate that diverged has its settings and the reason alone. original_val_accuracy: None where all did.
    """

    chosen: int
    original_val_accuracy: float | None
    search_s: float
    candidates: list[dict[str, Any]]


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
    candidates: Sequence[Candidate | None],
    records: Sequence[Mapping[str, Any]],
    chosen: int,
    original_val_accuracy: float | None,
    scoring_s: float,
) -> SearchResult:
    """The outcome of a search, with the settings, accuracies and seconds of every candidate; None: it diverged."""
    table: list[dict[str, Any]] = []
    for record, candidate in zip(records, candidates, strict=True):
        line = {"settings": record["settings"]["method"]}
        if candidate is None:
            line[DIVERGED] = record[DIVERGED]
        else:
            line |= {"gap": candidate.gap, "unlearn_s": record["unlearn_s"]} | asdict(candidate)
        table.append(line)
    print(f"chosen: {table[chosen]}")
    return SearchResult(
        chosen=chosen,
        original_val_accuracy=original_val_accuracy,
        search_s=scoring_s + sum(record.get("unlearn_s", 0.0) for record in records),
        candidates=table,
    )


@dataclass(frozen=True)
class Tried:
    """A candidate over all runs. gap: mean |val - forget| accuracy; drop: largest loss of validation accuracy."""

    settings: Mapping[str, object]
    gap: float
    drop: float

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{settings}: " + (f"gap {self.gap:.2f}, drop {self.drop:.1f}" if math.isfinite(self.gap) else DIVERGED)


def ranked(searches: Sequence[SearchResult], drop: float) -> list[Tried]:
    """The candidates of a method, best first: by gap among those that never lose more than `drop`, then by drop; one
    that ever diverged last.

    drop: points of the original's validation accuracy that a setting may lose in any run. Raises ValueError where the
    searches tried different ones.
    """
    tried = []
    settings = [[candidate["settings"] for candidate in search["candidates"]] for search in searches]
    if any(each != settings[0] for each in settings):
        raise ValueError("these searches tried different settings, so some are of an earlier run: search all anew")
    for place, of_candidate in enumerate(settings[0]):
        gaps, drops = list[float](), list[float]()
        for search in searches:
            candidate = search["candidates"][place]
            before = search["original_val_accuracy"]
            gaps.append(candidate.get("gap", math.inf))
            drops.append(math.inf if before is None or DIVERGED in candidate else before - candidate["val_accuracy"])
        tried.append(Tried(of_candidate, sum(gaps) / len(gaps), max(drops)))
    return sorted(tried, key=lambda each: (each.drop > drop, each.gap if each.drop <= drop else each.drop))


def report(folder: Path, drop: float) -> Iterable[str]:
    """A block of lines per method, from the folder of a data set's searches.

    Raises ValueError for searches that do not belong together, FileNotFoundError where there are none.
    """
    searches: dict[str, list[SearchResult]] = defaultdict(list)
    for path in sorted(folder.glob("seed*/rate*/*/search.json")):
        searches[path.parent.name].append(read_json(path))
    if not searches:
        raise FileNotFoundError(f"{folder}: no search.json of a method here; results/NAME/search/DATASET has them")
    for method, found in sorted(searches.items()):
        try:
            best = ranked(found, drop)
        except ValueError as error:
            raise ValueError(f"{folder}, {method}: {error}") from None
        yield f"{method} (n = {len(found)} seeds x rates)"
        yield from (f"  {tried}" for tried in best)

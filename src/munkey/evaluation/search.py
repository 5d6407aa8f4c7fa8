"""Search for a method's settings using only validation data (app. B.2).

`munkey search-summary FOLDER` ranks the candidates. The best are the defaults in params.yaml.
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
    """A candidate's accuracies in percent on the validation set and the forget set."""

    val_accuracy: float
    forget_accuracy: float

    @property
    def gap(self) -> float:
        """The validation utility gap |val - forget| (sec. 3.2; app. B.2)."""
        return abs(self.val_accuracy - self.forget_accuracy)


class SearchResult(TypedDict):
    """The contents of a search's result file.

    `chosen` is the index of a candidate. Each has its settings, gap, accuracies and seconds, or, if
    it diverged, the reason; `search_s` is the time of all.
    """

    chosen: int
    original_val_accuracy: float | None
    search_s: float
    candidates: list[dict[str, Any]]


def make_scorer(
    dataset: Dataset, forget_file: Path, data: DataSettings, device: str
) -> Callable[[Path], Candidate]:
    """Return a function that measures a system file's accuracies, without test set and oracle."""
    val = image_set(dataset, dataset.get_ids("val"))
    forget = image_set(dataset, forget_sets.split(dataset, forget_file).forget)

    def score(path: Path) -> Candidate:
        candidate_system = system.load(path, device=device)
        family = FAMILIES[candidate_system.family]
        val_logits = family.predict_logits(candidate_system, val, data, device, None)
        forget_logits = family.predict_logits(candidate_system, forget, data, device, None)
        return Candidate(
            val_accuracy=metrics.compute_accuracy(val_logits, val.labels),
            forget_accuracy=metrics.compute_accuracy(forget_logits, forget.labels),
        )

    return score


def choose_candidate(
    candidates: Sequence[Candidate], original_val_accuracy: float, drop: float | None
) -> int:
    """Return the index of the candidate with the smallest gap. Ties go to the first candidate.

    It may lose at most `drop` points of the original's validation accuracy, because a collapsed
    model has a small gap [ours]; None means any amount. If all lose more, the most accurate wins.
    """
    eligible = []
    for index, candidate in enumerate(candidates):
        loss = original_val_accuracy - candidate.val_accuracy
        if drop is None or loss <= drop:
            eligible.append(index)
    if not eligible:
        return max(range(len(candidates)), key=lambda index: candidates[index].val_accuracy)
    return min(eligible, key=lambda index: candidates[index].gap)


def make_search_result(
    candidates: Sequence[Candidate | None],
    records: Sequence[Mapping[str, Any]],
    chosen: int,
    original_val_accuracy: float | None,
    scoring_s: float,
) -> SearchResult:
    """Return the result of a search, and print the chosen candidate.

    `candidates` that diverged are None; `records` are those of the unlearning jobs.
    """
    candidate_rows: list[dict[str, Any]] = []
    for record, candidate in zip(records, candidates, strict=True):
        row = {"settings": record["settings"]["method"]}
        if candidate is None:
            row[DIVERGED] = record[DIVERGED]
        else:
            row |= {"gap": candidate.gap, "unlearn_s": record["unlearn_s"]} | asdict(candidate)
        candidate_rows.append(row)
    print(f"chosen: {candidate_rows[chosen]}")
    return SearchResult(
        chosen=chosen,
        original_val_accuracy=original_val_accuracy,
        search_s=scoring_s + sum(record.get("unlearn_s", 0.0) for record in records),
        candidates=candidate_rows,
    )


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate's mean gap and largest drop; infinite if it ever diverged."""

    settings: Mapping[str, object]
    gap: float
    drop: float

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        if not math.isfinite(self.gap):
            return f"{settings}: {DIVERGED}"
        return f"{settings}: gap {self.gap:.2f}, drop {self.drop:.1f}"


def rank_candidates(searches: Sequence[SearchResult], drop: float) -> list[RankedCandidate]:
    """Return the candidates of one method, best first.

    Those that never lose more than `drop` points of validation accuracy come first, by gap; the
    others follow, by drop. Raises ValueError if the searches tried different candidates.
    """
    tried_settings = [candidate["settings"] for candidate in searches[0]["candidates"]]
    for search in searches:
        if [candidate["settings"] for candidate in search["candidates"]] != tried_settings:
            raise ValueError(
                "these searches tried different settings, so some are from an earlier run: repeat"
                " all searches"
            )
    eligible: list[RankedCandidate] = []
    others: list[RankedCandidate] = []
    for index, candidate_settings in enumerate(tried_settings):
        gaps: list[float] = []
        drops: list[float] = []
        for search in searches:
            candidate = search["candidates"][index]
            original = search["original_val_accuracy"]
            gaps.append(candidate.get("gap", math.inf))
            if original is None or DIVERGED in candidate:
                drops.append(math.inf)
            else:
                drops.append(original - candidate["val_accuracy"])
        ranked = RankedCandidate(candidate_settings, sum(gaps) / len(gaps), max(drops))
        if ranked.drop <= drop:
            eligible.append(ranked)
        else:
            others.append(ranked)
    eligible.sort(key=lambda candidate: candidate.gap)
    others.sort(key=lambda candidate: candidate.drop)
    return eligible + others


def describe_searches(folder: Path, drop: float) -> Iterable[str]:
    """Yield lines that rank the candidates of each method in a data set's folder of searches.

    Raises ValueError if searches of a method differ in candidates, and FileNotFoundError without
    any.
    """
    searches: dict[str, list[SearchResult]] = defaultdict(list)
    for path in sorted(folder.glob("seed*/rate*/*/search.json")):
        searches[path.parent.name].append(read_json(path))
    if not searches:
        raise FileNotFoundError(
            f"{folder}: contains no search.json of any method; use results/NAME/search/DATASET"
        )
    for method, method_searches in sorted(searches.items()):
        try:
            candidates = rank_candidates(method_searches, drop)
        except ValueError as error:
            raise ValueError(f"{folder}, {method}: {error}") from None
        yield f"{method} (n = {len(method_searches)} seeds x rates)"
        for candidate in candidates:
            yield f"  {candidate}"

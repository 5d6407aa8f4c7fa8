"""One setting per method out of all searches of a data set: what params.yaml commits as tuned on validation.

`munkey search-summary results/default/search/digits` prints, for each method, every candidate with its mean validation
gap and its worst loss of validation accuracy over all seeds and rates, best first.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from munkey.core.files import read_json
from munkey.evaluation.search import SearchResult


@dataclass(frozen=True)
class Tried:
    """A candidate over all runs. gap: mean |val - forget| accuracy; drop: largest loss of validation accuracy."""

    settings: Mapping[str, object]
    gap: float
    drop: float

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{settings}: gap {self.gap:.2f}, drop {self.drop:.1f}"


def ranked(searches: Sequence[SearchResult], drop: float) -> list[Tried]:
    """The candidates of a method, best first: by gap among those that never lose more than `drop`, then by drop.

    drop: points of the original's validation accuracy that a setting may lose in any run. Raises ValueError where the
    searches tried different ones.
    """
    if any(_settings(search) != _settings(searches[0]) for search in searches):
        raise ValueError("these searches tried different settings, so some are of an earlier run: search all anew")
    tried = [_tried(searches, place) for place in range(len(searches[0]["candidates"]))]
    return sorted(tried, key=lambda each: (each.drop > drop, each.gap if each.drop <= drop else each.drop))


def _tried(searches: Sequence[SearchResult], place: int) -> Tried:
    gaps, drops = [], []
    for search in searches:
        candidate = search["candidates"][place]
        gaps.append(float(str(candidate["gap"])))
        drops.append(search["original_val_accuracy"] - float(str(candidate["val_accuracy"])))
    return Tried(_settings(searches[0])[place], sum(gaps) / len(gaps), max(drops))


def _settings(search: SearchResult) -> list[Mapping[str, object]]:
    return [cast(Mapping[str, object], candidate["settings"]) for candidate in search["candidates"]]


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

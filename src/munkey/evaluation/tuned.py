"""One setting per method out of all searches of a data set: what params.yaml commits as tuned on validation.

    python -m munkey.evaluation.tuned results/default/search/digits

prints, for each method, every candidate with its mean validation gap and its worst loss of validation accuracy over all
seeds and rates, best first.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from munkey.core.files import read_json
from munkey.evaluation.judging import Found

DROP = 5.0  # points of the original's validation accuracy that a setting may lose in any run; `search_drop`


@dataclass(frozen=True)
class Tried:
    """A candidate over all runs. gap: mean |val - forget| accuracy; drop: largest loss of validation accuracy."""

    settings: Mapping[str, object]
    gap: float
    drop: float

    def __str__(self) -> str:
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{settings}: gap {self.gap:.2f}, drop {self.drop:.1f}"


def ranked(searches: Sequence[Found]) -> list[Tried]:
    """The candidates of a method, best first: by gap among those that never lose more than DROP, then by drop."""
    tried = [_tried(searches, place) for place in range(len(searches[0]["candidates"]))]
    return sorted(tried, key=lambda each: (each.drop > DROP, each.gap if each.drop <= DROP else each.drop))


def _tried(searches: Sequence[Found], place: int) -> Tried:
    gaps, drops = [], []
    for search in searches:
        candidate = search["candidates"][place]
        gaps.append(float(str(candidate["gap"])))
        drops.append(search["original_val_accuracy"] - float(str(candidate["val_accuracy"])))
    settings = searches[0]["candidates"][place]["settings"]
    assert isinstance(settings, Mapping)
    return Tried(settings, sum(gaps) / len(gaps), max(drops))


def report(folder: Path) -> Iterable[str]:
    """A block of lines per method, from the folder of a data set's searches."""
    searches: dict[str, list[Found]] = defaultdict(list)
    for path in sorted(folder.glob("seed*/rate*/*/search.json")):
        searches[path.parent.name].append(read_json(path))
    for method, found in sorted(searches.items()):
        yield f"{method} (n = {len(found)} seeds x rates)"
        yield from (f"  {tried}" for tried in ranked(found))


if __name__ == "__main__":
    print("\n".join(report(Path(sys.argv[1]))))

"""The search for a method's settings on validation and forget set (app. B.2)."""

from pathlib import Path

from munkey.core.console import progress
from munkey.core.device import Stopwatch
from munkey.core.files import read_bytes, read_json, sealed, write_json
from munkey.data import prepared
from munkey.evaluation.search import choose, scorer, search_result
from munkey.settings import DataSettings


def search(
    images: Path,
    forget: Path,
    original: Path,
    systems: list[Path],
    records: list[Path],
    system: Path,
    record: Path,
    found: Path,
    data: DataSettings,
    drop: float | None,
    device: str,
) -> None:
    """Choose among the candidates of a method. The chosen one becomes the method's result, `system` and `record`.

    systems, records: of every candidate; drop: points of validation accuracy that a candidate may lose.
    """
    tried = [read_json(path) for path in records]
    score = scorer(prepared.load(images.parent), forget, data, device)
    with Stopwatch(device) as watch:
        candidates = [score(path) for path in progress(systems, "candidate", "candidates")]
    before = score(original).val_accuracy
    chosen = choose(candidates, before, drop)
    outcome = search_result(candidates, tried, chosen, before, watch.seconds)
    write_json(found, outcome)
    with sealed(system) as temporary:
        temporary.write_bytes(read_bytes(systems[chosen]))
    write_json(record, tried[chosen] | {"search_s": outcome["search_s"]})

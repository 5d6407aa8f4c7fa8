"""The search for a method's settings on validation and forget set (app. B.2)."""

from pathlib import Path

from munkey.core.device import Stopwatch
from munkey.core.files import read_bytes, read_json, sealed, write_json
from munkey.data import prepared
from munkey.evaluation import score_candidates
from munkey.evaluation.search import choose
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
    judge = score_candidates.judge(prepared.load(images.parent), forget, data, device)
    with Stopwatch(device) as watch:
        candidates = score_candidates.all_of(judge, systems)
    before = judge(original).val_accuracy
    chosen = choose(candidates, before, drop)
    outcome = score_candidates.found(candidates, tried, chosen, before, watch.seconds)
    write_json(found, outcome)
    with sealed(system) as temporary:
        temporary.write_bytes(read_bytes(systems[chosen]))
    write_json(record, tried[chosen] | {"search_s": outcome["search_s"]})

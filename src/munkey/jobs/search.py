"""The choice of a method's settings on validation data (app. B.2)."""

from dataclasses import dataclass
from pathlib import Path

from munkey.core.console import progress
from munkey.core.device import Stopwatch
from munkey.core.diverged import DIVERGED
from munkey.core.files import (
    atomic_with_checksum,
    read_bytes,
    read_json,
    write_json,
)
from munkey.data import prepared
from munkey.evaluation.search import choose_candidate, make_scorer, make_search_result
from munkey.settings import DataSettings


@dataclass(frozen=True)
class CandidateFiles:
    """The systems and records of all candidates of a method, in the order of the grid."""

    systems: list[Path]
    records: list[Path]


def search(
    images: Path,
    forget: Path,
    original: Path,
    candidates: CandidateFiles,
    system: Path,
    record: Path,
    found: Path,
    data: DataSettings,
    drop: float | None,
    device: str,
) -> None:
    """Choose the best candidate of a method, and write its `system` and `record` as the result.

    Candidates that diverged are not chosen, unless all of them did; then the first one is chosen.

    Parameters
    ----------
    found
        The output: the scores of all candidates.
    drop
        How many percentage points of validation accuracy a candidate may lose; None for no limit.
    """
    candidate_records = list(map(read_json, candidates.records))
    finite_numbers = []
    for number, candidate_record in enumerate(candidate_records):
        if DIVERGED not in candidate_record:
            finite_numbers.append(number)
    score = make_scorer(prepared.load(images.parent), forget, data, device)
    finite_scores = []
    with Stopwatch(device) as watch:
        for number in progress(finite_numbers, "candidate", "candidates"):
            finite_scores.append(score(candidates.systems[number]))
    val_accuracy_before = None
    best = 0
    if finite_numbers:
        val_accuracy_before = score(original).val_accuracy
        best = finite_numbers[choose_candidate(finite_scores, val_accuracy_before, drop)]
    score_by_number = dict(zip(finite_numbers, finite_scores, strict=True))
    scores = [score_by_number.get(number) for number in range(len(candidate_records))]
    result = make_search_result(scores, candidate_records, best, val_accuracy_before, watch.seconds)
    write_json(found, result)
    with atomic_with_checksum(system) as temporary:
        temporary.write_bytes(read_bytes(candidates.systems[best]))
    write_json(record, candidate_records[best] | {"search_s": result["search_s"]})

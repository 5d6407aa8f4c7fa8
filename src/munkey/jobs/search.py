"""Choices on validation data: a method's settings (app. B.2), and p_image and p_token (app. E)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from munkey.core.console import progress
from munkey.core.device import Stopwatch
from munkey.core.diverged import DIVERGED
from munkey.core.files import (
    atomic_with_checksum,
    read_bytes,
    read_json,
    read_table,
    write_csv,
    write_json,
)
from munkey.data import prepared
from munkey.evaluation import selection
from munkey.evaluation.search import choose_candidate, make_scorer, make_search_result
from munkey.settings import DataSettings
from munkey.studies.selection.settings import SelectionSettings


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


def select(
    metrics: Path,
    chosen: Path,
    table: Path,
    dataset: str,
    settings: SelectionSettings,
    pairs: Mapping[str, Mapping[str, float]],
    systems: selection.Systems,
    required: bool,
) -> None:
    """Choose p_image and p_token for a data set, and write why each pair was chosen or not.

    Parameters
    ----------
    metrics
        The metrics of all systems that were trained with the pairs.
    chosen, table
        The outputs: the chosen pair, and a table with the verdict on each pair.
    pairs
        The grid of p_image and p_token, by case.
    systems
        The names of the systems before and after deletion.
    required
        Whether there must be a chosen pair, because models will be trained with it.
    """
    tidy = read_table(metrics)
    measured_pairs = selection.collect_pairs(tidy, pairs, systems)
    verdicts = selection.decide_pairs(measured_pairs, settings, required)
    write_csv(table, selection.make_table(dataset, verdicts, tidy, pairs, systems))
    chosen_pair = selection.get_chosen_pair(verdicts)
    chosen_values = None
    if chosen_pair is None:
        print("chosen: none, no pair passes")
    else:
        print(f"chosen: {chosen_pair}")
        chosen_values = {"p_image": chosen_pair.p_image, "p_token": chosen_pair.p_token}
    write_json(chosen, {"chosen": chosen_values})

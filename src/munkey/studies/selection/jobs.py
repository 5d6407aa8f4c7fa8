"""The job that chooses p_image and p_token."""

from collections.abc import Mapping
from pathlib import Path

from munkey.core.files import read_table, write_csv, write_json
from munkey.studies.selection import pairs as selection
from munkey.studies.selection.settings import SelectionSettings


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

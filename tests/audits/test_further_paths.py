"""Perturbed pictures and linear probes find what the deployed answers hide; retrained networks pass."""

from functools import cache

import pytest

from benchmarks.further_paths import ENTRIES, PATHS, World, flag, make_table

SEEDS = (0, 1)


@cache
def flag_entries(seed: int) -> dict[tuple[str, str], bool]:
    """The flags of all entries in a small audit."""
    return flag(seed, World("small", pairs=3, pool=120, wrong=1 / 6))


@pytest.mark.parametrize("seed", SEEDS)
def test_retrained_networks_pass_on_every_path(seed):
    flags = flag_entries(seed)
    assert not any(flags["retrained", path] for path in PATHS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_of_answers_passes_until_the_pictures_are_perturbed(seed):
    flags = flag_entries(seed)
    words = "only the answers for deleted pictures replaced"
    assert not flags[words, "deployed"]
    assert flags[words, "perturbed"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_head_passes_until_a_probe_reads_the_features(seed):
    flags = flag_entries(seed)
    assert not flags["head drawn anew", "deployed"]
    assert flags["head drawn anew", "probe"]


def test_what_did_nothing_is_flagged_on_every_path():
    assert all(flag_entries(0)["nothing done", path] for path in PATHS)


def test_the_table_has_counts_and_intervals():
    audits = [dict.fromkeys(((words, path) for words in ENTRIES for path in PATHS), True)] * 10
    frame = make_table(audits, "ten audits").frame
    assert frame["What is audited"].tolist() == list(ENTRIES)
    assert frame["probe"][0] == "10 of 10 [72, 100]%"

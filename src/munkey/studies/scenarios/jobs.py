"""Forget sets that are not random: of groups, by difficulty, or from a list."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from munkey.core.files import read_csv
from munkey.core.randomness import Stage
from munkey.data import forget_draws, forget_sets
from munkey.data.forget_draws import Members, compute_vote_shares
from munkey.data.prepared import load
from munkey.encoders import keys
from munkey.memory.neighbors import read_neighbors, read_other_neighbors


@dataclass(frozen=True)
class Sampling:
    """How a forget set is drawn, and the files that it is drawn from.

    Attributes
    ----------
    keyfile
        The key file, for the sampling `cluster`.
    neighbors
        The neighbor file, for samplings by the votes of `depth` - 1 neighbors, and for the sampling
        `relied-on`, which selects the `k` nearest neighbors of all test samples of the named units.
    listed
        The list file, for the sampling `listed`.
    """

    sampling: str
    names: Sequence[str] | None = None
    depth: int = 0
    k: int = 1
    keyfile: Path | None = None
    neighbors: Path | None = None
    listed: Path | None = None


def forget_request(
    images: Path, forget: Path, dataset: str, seed: int, rate: str, draw: Sampling
) -> None:
    """Draw the forget set of a data set, seed and rate.

    Parameters
    ----------
    rate
        The rate as it is written in paths.
    """
    sampling = draw.sampling
    names = draw.names or ()
    prepared = load(images.parent)
    ids = prepared.get_ids("train")
    members = Members(ids, prepared.labels[prepared.rows(ids)])
    stage = Stage(seed, dataset, "forget", rate)
    generator = stage.numpy_generator()
    if draw.listed:
        samples_file = images.parent / "samples.csv"
        forget_ids = _read_listed_ids(draw.listed, samples_file, members, float(rate))
    elif sampling in ("class", "unit", "one-of-unit", "cluster"):
        member_keys = keys.read(draw.keyfile, ids).keys if draw.keyfile else None
        groups = forget_draws.group_training_samples(
            prepared, sampling, stage / "clusters", member_keys
        )
        forget_ids = forget_draws.draw_groups(
            groups, members.labels, float(rate), draw.names, generator
        )
        if sampling == "one-of-unit":
            forget_ids = forget_draws.find_lowest_ids(groups, forget_ids)
    elif sampling == "known":
        groups = forget_draws.group_samples(prepared, "unit")
        forget_ids = forget_draws.draw_share(groups, names, float(rate), generator)
    elif sampling == "relied-on":
        assert draw.neighbors
        test_units = forget_draws.group_samples(prepared, "unit", "test")
        names = forget_draws.check_group_names(test_units, names)
        queries = test_units.ids[np.isin(test_units.names, list(names))]
        near = read_neighbors(draw.neighbors, queries)
        forget_ids = np.unique(near.truncate(draw.k).ids)
    else:
        assert draw.neighbors
        voters = read_other_neighbors(draw.neighbors, ids, draw.depth - 1).ids
        votes = compute_vote_shares(members, voters)
        forget_ids = forget_draws.draw_by_difficulty(ids, votes, float(rate), sampling, generator)
    forget_sets.write(forget, forget_ids)
    print(f"{len(forget_ids)} of {len(ids)} training samples to forget, {sampling}")


def _read_listed_ids(listed: Path, samples_file: Path, members: Members, rate: float) -> np.ndarray:
    """Return the ids of the samples in a list file.

    Raises ValueError if fewer than two classes would remain, or if the list does not match the data
    set or the rate.
    """
    entries = forget_draws.read_list(listed)
    forget_ids = forget_draws.find_listed_ids(entries, read_csv(samples_file), listed)
    forget_draws.require_listed_share(listed, len(forget_ids), len(members.ids), rate)
    retained_labels = members.labels[~np.isin(members.ids, forget_ids)]
    if len(np.unique(retained_labels)) < 2:
        raise ValueError(
            f"{listed}: without the listed samples, fewer than two classes remain; list fewer"
            " samples"
        )
    return forget_ids

"""The pools of audits, drawn before any training: their halves, and wrong labels (docs/audits.md)."""

from pathlib import Path

import numpy as np

from munkey.audits import pools
from munkey.core.files import read_csv, write_csv, write_json, write_npy
from munkey.core.randomness import Stage
from munkey.data import forget_draws, forget_sets
from munkey.data.prepared import load
from munkey.jobs.forget import group_training_samples
from munkey.memory.neighbors import read_other_neighbors


def half(
    images: Path,
    half: Path,
    dataset: str,
    seed: int,
    pool: float,
    pool_of: str,
    draw: int,
    depth: int,
    keyfile: Path | None = None,
) -> None:
    """Draw the half of an audit's pool that the models of a seed are trained on and then forget.

    Parameters
    ----------
    pool
        The share of the training samples that the pool has.
    draw
        The number of the pool. Pools of other numbers than 0 have no sample of pool 0.
    depth
        The number of neighbors that must remain without the pool.
    keyfile
        The keys, for a pool of clusters.
    """
    prepared = load(images.parent)
    stage = Stage(dataset, "audit")
    pair, number = divmod(seed, 2)
    members = prepared.get_ids("train")
    labels = prepared.labels[prepared.rows(members)]
    stages = (stage / "pool", stage / "pair" / pair)
    units = None
    if pool_of in ("class", "unit", "cluster"):
        groups = group_training_samples(prepared, pool_of, stage / "clusters", keyfile)
        both = forget_draws.draw_group_halves(groups, labels, pool, *stages)
        units = dict(zip(groups.ids.tolist(), groups.names.tolist(), strict=True))
    else:
        both = forget_draws.draw_halves(members, labels, pool, *stages)
    if draw:
        is_outside = ~np.isin(members, np.concatenate(both))
        draw_stage = stage / "draw" / draw
        both = forget_draws.draw_halves(
            members[is_outside],
            labels[is_outside],
            pool / is_outside.mean(),  # of these samples, so as many as in pool 0
            draw_stage / "pool",
            draw_stage / "pair" / pair,
        )
    pools.require_valid_size(len(both[0]) + len(both[1]), prepared, depth)
    forget_sets.write(half, both[number], units)


def hardest_half(
    images: Path, neighbors: Path, half: Path, dataset: str, seed: int, pool: float, depth: int
) -> None:
    """Draw a half as `half` does, from the samples whose labels get the fewest of their neighbors' votes.

    All but one of `depth` neighbors vote.
    """
    prepared = load(images.parent)
    stage = Stage(dataset, "audit")
    pair, number = divmod(seed, 2)
    ids = prepared.get_ids("train")
    members = pools.Members(ids, prepared.labels[prepared.rows(ids)])
    voters = read_other_neighbors(neighbors, ids, depth - 1).ids
    votes = pools.compute_vote_shares(members, voters)
    hardest = pools.draw_hardest(members, votes, pool, stage / "hardest")
    pools.require_valid_size(len(hardest), prepared, depth)
    forget_sets.write(half, pools.draw_half(hardest, number, stage / "hardest pair" / pair))
    share = votes[ids.searchsorted(hardest)].mean()
    print(f"{len(hardest)} samples; their label has {share:.0%} of their neighbors' votes")


def mislabel(
    source: Path, pool: list[Path], images: Path, samples: Path, classes: Path, dataset: str
) -> None:
    """Write a copy of a prepared data set for an audit, with wrong labels for all samples of its pool.

    Test samples have one, too: margins are ranked among theirs, and those of right labels would all
    be larger.

    Parameters
    ----------
    source
        The images of the data set as it is.
    pool
        The two halves of the pool.
    """
    prepared = load(source.parent)
    stage = Stage(dataset, "audit", "wrong labels")
    pool_rows = prepared.rows(np.concatenate([forget_sets.read(half) for half in pool]))
    rows = np.concatenate([np.sort(pool_rows), np.flatnonzero(prepared.splits == "test")])
    labels = pools.draw_wrong_labels(
        prepared.labels, rows, len(prepared.classes), stage.numpy_generator()
    )
    write_npy(images, prepared.images)
    lines = zip(read_csv(source.with_name("samples.csv")), labels.tolist(), strict=True)
    write_csv(samples, [line | {"label": label} for line, label in lines])
    write_json(classes, prepared.classes)

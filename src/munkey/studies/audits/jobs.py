"""The pools of audits (docs/audits.md): their halves, and wrong labels for their samples."""

from functools import partial
from pathlib import Path

import numpy as np

from munkey.audits import pools
from munkey.core.console import progress
from munkey.core.files import read_csv, write_csv, write_json, write_npy
from munkey.core.ids import find_rows
from munkey.core.randomness import Stage
from munkey.data import forget_draws, forget_sets
from munkey.data.image_set import image_set, perturb
from munkey.data.prepared import load
from munkey.encoders import keys
from munkey.encoders.parts import build
from munkey.memory.neighbors import read_other_neighbors
from munkey.settings import EncoderSettings


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
        The size of the pool as a share of the training set.
    pool_of
        "class", "unit" or "cluster" for a pool of whole groups; otherwise, of single samples.
    draw
        The number of the pool. Pools other than 0 have no samples in common with pool 0.
    depth
        The number of neighbors that must remain without the pool.
    keyfile
        The key file, for a pool of clusters.
    """
    prepared = load(images.parent)
    stage = Stage(dataset, "audit")
    pair, number = divmod(seed, 2)
    members = prepared.get_ids("train")
    labels = prepared.labels[prepared.rows(members)]
    stages = (stage / "pool", stage / "pair" / pair)
    units = None
    if pool_of in ("class", "unit", "cluster"):
        member_keys = keys.read(keyfile, members).keys if keyfile else None
        groups = forget_draws.group_training_samples(
            prepared, pool_of, stage / "clusters", member_keys
        )
        halves = forget_draws.draw_group_halves(groups, labels, pool, *stages)
        units = dict(zip(groups.ids.tolist(), groups.names.tolist(), strict=True))
    else:
        halves = forget_draws.draw_halves(members, labels, pool, *stages)
    if draw:
        is_outside = ~np.isin(members, np.concatenate(halves))
        draw_stage = stage / "draw" / draw
        halves = forget_draws.draw_halves(
            members[is_outside],
            labels[is_outside],
            pool / is_outside.mean(),  # a larger share of fewer samples: as many as in pool 0
            draw_stage / "pool",
            draw_stage / "pair" / pair,
        )
    pools.require_valid_size(len(halves[0]) + len(halves[1]), prepared, depth)
    forget_sets.write(half, halves[number], units)


def hardest_half(
    images: Path, neighbors: Path, half: Path, dataset: str, seed: int, pool: float, depth: int
) -> None:
    """Draw a half of a pool of the hardest samples, whose neighbors vote least for their label.

    The `depth` - 1 nearest neighbors of a sample vote, excluding the sample itself. Parameters are
    as for `half`.
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
    share = votes[find_rows(ids, hardest)].mean()
    print(f"{len(hardest)} samples; their label has {share:.0%} of their neighbors' votes")


def mislabel(
    source: Path, pool: list[Path], images: Path, samples: Path, classes: Path, dataset: str
) -> None:
    """Write a copy of a prepared data set for an audit, with wrong labels for the whole pool.

    Test samples are mislabeled, too. Their margins are compared with those of the pool, and with
    correct labels they would all be larger.

    Parameters
    ----------
    source
        The images of the original data set.
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
    original_samples = read_csv(source.with_name("samples.csv"))
    mislabeled_samples = []
    for sample, label in zip(original_samples, labels.tolist(), strict=True):
        mislabeled_samples.append(sample | {"label": label})
    write_csv(samples, mislabeled_samples)
    write_json(classes, prepared.classes)


def perturbed_keys(
    images: Path,
    pool: list[Path],
    perturbed_keys: Path,
    settings: EncoderSettings,
    device: str,
) -> None:
    """Extract the keys of the perturbed pictures that an audit evaluates.

    Parameters
    ----------
    pool
        The two halves of the pool.
    """
    prepared = load(images.parent)
    ids = forget_sets.select_evaluated_ids(prepared, pool)
    perturbed = perturb(image_set(prepared, ids))
    assert isinstance(perturbed.images, np.ndarray)
    size = settings.batch_size
    show_progress = partial(progress, what="batch", unit="images", units_per_item=size)
    vectors = keys.extract(build(settings, device), perturbed.images, size, device, show_progress)
    keys.write(perturbed_keys, ids, vectors)

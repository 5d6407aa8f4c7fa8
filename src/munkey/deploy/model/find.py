"""Look up samples by a picture or a row of numbers: the nearest samples, and exact copies."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from munkey.core.ids import NO_NEIGHBOR
from munkey.deploy.model.samples import Samples

# Number of samples to list for each picture: by default, and at most.
DEFAULT_COUNT = 10
MAX_COUNT = 1000


class NearSample(NamedTuple):
    """A sample near a picture.

    label, unit, file: None if unknown. cosine: of its key and the picture's key. copy: whether all
    stored pixels, or all numbers of the row, are equal.
    """

    id: int
    label: str | None
    unit: str | None
    file: str | None
    cosine: float
    copy: bool


@dataclass(frozen=True)
class NearSamples:
    """The samples near N pictures, or rows of numbers.

    Attributes
    ----------
    samples : tuple of tuple of NearSample
        For each picture, the samples near it: exact copies first, then by descending cosine.
    files : tuple of str or None
        The file of each picture; None if unknown.
    """

    samples: tuple[tuple[NearSample, ...], ...]
    files: tuple[str | None, ...]


def require_valid_search(count: int, above: float) -> None:
    """Raise ValueError if `count` is not from 1 to MAX_COUNT, or `above` is not a cosine."""
    is_whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    if not is_whole or not 1 <= count <= MAX_COUNT:
        raise ValueError(f"count = {count!r}: must be a whole number from 1 to {MAX_COUNT:,}")
    if not -1 <= above <= 1:
        raise ValueError(f"above = {above!r}: must be a cosine, from -1 to 1")


def find_samples(
    samples: Samples,
    keys: np.ndarray,
    contents: np.ndarray,
    count: int,
    above: float,
    keys_have_lengths: bool = False,
) -> list[tuple[NearSample, ...]]:
    """Find the `count` samples nearest to each key (Q, d). Exact copies are listed first.

    keys_have_lengths: whether keys, here and in the memory, are not at unit norm.
    contents: digests (Q, 16) of the pictures, or rows, of the keys. above: minimum cosine; exact
    copies are listed anyway. Raises ValueError if the keys are not finite, or have another shape.
    """
    from munkey.deploy.model.retrieval import (
        check_queries,
        find_nearest,
        find_nearest_by_cosine,
    )

    memory = samples.memory
    queries = check_queries(keys, memory.keys.shape[1])
    depth = min(count, len(memory))
    if keys_have_lengths:
        nearest = find_nearest_by_cosine(memory, queries, depth)
    else:
        nearest = find_nearest(memory, queries, depth)
    is_present = nearest.rows != NO_NEIGHBOR
    columns = memory.columns.take(nearest.rows[is_present])  # of all queries, concatenated
    query_of_row = np.nonzero(is_present)[0]
    cosines = nearest.cosines[is_present].clip(-1, 1)
    has_same_content = (columns.contents == contents[query_of_row]).all(axis=1)
    near_samples: list[list[NearSample]] = [[] for _ in keys]
    for index, query in enumerate(query_of_row.tolist()):
        sample = NearSample(
            id=int(columns.ids[index]),
            label=samples.classes.get(int(columns.labels[index])),
            unit=columns.units[index],
            file=samples.sources.locate(columns.files[index]),
            cosine=float(cosines[index]),
            copy=bool(has_same_content[index]),
        )
        if sample.copy or sample.cosine >= above:
            near_samples[query].append(sample)
    for samples_of_query in near_samples:
        # The sort is stable, so samples stay in descending order of their cosine otherwise.
        samples_of_query.sort(key=lambda sample: not sample.copy)
    return [tuple(samples_of_query) for samples_of_query in near_samples]

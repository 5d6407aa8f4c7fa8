"""Look samples up by a picture, or a row of numbers: the nearest ones, and exact copies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from munkey.core.ids import NO_NEIGHBOR
from munkey.deploy.store.store import Store

DEFAULT_COUNT = 10  # samples listed for each picture
MAX_COUNT = 1000  # the largest count that may be requested


class NearSample(NamedTuple):
    """A sample near a picture.

    label: its class. unit: its person, device, …. file: its source file. These are None if unknown.
    copy: whether all stored pixels, or all numbers of the row, are equal.
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
        The file of each picture, if known.
    pictures : ndarray of uint8, shape (N, H, W, 3), or None
        The pictures as the encoder saw them; None for rows of numbers.
    """

    samples: tuple[tuple[NearSample, ...], ...]
    files: tuple[str | None, ...]
    pictures: np.ndarray | None


def require_valid_search(count: int, above: float) -> None:
    """Raise ValueError for a number of samples, or a cosine, that is out of range."""
    is_whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    if not is_whole or not 1 <= count <= MAX_COUNT:
        raise ValueError(f"count = {count!r}: must be a whole number from 1 to {MAX_COUNT:,}")
    if not -1 <= above <= 1:
        raise ValueError(f"above = {above!r}: must be a cosine, from -1 to 1")


@dataclass(frozen=True)
class Finder:
    """Looks up samples in a memory.

    locate: returns the path of a source file. names: class names by class index.
    """

    store: Store
    locate: Callable[[str | None], str | None]
    names: dict[int, str]

    def find(
        self, keys: np.ndarray, contents: np.ndarray, count: int, above: float
    ) -> list[tuple[NearSample, ...]]:
        """Find the `count` samples nearest to each key (Q, d), exact copies first.

        contents: digests (Q, 16) of the pictures of the keys. above: the least cosine; exact copies
        are listed anyway. If a sample is deleted during the search, the search is repeated.
        """
        from munkey.deploy.model.retrieval import check_queries, find_nearest

        while True:
            with self.store.reading() as view:
                queries = check_queries(keys, view.keys.shape[1])
                nearest = find_nearest(view, queries, min(count, len(view.live)))
                is_present = nearest.rows != NO_NEIGHBOR
                rows = nearest.rows[is_present]  # of all queries, concatenated
                row_contents = view.records["content"][rows]
                sources = self.store.read_sources(rows)
                copied_rows = view.copy_rows(rows)
            if copied_rows.live.all():
                break  # otherwise, a row was deleted during the search
        query_of_row = np.nonzero(is_present)[0]
        cosines = nearest.cosines[is_present].clip(-1, 1)
        has_same_content = (row_contents == contents[query_of_row]).all(axis=1)
        samples: list[list[NearSample]] = [[] for _ in keys]
        for place, query in enumerate(query_of_row.tolist()):
            file, unit = sources[place]
            sample = NearSample(
                id=int(copied_rows.ids[place]),
                label=self.names.get(int(copied_rows.labels[place])),
                unit=unit,
                file=self.locate(file),
                cosine=float(cosines[place]),
                copy=bool(has_same_content[place]),
            )
            if sample.copy or sample.cosine >= above:
                samples[query].append(sample)
        for samples_of_query in samples:
            samples_of_query.sort(key=lambda sample: not sample.copy)  # stable: then by cosine
        return [tuple(samples_of_query) for samples_of_query in samples]

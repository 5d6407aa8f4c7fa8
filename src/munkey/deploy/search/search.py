"""Search over the durable memory: exact, or approximate from a certain size on."""

import numpy as np

from munkey.deploy.search import exact, lists
from munkey.deploy.search.ranking import NearestRows
from munkey.deploy.store.index import NAME, Index, UnreadableIndexError
from munkey.deploy.store.matrices import MemoryView
from munkey.deploy.store.recovery import generation_folder
from munkey.deploy.store.store import Store
from munkey.memory.neighbors import Neighbors
from munkey.settings import LookupSettings


class Search:
    """The nearest rows of a memory, as it is at each call. May be used from several threads.

    Exact, unless the memory has at least `approximate_from` rows and an index (`build`). Rows that were added after
    the index was built are searched exactly.
    """

    def __init__(self, store: Store, settings: LookupSettings) -> None:
        self.store, self._settings = store, settings
        self._cached: tuple[object, Index | None] = (None, None)  # which file was read, and what it said

    def nearest(self, queries: np.ndarray, depth: int) -> NearestRows:
        """The `depth` nearest live rows to queries (Q, d) float32: by descending cosine, ties by ascending id.

        Keys and queries are of unit norm; cosines are float32. A row that was deleted before the search ended is not
        among them; one that is deleted later, `view.copy` leaves out.
        Raises ValueError for queries of another form, UnreadableIndexError for an index that is damaged or of another
        memory.
        """
        while True:
            view = self.store.view
            found = self._nearest(view, checked(queries, view.keys.shape[-1], depth), depth)
            if self.store.view.generation == view.generation:  # else it was compacted, which empties older views
                ids, cosines = found.neighbors
                return found._replace(neighbors=Neighbors(ids, cosines.astype(np.float32)))

    def build(self, vectors: np.ndarray | None = None) -> None:
        """Group all rows by `lists` centroids, and write that to the memory's folder. The store must be a writer.

        vectors: (N, d) float32 that are not in the memory, from which the centroids are made; None: keep those of the
        present index. Raises ValueError for vectors that are keys of the memory, too few, or missing.
        """
        centroids = self._centroids(vectors)
        while True:
            view = self.store.view
            if self.store.write_index(view, centroids, lists.assigned(view, centroids)):
                return

    def extend(self) -> None:
        """Enter rows into the index that were added since it was built; nothing to do without an index or new rows."""
        index = self.store.read_index()
        if index is not None and index.covered < len(self.store.view.live):
            self.build()

    def described(self) -> str:
        """How the memory is searched, in words."""
        view, settings = self.store.view, self._settings
        rows = len(view.live)
        if rows < settings.approximate_from:
            return f"exact: {rows:,} rows, and approximate_from is {settings.approximate_from:,}"
        try:
            index = self._index(view)
        except UnreadableIndexError:
            return "not possible: its index cannot be read"
        if index is None:
            return f"exact: {rows:,} rows, and no index"
        lists, added = len(index.ends), rows - index.covered
        also = f", and at all {added:,} rows that were added since" if added else ""
        return f"approximate: looks at {min(settings.probes, lists)} of {lists} lists{also}"

    def problems(self) -> list[str]:
        """A sentence for what is wrong with the index, if anything: it cannot be read, or lacks rows."""
        while True:
            view = self.store.view
            try:
                index = self.store.read_index()
            except UnreadableIndexError as error:
                return [str(error)]
            if index is None:
                return []
            if index.moment.generation == view.generation:  # else it was compacted meanwhile
                listed = np.zeros(index.covered, dtype=bool)
                listed[index.rows] = True
                lost = np.count_nonzero(view.live[: index.covered] & ~listed[: len(view.live)])
                return [f"{lost} rows are in no list of the index, so that no search finds them"] if lost else []

    def _nearest(self, view: MemoryView, queries: np.ndarray, depth: int) -> NearestRows:
        index = self._index(view) if len(view.live) >= self._settings.approximate_from else None
        if index is None or index.moment.generation != view.generation:
            return exact.nearest(view, queries, depth)
        return lists.nearest(view, index, queries, depth, self._settings.probes)

    def _index(self, view: MemoryView) -> Index | None:
        """The index, read again only where its file is another one."""
        try:
            state = (generation_folder(self.store.folder, view.generation) / NAME).lstat()
        except FileNotFoundError:
            return None
        file = (view.generation, state.st_ino, state.st_mtime_ns, state.st_size)
        if self._cached[0] != file:
            self._cached = file, self.store.read_index()
        return self._cached[1]

    def _centroids(self, vectors: np.ndarray | None) -> np.ndarray:
        if vectors is None:
            if (index := self.store.read_index()) is None:
                raise ValueError(f"{self.store.folder}: has no index yet, so vectors are needed to make its centroids")
            return index.centroids
        view = self.store.view
        vectors = checked(vectors, view.keys.shape[-1])
        lists.require_strangers(view, vectors)
        return lists.centroids_of(vectors, self._settings.lists)


def checked(vectors: np.ndarray, width: int, depth: int = 1) -> np.ndarray:
    """Contiguous vectors (N, width). Raises ValueError unless they are finite float32, and depth at least 1."""
    if vectors.ndim != 2 or vectors.shape[1] != width or vectors.dtype != np.float32:
        raise ValueError(f"wanted float32 of shape (N, {width}), not {vectors.dtype} of shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise ValueError("vectors must not hold NaN or infinity")
    if depth < 1:
        raise ValueError(f"{depth} neighbors were asked for; ask for at least one")
    return np.ascontiguousarray(vectors)

"""A trained MUNKEY that answers, forgets and learns new samples: `from munkey import Predictor`."""

import dataclasses
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import counted
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model import manifest as manifests
from munkey.deploy.model.images import Images, pixels
from munkey.deploy.model.manifest import MEMORY, Manifest
from munkey.deploy.model.prediction import Evidence, Prediction, softmax
from munkey.deploy.model.sources import SourceFiles
from munkey.deploy.search.search import Search
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.errors import ClosedMemoryError, UnreadableMemoryError
from munkey.deploy.store.index import UnreadableIndexError
from munkey.deploy.store.rows import checked_ids
from munkey.deploy.store.store import Store
from munkey.deploy.store.verify import Report

if TYPE_CHECKING:
    from munkey.deploy.model.model import KeyEncoder, LoadedNetwork
    from munkey.deploy.model.retrieval import RetrievedRows

Device = Literal["auto", "cpu", "cuda"]


class Predictor:
    """An exported model. May be used from several threads; one process at a time may forget and add.

    What is damaged, foreign or of another version raises UnreadableModelError, at the latest when it is needed: weights
    and encoder are loaded with the first picture, so that forgetting takes milliseconds and no torch.
    """

    def __init__(self, directory: Path, manifest: Manifest, writer: bool, device: Device) -> None:
        """Use `Predictor.load`."""
        self.directory, self.manifest, self.writer, self._device = directory, manifest, writer, device
        self._adding = threading.Lock()  # from one thread's choice of ids until they are taken
        self.store = _store(directory, manifest, writer)
        self.search = Search(self.store, manifest.lookup)
        self.sources = SourceFiles(self.store, manifest.source)

    @classmethod
    def load(cls, directory: str | Path, *, writer: bool = False, device: Device = "auto") -> "Predictor":
        """Open an exported model; what a killed writer left half done is finished first.

        writer: for `forget`, `add`, `purge` and `compact`. device: where it computes; auto: a GPU where there is one.
        Raises UnreadableModelError, and LockedMemoryError where another process writes it already.
        """
        directory = Path(directory)
        return cls(directory, manifests.read_manifest(directory), writer, device)

    # Answering

    def predict(self, images: Images) -> Prediction:
        """Classify pictures: a file, a folder, a picture of Pillow, an array (N, H, W, 3) uint8, or a list of these.

        The logits are those of the pipeline, bit by bit on the same machine (docs/serving.md). No answer rests on a
        sample that was forgotten before the call. Raises PictureError for what is not a picture.
        """
        given = pixels(images, self.manifest.stored)
        retrieved = self._retrieved(self._encoder.keys(given.images))
        logits = self._network.logits(given.images, retrieved.memory(self._network.device), retrieved.neighbors)
        if not np.isfinite(logits).all():
            raise UnreadableModelError(
                self.directory, "its answers are not finite: `verify` says whether the memory is damaged"
            )
        labels = logits.argmax(axis=1)
        names = tuple(self.manifest.classes)
        answers = tuple(names[label] for label in labels)
        return Prediction(logits, softmax(logits), labels, answers, self._evidence(retrieved), names, *given)

    def _retrieved(self, keys: np.ndarray) -> "RetrievedRows":
        from munkey.deploy.model.retrieval import Retriever

        first_added = None if self._tokens_are_keys else self.manifest.memory.first_new_id
        try:
            return Retriever(self.search, self.manifest.inference, first_added).retrieve(keys)
        except UnreadableIndexError as error:
            raise UnreadableModelError(self.directory / MEMORY, f"cannot be searched ({error})") from error

    def _evidence(self, retrieved: "RetrievedRows") -> Evidence:
        near = retrieved.neighbors
        if retrieved.labels.max() >= len(self.manifest.classes):
            raise UnreadableModelError(self.directory, "its memory holds labels that are not among its classes")
        files = tuple(tuple(map(self.sources.place, line)) for line in retrieved.files)
        return Evidence(near.ids, near.cosines, self._network.weights(near), retrieved.labels, files)

    @cached_property
    def _network(self) -> "LoadedNetwork":
        from munkey.deploy.model.model import LoadedNetwork, device_for

        return LoadedNetwork(self.directory, self.manifest, device_for(self._device))

    @cached_property
    def _encoder(self) -> "KeyEncoder":
        from munkey.deploy.model.model import KeyEncoder, device_for

        return KeyEncoder(self.directory, self.manifest, device_for(self._device))

    def warm_up(self) -> None:
        """Load weights and encoder now: the first answer is as fast as the next, and what is wrong shows at once."""
        stored = self.manifest.stored
        self.predict(np.zeros((stored.height, stored.width, 3), dtype=np.uint8))

    # The memory

    @property
    def ids(self) -> np.ndarray:
        """The samples that the memory holds, ascending: (N,) int64."""
        view = self.store.view
        rows = np.flatnonzero(view.live)
        ids = view.ids[rows]
        return np.sort(ids[view.live[rows]])  # looked at last: the id of a row that is deleted meanwhile is zero

    @property
    def head(self) -> str:
        """The head of the chain of deletions, hexadecimal: publish it elsewhere, and a restored backup is found."""
        return self.store.head

    def forget(self, ids: ArrayLike, *, ignore_missing: bool = False) -> Receipt:
        """Forget samples: all of them, or none if any id is unknown (UnknownIdsError lists all unknown ones).

        When this returns, the deletion is on the disk, and no answer rests on these samples any more.
        ignore_missing: forget those that are known. Raises ValueError for what is not an id.
        """
        wanted = np.unique(checked_ids(ids))
        return self.store.delete(wanted[np.isin(wanted, self.ids)] if ignore_missing else wanted)

    def ids_of_files(self, files: Sequence[str | Path]) -> np.ndarray:
        """The samples that came from these source files. Raises UnknownFilesError that lists all unknown ones."""
        return self.sources.ids_of(files)

    def forget_files(self, files: Sequence[str | Path]) -> Receipt:
        """Forget the samples that came from these source files."""
        return self.forget(self.ids_of_files(files))

    def add(self, images: Images, labels: Sequence[int] | Sequence[str] | np.ndarray) -> np.ndarray:
        """Remember new samples without training. Returns their ids (N,). labels: classes by number or by name.

        Keys come from the encoder. Tokens are lent by trained neighbors whenever they are needed (`Retriever`); in a
        variant whose tokens are keys, the key is the token. Raises ValueError for other labels, and where no trained
        sample is left.
        """
        if not self.writer:
            raise ClosedMemoryError(f"{self.directory}: open for reading only; load it with writer=True")
        given, numbers = pixels(images, self.manifest.stored), self._numbers(labels)
        if len(numbers) != len(given.images):
            raise ValueError(f"{counted(len(numbers), 'label')} for {counted(len(given.images), 'picture')}")
        keys = self._encoder.keys(given.images)
        tokens = keys if self._tokens_are_keys else np.zeros((len(keys), self.manifest.token_dim), dtype=np.float32)
        with self._adding:
            view = self.store.view
            if not (view.ids[view.live] < self.manifest.memory.first_new_id).any():
                raise ValueError(f"{self.directory}: holds no trained sample any more, so none can lend its token")
            # Ids that no sample ever had: after those of the data set and those added since.
            first = self.manifest.memory.first_new_id + self.store.ever - self.manifest.memory.rows
            ids = np.arange(first, first + len(keys))
            self.store.add(ids, keys, tokens, numbers, given.files)
        return ids

    @property
    def _tokens_are_keys(self) -> bool:
        return self.manifest.architecture == "direct-key"

    def _numbers(self, labels: Sequence[int] | Sequence[str] | np.ndarray) -> np.ndarray:
        """Labels as numbers of classes. Raises ValueError that lists the classes."""
        names = self.manifest.classes
        numbers = [names.index(label) if label in names else label for label in np.asarray(labels).tolist()]
        for number in numbers:
            if not (type(number) is int and 0 <= number < len(names)):
                known = f"{', '.join(names[:20])}{', …' if len(names) > 20 else ''}"
                raise ValueError(f"{number!r} is not the name of a class of this model; its classes are: {known}")
        return np.array(numbers, dtype=np.int64)

    def verify(self, published: str | None = None) -> Report:
        """Recompute what the directory says of itself: the chain of deletions, every row, index and static files.

        published: a head that must be in the chain; else this is an older copy. Raises ValueError if it is not a head.
        """
        head = None if published is None else published.strip().lower()
        if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
            said = "is not the head of a chain: `forget` prints one, of 64 hexadecimal digits"
            raise ValueError(f"{str(published)[:80]!r} {said}")
        report = self.store.verify(head)
        problems = [*report.problems, *self.search.problems()]
        for name in (manifests.WEIGHTS, manifests.CARD):
            try:
                manifests.static(self.directory, self.manifest, name)
            except UnreadableModelError as error:
                problems.append(str(error))
        return dataclasses.replace(report, problems=tuple(problems))

    def purge(self) -> None:
        """Leave no byte of what was forgotten in any file. Raises LockedMemoryError where a reader prevents it."""
        self.store.purge()

    def compact(self) -> None:
        """Purge, free the space of what was forgotten, and add new samples to the index, if there is one."""
        self.store.compact()
        self.search.extend()

    def summary(self) -> dict[str, Any]:
        """How many samples it holds, the bytes of its directory, and the head of its chain of deletions."""
        size = sum(file.stat().st_size for file in self.directory.rglob("*") if file.is_file())
        return {"samples": len(self.ids), "bytes": size, "head": self.head}

    def close(self) -> None:
        """Release the memory. Closing twice is no error."""
        self.store.close()

    def __enter__(self) -> "Predictor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _store(directory: Path, manifest: Manifest, writer: bool) -> Store:
    """The memory of a model. Raises UnreadableModelError where it is damaged, or another model's."""
    folder = directory / MEMORY
    if folder.is_symlink():
        raise UnreadableModelError(folder, "is a link")
    try:
        store = Store.open(folder, writer=writer)
    except UnreadableMemoryError as error:
        raise UnreadableModelError(error.path, error.why) from error
    state = store.state
    if state.store.hex() != manifest.memory.store:
        store.close()
        raise UnreadableModelError(folder, "is the memory of another model")
    if (state.key_width, state.token_width) != (len(manifest.encoder.probe), manifest.token_dim):
        store.close()
        raise UnreadableModelError(folder, "holds keys or tokens of a size that does not fit its model")
    return store

"""A trained MUNKEY that answers, forgets and learns new samples: `from munkey import Predictor`."""

import dataclasses
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import counted
from munkey.deploy.errors import EmptyModelError, PictureError, UnknownNamesError, UnreadableModelError, first_ten
from munkey.deploy.model import manifest as manifests
from munkey.deploy.model.images import Images, Pixels, content_digests, embeddings, pixels
from munkey.deploy.model.manifest import MEMORY, Manifest
from munkey.deploy.model.prediction import Evidence, Prediction, softmax
from munkey.deploy.model.sources import MemoryRow, Selection, SourceFiles, listed
from munkey.deploy.search.search import Search
from munkey.deploy.store.chain import Receipt, moment
from munkey.deploy.store.errors import ClosedMemoryError, UnknownIdsError
from munkey.deploy.store.index import UnreadableIndexError
from munkey.deploy.store.rows import checked_ids, key_digests
from munkey.deploy.store.store import Store
from munkey.deploy.store.verify import Report
from munkey.settings import InferenceSettings

if TYPE_CHECKING:
    from munkey.deploy.model.fitted import FittedModel
    from munkey.deploy.model.model import KeyEncoder, LoadedNetwork
    from munkey.deploy.model.retrieval import RetrievedRows

Device = Literal["auto", "cpu", "cuda"]
SIMILAR = 0.95  # cosine of keys from which samples are look-alikes, unless another is asked for
MOST_ASKED = 1000  # samples whose look-alikes are looked for at once
ROWS = 65_536  # keys at a time


class Added(NamedTuple):
    """Samples that were added. ids: (N,) int64; identical: of a new id, the ids of identical pictures held before."""

    ids: np.ndarray
    identical: dict[int, tuple[int, ...]]


class Predictor(AbstractContextManager["Predictor"]):
    """An exported model. May be used from several threads; one process at a time may forget and add.

    What is damaged, foreign or of another version raises UnreadableModelError, at the latest when it is needed: weights
    and encoder are loaded with the first picture, so that forgetting takes milliseconds and no torch.
    """

    def __init__(self, directory: Path, manifest: Manifest, writer: bool, device: Device, wait: float) -> None:
        """Use `Predictor.load`."""
        self.directory, self.manifest, self.writer, self._device = directory, manifest, writer, device
        self._changing = threading.Lock()  # one thread at a time, from its choice of ids or rows on
        self.store = _store(directory, manifest, writer, wait)
        self.search = Search(self.store, manifest.lookup)
        self.sources = SourceFiles(self.store, manifest.source)
        self._classes = dict(enumerate(manifest.names))

    @classmethod
    def load(
        cls, directory: str | Path, *, writer: bool = False, device: Device = "auto", wait: float = 0.0
    ) -> "Predictor":
        """Open an exported model; what a killed writer left half done is finished first.

        writer: for `forget`, `add`, `purge` and `compact`. device: where it computes; auto: a GPU where there is one.
        wait: seconds for another writer.

        Raises UnreadableModelError, and LockedMemoryError where another process writes it already.
        """
        directory = Path(directory)
        return cls(directory, manifests.read_manifest(directory), writer, device, wait)

    # Answering

    def predict(self, images: Images, *, only_held_classes: bool = False) -> Prediction:
        """Classify pictures: a file, a folder, a picture of Pillow, an array (N, H, W, 3) uint8, or a list of these.

        Of a model of embeddings: rows, an array (N, d) or a file of them (.npy, or .csv without a header).

        only_held_classes: classes of which the memory holds no sample get probability 0. A policy, no unlearning: the
        network still knows what it learned of them, and the logits stay as they are.

        The logits are those of the pipeline, bit by bit on the same machine (docs/serving.md). No answer rests on a
        sample that was forgotten before the call. Raises PictureError for what is not a picture, EmptyModelError where
        every sample was forgotten.
        """
        _ = self.store.view  # refused first in a forked child, where torch would wait forever
        self._require_samples()
        given, keys = self._read(images)
        retrieved, logits = self._asked(given.images, self._encoder.keys(given.images) if keys is None else keys)
        if not np.isfinite(logits).all():
            said = "its answers are not finite: `verify` says whether the memory is damaged"
            raise UnreadableModelError(self.directory, said)
        names, answered = tuple(self.manifest.names), logits
        if only_held_classes:
            held = np.isin(range(len(names)), self._held()[1])
            if not held.any():  # the last ones went meanwhile
                raise EmptyModelError(self.directory, self._fitted is not None)
            answered = np.where(held, logits, np.float32(-np.inf))
        labels = answered.argmax(axis=1)
        answers = tuple(names[label] for label in labels)
        return Prediction(logits, softmax(answered), labels, answers, self._evidence(retrieved), names, *given)

    def _require_samples(self) -> None:
        if not self.store.view.live.any():
            raise EmptyModelError(self.directory, self._fitted is not None)

    def _read(self, images: Images) -> tuple[Pixels, np.ndarray | None]:
        """Pictures in their size; of a model of embeddings, a pixel each, and the rows as keys (N, d)."""
        if self.manifest.stored is not None:
            return pixels(images, self.manifest.stored), None
        keys, files = embeddings(images, self.store.state.key_width)
        return Pixels(np.zeros((len(keys), 1, 1, 3), dtype=np.uint8), files), keys

    def _asked(self, images: np.ndarray, keys: np.ndarray) -> "tuple[RetrievedRows, np.ndarray]":
        """What the answers about pictures rest on, and their logits."""
        from munkey.deploy.model.retrieval import no_rows

        if self._fitted is None:
            retrieved = self._retrieved(keys)
            memory = retrieved.memory(self._network.device)
            logits = self._network.logits(images, memory, retrieved.neighbors)
            return retrieved, logits + self._head.logits(keys, no_rows(len(keys))) if self._head else logits
        retrieved = self._retrieved(keys) if self._fitted.k else no_rows(len(keys))
        return retrieved, self._fitted.logits(keys, retrieved)

    def _retrieved(self, keys: np.ndarray) -> "RetrievedRows":
        from munkey.deploy.model.retrieval import Retriever

        every = self._fitted is not None or self._tokens_are_keys
        asked = self.manifest.inference
        if asked is None:
            asked = InferenceSettings(k=self._fitted.k if self._fitted else 1, fusion="ensemble", temperature=1.0)
        try:
            return Retriever(self.search, asked, None if every else self.manifest.memory.first_new_id).retrieve(keys)
        except UnreadableIndexError as error:
            raise UnreadableModelError(self.directory / MEMORY, f"cannot be searched ({error})") from error

    def _evidence(self, retrieved: "RetrievedRows") -> Evidence:
        near = retrieved.neighbors
        if retrieved.labels.max(initial=0) >= len(self.manifest.classes):
            raise UnreadableModelError(self.directory, "its memory holds labels that are not among its classes")
        files = tuple(tuple(map(self.sources.place, line)) for line in retrieved.files)
        return Evidence(near.ids, near.cosines, (self._fitted or self._network).weights(near), retrieved.labels, files)

    @cached_property
    def _fitted(self) -> "FittedModel | None":
        """What answers, where the model is of a family that is fitted."""
        from munkey.deploy.model.fitted import FittedModel

        return FittedModel(self.manifest, self.store) if self.manifest.settings is not None else None

    @cached_property
    def _head(self) -> "FittedModel | None":
        """LDA on all rows, where its logits are added to those of the network."""
        from munkey.deploy.model.fitted import FittedModel

        if (head := self.manifest.head) is None:
            return None
        return FittedModel(self.manifest.model_copy(update={"family": "lda", "settings": head}), self.store)

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
        stored, width = self.manifest.stored, self.store.state.key_width
        if not self.store.view.live.any():
            return  # it refuses to answer until something is added
        self.predict(np.zeros((stored.height, stored.width, 3) if stored else (1, width), dtype=np.uint8))

    # The memory

    @property
    def ids(self) -> np.ndarray:
        """The samples that the memory holds, ascending: (N,) int64."""
        return np.sort(self._held()[0])

    @property
    def head(self) -> str:
        """The head of the chain of deletions, hexadecimal: publish it elsewhere, and a restored backup is found."""
        return self.store.head

    def rows(
        self, *, labels: Iterable[int | str] = (), units: Iterable[str] = (), files: Iterable[str | Path] = ()
    ) -> list[MemoryRow]:
        """The samples that the memory holds, by ascending id: all, or those of these classes, units and source files.

        files: as for `select`. Of each kind that is given, one must fit. Raises ValueError for what is not a class.
        """
        numbers, wanted = set(self._numbers(labels).tolist()), set(listed("units", units))
        found = self.sources.ids_of(files)
        lying = set().union(*found.values())
        records, sources = self.sources.held()
        columns = (records[name].tolist() for name in ("id", "label", "added"))
        return sorted(
            MemoryRow(one, self._classes.get(label), self.sources.place(file), unit, moment(at))
            for one, label, at, (file, unit) in zip(*columns, sources, strict=True)
            if (not numbers or label in numbers) and (not wanted or unit in wanted) and (not found or one in lying)
        )

    def select(
        self,
        *,
        ids: ArrayLike | Iterable[int] = (),
        files: Iterable[str | Path] = (),
        labels: Iterable[int | str] = (),
        units: Iterable[str] = (),
        ignore_missing: bool = False,
        request: str | None = None,
    ) -> Selection:
        """The samples that have any of these ids, source files, classes or units; nothing is changed.

        files: names or places of files, folders for all below them, and patterns such as `pets/*.png`, all of them
        looked up in the memory, not on the disk. request: the number of the request; if it was carried out before,
        nothing is missing. Raises UnknownIdsError or UnknownNamesError with all that names nothing, unless
        `ignore_missing`; AmbiguousFileError; ValueError for what is not an id or a class.
        """
        wanted, (held, numbers) = np.unique(checked_ids(ids)), self._held()
        unknown: list[int] = np.setdiff1d(wanted, held).tolist()
        found: list[tuple[str, Iterable[int]]] = [*self.sources.ids_of(files).items()]
        found += [(f"class {self._classes[one]}", held[numbers == one].tolist()) for one in self._numbers(labels)]
        found += [(f"unit {unit}", self.store.ids_from(unit, "unit").tolist()) for unit in listed("units", units)]
        missing = [name for name, own in found if not own]
        if not ignore_missing and (unknown or missing) and (request is None or self.store.receipt(request) is None):
            raise UnknownNamesError([*map(str, unknown), *missing]) if missing else UnknownIdsError(unknown)
        chosen = np.isin(held, [*wanted, *(one for _, own in found for one in own)])
        labels, counts = np.unique(numbers[chosen], return_counts=True)
        classes = {self._classes.get(one, str(one)): n for one, n in zip(labels.tolist(), counts.tolist(), strict=True)}
        return Selection(np.sort(held[chosen]), (*map(str, unknown), *missing), classes)

    def similar(self, ids: ArrayLike | Iterable[int], *, above: float = SIMILAR) -> dict[int, float]:
        """The other samples whose key has at least this cosine with the key of one of these: by id, the nearest first.

        Deleting a sample says nothing of its look-alikes: whoever asked may want them gone, too. Exact copies, which
        `forget` names, are not among them. Raises ValueError for a cosine that is not in (0, 1], and for more than
        1,000 samples.
        """
        if not 0 < above <= 1:
            raise ValueError(f"above = {above}: must be a cosine above 0, and at most 1")
        view = self.store.view
        rows = np.flatnonzero(view.live & np.isin(view.ids, checked_ids(ids)))
        if len(rows) > MOST_ASKED:
            raise ValueError(f"look-alikes of {len(rows):,} samples: at most {MOST_ASKED:,} at once")
        nearest, asked = np.zeros(len(view.live), dtype=np.float32), _unit(view.keys[rows])
        for start in range(0, len(nearest) if len(rows) else 0, ROWS):
            part = slice(start, start + ROWS)
            nearest[part] = (_unit(view.keys[part]) @ asked.T).max(axis=1)
        nearest[[*rows, *self.store.twins_of(rows)]] = 0
        found = np.flatnonzero(view.live & (nearest >= above))
        order = found[np.lexsort((view.ids[found], -nearest[found]))]
        return dict(zip(view.ids[order].tolist(), nearest[order].tolist(), strict=True))

    def forget(
        self,
        ids: ArrayLike | Iterable[int],
        *,
        ignore_missing: bool = False,
        request: str | None = None,
        also_identical: bool = False,
        block_return: bool = False,
    ) -> Receipt:
        """Forget samples: all of them, or none if any id is unknown (UnknownIdsError lists all unknown ones).

        When this returns, the deletion is on the disk, and no answer rests on these samples any more. The receipt names
        exact copies that stay, and classes that have no sample left: the model can still answer these.

        ignore_missing: forget those that are known. request: a number of your own; asked again under it, nothing
        changes, and the earlier receipt comes back. also_identical: forget exact copies too. block_return: refuse to
        `add` these pictures from now on (docs/memory.md). Raises ValueError for what is not an id, and for the number
        of another request.
        """
        wanted = np.unique(checked_ids(ids))
        with self._alone():
            try:
                rows = self.store.rows_of(wanted)
            except UnknownIdsError as error:
                known = np.setdiff1d(wanted, error.ids)
                rows, wanted = self.store.rows_of(known), known if ignore_missing else wanted
            view, twins = self.store.view, self.store.twins_of(rows)
            identical, labels = view.ids[twins], np.unique(view.labels[np.concatenate([rows, twins])])
            if also_identical:
                wanted, identical = np.concatenate([wanted, identical]), identical[:0]
                rows = np.concatenate([rows, twins])
            receipt = self._delete(rows, wanted, request, block_return)
            if receipt.repeated:
                return receipt
            gone = np.setdiff1d(labels, self._held()[1])
            emptied = tuple(name for one, name in self._classes.items() if one in gone)
        return dataclasses.replace(receipt, identical=tuple(sorted(identical.tolist())), emptied=emptied)

    def _delete(self, rows: np.ndarray, ids: np.ndarray, request: str | None, block_return: bool) -> Receipt:
        """Delete the rows of these ids. Where an answer has needed sums over the rows, they follow."""

        def delete() -> Receipt:
            return self.store.delete(ids, request=request, block_return=block_return)

        summed = self._summed()
        return summed.sums.delete(rows, delete) if summed and summed.sums else delete()

    def _summed(self) -> "FittedModel | None":
        """What is fitted in this model, if anything of it was needed so far."""
        return vars(self).get("_fitted") or vars(self).get("_head")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time. In a forked child ClosedMemoryError: it may have a lock that nobody will release."""
        _ = self.store.view
        with self._changing:
            yield

    def _held(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids and labels of the samples that the memory holds: (N,) int64 each."""
        view = self.store.view
        rows = np.flatnonzero(view.live)
        ids, labels = view.ids[rows], view.labels[rows]
        live = view.live[rows]  # looked at last: what is deleted meanwhile is zero
        return ids[live], labels[live]

    def log(self) -> list[Receipt]:
        """All deletions so far, in order."""
        return self.store.log()

    def add(
        self,
        images: Images,
        labels: Iterable[int | str] | np.ndarray,
        *,
        units: Sequence[str | None] | None = None,
        allow_blocked: bool = False,
    ) -> Added:
        """Remember new samples without training. labels: classes by number or name; units: whom they belong to.

        Keys come from the encoder. Tokens are lent by trained neighbors whenever they are needed (`Retriever`); in a
        variant whose tokens are keys, the key is the token. A family that is fitted answers as if they had always been
        there. Raises ValueError for other labels, and where no trained sample is left; PictureError for pictures that
        were forgotten with `block_return`, unless `allow_blocked`.
        """
        if not self.writer:
            raise ClosedMemoryError(f"{self.directory}: open for reading only; load it with writer=True")
        (given, rows), numbers = self._read(images), self._numbers(labels)
        if len(numbers) != len(given.images):
            raise ValueError(f"{counted(len(numbers), 'label')} for {counted(len(given.images), 'picture')}")
        if rows is not None and self._fitted:
            contents = key_digests(self._fitted.family.stored(rows))
        else:
            contents = content_digests(given.images, bytes.fromhex(self.manifest.memory.store))
        blocked = np.flatnonzero(self.store.blocked(contents))  # refused in a forked child, before torch is touched
        if blocked.size and not allow_blocked:
            named = [given.files[one] or f"number {one}" for one in blocked.tolist()]
            said = f"forgotten with block_return, so nothing was added: {first_ten(named)}"
            raise PictureError(f"{said}; --allow-blocked (in Python, allow_blocked=True) adds them all the same")
        keys = self._encoder.keys(given.images) if rows is None else rows
        tokens = keys if self._tokens_are_keys else np.zeros((len(keys), self.manifest.token_dim), dtype=np.float32)
        if self._fitted:
            keys, tokens = self._fitted.family.stored(keys), numbers[:, None].astype(np.float32)
        with self._alone():
            view = self.store.view
            if summed := self._fitted or self._head:
                summed.require_room(len(keys))
            if not self._fitted and not (view.ids[view.live] < self.manifest.memory.first_new_id).any():
                raise ValueError(f"{self.directory}: holds no trained sample any more, so none can lend its token")
            same = np.sort(self.store.ids_with(contents))
            held = view.records["content"][self.store.rows_of(same)]
            # Ids that no sample ever had: after those of the data set and those added since.
            ever = np.count_nonzero(view.live) + self.store.deletions
            first = self.manifest.memory.first_new_id + ever - self.manifest.memory.rows
            ids = np.arange(first, first + len(keys))
            self.store.add(ids, keys, tokens, numbers, given.files, units, contents, allow_blocked=allow_blocked)
        own = {one: same[(held == content).all(axis=1)] for one, content in zip(ids.tolist(), contents, strict=True)}
        return Added(ids, {one: tuple(identical.tolist()) for one, identical in own.items() if identical.size})

    @property
    def _tokens_are_keys(self) -> bool:
        return self.manifest.architecture == "direct-key"

    def _numbers(self, labels: Iterable[int | str] | np.ndarray) -> np.ndarray:
        """Labels as numbers of classes. Raises ValueError that lists the classes."""
        names, given, classes = self.manifest.names, listed("labels", labels), dict(enumerate(self.manifest.classes))
        numbers = [names.index(label) if isinstance(label, str) and label in names else label for label in given]
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or classes.get(int(number)) is None:
                known = f"{', '.join(names[:20])}{', …' if len(names) > 20 else ''}"
                raise ValueError(f"{number!r} is not the name of a class of this model; its classes are: {known}")
        return np.array(numbers, dtype=np.int64)

    def digests(self, *, anew: bool = False) -> dict[str, str] | None:
        """For a family that is fitted, SHA-256 of what its answers follow from (`FittedModel.digests`); else None."""
        return self._fitted.digests(anew=anew) if self._fitted else None

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
        try:
            if (summed := self._summed()) and summed.digests() != summed.digests(anew=True):
                problems.append("what answers in this process is not what the rows that are left give: start it again")
        except UnreadableModelError as error:
            problems.append(str(error))
        for name in self.manifest.static:
            try:
                manifests.static(self.directory, self.manifest, name)
            except UnreadableModelError as error:
                problems.append(str(error))
        return dataclasses.replace(report, problems=tuple(problems), foreign=self._foreign(report.foreign))

    def _foreign(self, in_memory: tuple[str, ...]) -> tuple[str, ...]:
        """What lies in the directory and is not the model's own: it stays, and nobody knows what it holds."""
        own = {manifests.NAME, MEMORY, *self.manifest.static}
        others = sorted(path.name for path in self.directory.iterdir() if path.name not in own)
        return (*others, *(f"{MEMORY}/{name}" for name in in_memory))

    def purge(self) -> tuple[str, ...]:
        """Leave no byte of what was forgotten in any file of the model. Returns what else lies in the directory.

        Raises LockedMemoryError where a reader prevents it.
        """
        if self.writer and self.manifest.encoder is None:  # its class may be a person, so it goes with its last row
            manifest, held = manifests.read_manifest(self.directory), set(self._held()[1].tolist())
            kept = [name if number in held else None for number, name in enumerate(manifest.classes)]
            self.manifest = manifest.model_copy(update={"classes": kept})
            self.manifest.write(self.directory)
        return self._foreign(self.store.purge())

    def compact(self) -> tuple[str, ...]:
        """Purge, free the space of what was forgotten, and add new samples to the index, if there is one."""
        with self._alone():
            foreign = self.store.compact()
        self.search.extend()
        return self._foreign(foreign)

    def summary(self) -> dict[str, Any]:
        """How many samples it holds, the bytes of its directory, and the head of its chain of deletions."""
        size = sum(file.stat().st_size for file in self.directory.rglob("*") if file.is_file())
        return {"samples": len(self.ids), "bytes": size, "head": self.head}

    def close(self) -> None:
        """Release the memory. Closing twice is no error."""
        self.store.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _unit(keys: np.ndarray) -> np.ndarray:
    """Keys (N, d) of length 1; of a row that was deleted, zeros."""
    return np.asarray(keys / np.linalg.norm(keys, axis=1, keepdims=True).clip(min=1e-12))


def _store(directory: Path, manifest: Manifest, writer: bool, wait: float) -> Store:
    """The memory of a model. Raises UnreadableModelError where it is damaged, or another model's."""
    folder = directory / MEMORY
    if folder.is_symlink():
        raise UnreadableModelError(folder, "is a link")
    store = Store.open(folder, writer=writer, wait=wait)
    state = store.state
    if state.store.hex() != manifest.memory.store:
        store.close()
        raise UnreadableModelError(folder, "is the memory of another model")
    width = len(manifest.encoder.probe) if manifest.encoder else state.key_width
    if (state.key_width, state.token_width) != (width, manifest.token_dim):
        store.close()
        raise UnreadableModelError(folder, "holds keys or tokens of a size that does not fit its model")
    return store

"""A trained MUNKEY that answers, forgets and learns new samples: `from munkey import Predictor`."""

import dataclasses
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import counted
from munkey.core.files import atomic
from munkey.deploy.errors import EmptyModelError, PictureError, UnknownNamesError, UnreadableModelError, first_ten
from munkey.deploy.model import manifest as manifests
from munkey.deploy.model.images import Images, Pixels, content_digests, embeddings, pixels
from munkey.deploy.model.manifest import MEMORY, Manifest
from munkey.deploy.model.prediction import Evidence, Prediction, softmax
from munkey.deploy.model.sources import MemoryRow, Selection, SourceFiles, listed
from munkey.deploy.store.chain import Receipt, moment
from munkey.deploy.store.errors import ClosedMemoryError, UnknownIdsError
from munkey.deploy.store.rows import checked_ids, key_digests
from munkey.deploy.store.store import Store
from munkey.deploy.store.verify import Report
from munkey.settings import InferenceSettings

if TYPE_CHECKING:
    from munkey.deploy.model.fitted import FittedModel, SolvedHead
    from munkey.deploy.model.model import KeyEncoder, LoadedNetwork
    from munkey.deploy.model.retrieval import RetrievedRows

T = TypeVar("T")
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

    def __init__(  # what `load` was asked for, and what it has read
        self, directory: Path, manifest: Manifest, stamp: "_Stamp", writer: bool, device: Device, wait: float
    ) -> None:
        """Use `Predictor.load`. stamp: of the manifest, from before it was read."""
        self.directory = directory
        self.manifest = manifest
        self.writer = writer
        self._device = device
        self._stamp = stamp
        self._changing = threading.Lock()  # one thread at a time, from its choice of ids or rows on
        self.store = _store(directory, manifest, writer, wait)
        self.sources = SourceFiles(self.store, manifest.source)

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
        stamp = _stamp(directory)
        return cls(directory, manifests.read_manifest(directory), stamp, writer, device, wait)

    @contextmanager
    def writing(self, wait: float = 0.0) -> Iterator[None]:
        """Let a model that is open for reading change while the block runs, as with ``writer=True``.

        Parameters
        ----------
        wait : float
            Seconds to wait for another writer.

        Raises
        ------
        LockedMemoryError
            If another process is writing after that time.
        """
        with self.store.writing(wait):
            self.follow()
            before = self.writer
            self.writer = True
            try:
                yield
            finally:
                self.writer = before

    @property
    def in_place(self) -> bool:
        """Whether it is open in this process, and its files are those that lie in its directory:
        else load it again.
        """
        return self.store.in_place

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
        if keys is None:
            keys = self._encoder.keys(given.images)
        manifest, (logits, evidence) = self._steadily(lambda: self._asked(given.images, keys))
        if not np.isfinite(logits).all():
            said = "its answers are not finite: `verify` says whether the memory is damaged"
            raise UnreadableModelError(self.directory, said)
        names, answered = tuple(manifest.names), logits
        if only_held_classes:
            held = np.isin(range(len(names)), self._held()[1])
            if not held.any():  # the last ones went meanwhile
                raise EmptyModelError(self.directory, self._fitted is not None)
            answered = np.where(held, logits, np.float32(-np.inf))
        labels = answered.argmax(axis=1)
        answers = tuple(names[label] for label in labels)
        return Prediction(logits, softmax(answered), labels, answers, evidence, names, *given)

    def _require_samples(self) -> None:
        if not self.store.view.live.any():
            raise EmptyModelError(self.directory, self._fitted is not None)

    def _read(self, images: Images) -> tuple[Pixels, np.ndarray | None]:
        """Pictures in their size; of a model of embeddings, a pixel each, and the rows as keys (N, d)."""
        if self.manifest.stored is not None:
            return pixels(images, self.manifest.stored), None
        keys, files = embeddings(images, self.store.state.key_width)
        return Pixels(np.zeros((len(keys), 1, 1, 3), dtype=np.uint8), files), keys

    def logits_of(self, keys: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """For an estimator of a family that is fitted: the classes that have rows, ascending, and
        logits (N, C) of keys (N, d) among these alone. They are those of a fit to the rows, to
        the bit. Raises UnreadableModelError.
        """

        def answer() -> tuple[np.ndarray, np.ndarray]:
            assert self._fitted is not None
            return self._fitted.present_logits(keys, self._retrieved)

        manifest, (numbers, logits) = self._steadily(answer)
        return [manifest.classes[number] for number in numbers.tolist()], logits

    def head_of_rows(self) -> "SolvedHead":
        """The linear head that `logits_of` answers by: of a family that has one."""

        def head() -> "SolvedHead":
            assert self._fitted is not None
            return self._fitted.present_head()

        return self._steadily(head)[1]

    def held_classes(self) -> list[Any]:
        """For an estimator: the classes that have rows, ascending. Raises UnreadableModelError."""

        def numbers() -> np.ndarray:
            assert self._fitted is not None
            return self._fitted.present_classes()

        manifest, held = self._steadily(numbers)
        return [manifest.classes[number] for number in held.tolist()]

    def held_units(self) -> np.ndarray:
        """The unit of each sample that the memory holds, by ascending id: (N,) texts, None where
        there is none.
        """
        records, sources = self.sources.held()
        units = np.array([unit for _, unit in sources], dtype=object)
        return units[np.argsort(records["id"])]

    def _steadily(self, answer: Callable[[], T]) -> tuple[Manifest, T]:
        """An answer, and the manifest that it was made with: made again where a class came
        meanwhile.
        """
        while True:
            manifest = self.follow()
            try:
                answered = answer()
            except UnreadableModelError:
                if self.follow() is manifest:
                    raise
                continue  # a row of a new class may have been met before its class
            if self.follow() is manifest:
                return manifest, answered

    def follow(self) -> Manifest:
        """The manifest as it is now: an estimator of another process may have brought a class, or a
        purge taken one.
        """
        stamp = _stamp(self.directory)
        if stamp is not None and stamp != self._stamp:
            manifest = manifests.read_manifest(self.directory)
            if len(manifest.classes) != len(self.manifest.classes):
                vars(self).pop("_fitted", None)  # its sums have a place for each class
            self.manifest = manifest
            self._stamp = stamp
        return self.manifest

    def _asked(self, images: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, Evidence]:
        """The logits of pictures, and what the answers rest on."""
        from munkey.deploy.model.retrieval import no_rows

        if fitted := self._fitted:
            retrieved = self._retrieved(keys) if fitted.k else no_rows(len(keys))
            logits = fitted.logits(keys, retrieved)
        else:
            retrieved = self._retrieved(keys)
            logits = self._network.logits(images, retrieved.memory(self._network.device), retrieved.neighbors)
            if self._head:
                logits = logits + self._head.logits(keys, no_rows(len(keys)))
        return logits, self._evidence(retrieved)

    def _retrieved(self, keys: np.ndarray) -> "RetrievedRows":
        from munkey.deploy.model.retrieval import Retriever

        every = self._fitted is not None or self._tokens_are_keys
        asked = self.manifest.inference
        if asked is None:
            asked = InferenceSettings(k=self._fitted.k if self._fitted else 1, fusion="ensemble", temperature=1.0)
        return Retriever(self.store, asked, None if every else self.manifest.memory.first_new_id).retrieve(keys)

    def _evidence(self, retrieved: "RetrievedRows") -> Evidence:
        near = retrieved.neighbors
        if retrieved.labels.max(initial=0) >= len(self.manifest.classes):
            raise UnreadableModelError(self.directory, "its memory holds labels that are not among its classes")
        files = tuple(tuple(map(self.sources.place, line)) for line in retrieved.files)
        return Evidence(near.ids, near.cosines, (self._fitted or self._network).weights(near), retrieved.labels, files)

    @property
    def _classes(self) -> dict[int, str]:
        return dict(enumerate(self.manifest.names))

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

    @property
    def deletions(self) -> int:
        """How many samples were ever deleted."""
        return self.store.deletions

    def rows(
        self, *, labels: Iterable[int | str] = (), units: Iterable[str] = (), files: Iterable[str | Path] = ()
    ) -> list[MemoryRow]:
        """The samples that the memory holds, by ascending id: all, or those of these classes, units and source files.

        files: as for `select`. Of each kind that is given, one must fit. Raises ValueError for what is not a class.
        """
        self.follow()
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
        self.follow()
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
            first = self.next_id
            ids = np.arange(first, first + len(keys))
            return self._enter(_NewRows(ids, keys, tokens, numbers, given.files, units, contents), allow_blocked)

    def add_keys(
        self,
        keys: np.ndarray,
        classes: Sequence[str | bool | int | float],
        *,
        dtype: str,
        ids: np.ndarray | None = None,
        units: Sequence[str | None] | None = None,
    ) -> np.ndarray:
        """For an estimator of a family that is fitted: add rows by their keys (N, d), of new
        classes too.

        dtype: of all classes, as the manifest keeps it; ids: by default new ones. Returns the ids.
        Raises ValueError for ids that are held.
        """
        assert self._fitted is not None
        stored = self._fitted.family.stored(keys)
        with self._alone():
            manifest = self.manifest
            first = self.next_id
            numbered = manifest.encoder is None and ids is not None
            if ids is None:
                ids = np.arange(first, first + len(keys))
            known = list(manifest.classes)
            known += [one for one in dict.fromkeys(classes) if one not in known]
            changes: dict[str, object] = {"classes": known}
            if manifest.encoder is None:
                described = manifest.estimator or manifests.EstimatorReference(dtype=dtype)
                changes["estimator"] = described.model_copy(update={"dtype": dtype})
            if numbered:
                # The next id by default comes behind all that were used. Until the rows are there,
                # some are skipped.
                behind = max(first, int(ids.max(initial=-1)) + 1)
                counted = {"rows": self._ever, "first_new_id": behind}
                changes["memory"] = manifest.memory.model_copy(update=counted)
            # First: a row must not have a class that nobody knows.
            self._describe(manifest.model_copy(update=changes))
            places = {one: number for number, one in enumerate(known)}
            numbers = np.array([places[one] for one in classes], dtype=np.int64)
            tokens = numbers[:, None].astype(np.float32)
            self._enter(_NewRows(ids, stored, tokens, numbers, None, units, key_digests(stored)))
            if numbered:
                memory = self.manifest.memory.model_copy(update={"rows": self._ever})
                self._describe(self.manifest.model_copy(update={"memory": memory}))
            return ids

    def _enter(self, new: "_NewRows", allow_blocked: bool = False) -> Added:
        """Add rows that were checked, while nothing else changes the memory."""
        view = self.store.view
        if summed := self._fitted or self._head:
            summed.require_room(len(new.ids))
        if not self._fitted and not (view.ids[view.live] < self.manifest.memory.first_new_id).any():
            raise ValueError(f"{self.directory}: holds no trained sample any more, so none can lend its token")
        same = np.sort(self.store.ids_with(new.contents))
        held = view.records["content"][self.store.rows_of(same)]
        self.store.add(*new, allow_blocked=allow_blocked)
        identical = {}
        for one, content in zip(new.ids.tolist(), new.contents, strict=True):
            if (copies := same[(held == content).all(axis=1)]).size:
                identical[one] = tuple(copies.tolist())
        return Added(new.ids, identical)

    @property
    def next_id(self) -> int:
        """The first id of what is added next: after those of the data set, those added since, and
        all that are held.
        """
        memory = self.manifest.memory
        behind_held = int(self.store.view.ids.max(initial=-1)) + 1  # of a dead row, it is zero
        return max(memory.first_new_id + self._ever - memory.rows, behind_held)

    @property
    def _ever(self) -> int:
        """How many rows the memory holds and held."""
        return self.store.position.live + self.store.deletions

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
        """Recompute what the directory says of itself: the chain of deletions, every row and static files.

        published: a head that must be in the chain; else this is an older copy. Raises ValueError if it is not a head.
        """
        head = None if published is None else published.strip().lower()
        if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
            said = "is not the head of a chain: `forget` prints one, of 64 hexadecimal digits"
            raise ValueError(f"{str(published)[:80]!r} {said}")
        report = self.store.verify(head)
        problems = [*report.problems]
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

    def _describe(self, manifest: Manifest) -> None:
        """Write another manifest, if it is another one."""
        if manifest != self.manifest:
            manifest.write(self.directory)
            self.follow()

    def purge(self) -> tuple[str, ...]:
        """Leave no byte of what was forgotten in any file of the model. Returns what else lies in the directory.

        Raises LockedMemoryError where a reader prevents it.
        """
        if self.writer and self.manifest.encoder is None:  # its class may be a person, so it goes with its last row
            manifest, held = manifests.read_manifest(self.directory), set(self._held()[1].tolist())
            kept = [name if number in held else None for number, name in enumerate(manifest.classes)]
            self._describe(manifest.model_copy(update={"classes": kept}))
        return self._foreign(self.store.purge())

    def settle(self) -> None:
        """Wait until the zeros over what was forgotten are on the disk."""
        self.store.settle()

    def copy(self, folder: Path) -> None:
        """Write the model as it is now, with its log of deletions, into an empty folder, purged.

        The model must be open for writing, so that nobody changes it meanwhile.

        Parameters
        ----------
        folder : Path
            An empty folder.
        """
        self.store.copy(folder / MEMORY)
        for name in self.manifest.static:
            content = manifests.static(self.directory, self.manifest, name)
            with atomic(folder / name) as temporary:
                temporary.write_bytes(content)
        self.manifest.write(folder)
        with Predictor.load(folder, writer=True) as copied:
            copied.purge()

    def compact(self) -> tuple[str, ...]:
        """Purge, and free the space of what was forgotten."""
        with self._alone():
            return self._foreign(self.store.compact())

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


_Stamp: TypeAlias = tuple[int, int, int] | None


class _NewRows(NamedTuple):
    """Rows as `Store.add` takes them."""

    ids: np.ndarray
    keys: np.ndarray
    tokens: np.ndarray
    labels: np.ndarray
    files: Sequence[str | None] | None
    units: Sequence[str | None] | None
    contents: np.ndarray


def _stamp(directory: Path) -> _Stamp:
    """What tells a manifest from one that was written later; None where there is none."""
    try:
        status = (directory / manifests.NAME).lstat()
    except OSError:  # `read_manifest` says what is wrong
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


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

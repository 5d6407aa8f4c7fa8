"""A trained MUNKEY that answers, forgets and learns new samples: `from munkey import Predictor`."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.console import counted
from munkey.core.files import atomic
from munkey.data.intake.unit_names import unit_names
from munkey.deploy import certificate, deletions, json_answers
from munkey.deploy.certificate import Certificate
from munkey.deploy.deletions import CertificateOrder, DeletionPlan, DeletionRequest
from munkey.deploy.errors import EmptyModelError, PictureError, UnreadableModelError, first_ten
from munkey.deploy.json_answers import Json
from munkey.deploy.model import manifest as manifests
from munkey.deploy.model.find import COUNT, Finder, NearSample, NearSamples, require_sensible
from munkey.deploy.model.images import Images, Pixels, content_digests, embeddings, pixels
from munkey.deploy.model.manifest import MEMORY, Manifest
from munkey.deploy.model.prediction import Evidence, Prediction, basis_of, softmax
from munkey.deploy.model.samples import SIMILAR, Samples
from munkey.deploy.model.sources import Added, MemoryRow, Selection
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError
from munkey.deploy.store.rows import checked_ids, key_digests
from munkey.deploy.store.store import Store
from munkey.deploy.store.verify import Report
from munkey.settings import InferenceSettings, OnBad

if TYPE_CHECKING:
    from munkey.deploy.model.fitted import FittedModel, SolvedHead
    from munkey.deploy.model.model import KeyEncoder, LoadedNetwork
    from munkey.deploy.model.retrieval import RetrievedRows

T = TypeVar("T")
Device = Literal["auto", "cpu", "cuda"]


class Predictor(AbstractContextManager["Predictor"]):
    """An exported model. May be used from several threads; one process at a time may forget and add.

    What is damaged, foreign or of another version raises UnreadableModelError, at the latest when it is needed: weights
    and encoder are loaded with the first picture, so that forgetting takes milliseconds and no torch.
    """

    def __init__(  # what `load` was asked for, and what it has read
        self,
        directory: Path,
        manifest: Manifest,
        stamp: "_Stamp",
        writer: bool,
        device: Device,
        wait: float,
    ) -> None:
        """Use `Predictor.load`. stamp: of the manifest, from before it was read."""
        self.directory = directory
        self.manifest = manifest
        self.writer = writer
        self._device = device
        self._stamp = stamp
        self._changing = threading.Lock()  # one thread at a time, from its choice of ids or rows on
        self._store = _store(directory, manifest, writer, wait)
        self._samples = Samples(self._store, self.follow)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        writer: bool = False,
        device: Device = "auto",
        wait: float = 0.0,
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
        with self._store.writing(wait):
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
        return self._store.in_place

    # Answering

    def predict(
        self, images: Images, *, only_held_classes: bool = False, on_bad: OnBad = "raise"
    ) -> Prediction:
        """Classify pictures: a file, a folder, a picture of Pillow, an array (N, H, W, 3) uint8, or a list of these.

        Of a model of embeddings: rows, an array (N, d) or a file of them (.npy, or .csv, also as pandas writes it).

        only_held_classes: classes of which the memory holds no sample get probability 0. A policy, no unlearning: the
        network still knows what it learned of them, and the logits stay as they are.

        on_bad: "skip" answers about the pictures that can be read, and warns of the others, all by name.

        The logits are those of the pipeline, bit by bit on the same machine (docs/serving.md). No answer rests on a
        sample that was forgotten before the call. Raises PictureError for what is not a picture, EmptyModelError where
        every sample was forgotten.
        """
        _ = self._store.view  # refused first in a forked child, where torch would wait forever
        self._require_samples()
        given, keys = self._read(images, on_bad)
        if keys is None:
            keys = self._encoder.keys(given.images)
        manifest, (logits, evidence) = self._steadily(lambda: self._asked(given.images, keys))
        if not np.isfinite(logits).all():
            said = "its answers are not finite: `verify` says whether the memory is damaged"
            raise UnreadableModelError(self.directory, said)
        names, answered = tuple(manifest.names), logits
        if only_held_classes:
            held = np.isin(range(len(names)), self._samples.held()[1])
            if not held.any():  # the last ones went meanwhile
                raise EmptyModelError(self.directory, self._fitted is not None)
            answered = np.where(held, logits, np.float32(-np.inf))
        labels = answered.argmax(axis=1)
        answers = tuple(names[label] for label in labels)
        pictures = given.images if manifest.stored is not None else None
        basis = basis_of(manifest, len(self.ids))
        return Prediction(
            logits,
            softmax(answered),
            labels,
            answers,
            evidence,
            names,
            pictures,
            given.files,
            basis,
        )

    def find(
        self, images: Images, *, count: int = COUNT, above: float = -1.0, on_bad: OnBad = "raise"
    ) -> NearSamples:
        """Look samples up by a picture, or a row of numbers: the nearest ones, and whose they are.

        Parameters
        ----------
        images : path, picture of Pillow, array or iterable
            As `predict` takes them.
        count : int
            How many samples to list for each picture, at most 1,000.
        above : float
            The least cosine of keys, from -1 to 1. Exact copies among the `count` nearest are listed anyway.
        on_bad : {"raise", "skip"}
            What to do with pictures that cannot be read: refuse, or leave them out with a warning.

        Returns
        -------
        NearSamples
            For each picture, samples with id, class, unit, source file, cosine, and whether it is an exact copy. None
            where no sample is held. A sample that was forgotten before the call is not among them.

        Raises
        ------
        PictureError
            If something is not a picture, or a row of another width.
        ValueError
            If `count` or `above` is out of range.

        Examples
        --------
        >>> import numpy as np
        >>> from munkey import ForgettingKNN, Predictor
        >>> rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> _ = ForgettingKNN().fit(rows, ["cat", "cat", "dog"], units=["Ann", "Bob", "Cem"]).save("model")
        >>> with Predictor.load("model") as model:
        ...     found = model.find(rows[:1], above=0.5)
        >>> for sample in found.samples[0]:
        ...     print(sample.id, sample.label, sample.unit, round(sample.cosine, 3), sample.copy)
        0 cat Ann 1.0 True
        1 cat Bob 0.6 False
        """
        _ = self._store.view  # refused first in a forked child, where torch would wait forever
        require_sensible(count, above)
        given, rows = self._read(images, on_bad)
        keys = self._encoder.keys(given.images) if rows is None else rows
        contents = self._contents(given, rows)

        def found() -> list[tuple[NearSample, ...]]:
            finder = Finder(self._store, self._samples.sources.place, self._samples.classes)
            return finder.find(keys, contents, count, above)

        samples = tuple(self._steadily(found)[1])
        return NearSamples(samples, given.files, given.images if rows is None else None)

    def _contents(self, given: Pixels, rows: np.ndarray | None) -> np.ndarray:
        """What tells exact copies: digests (N, 16) of pictures, or of rows as the memory holds them."""
        if rows is not None and self._fitted:
            return key_digests(self._fitted.family.stored(rows))
        return content_digests(given.images, bytes.fromhex(self.manifest.memory.store))

    def _require_samples(self) -> None:
        if not self._store.view.live.any():
            raise EmptyModelError(self.directory, self._fitted is not None)

    def _read(self, images: Images, on_bad: OnBad = "raise") -> tuple[Pixels, np.ndarray | None]:
        """Pictures in their size; of a model of embeddings, a pixel each, and the rows as keys (N, d)."""
        if self.manifest.stored is not None:
            return pixels(images, self.manifest.stored, on_bad), None
        described = self.manifest.estimator
        features = described.features if described else None
        bound = described.bound if described else None
        keys, files = embeddings(images, self._store.state.key_width, features, bound)
        return Pixels(
            np.zeros((len(keys), 1, 1, 3), dtype=np.uint8), files, np.arange(len(keys))
        ), keys

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
        records, sources = self._samples.sources.held()
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
            logits = self._network.logits(
                images, retrieved.memory(self._network.device), retrieved.neighbors
            )
            if self._head:
                logits = logits + self._head.logits(keys, no_rows(len(keys)))
        return logits, self._evidence(retrieved)

    def _retrieved(self, keys: np.ndarray) -> "RetrievedRows":
        from munkey.deploy.model.retrieval import Retriever

        every = self._fitted is not None or self._tokens_are_keys
        asked = self.manifest.inference
        if asked is None:
            asked = InferenceSettings(
                k=self._fitted.k if self._fitted else 1, fusion="ensemble", temperature=1.0
            )
        return Retriever(
            self._store, asked, None if every else self.manifest.memory.first_new_id
        ).retrieve(keys)

    def _evidence(self, retrieved: "RetrievedRows") -> Evidence:
        near = retrieved.neighbors
        if retrieved.labels.max(initial=0) >= len(self.manifest.classes):
            raise UnreadableModelError(
                self.directory, "its memory holds labels that are not among its classes"
            )
        files = tuple(tuple(map(self._samples.sources.place, line)) for line in retrieved.files)
        return Evidence(
            near.ids,
            near.cosines,
            (self._fitted or self._network).weights(near),
            retrieved.labels,
            files,
        )

    @cached_property
    def _fitted(self) -> "FittedModel | None":
        """What answers, where the model is of a family that is fitted."""
        from munkey.deploy.model.fitted import FittedModel

        return (
            FittedModel(self.manifest, self._store) if self.manifest.settings is not None else None
        )

    @cached_property
    def _head(self) -> "FittedModel | None":
        """LDA on all rows, where its logits are added to those of the network."""
        from munkey.deploy.model.fitted import FittedModel

        if (head := self.manifest.head) is None:
            return None
        return FittedModel(
            self.manifest.model_copy(update={"family": "lda", "settings": head}), self._store
        )

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
        stored, width = self.manifest.stored, self._store.state.key_width
        if not self._store.view.live.any():
            return  # it refuses to answer until something is added
        self.predict(
            np.zeros((stored.height, stored.width, 3) if stored else (1, width), dtype=np.uint8)
        )

    # The memory

    @property
    def ids(self) -> np.ndarray:
        """The samples that the memory holds, ascending: (N,) int64."""
        return self._samples.ids

    @property
    def head(self) -> str:
        """The head of the chain of deletions, hexadecimal: publish it elsewhere, and a restored backup is found."""
        return self._store.head

    @property
    def deletions(self) -> int:
        """How many samples were ever deleted."""
        return self._store.deletions

    def rows(
        self,
        *,
        labels: Iterable[int | str] = (),
        units: Iterable[str] = (),
        files: Iterable[str | Path] = (),
    ) -> list[MemoryRow]:
        """The samples that the memory holds, by ascending id: all, or those of these classes, units and source files.

        files: as for `select`. Of each kind that is given, one must fit. Raises ValueError for what is not a class;
        UnknownNamesError for files and units that no sample has; AmbiguousFileError.
        """
        return self._samples.rows(labels, units, files)

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
        return self._samples.select(
            ids=ids,
            files=files,
            labels=labels,
            units=units,
            ignore_missing=ignore_missing,
            request=request,
        )

    def similar(
        self, ids: ArrayLike | Iterable[int], *, above: float = SIMILAR
    ) -> dict[int, float]:
        """The other samples whose key has at least this cosine with the key of one of these: by id, the nearest first.

        Deleting a sample says nothing of its look-alikes: whoever asked may want them gone, too. Exact copies, which
        `forget` names, are not among them. Raises ValueError for a cosine that is not in (0, 1], and for more than
        1,000 samples.
        """
        return self._samples.similar(ids, above)

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
        changes, and the earlier receipt comes back. Where no id is known, nothing is recorded. also_identical: forget
        exact copies too. block_return: refuse to `add` these pictures from now on (docs/memory.md).
        Raises ValueError for what is not an id, and for the number of another request.
        """
        how = DeletionRequest({}, ignore_missing, also_identical, block_return=block_return)
        return self._forget(ids, request, how).receipt

    def plan(self, request: DeletionRequest) -> DeletionPlan:
        """Look up what a request to forget comes to. Nothing is changed.

        Raises UnknownNamesError with all names that no sample has, unless the request passes over them; ValueError for
        a request that was carried out before and names samples that the memory holds.
        """
        return deletions.planned(self._store, self._samples, request)

    def preview(self, plan: DeletionPlan) -> list[Json]:
        """What each request would forget; of one that was carried out before, also what `delete` answers."""
        return deletions.previewed(self._samples, plan)

    def delete(
        self,
        request: DeletionRequest | DeletionPlan,
        *,
        purge: bool = False,
        certificates: CertificateOrder | None = None,
        answers: list[Json] | None = None,
    ) -> list[Json]:
        """Forget what is asked: look up, delete, purge, certify. Returns an answer for each of the requests.

        Parameters
        ----------
        request : DeletionRequest or DeletionPlan
            What is meant; a plan if it was looked up before.
        purge : bool
            Leave no byte of it in any file.
        certificates : CertificateOrder, optional
            Purge, and certify what was deleted. If the purge could not finish, or files stay that are not the model's,
            the answers say `unpurged`.
        answers : list, optional
            Each answer is put here once its deletion is on the disk, so that whatever fails later does not hide it.

        Raises
        ------
        UnknownNamesError, ValueError
            As `plan`. Nothing is deleted then.
        LockedMemoryError
            With `purge`, if a reader prevents that. All is deleted then.
        """
        plan = request if isinstance(request, DeletionPlan) else self.plan(request)
        answers = [] if answers is None else answers
        salts = certificates.salts if certificates else {}
        if plan is request:
            self._require_new(plan)
        certified = []
        for number, planned in plan.deletions.items():
            how = replace(plan.request, ignore_missing=True)
            done = self._forget(planned.ids, number, how, planned=len(planned.ids) > 0)
            receipt = done.receipt
            answer = json_answers.forgotten(receipt) | {"copies": done.copies, "left": done.left}
            answers.append(answer)
            if not receipt.sequences:
                held_none = (
                    "the memory held none of these samples (any more): `log` lists earlier requests"
                )
                answer["why"] = f"found nothing; deleted nothing: {held_none}"
            if certificates and number in salts and receipt.sequences and not receipt.repeated:
                if certificates.tell_salts:
                    answer["salt"] = salts[number].hex()
                certified.append((answer, done))
        if purge or certified:
            unpurged = self._purged(must=purge)
            for answer in answers:
                answer.update({"unpurged": unpurged} if unpurged else {"purged": True})
        if certificates and certified:
            exact = self.digests()
            for answer, done in certified:
                made = certificate.certify(
                    self._store,
                    done.receipt,
                    live=answer["left"],
                    purged=answer["purged"],
                    exact=exact,
                )
                salt = salts[done.receipt.request]
                named = certificate.naming(
                    made, done.ids.tolist(), salt, listed=certificates.list_ids
                )
                certificates.deliver(answer, named)
        return answers

    def _require_new(self, plan: DeletionPlan) -> None:
        """Raises ValueError where, since it was planned, a request was carried out whose samples are still here."""
        for number, planned in plan.deletions.items():
            if number is not None and (earlier := self._store.receipt(number)):
                deletions.require_new(number, earlier, len(np.intersect1d(planned.ids, self.ids)))

    def _purged(self, *, must: bool) -> str:
        """Purge. Returns why traces may be left, if they may. must: raise where a reader prevents it."""
        try:
            foreign = self.purge()
        except LockedMemoryError as error:
            if must:
                raise
            return f"{error}; until then, names of source files and units may be left in it"
        return (
            f"purged, but not part of the memory, so not looked at: {', '.join(foreign)}"
            if foreign
            else ""
        )

    def _forget(
        self,
        ids: ArrayLike | Iterable[int],
        number: str | None,
        how: DeletionRequest,
        *,
        planned: bool = False,
    ) -> "_Forgotten":
        """One deletion, under the number of its request.

        planned: it named samples when it was looked up. If they went meanwhile, with another request of the same
        table, say, it is recorded all the same; a request that never found anything is not: it deleted nobody.
        """
        wanted = np.unique(checked_ids(ids))
        with self._alone():
            found = self._store.known_rows(wanted)
            unknown = wanted[found < 0]
            if (
                len(unknown)
                and not how.ignore_missing
                and (number is None or self._store.receipt(number) is None)
            ):
                raise UnknownIdsError(unknown.tolist())
            rows = found[found >= 0]
            twins = self._store.twins_of(rows)
            copies = self._samples.named(twins)
            identical = tuple(copy["id"] for copy in copies)
            view = self._store.view
            labels = np.unique(view.labels[np.concatenate([rows, twins])])
            if how.also_identical:
                rows = np.concatenate([rows, twins])
                rows = rows[np.argsort(view.ids[rows])]  # the chain has them by ascending id
                identical = ()
            gone_ids = view.ids[rows]
            if len(rows) or planned or (number is not None and self._store.receipt(number)):
                receipt = self._delete(rows, number, how.block_return)
            else:
                receipt = replace(self._delete(rows, None, block_return=False), request=number)
            held_labels = self._samples.held()[1]
        if not receipt.repeated:
            emptied_labels = np.setdiff1d(labels, held_labels)
            emptied = tuple(
                name for label, name in self._samples.classes.items() if label in emptied_labels
            )
            receipt = replace(receipt, identical=identical, emptied=emptied)
        return _Forgotten(receipt, gone_ids, copies, len(held_labels))

    def _delete(self, rows: np.ndarray, number: str | None, block_return: bool) -> Receipt:
        """Delete rows. Where an answer has needed sums over the rows, they follow."""

        def delete() -> Receipt:
            return self._store.delete_rows(rows, request=number, block_return=block_return)

        summed = self._summed()
        return summed.sums.delete(rows, delete) if summed and summed.sums else delete()

    def _summed(self) -> "FittedModel | None":
        """What is fitted in this model, if anything of it was needed so far."""
        return vars(self).get("_fitted") or vars(self).get("_head")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time. In a forked child ClosedMemoryError: it may have a lock that nobody will release."""
        _ = self._store.view
        with self._changing:
            yield

    def log(self) -> list[Receipt]:
        """All deletions so far, in order."""
        return self._store.log()

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
            raise ClosedMemoryError(
                f"{self.directory}: open for reading only; load it with writer=True"
            )
        if units is not None and not isinstance(units, str):
            units = unit_names(units)
        given, rows = self._read(images)
        numbers = self._samples.numbers(labels)
        if len(numbers) != len(given.images):
            raise ValueError(
                f"{counted(len(numbers), 'label')} for {counted(len(given.images), 'picture')}"
            )
        contents = self._contents(given, rows)
        # refused in a forked child, before torch is touched
        blocked = np.flatnonzero(self._store.blocked(contents))
        if blocked.size and not allow_blocked:
            named = [given.files[one] or f"number {one}" for one in blocked.tolist()]
            said = f"forgotten with block_return, so nothing was added: {first_ten(named)}"
            raise PictureError(
                f"{said}; --allow-blocked (in Python, allow_blocked=True) adds them all the same"
            )
        keys = self._encoder.keys(given.images) if rows is None else rows
        tokens = (
            keys
            if self._tokens_are_keys
            else np.zeros((len(keys), self.manifest.token_dim), dtype=np.float32)
        )
        if self._fitted:
            keys, tokens = self._fitted.family.stored(keys), numbers[:, None].astype(np.float32)
        with self._alone():
            first = self.next_id
            ids = np.arange(first, first + len(keys))
            return self._enter(
                _NewRows(ids, keys, tokens, numbers, given.files, units, contents), allow_blocked
            )

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
        view = self._store.view
        if summed := self._fitted or self._head:
            summed.require_room(len(new.ids))
        if not self._fitted and not (view.ids[view.live] < self.manifest.memory.first_new_id).any():
            raise ValueError(
                f"{self.directory}: holds no trained sample any more, so none can lend its token"
            )
        same = np.sort(self._store.ids_with(new.contents))
        held = view.records["content"][self._store.rows_of(same)]
        self._store.add(*new, allow_blocked=allow_blocked)
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
        behind_held = int(self._store.view.ids.max(initial=-1)) + 1  # of a dead row, it is zero
        return max(memory.first_new_id + self._ever - memory.rows, behind_held)

    @property
    def _ever(self) -> int:
        """How many rows the memory holds and held."""
        return self._store.position.live + self._store.deletions

    @property
    def _tokens_are_keys(self) -> bool:
        return self.manifest.architecture == "direct-key"

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
        report = self._store.verify(head)
        problems = [*report.problems]
        try:
            if (summed := self._summed()) and summed.digests() != summed.digests(anew=True):
                problems.append(
                    "what answers in this process is not what the rows that are left give: start it again"
                )
        except UnreadableModelError as error:
            problems.append(str(error))
        for name in self.manifest.static:
            try:
                manifests.static(self.directory, self.manifest, name)
            except UnreadableModelError as error:
                problems.append(str(error))
        return replace(report, problems=tuple(problems), foreign=self._foreign(report.foreign))

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
        # its class may be a person, so it goes with its last row
        if self.writer and self.manifest.encoder is None:
            manifest, held = (
                manifests.read_manifest(self.directory),
                set(self._samples.held()[1].tolist()),
            )
            kept = [
                name if number in held else None for number, name in enumerate(manifest.classes)
            ]
            self._describe(manifest.model_copy(update={"classes": kept}))
        return self._foreign(self._store.purge())

    def settle(self) -> None:
        """Wait until the zeros over what was forgotten are on the disk."""
        self._store.settle()

    def copy(self, folder: Path) -> None:
        """Write the model as it is now, with its log of deletions, into an empty folder, purged.

        The model must be open for writing, so that nobody changes it meanwhile.

        Parameters
        ----------
        folder : Path
            An empty folder.
        """
        self._store.copy(folder / MEMORY)
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
            return self._foreign(self._store.compact())

    def receipt_of(self, sequence: int | None = None, request: str | None = None) -> Receipt:
        """The receipt of an earlier deletion, by a number in the chain or of its request; by default the last one.

        Raises CertificateError if there is none.
        """
        return certificate.receipt_of(self._store, sequence, request)

    def certificate(
        self, sequence: int | None = None, request: str | None = None, *, purged: bool = False
    ) -> Certificate:
        """The certificate of an earlier deletion, named as for `receipt_of`. purged: whether that is known."""
        receipt = self.receipt_of(sequence, request)
        return certificate.certify(self._store, receipt, purged=purged, exact=self.digests())

    def certificate_faults(
        self,
        made: Certificate,
        ids: Iterable[int] | None = None,
        salt: bytes = b"",
        exact: dict[str, str] | None = None,
    ) -> list[str]:
        """How this memory, or these ids and their salt, contradict a certificate. exact: `digests`, made anew."""
        return certificate.faults(made, self._store, ids, salt, exact)

    @property
    def key_width(self) -> int:
        """Numbers in a key."""
        return self._store.state.key_width

    def memory_facts(self) -> dict[str, object]:
        """What the command `inspect` says of the memory."""
        state = self._store.state
        return {
            "deleted, space not freed": len(self._store.view.live) - len(self.ids),
            "deleted samples": self.deletions,
            "blocked pictures": self._store.blocked_count,
            "key width": state.key_width,
            "token width": state.token_width,
            "memory": state.store.hex(),
        }

    def summary(self) -> dict[str, Any]:
        """How many samples it holds, the bytes of its directory, and the head of its chain of deletions."""
        size = sum(file.stat().st_size for file in self.directory.rglob("*") if file.is_file())
        return {"samples": len(self.ids), "bytes": size, "head": self.head}

    def close(self) -> None:
        """Release the memory. Closing twice is no error."""
        self._store.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


_Stamp: TypeAlias = tuple[int, int, int] | None


class _Forgotten(NamedTuple):
    """A deletion. ids: (N,) that went; copies: exact copies of what was named, with their units; left: samples."""

    receipt: Receipt
    ids: np.ndarray
    copies: list[Json]
    left: int


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
        raise UnreadableModelError(
            folder, "holds keys or tokens of a size that does not fit its model"
        )
    return store

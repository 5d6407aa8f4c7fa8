"""A trained model that predicts, forgets and learns new samples: `from munkey import Predictor`."""

import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import compress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from munkey.core.files import atomic, fill_folder
from munkey.deploy.additions import Additions
from munkey.deploy.certificate import (
    Certificate,
    add_ids,
    certify,
    find_faults,
    find_receipt,
)
from munkey.deploy.deletions import (
    CertificateOrder,
    Deletion,
    DeletionPlan,
    DeletionRequest,
    Deletions,
    list_patterns,
)
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model import manifest as manifests
from munkey.deploy.model.find import DEFAULT_COUNT, NearSamples, require_valid_search
from munkey.deploy.model.images import Images
from munkey.deploy.model.live_model import LiveModel
from munkey.deploy.model.manifest import MEMORY, Manifest
from munkey.deploy.model.prediction import Prediction
from munkey.deploy.model.samples import require_one_kind
from munkey.deploy.model.sources import AddedSamples, MemoryRow, Selection, require_list
from munkey.memory.chain import Receipt, to_datetime
from munkey.memory.database import SIDE_FILES
from munkey.memory.memory_file import WAIT_S, Class, Classes
from munkey.memory.rows import check_ids
from munkey.memory.verify import MemoryReport
from munkey.settings import OnBad

Device = Literal["auto", "cpu", "cuda"]


class Predictor(AbstractContextManager["Predictor"]):
    """An exported model, which classifies pictures, forgets samples, and learns new ones.

    Open it with `Predictor.load`. Any number of threads and processes may use and change the same
    model at the same time; changes wait for one another.

    Attributes
    ----------
    directory : Path
        The directory of the model.

    Raises
    ------
    UnreadableModelError
        If a file in the directory is damaged or of another version. Some files are read only when
        they are needed, so any method may raise this error.
    LockedMemoryError
        If others change the model for longer than `wait` seconds. Nothing was changed then.

    Notes
    -----
    Weights and encoder are loaded with the first picture. Forgetting needs neither of them, takes
    milliseconds, and does not import torch.

    Examples
    --------
    >>> import numpy as np
    >>> from munkey import ForgettingKNN, Predictor
    >>> rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> _ = ForgettingKNN().fit(rows, ["cat", "cat", "dog"]).save("pets")
    >>> with Predictor.load("pets") as model:
    ...     deletion = model.forget([2])
    ...     print(deletion.emptied, model.ids)
    ('dog',) [0 1]
    """

    def __init__(self, directory: Path, device: Device, wait: float) -> None:
        """Use `Predictor.load` instead."""
        self.directory = directory
        self._model = LiveModel(directory, device, wait)
        self._file = self._model.file
        self._additions = Additions(self._model)
        self._deletions = Deletions(self._model)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        device: Device = "auto",
        wait: float = WAIT_S,
    ) -> Self:
        """Open an exported model.

        Parameters
        ----------
        directory : str or Path
            The directory to which `munkey export`, or the `save` of an estimator, wrote the model.
        device : {"auto", "cpu", "cuda"}
            The device to compute on. "auto" uses a GPU if there is one.
        wait : float
            Seconds that a change waits for other changes. A purge of a million samples takes 7.

        Returns
        -------
        Predictor
            The open model.

        Raises
        ------
        UnreadableModelError
            If the directory has no model that this version can read.
        """
        return cls(Path(directory), device, wait)

    @property
    def in_place(self) -> bool:
        """Whether the model is open in this process, and its files have not been replaced.

        If not, load it again.
        """
        return self._file.is_in_place

    @property
    def manifest(self) -> Manifest:
        """The manifest, which never changes."""
        return self._model.manifest

    @property
    def classes(self) -> Classes:
        """The classes, by class index."""
        return self._model.snapshot().classes

    # Predicting

    def predict(
        self, images: Images, *, only_held_classes: bool = False, on_bad: OnBad = "raise"
    ) -> Prediction:
        """Classify pictures.

        Parameters
        ----------
        images : path, Pillow image, array, or iterable
            A file, a folder, a Pillow image, a uint8 array of shape (N, H, W, 3) or (H, W, 3), or
            an iterable of these. For a model that takes embeddings: an array of shape (N, d), or a
            file with one (.npy or .csv).
        only_held_classes : bool
            Assign probability 0 to classes without a sample in the memory. This only filters the
            output and is not unlearning: the network still knows these classes, and the logits stay
            the same.
        on_bad : {"raise", "skip"}
            What to do if pictures cannot be read: raise an error, or skip them. The error or a
            warning lists all of them.

        Returns
        -------
        Prediction
            Classes, probabilities, logits, and the samples that they are based on.

        Raises
        ------
        PictureError
            If something is not a picture, or if no picture is left.
        EmptyModelError
            If every sample was forgotten.

        Notes
        -----
        On the same machine, the logits equal those of the pipeline, bit for bit (docs/serving.md).
        No prediction is based on a sample that was forgotten before the call.
        """
        return self._model.predict(images, only_held_classes, on_bad)

    def find(
        self,
        images: Images,
        *,
        count: int = DEFAULT_COUNT,
        above: float = -1.0,
        on_bad: OnBad = "raise",
    ) -> NearSamples:
        """Find the samples nearest to each picture, or to each row of numbers.

        Parameters
        ----------
        images : path, Pillow image, array, or iterable
            Pictures or rows, as `predict` takes them.
        count : int
            Maximum number of samples to list for each picture, from 1 to 1,000.
        above : float
            Minimum cosine of keys, from -1 to 1. Exact copies among the `count` nearest samples are
            listed anyway.
        on_bad : {"raise", "skip"}
            What to do if pictures cannot be read, as for `predict`.

        Returns
        -------
        NearSamples
            For each picture, the samples near it: id, class, unit, source file, cosine, and whether
            the sample is an exact copy. None of them was forgotten before the call.

        Raises
        ------
        PictureError
            If something is not a picture, or if a row has another width than the model's keys.
        ValueError
            If `count` or `above` is out of range.

        Examples
        --------
        >>> import numpy as np
        >>> from munkey import ForgettingKNN, Predictor
        >>> rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
        >>> units = ["Ann", "Bob", "Cem"]
        >>> _ = ForgettingKNN().fit(rows, ["cat", "cat", "dog"], units=units).save("model")
        >>> with Predictor.load("model") as model:
        ...     near = model.find(rows[:1], above=0.5)
        >>> for sample in near.samples[0]:
        ...     print(sample.id, sample.label, sample.unit, round(sample.cosine, 3), sample.copy)
        0 cat Ann 1.0 True
        1 cat Bob 0.6 False
        """
        require_valid_search(count, above)
        return self._model.find(images, count, above, on_bad)

    def warm_up(self) -> None:
        """Load weights and encoder now, by classifying a blank picture.

        The first prediction is then as fast as the following ones, and any error appears now.
        """
        snapshot = self._model.snapshot()
        if not len(snapshot.memory):
            return  # without samples, `predict` raises EmptyModelError
        picture_size = self.manifest.stored
        if picture_size is None:
            blank = np.zeros((1, snapshot.state.key_width), dtype=np.uint8)
        else:
            blank = np.zeros((picture_size.height, picture_size.width, 3), dtype=np.uint8)
        self.predict(blank)

    # Looking into the memory

    @property
    def ids(self) -> np.ndarray:
        """The ids of all samples in the memory, in ascending order: (N,) int64."""
        return self._model.samples().ids

    def keys(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ids and keys of all samples, sorted by id: (N,) int64 and (N, d) float32."""
        memory = self._model.snapshot().memory
        return memory.ids[memory.live_rows], memory.keys[memory.live_rows]

    @property
    def head(self) -> str:
        """The head of the chain of deletions, in hexadecimal.

        If you publish it elsewhere, `verify` can detect a restored backup.
        """
        return self._file.head

    @property
    def deletions(self) -> int:
        """Number of samples that were deleted so far."""
        return self._model.snapshot().sequence

    def rows(
        self,
        *,
        labels: Iterable[Class] = (),
        units: Iterable[str | None] = (),
        files: Iterable[str | Path] = (),
    ) -> list[MemoryRow]:
        """List samples in the memory, by ascending id.

        Parameters
        ----------
        labels : iterable of str or int
            Classes, by name. A number is the name of a class; only if no class is named like a
            number, it is a class index. By default, all.
        units : iterable of str or None
            Units of the samples, such as persons or devices; None selects samples without a unit.
            By default, all.
        files : iterable of str or Path
            Source files, as for `select`. By default, all.

        Returns
        -------
        list of MemoryRow
            The samples that match all given filters.

        Raises
        ------
        UnknownNamesError
            If a file or unit has no sample, or a label is not a class of the model.
        AmbiguousFileError
            If a name matches more than one file.
        """
        return self._model.samples().list_rows(labels, units, files)

    def select(
        self,
        *,
        ids: ArrayLike | Iterable[int] = (),
        files: Iterable[str | Path] = (),
        labels: Iterable[Class] = (),
        units: Iterable[str] = (),
        ignore_missing: bool = False,
        request: str | None = None,
    ) -> Selection:
        """Find the samples that have any of these ids, source files, classes, or units.

        Ids can be combined with one of the others.

        Parameters
        ----------
        ids : array-like of int
            Ids of samples.
        files : iterable of str or Path
            Files by name or path, folders for all files below them, and patterns such as
            ``glob:pets/*.png``. They are looked up in the memory, not on disk.
        labels : iterable of str or int
            Classes, as for `rows`.
        units : iterable of str
            Units of the samples, such as persons or devices.
        ignore_missing : bool
            Skip ids and names that match no sample.
        request : str, optional
            A request number. If that request was carried out before, missing ids and names do not
            raise an error.

        Returns
        -------
        Selection
            The ids of the samples, the ids and names that match no sample, and the number of
            selected samples in each class.

        Raises
        ------
        UnknownIdsError, UnknownNamesError
            If any id or name matches no sample. The error lists all of them.
        AmbiguousFileError
            If a name matches more than one file.
        ValueError
            If something is not an id or not a unit, or if files, labels, and units are combined.
        """
        files = require_list("files", files)
        labels = require_list("labels", labels)
        units = require_list("units", units)
        require_one_kind({"files": files, "labels": labels, "units": units})
        earlier_receipt = None
        if request is not None:
            earlier_receipt = self._file.find_receipt(request)
        return self._model.samples().select(
            ids=ids,
            files=files,
            labels=labels,
            units=units,
            ignore_missing=ignore_missing,
            earlier_receipt=earlier_receipt,
        )

    def memory_facts(self) -> dict[str, object]:
        """Return the facts about the memory that the command `inspect` prints, by name."""
        snapshot = self._model.snapshot()
        state = snapshot.state
        return {
            "deleted samples": snapshot.sequence,
            "purged": self.purged_at if state.purged == snapshot.sequence else "due",
            "blocked pictures": self._file.blocked_count,
            "key width": state.key_width,
            "token width": state.token_width,
            "memory": state.store.hex(),  # a random name, with which the chain of deletions starts
        }

    def summary(self) -> dict[str, Any]:
        """Return the number of samples, the bytes in the directory, and the head of the chain."""
        size = sum(file.stat().st_size for file in self.directory.rglob("*") if file.is_file())
        return {"samples": len(self.ids), "bytes": size, "head": self.head}

    # Forgetting

    def forget(
        self,
        ids: ArrayLike | Iterable[int],
        *,
        ignore_missing: bool = False,
        request: str | None = None,
        also_identical: bool = False,
        block_return: bool = False,
    ) -> Deletion:
        """Forget samples: all of them, or none if any id is unknown.

        Once this returns, the deletion is on disk, and no prediction is based on these samples.

        Parameters
        ----------
        ids : array-like of int
            Ids of the samples.
        ignore_missing : bool
            Skip unknown ids. If no id is known, nothing is recorded.
        request : str, optional
            A request number that you choose. A second call with the same number and ids changes
            nothing, and returns the earlier receipt.
        also_identical : bool
            Also forget exact copies.
        block_return : bool
            Refuse to `add` these pictures from now on (docs/memory.md).

        Returns
        -------
        Deletion
            The ids, the deletion's place in the chain (`receipt`), the exact copies that stay in the
            memory, and the classes without remaining samples. The model can still predict those.

        Raises
        ------
        UnknownIdsError
            If any id is unknown. The error lists all unknown ids; nothing is forgotten.
        ValueError
            If something is not an id, or if the number belongs to an earlier request, and any of
            the ids is in the memory.
        """
        options = DeletionRequest(
            selectors={},  # unused, because the ids are given
            ignore_missing=ignore_missing,
            also_identical=also_identical,
            block_return=block_return,
        )
        unique_ids = np.unique(check_ids(ids))
        return self._deletions.delete_samples(unique_ids, request, options)

    def plan(self, request: DeletionRequest) -> DeletionPlan:
        """Look up the samples that a request would forget. Nothing is changed.

        Parameters
        ----------
        request : DeletionRequest
            What to forget, and how.

        Returns
        -------
        DeletionPlan
            The samples of each request number, and the names that match no sample.

        Raises
        ------
        UnknownNamesError
            If any name matches no sample, unless the request ignores missing names.
        ValueError
            If a request number was carried out before, but some of its samples are in the memory.
        """
        return self._deletions.plan(request)

    def preview(self, plan: DeletionPlan) -> list[Deletion]:
        """List what each request number would forget. Nothing is changed.

        Parameters
        ----------
        plan : DeletionPlan
            The samples of each request number, from the method `plan`.

        Returns
        -------
        list of Deletion
            One dry run per request number. If the request was carried out before, it has the receipt
            of that deletion.
        """
        return self._deletions.preview(plan)

    def delete(
        self,
        request: DeletionRequest | DeletionPlan,
        *,
        purge: bool = False,
        certificates: CertificateOrder | None = None,
        results: list[Deletion] | None = None,
    ) -> list[Deletion]:
        """Carry out a request to forget: look up the samples, delete, purge, and certify.

        Parameters
        ----------
        request : DeletionRequest or DeletionPlan
            What to forget, or a plan from the method `plan`.
        purge : bool
            Remove every byte of the samples from the model's files. If the purge cannot finish, or
            if the directory has files that do not belong to the model, `Deletion.unpurged` says why.
        certificates : CertificateOrder, optional
            Purge, and certify the deletions.
        results : list, optional
            Each result is appended to it once its deletion is on disk, so that a later failure
            does not hide the deletion.

        Returns
        -------
        list of Deletion
            One per request number.

        Raises
        ------
        UnknownNamesError, ValueError
            If `plan` raises them. Nothing is deleted then.
        """
        if isinstance(request, DeletionPlan):
            plan = request
            self._deletions.require_new_numbers(plan)
        else:
            plan = self.plan(request)
        if results is None:
            results = []
        salts = certificates.salts if certificates else {}
        # It is not an error if samples of the plan were deleted since they were looked up.
        options = replace(plan.request, ignore_missing=True)
        for request_number, planned in plan.deletions.items():
            was_planned = len(planned.ids) > 0
            deletion = self._deletions.delete_samples(
                planned.ids, request_number, options, was_planned=was_planned
            )
            patterns = list_patterns(plan.request.selectors[request_number])
            results.append(replace(deletion, missing=planned.missing, patterns=patterns))
        salts = certificates.salts if certificates else {}
        to_certify = [each.request in salts and len(each.ids) > 0 for each in results]
        if purge or any(to_certify):
            unpurged = self._purge_or_explain()
            results[:] = [
                replace(deletion, purged=not unpurged, unpurged=unpurged) for deletion in results
            ]
        if certificates and any(to_certify):
            self._deliver_certificates(list(compress(results, to_certify)), certificates)
        return results

    def _deliver_certificates(self, deletions: Sequence[Deletion], order: CertificateOrder) -> None:
        digests = self.digests()
        for deletion in deletions:
            assert deletion.receipt  # the file has a chain
            certificate = certify(
                deletion.receipt,
                live=deletion.left,
                identical=len(deletion.identical),
                purged_at=self.purged_at if deletion.purged else None,
                exact=digests,
                constants=self.constants,
            )
            certificate = add_ids(
                certificate,
                deletion.tolist(),
                order.salts[deletion.request],
                list_ids=order.list_ids,
            )
            order.deliver(deletion, certificate)

    def _purge_or_explain(self) -> str:
        """Purge, and return a sentence that says why traces may remain; empty if none can."""
        try:
            foreign_files = self.purge()
        except OSError as error:  # such as LockedMemoryError, or a disk without space
            return f"{error}; until then, bytes of the samples may be left in it"
        if not foreign_files:
            return ""
        return f"purged; not checked, since not part of the model: {', '.join(foreign_files)}"

    def purge(self, wait: float | None = None) -> tuple[str, ...]:
        """Remove every byte of forgotten samples from the model's files.

        Predictions continue meanwhile; other changes wait.

        Parameters
        ----------
        wait : float, optional
            Seconds to wait for other changes, and again for readers. By default, those given to
            `load`.

        Returns
        -------
        tuple of str
            Files in the directory that do not belong to the model. They are neither checked nor
            changed.

        Raises
        ------
        LockedMemoryError
            If a reader prevents the purge for too long.
        OSError
            If the disk has less free space than twice the memory. Nothing was changed.
        """
        self._forget_empty_classes()
        self._file.purge(wait)
        return self.foreign_files

    @property
    def is_purge_due(self) -> bool:
        """Whether samples were forgotten since the last purge."""
        return self._file.is_purge_due

    @property
    def purged_at(self) -> str | None:
        """When the last purge ended, in ISO 8601, UTC; None before the first."""
        at = self._file.read_state().purged_at
        return to_datetime(at).isoformat(timespec="microseconds") if at else None

    def empty_log(self) -> bool:
        """Move the write-ahead log into the memory's file, as every change tries to do.

        Returns False if a reader needs it just now.
        """
        return self._file.empty_log()

    def _forget_empty_classes(self) -> None:
        """Forget the names of an estimator's empty classes: a class may be named after a person."""
        if self.manifest.encoder is not None:
            return
        snapshot = self._model.snapshot()
        labels = snapshot.memory.labels[snapshot.memory.live_rows]
        if snapshot.classes.forget_empty(labels) == snapshot.classes:
            return
        with self._file.change() as change:
            memory = change.snapshot.memory
            labels = memory.labels[memory.live_rows]
            change.replace_classes(change.snapshot.classes.forget_empty(labels))

    def log(self) -> list[Receipt]:
        """Return the receipts of all deletions so far, in order."""
        return self._file.log()

    # Learning

    def add(
        self,
        images: Images,
        labels: Iterable[Class] | np.ndarray,
        *,
        units: Sequence[str | None] | None = None,
        allow_blocked: bool = False,
    ) -> AddedSamples:
        """Add new samples, without training.

        Parameters
        ----------
        images : path, Pillow image, array, or iterable
            Pictures or rows, as `predict` takes them.
        labels : iterable of str or int, length N
            The class of each sample, as for `rows`.
        units : sequence of str or None, length N, optional
            The unit of each sample, such as a person or device.
        allow_blocked : bool
            Also add pictures that were forgotten with `block_return`.

        Returns
        -------
        AddedSamples
            The new ids, and the ids of earlier exact copies.

        Raises
        ------
        PictureError
            If something is not a picture, or was forgotten with `block_return`.
        ValueError
            If a label is not a class of the model, if the lengths differ, or if the samples cannot
            be added: MUNKEY needs at least one trained sample in the memory, and some fitted
            families have a maximum number of samples.

        Notes
        -----
        The encoder computes the keys. MUNKEY has no tokens for new samples, so for each prediction,
        the nearest trained samples lend theirs (`Retriever`); in its direct-key variant, the key is
        the token. A fitted family predicts as if the new samples had always been there.
        """
        return self._additions.add(images, labels, units, allow_blocked)

    # Checking

    def digests(self, *, recompute: bool = False) -> dict[str, str] | None:
        """Return digests of the sums and rows from which a fitted family computes its answers.

        See `FittedModel.digests`. Returns None for MUNKEY.
        """
        fitted_model = self._model.fitted_model
        if fitted_model is None:
            return None
        return fitted_model.digests(self._model.snapshot(), recompute=recompute)

    @property
    def constants(self) -> list[str]:
        """The constants of a fitted family that deletions do not recompute.

        Empty if deletion is unconditionally exact, and for MUNKEY.
        """
        from munkey.deploy.model.fitted import list_fixed_constants

        return list_fixed_constants(self.manifest)

    def verify(self, published: str | None = None) -> MemoryReport:
        """Check the directory: the chain of deletions, every row, and all static files.

        Parameters
        ----------
        published : str, optional
            A published head of the chain. If the chain does not contain it, the report says that
            this is an older copy or another memory.

        Returns
        -------
        MemoryReport
            The problems, if any, and the number of rows and of deletions.

        Raises
        ------
        ValueError
            If `published` does not have the format of a head.
        """
        published_head = None
        if published is not None:
            published_head = published.strip().lower()
            if not re.fullmatch("[0-9a-f]{64}", published_head):
                why = "is not the head of a chain: `forget` prints one, of 64 hexadecimal digits"
                raise ValueError(f"{str(published)[:80]!r} {why}")
        report = self._file.verify(published_head)
        problems = [*report.problems]
        try:
            fitted_model = self._model.loaded_sums
            snapshot = self._model.snapshot()
            if fitted_model and (
                fitted_model.digests(snapshot) != fitted_model.digests(snapshot, recompute=True)
                or fitted_model.has_altered_weights(snapshot)
            ):
                problems.append(
                    "the model in this process does not match the remaining rows: restart the process"
                )
        except UnreadableModelError as error:
            problems.append(str(error))
        for name in self.manifest.static_files:
            try:
                manifests.read_static_file(self.directory, self.manifest, name)
            except UnreadableModelError as error:
                problems.append(str(error))
        return replace(report, problems=tuple(problems), foreign=self.foreign_files)

    @property
    def foreign_files(self) -> tuple[str, ...]:
        """Files in the directory that do not belong to the model. No purge changes them."""
        memory_names = {MEMORY, *(f"{MEMORY}{suffix}" for suffix in SIDE_FILES)}
        model_names = {manifests.MANIFEST_NAME, *memory_names, *self.manifest.static_files}
        names = {path.name for path in self.directory.iterdir()}
        return tuple(sorted(names - model_names))

    def receipt_of(self, sequence: int | None = None, request: str | None = None) -> Receipt:
        """Find the receipt of an earlier deletion; by default, of the last one.

        Parameters
        ----------
        sequence : int, optional
            The sequence number of any of its samples in the chain. Ignored if `request` is given.
        request : str, optional
            Its request number.

        Returns
        -------
        Receipt
            The receipt of the deletion.

        Raises
        ------
        CertificateError
            If no deletion matches.
        """
        return find_receipt(self._file.log(), sequence, request)

    def certificate(self, sequence: int | None = None, request: str | None = None) -> Certificate:
        """Certify an earlier deletion.

        Parameters
        ----------
        sequence, request
            Which deletion, as for `receipt_of`. By default, the last one.

        Returns
        -------
        Certificate
            The certificate, without ids. `certificate.write_certificate` writes it to a file.

        Raises
        ------
        CertificateError
            If no deletion matches.
        """
        receipt = self.receipt_of(sequence, request)
        state = self._file.read_state()
        last_number = receipt.sequences.stop - 1
        is_purged = last_number <= state.purged and not self.foreign_files
        return certify(
            receipt,
            purged_at=self.purged_at if is_purged else None,
            exact=self.digests(),
            constants=self.constants,
        )

    def find_certificate_faults(
        self,
        issued: Certificate,
        ids: Iterable[int] | None = None,
        salt: bytes = b"",
        exact: dict[str, str] | None = None,
    ) -> list[str]:
        """List how this memory, or the given ids and salt, contradict a certificate.

        Parameters
        ----------
        issued : Certificate
            The certificate to check.
        ids : iterable of int, optional
            Ids for which the certificate should have been issued.
        salt : bytes
            The salt of the certificate, which is needed to check `ids`.
        exact : dict, optional
            ``digests(recompute=True)``, to check the digests in the certificate, if it has any.

        Returns
        -------
        list of str
            One sentence per fault; empty if there are none.
        """
        return find_faults(issued, self._file, ids, salt, exact)

    # The directory

    def copy(self, folder: Path) -> None:
        """Write a purged copy of the model, including its log of deletions.

        Others may change the model meanwhile. If this fails, no file is left behind.

        Parameters
        ----------
        folder : Path
            A new or empty folder.
        """
        with fill_folder(folder):
            self._file.copy(folder / MEMORY)
            for name in self.manifest.static_files:
                content = manifests.read_static_file(self.directory, self.manifest, name)
                with atomic(folder / name) as temporary:
                    temporary.write_bytes(content)
            self.manifest.write(folder)
            with Predictor.load(folder) as copied_model:
                copied_model.purge()

    def close(self) -> None:
        """Release the memory. Further calls do nothing."""
        self._file.close()

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

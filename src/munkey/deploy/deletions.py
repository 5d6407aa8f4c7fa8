"""Plan, preview, and carry out deletions.

`Predictor.delete` carries out a whole request, from its plan to its certificates.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import escape_to_one_line, pluralize
from munkey.core.ids import NO_NEIGHBOR
from munkey.deploy.certificate import Certificate
from munkey.deploy.errors import MEMORY_SCOPE, UnknownNamesError, format_first_ten
from munkey.deploy.model.live_model import LiveModel
from munkey.deploy.model.samples import Samples
from munkey.deploy.model.sources import is_pattern
from munkey.memory.chain import Receipt
from munkey.memory.errors import UnknownIdsError
from munkey.memory.memory_file import read_request_number

# Names of samples, by the keyword arguments of `Predictor.select`: ids, files, labels, units. A
# selector with several of them selects the samples that match each. In a table of requests, one row
# is one selector.
Selector = Mapping[str, Any]


@dataclass(frozen=True)
class DeletionRequest:
    """What to forget, and how.

    Parameters
    ----------
    selectors : mapping of (str or None) to sequence of Selector
        Selectors by request number; None for a request without a number. Each request covers all
        samples that match any of its selectors. Numbers are normalized, so " 17" and "17" are one
        request.
    ignore_missing : bool
        Skip names that match no sample.
    also_identical : bool
        Also forget exact copies.
    block_return : bool
        Refuse to `add` the same pictures from now on.
    """

    selectors: Mapping[str | None, Sequence[Selector]]
    ignore_missing: bool = False
    also_identical: bool = False
    block_return: bool = False

    def __post_init__(self) -> None:
        """Normalize the request numbers. Raises ValueError if one is blank or no text."""
        selectors: dict[str | None, list[Selector]] = {}
        for request_number, more_selectors in self.selectors.items():
            selectors.setdefault(read_request_number(request_number), []).extend(more_selectors)
        object.__setattr__(self, "selectors", selectors)


class PlannedDeletion(NamedTuple):
    """The samples to delete for one request number, as of the time of the plan.

    ids: (N,) int64, ascending. missing: names that match no sample. earlier_receipt: the receipt if
    the request was carried out before, otherwise None.
    """

    ids: np.ndarray
    missing: tuple[str, ...] = ()
    earlier_receipt: Receipt | None = None


@dataclass(frozen=True)
class DeletionPlan:
    """A request, and its samples as of the time of the plan.

    deletions: by request number. hint: a sentence that suggests similar names; may be empty.
    """

    request: DeletionRequest
    deletions: Mapping[str | None, PlannedDeletion]
    hint: str = ""

    def list_missing(self, *, only_new: bool = False) -> list[str]:
        """List the names that match no sample, with their request numbers if there are several.

        only_new: skip requests that were carried out before.
        """
        names = []
        for request_number, deletion in self.deletions.items():
            suffix = f" (request {request_number})" if len(self.deletions) > 1 else ""
            if not (only_new and deletion.earlier_receipt):
                names += [f"{name}{suffix}" for name in deletion.missing]
        return names


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Deletion:
    """What one request deleted, or would delete: a sequence of the samples' ids.

    It supports ``len``, ``for``, ``in``, indexing, ``tolist`` and ``numpy.asarray``. Use ``print`` to
    show a summary.

    Attributes
    ----------
    ids : ndarray of int64, shape (n_deleted,)
        Ids of the deleted samples, in ascending order; after a dry run, of those that would be
        deleted. Empty if the request was carried out before.
    left : int
        Number of remaining samples.
    classes : dict of str to int
        Number of these samples in each class.
    copies : list of dict
        Exact copies of the requested samples, each with its ``id`` and ``unit``.
    emptied : tuple of str
        Classes that lost their last sample.
    missing : tuple of str
        Requested ids, units, classes and files without samples, if these were ignored.
    patterns : tuple of str
        Requested files that are patterns.
    request : str or None
        The request number, if there is one.
    dry_run : bool
        Whether this was a dry run, which changes nothing.
    receipt : Receipt or None
        The deletion's place in the chain. None for a dry run of a new request, and for a model in
        memory, which has no chain.
    when : datetime or None
        Time of the deletion in UTC; None for a dry run of a new request.
    purged : bool
        Whether every byte of the samples was removed from the model's files.
    unpurged : str
        Why a purge could not do that; may be empty.
    """

    ids: np.ndarray
    left: int
    classes: Mapping[str, int] = field(default_factory=dict)
    copies: Sequence[Mapping[str, Any]] = ()
    emptied: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    request: str | None = None
    dry_run: bool = False
    receipt: Receipt | None = None
    when: datetime | None = None
    purged: bool = False
    unpurged: str = ""

    @property
    def repeated(self) -> bool:
        """Whether the request was carried out before, so that nothing was deleted this time."""
        return self.receipt is not None and self.receipt.repeated

    @property
    def deleted(self) -> int:
        """Number of samples that the request deleted, now or when it was first carried out."""
        if self.receipt:
            return len(self.receipt.sequences)
        return 0 if self.dry_run else len(self.ids)

    @property
    def found_nothing(self) -> bool:
        """Whether none of the samples was in the memory when the request was first carried out."""
        if self.dry_run and not self.repeated:
            return not len(self.ids)
        return not self.deleted

    @property
    def identical(self) -> tuple[int, ...]:
        """Ids of exact copies that remain. Unknown, so empty, if the request was repeated."""
        deleted_ids = set(self.tolist())
        return tuple(copy["id"] for copy in self.copies if copy["id"] not in deleted_ids)

    def tolist(self) -> list[int]:
        return [int(sample_id) for sample_id in self.ids]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, position: Any) -> Any:
        return self.ids[position]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.ids, dtype=dtype, copy=copy)

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<Deletion: {'; '.join(str(self).splitlines())}>"

    def describe(self, remedy: str = "") -> str:
        """Describe the deletion in lines of text.

        remedy: how to delete the remaining copies, too; by default, a call of `forget`.
        """
        prefix = f"request {escape_to_one_line(self.request)}: " if self.request else ""
        if self.repeated and self.when:
            date = self.when.isoformat(timespec="microseconds")
            if self.found_nothing:
                return f"{prefix}found nothing on {date}; deleted nothing"
            return f"{prefix}carried out on {date}, so nothing was changed"
        lines = [prefix + self._summarize()]
        if self.found_nothing:
            lines.append(
                "none of the samples is in the memory: they were forgotten earlier (see `munkey log`) or"
                " were never in it"
            )
        elif self.dry_run:
            lines.append(f"ids {format_first_ten(self.tolist())}")
        if self.patterns:
            lines.append(f"given as patterns: {format_first_ten(self.patterns)}")
        if self.copies:
            lines.append(self.describe_copies(remedy))
        if self.emptied:
            lines.append(f"no samples remain in class {format_first_ten(self.emptied)}")
        if self.missing:
            lines.append(f"not in the memory, {MEMORY_SCOPE}: {format_first_ten(self.missing)}")
        return "\n".join(lines)

    def _summarize(self) -> str:
        if self.found_nothing:
            verb = "would delete" if self.dry_run else "deleted"
            return f"found nothing now; {verb} nothing, {self.left:,} left"
        count = pluralize(len(self), "sample")
        if self.dry_run:
            counts = ", ".join(f"{name} {number:,}" for name, number in self.classes.items())
            return f"would forget {count} ({counts}) and keep {self.left:,}"
        text = f"forgot {count}, {self.left:,} left"
        if self.receipt:
            sequences = self.receipt.sequences
            text += f"; numbers {sequences[0]} to {sequences[-1]} in the chain"
        return text

    def describe_copies(self, remedy: str = "", copies: str = "exact copies of these") -> str:
        """Describe the exact copies: whether they remain, and how to forget them, too."""
        ids = [copy["id"] for copy in self.copies]
        id_list = f"ids {format_first_ten(ids)}"
        units = sorted({copy["unit"] for copy in self.copies if copy["unit"]})
        if units:
            id_list += f", of unit {format_first_ten(units)}"
        if not self.identical:
            return f"{len(ids):,} of these are exact copies of samples that you named: {id_list}"
        if not remedy:
            remedy = f"call forget(ids={ids[:10]})"
        return f"{copies} remain: {id_list}; to forget them too, {remedy}"


@dataclass(frozen=True)
class CertificateOrder:
    """Which deletions to certify, and how.

    salts: the salt of each certificate, by request number; requests without a salt are not
    certified. deliver: is called with each deletion and its certificate. list_ids: list the ids in
    the certificates.
    """

    salts: Mapping[str | None, bytes]
    deliver: Callable[[Deletion, Certificate], object]
    list_ids: bool = False


class Deletions:
    """Plans deletions, and carries them out."""

    def __init__(self, model: LiveModel) -> None:
        self._model = model

    def plan(self, request: DeletionRequest) -> DeletionPlan:
        """Look up the samples that each request number would forget, without changing anything.

        Raises UnknownNamesError if any name matches no sample, unless the request ignores missing
        names or was carried out before. Raises ValueError if a request number was carried out
        before, but some of its samples are in the memory.
        """
        samples = self._model.samples()
        deletions: dict[str | None, PlannedDeletion] = {}
        hints: list[str] = []
        for request_number, selectors in request.selectors.items():
            earlier_receipt = self._find_receipt(request_number)
            ids, unknown_names, hint = resolve_selectors(samples, selectors, earlier_receipt)
            require_new_number(request_number, earlier_receipt, ids)
            missing = tuple(dict.fromkeys(unknown_names))
            if earlier_receipt and earlier_receipt.sequences:
                missing = ()  # they were deleted then
            deletions[request_number] = PlannedDeletion(ids, missing, earlier_receipt)
            # Give a hint for a repeated request, too. Most of its missing names were forgotten the
            # first time, but the name of a unit that is similar to an existing one may have been
            # mistyped.
            if hint:
                hints.append(hint)
        plan = DeletionPlan(request, deletions, " ".join(dict.fromkeys(hints)))  # each hint once
        refused_names = plan.list_missing(only_new=True)
        if refused_names and not request.ignore_missing:
            raise UnknownNamesError(refused_names, f"{plan.hint} Nothing was deleted".strip())
        return plan

    def require_new_numbers(self, plan: DeletionPlan) -> None:
        """Raise ValueError if a request number was used since, and some of its samples remain."""
        for request_number, deletion in plan.deletions.items():
            earlier_receipt = self._find_receipt(request_number)
            if earlier_receipt:
                remaining_ids = np.intersect1d(deletion.ids, self._model.samples().ids)
                require_new_number(request_number, earlier_receipt, remaining_ids)

    def _find_receipt(self, request_number: str | None) -> Receipt | None:
        """Return the receipt of an earlier request with this number; None if there is none."""
        if request_number is None:
            return None
        return self._model.file.find_receipt(request_number)

    def preview(self, plan: DeletionPlan) -> list[Deletion]:
        """Preview the deletion of each request number of the plan, in order.

        Samples that an earlier request number of the plan would delete count as deleted for the
        later ones.
        """
        previews: list[Deletion] = []
        samples = self._model.samples()
        present_ids = samples.ids
        for request_number, planned in plan.deletions.items():
            ids = np.intersect1d(planned.ids, present_ids)
            copies = samples.find_copies_by_id(ids).samples
            copies = [copy for copy in copies if copy["id"] in present_ids]
            if plan.request.also_identical:
                ids = np.union1d(ids, np.array([copy["id"] for copy in copies], dtype=np.int64))
            present_ids = np.setdiff1d(present_ids, ids)
            preview = Deletion(
                ids=ids,
                left=len(present_ids),
                classes=samples.count_classes(samples.memory.find_rows(ids)),
                copies=copies,
                missing=planned.missing,
                patterns=list_patterns(plan.request.selectors[request_number]),
                request=request_number,
                dry_run=True,
                receipt=planned.earlier_receipt,
                when=planned.earlier_receipt.when if planned.earlier_receipt else None,
            )
            previews.append(preview)
        return previews

    def delete_samples(
        self,
        ids: np.ndarray,
        request_number: str | None,
        request: DeletionRequest,
        *,
        was_planned: bool = False,
    ) -> Deletion:
        """Delete samples, and record the deletion under its request number.

        ids: (N,) int64, ascending. request: the options; its selectors are not used. was_planned:
        whether the request had samples when it was planned. Then it is recorded even if another
        request has deleted all of them since. Otherwise, a request without samples is not recorded.
        A repeated request changes nothing, and the result has its earlier receipt.

        Raises UnknownIdsError for unknown ids, unless they are ignored or the request was carried
        out before. Raises ValueError if the request was carried out before, but some of its samples
        are in the memory.
        """
        root = self._model.manifest.source
        request_number = read_request_number(request_number)
        with self._model.file.change() as change:
            memory = change.snapshot.memory
            rows = memory.find_rows(ids)
            unknown_ids = ids[rows == NO_NEIGHBOR].tolist()
            earlier_receipt = change.find_receipt(request_number)
            if unknown_ids and not request.ignore_missing and earlier_receipt is None:
                raise UnknownIdsError(unknown_ids)
            rows = rows[rows != NO_NEIGHBOR]
            samples = Samples(change.snapshot, root)
            copies = samples.find_copies_by_row(rows)
            if request.also_identical:
                rows = np.union1d(rows, copies.rows)
            if len(rows) or was_planned or earlier_receipt is not None:
                receipt = change.delete(
                    rows, request=request_number, block_return=request.block_return
                )
            else:
                # A deletion without rows and without a number is not recorded.
                receipt = replace(change.delete(rows), request=request_number)
            labels = np.unique(memory.labels[rows])
            remaining = Samples(change.snapshot, root)
            emptied_labels = np.setdiff1d(labels, remaining.find_present(labels)).tolist()
        return Deletion(
            ids=memory.ids[rows],
            left=len(remaining.memory),
            classes=samples.count_classes(rows),
            copies=copies.samples,
            # Anyone can write a label that is not a class.
            emptied=tuple(
                remaining.classes[label] for label in emptied_labels if label in remaining.classes
            ),
            request=request_number,
            receipt=receipt,
            when=receipt.when,
        )


def require_new_number(
    request_number: str | None, earlier_receipt: Receipt | None, ids: np.ndarray
) -> None:
    """Raise ValueError if a request is repeated, but samples in the memory match it.

    earlier_receipt: None if the number is new. ids: (N,) the ids of the samples that match.
    """
    if earlier_receipt and len(ids):
        outcome = "was carried out" if earlier_receipt.sequences else "found nothing"
        raise ValueError(
            f"request {request_number!r} {outcome} on {earlier_receipt.when.isoformat()}, but its"
            f" names now stand for {pluralize(len(ids), 'sample')} in the memory, perhaps of somebody"
            f" else: ids {format_first_ten(ids.tolist())}. Nothing was changed, for other requests of"
            " the same call either. Look at them; to forget them too, send their ids with another"
            " number"
        )


def list_patterns(selectors: Sequence[Selector]) -> tuple[str, ...]:
    """Return the files that selectors name by a pattern, each once."""
    patterns = []
    for selector in selectors:
        patterns += [str(file) for file in selector.get("files", ()) if is_pattern(file)]
    return tuple(dict.fromkeys(patterns))


def resolve_selectors(
    samples: Samples, selectors: Sequence[Selector], earlier_receipt: Receipt | None
) -> tuple[np.ndarray, list[str], str]:
    """Return the ids (N,) of the samples that match any selector, in ascending order.

    earlier_receipt: the receipt if the request was carried out before. Also returns the names and
    selectors that match no sample, and a hint that suggests similar names.
    """
    hints: list[str] = []
    names_by_kind: dict[str, Any] = {}  # by kind, such as "files" or "units"
    selected_ids = [np.empty(0, dtype=np.int64)]
    missing_selectors: list[str] = []
    for selector in selectors:
        if len(selector) == 1:
            # The names of all selectors with a single kind are looked up together, below.
            [(kind, names)] = selector.items()
            names_by_kind.setdefault(kind, []).extend(names)
            continue
        # Keep the samples that match a name of each kind.
        ids = samples.ids
        for kind, names in selector.items():
            if len(ids):
                selection = samples.select(
                    **{kind: names}, ignore_missing=True, earlier_receipt=earlier_receipt
                )
                ids = np.intersect1d(ids, selection.ids)
                hints.append(selection.hint)
        selected_ids.append(ids)
        if not len(ids):
            all_names = [str(name) for names in selector.values() for name in names]
            missing_selectors.append(" and ".join(all_names))
    selection = samples.select(
        **names_by_kind, ignore_missing=True, earlier_receipt=earlier_receipt
    )
    hints.append(selection.hint)
    ids = np.unique(np.concatenate([*selected_ids, selection.ids]))
    hint = " ".join(dict.fromkeys(filter(None, hints)))
    return ids, [*selection.missing, *missing_selectors], hint

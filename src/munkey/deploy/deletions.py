"""Plan, preview, and carry out deletions.

`Predictor.delete` carries out a whole request, from its plan to its certificates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import pluralize
from munkey.core.ids import NO_NEIGHBOR
from munkey.deploy import json_format
from munkey.deploy.certificate import Certificate
from munkey.deploy.errors import UnknownNamesError, format_first_ten
from munkey.deploy.json_format import Json
from munkey.deploy.model.live_model import LiveModel
from munkey.deploy.model.samples import Samples
from munkey.deploy.model.sources import is_pattern
from munkey.memory.chain import Receipt
from munkey.memory.errors import UnknownIdsError

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
        samples that match any of its selectors.
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


class PlannedDeletion(NamedTuple):
    """The samples of one request number, as of the time of the plan.

    ids: (N,) int64, ascending. earlier_receipt: the receipt if the request was carried out before,
    otherwise None.
    """

    ids: np.ndarray
    earlier_receipt: Receipt | None


@dataclass(frozen=True)
class DeletionPlan:
    """A request, and its samples as of the time of the plan.

    deletions: by request number. missing: all names that match no sample. hint: a sentence that
    suggests similar names; may be empty.
    """

    request: DeletionRequest
    deletions: Mapping[str | None, PlannedDeletion]
    missing: Sequence[str]
    hint: str = ""


@dataclass(frozen=True)
class CertificateOrder:
    """Which deletions to certify, and how.

    salts: the salt of each certificate, by request number; requests without a salt are not
    certified. deliver: is called with each result and its certificate. include_salts: add each salt to its
    result. list_ids: list the ids in the certificates.
    """

    salts: Mapping[str | None, bytes]
    deliver: Callable[[Json, Certificate], object]
    include_salts: bool = True
    list_ids: bool = False


class Deletion(NamedTuple):
    """A deletion that was carried out.

    ids: (N,) ids of the deleted samples. copies: id and unit of each exact copy of the requested
    samples. remaining: number of samples that are still in the memory.
    """

    receipt: Receipt
    ids: np.ndarray
    copies: list[Json]
    remaining: int


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
        missing: list[str] = []
        # The missing names that raise an error unless `ignore_missing` is set.
        refused_names: list[str] = []
        hints: list[str] = []
        for request_number, selectors in request.selectors.items():
            earlier_receipt = self._find_receipt(request_number)
            ids, unknown_names, hint = resolve_selectors(samples, selectors, earlier_receipt)
            require_new_number(request_number, earlier_receipt, ids)
            deletions[request_number] = PlannedDeletion(ids, earlier_receipt)
            suffix = ""
            if len(request.selectors) > 1:
                suffix = f" (request {request_number})"
            names = [f"{name}{suffix}" for name in dict.fromkeys(unknown_names)]
            if earlier_receipt is None or not earlier_receipt.sequences:
                missing += names
            if earlier_receipt is None:
                refused_names += names
            # Give a hint for a repeated request, too. Most of its missing names were forgotten the
            # first time, but the name of a unit that is similar to an existing one may have been
            # mistyped.
            if hint:
                hints.append(hint)
        hint = " ".join(dict.fromkeys(hints))  # each hint once
        if refused_names and not request.ignore_missing:
            raise UnknownNamesError(refused_names, f"{hint} Nothing was deleted".strip())
        return DeletionPlan(request, deletions, missing, hint)

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

    def preview(self, plan: DeletionPlan) -> list[Json]:
        """Preview the deletion of each request number of the plan, in order.

        Samples that an earlier request number of the plan would delete count as deleted for the later
        ones. A result is as `munkey forget --dry-run --json` prints it. If the request was carried
        out before, the result also has the fields of that deletion.
        """
        results: list[Json] = []
        samples = self._model.samples()
        remaining_ids = samples.ids
        for request_number, deletion in plan.deletions.items():
            result, remaining_ids = _preview_deletion(
                samples, request_number, deletion, remaining_ids, plan.request.also_identical
            )
            result["patterns"] = list_patterns(plan.request.selectors[request_number])
            results.append(result)
        return results

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
        with self._model.file.change() as change:
            memory = change.snapshot.memory
            rows = memory.find_rows(ids)
            unknown_ids = ids[rows == NO_NEIGHBOR]
            earlier_receipt = change.find_receipt(request_number)
            if len(unknown_ids) and not request.ignore_missing and earlier_receipt is None:
                raise UnknownIdsError(unknown_ids.tolist())
            rows = rows[rows != NO_NEIGHBOR]
            copies = Samples(change.snapshot, root).find_copies_by_row(rows)
            identical = tuple(copy["id"] for copy in copies.samples)
            rows_and_copies = np.union1d(rows, copies.rows)
            labels = np.unique(memory.labels[rows_and_copies])
            if request.also_identical:
                rows = rows_and_copies
                identical = ()
            if len(rows) or was_planned or earlier_receipt is not None:
                receipt = change.delete(
                    rows, request=request_number, block_return=request.block_return
                )
            else:
                # A deletion without rows and without a number is not recorded.
                receipt = replace(change.delete(rows), request=request_number)
            remaining = Samples(change.snapshot, root)
            present_labels = remaining.find_present(labels)
        if not receipt.repeated:
            emptied_classes = []
            for label in np.setdiff1d(labels, present_labels).tolist():
                if label in remaining.classes:  # anyone can write a label that is not a class
                    emptied_classes.append(remaining.classes[label])
            receipt = replace(receipt, identical=identical, emptied=tuple(emptied_classes))
        return Deletion(receipt, memory.ids[rows], copies.samples, len(remaining.memory))


def _preview_deletion(
    samples: Samples,
    request_number: str | None,
    deletion: PlannedDeletion,
    present_ids: np.ndarray,
    also_identical: bool,
) -> tuple[Json, np.ndarray]:
    """Preview the deletion of a request from the present samples, without deleting anything.

    present_ids: (N,) int64, ascending. also_identical: also delete exact copies. Returns the
    result, and the ids of the samples that would remain.
    """
    ids = np.intersect1d(deletion.ids, present_ids)
    all_copies = samples.find_copies_by_id(ids).samples
    copies = [copy for copy in all_copies if copy["id"] in present_ids]
    copy_ids: list[int] = [copy["id"] for copy in copies]
    if also_identical:
        ids = np.union1d(ids, np.array(copy_ids, dtype=np.int64))
        remaining_copy_ids = []
    else:
        remaining_copy_ids = copy_ids
    remaining_ids = np.setdiff1d(present_ids, ids)
    result: Json = {
        "request": request_number,
        "would_delete": ids.tolist(),
        "classes": samples.select(ids=ids).classes,
        "identical": remaining_copy_ids,
        "copies": copies,
        "left": len(remaining_ids),
        "found_nothing": not len(ids),
    }
    if deletion.earlier_receipt:
        result |= json_format.format_deletion(deletion.earlier_receipt)
    return result, remaining_ids


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


def list_patterns(selectors: Sequence[Selector]) -> list[str]:
    """Return the files that selectors name by a pattern, each once."""
    patterns = []
    for selector in selectors:
        patterns += [str(file) for file in selector.get("files", ()) if is_pattern(file)]
    return list(dict.fromkeys(patterns))


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

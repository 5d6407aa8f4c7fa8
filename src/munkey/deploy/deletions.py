"""Requests to forget: what they name and what they come to. `Predictor.delete` carries them out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import counted
from munkey.deploy import json_answers
from munkey.deploy.certificate import Certificate
from munkey.deploy.errors import UnknownNamesError
from munkey.deploy.json_answers import Json
from munkey.deploy.model.samples import MOST_ASKED, SIMILAR, Samples
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.store import Store

# names of samples, as `Predictor.select` takes them; meant are those with all of them
Line = Mapping[str, Any]


@dataclass(frozen=True)
class DeletionRequest:
    """What is to be forgotten, and how.

    lines: by the number that a request is asked under (None: it has none), its lines; meant are the samples of any of
    them. ignore_missing: pass over names that no sample has. also_identical: forget exact copies too. similar: look for
    look-alikes of at least this cosine, None: of 0.95, 0: of none; also_similar: forget them too. block_return: refuse
    to `add` the same pictures from now on.
    """

    lines: Mapping[str | None, Sequence[Line]]
    ignore_missing: bool = False
    also_identical: bool = False
    similar: float | None = 0
    also_similar: bool = False
    block_return: bool = False


class PlannedDeletion(NamedTuple):
    """What one of the requests comes to. ids: that it means, (N,) int64; earlier: its receipt if it was carried out
    before; look_alikes: of its answer, `similar`: above, samples with id, cosine and unit, nearest first, and `also`.
    """

    ids: np.ndarray
    earlier: Receipt | None
    look_alikes: Json


@dataclass(frozen=True)
class DeletionPlan:
    """What a request comes to, as of the moment when it was looked up. missing: all names that no sample has.

    hint: which names are near those, in words.
    """

    request: DeletionRequest
    deletions: Mapping[str | None, PlannedDeletion]
    missing: Sequence[str]
    hint: str = ""


@dataclass(frozen=True)
class CertificateOrder:
    """Which deletions are certified. salts: by the number of their requests; deliver: is given each answer with its
    certificate; tell_salts: the answers hold the salts; list_ids: the certificates hold the ids.
    """

    salts: Mapping[str | None, bytes]
    deliver: Callable[[Json, Certificate], object]
    tell_salts: bool = True
    list_ids: bool = False


def planned(store: Store, samples: Samples, request: DeletionRequest) -> DeletionPlan:
    """As `Predictor.plan`."""
    plans: dict[str | None, PlannedDeletion] = {}
    missing: list[str] = []
    refused: list[str] = []  # unless they are passed over
    hints: list[str] = []
    for number, lines in request.lines.items():
        ids, unknown, hint = _meant(samples, lines)
        earlier = None if number is None else store.receipt(number)
        require_new(number, earlier, len(ids))
        plans[number] = PlannedDeletion(ids, earlier, {})
        tied = f" (request {number})" if len(request.lines) > 1 else ""
        names = [f"{name}{tied}" for name in dict.fromkeys(unknown)]
        missing += names if earlier is None or not earlier.sequences else []
        refused += names if earlier is None else []
        # Also of a request that was carried out: of its names that are not held now, most were
        # forgotten then, but one that is near a held name may have been mistyped.
        if hint:
            hints.append(hint)
    hint = " ".join(dict.fromkeys(hints))
    if refused and not request.ignore_missing:
        raise UnknownNamesError(refused, hint)
    if request.similar != 0 or request.also_similar:
        plans = {
            number: _with_look_alikes(samples, plan, request) for number, plan in plans.items()
        }
    return DeletionPlan(request, plans, missing, hint)


def require_new(number: str | None, earlier: Receipt | None, count: int) -> None:
    """Raises ValueError for a request that was carried out before and names samples that the memory holds."""
    if earlier and count:
        what = "was carried out" if earlier.sequences else "found nothing"
        done = f"request {number!r} {what} on {earlier.when.isoformat()}"
        still = f"names {counted(count, 'sample')} that the memory holds"
        raise ValueError(
            f"{done}, and {still}; give this deletion another number. Nothing was changed,"
            " for other requests of the same call either"
        )


def _meant(samples: Samples, lines: Sequence[Line]) -> tuple[np.ndarray, list[str], str]:
    """The ids (N,) that any of the lines means, the names and lines that mean none, and which names are near."""
    hints: list[str] = []
    together: dict[str, Any] = {}  # of lines with one kind of name: looked up at once
    found, missing = [np.empty(0, dtype=np.int64)], []
    for line in lines:
        if len(line) == 1:
            [(kind, names)] = line.items()
            together.setdefault(kind, []).extend(names)
            continue
        both = samples.ids
        for kind, names in line.items():
            if len(both):  # else nothing more need be looked up
                selection = samples.select(**{kind: names}, ignore_missing=True)
                both = np.intersect1d(both, selection.ids)
                hints.append(selection.hint)
        found.append(both)
        if not len(both):
            missing.append(" and ".join(str(name) for names in line.values() for name in names))
    selection = samples.select(**together, ignore_missing=True)
    hint = " ".join(dict.fromkeys(each for each in [*hints, selection.hint] if each))
    return np.unique(np.concatenate([*found, selection.ids])), [*selection.missing, *missing], hint


def _with_look_alikes(
    samples: Samples, plan: PlannedDeletion, request: DeletionRequest
) -> PlannedDeletion:
    """The plan with the other samples that look like one of its own, which it means too where they go as well.

    Of a request that was carried out before or means more than 1,000 samples there are none. Raises ValueError for so
    many where they were to go, and for what is not a cosine.
    """
    if (
        plan.earlier
        or not len(plan.ids)
        or (len(plan.ids) > MOST_ASKED and not request.also_similar)
    ):
        return plan
    above = SIMILAR if request.similar is None else request.similar
    cosines = samples.similar(plan.ids, above)
    similar_ids = np.array(list(cosines), dtype=np.int64)
    units = samples.units_of(similar_ids)
    near = [
        {"id": one, "cosine": round(cosine, 4), "unit": units.get(one)}
        for one, cosine in cosines.items()
    ]
    ids = np.union1d(plan.ids, similar_ids) if request.also_similar else plan.ids
    return PlannedDeletion(
        ids, None, {"similar": {"above": above, "also": request.also_similar, "samples": near}}
    )


def previewed(samples: Samples, plan: DeletionPlan) -> list[Json]:
    """As `Predictor.preview`."""
    answers = []
    left = samples.ids
    for number, deletion in plan.deletions.items():
        ids = np.intersect1d(deletion.ids, left)
        copies = [copy for copy in samples.copies_of(ids) if copy["id"] in left]
        twins = np.array([copy["id"] for copy in copies], dtype=np.int64)
        if plan.request.also_identical:
            ids, twins = np.union1d(ids, twins), twins[:0]
        left = np.setdiff1d(left, ids)
        answer = {
            "request": number,
            "would_delete": ids.tolist(),
            "classes": samples.select(ids=ids).classes,
        }
        answer |= {"identical": twins.tolist(), "copies": copies, "left": len(left)}
        answer["found_nothing"] = not len(ids)
        answers.append(
            answer | json_answers.forgotten(deletion.earlier) if deletion.earlier else answer
        )
    return answers

"""Requests to forget, from the command or over HTTP: what they mean, a preview, the deletions, their certificates."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from munkey.core.console import counted
from munkey.deploy import certificate, json_answers
from munkey.deploy.certificate import Certificate
from munkey.deploy.errors import UnknownNamesError
from munkey.deploy.json_answers import Json
from munkey.deploy.predictor import MOST_ASKED, SIMILAR, Predictor
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.errors import LockedMemoryError

Line = Mapping[str, Any]  # names of samples, as `Predictor.select` takes them; meant are those with all of them


class RequestPlan(NamedTuple):
    """What a request comes to. ids: that it means, (N,) int64; earlier: its receipt if it was carried out before."""

    ids: np.ndarray
    earlier: Receipt | None


Plans = dict[str | None, RequestPlan]  # by the number of the request


def planned(
    model: Predictor, requests: Mapping[str | None, Sequence[Line]], *, ignore_missing: bool
) -> tuple[Plans, list[str]]:
    """What each request comes to, that is the samples of any of its lines; and all that is named and not there.

    Raises UnknownNamesError where anything is not there, unless `ignore_missing`; ValueError for a request that was
    carried out before and names samples that the memory holds.
    """
    plans: Plans = {}
    missing: list[str] = []
    for number, lines in requests.items():
        ids, unknown = _meant(model, lines)
        earlier = None if number is None else model.store.receipt(number)
        if earlier and len(ids):
            done = f"request {number!r} was carried out on {earlier.when.isoformat()}"
            still = f"names {counted(len(ids), 'sample')} that the memory holds"
            raise ValueError(f"{done}, and {still}; give this deletion another number")
        plans[number] = RequestPlan(ids, earlier)
        tied = f" (request {number})" if len(requests) > 1 else ""
        missing += [] if earlier else [f"{name}{tied}" for name in dict.fromkeys(unknown)]
    if missing and not ignore_missing:
        raise UnknownNamesError(missing)
    return plans, missing


def _meant(model: Predictor, lines: Sequence[Line]) -> tuple[np.ndarray, list[str]]:
    """The ids (N,) that any of the lines means, and the names and lines that mean none."""
    together: dict[str, Any] = {}  # of lines with one kind of name: looked up at once
    found, missing = [np.empty(0, dtype=np.int64)], []
    for line in lines:
        if len(line) == 1:
            [(kind, names)] = line.items()
            together.setdefault(kind, []).extend(names)
            continue
        both = model.ids
        for kind, names in line.items():
            if len(both):  # else nothing more need be looked up
                both = np.intersect1d(both, model.select(**{kind: names}, ignore_missing=True).ids)
        found.append(both)
        if not len(both):
            missing.append(" and ".join(str(name) for names in line.values() for name in names))
    selection = model.select(**together, ignore_missing=True)
    return np.unique(np.concatenate([*found, selection.ids])), [*selection.missing, *missing]


def _copies(model: Predictor, ids: np.ndarray) -> list[Json]:
    """Other samples that are exact copies of these (N,), by ascending id, each with its unit."""
    view = model.store.view
    rows = model.store.twins_of(np.flatnonzero(view.live & np.isin(view.ids, ids)))
    rows = rows[np.argsort(view.ids[rows])]
    sources = model.store.sources_of(rows)
    return [{"id": one, "unit": unit} for one, (_, unit) in zip(view.ids[rows].tolist(), sources, strict=True)]


def _units(model: Predictor, ids: np.ndarray) -> dict[int, str | None]:
    """The units of samples that the memory holds, by id."""
    view = model.store.view
    rows = np.flatnonzero(view.live & np.isin(view.ids, ids))
    sources = model.store.sources_of(rows)
    return {one: unit for one, (_, unit) in zip(view.ids[rows].tolist(), sources, strict=True)}


def with_look_alikes(
    model: Predictor, plans: Plans, above: float | None, *, also: bool
) -> tuple[Plans, dict[str | None, Json]]:
    """Of each request, the other samples that look like one of its own: at least this cosine of keys; None: 0.95; 0,
    unless `also`: nobody looks.

    also: the plans that come back mean them, too. Each answer has `similar`: above, samples with id, cosine and unit,
    nearest first, and `also`; of requests that were carried out before or mean more than 1,000 samples there is none.
    Raises ValueError for so many where `also`, and for what is no cosine.
    """
    answers, wider, above = dict[str | None, Json](), dict(plans), SIMILAR if above is None else above
    for number, plan in plans.items() if above or also else ():
        if plan.earlier or not len(plan.ids) or (len(plan.ids) > MOST_ASKED and not also):
            continue
        cosines = model.similar(plan.ids, above=above)
        units = _units(model, np.array(list(cosines), dtype=np.int64))
        samples = [{"id": one, "cosine": round(cosine, 4), "unit": units[one]} for one, cosine in cosines.items()]
        answers[number] = {"similar": {"above": above, "also": also, "samples": samples}}
        if also:
            wider[number] = plan._replace(ids=np.union1d(plan.ids, np.array(list(cosines), dtype=np.int64)))
    return wider, answers


def preview(model: Predictor, plans: Plans, *, also_identical: bool) -> list[Json]:
    """What each request would forget; of one that was carried out before, also what `carry_out` answers."""
    answers, left = [], model.ids
    for number, plan in plans.items():
        ids = np.intersect1d(plan.ids, left)
        copies = [copy for copy in _copies(model, ids) if copy["id"] in left]
        twins = np.array([copy["id"] for copy in copies], dtype=np.int64)
        if also_identical:
            ids, twins = np.union1d(ids, twins), twins[:0]
        left = np.setdiff1d(left, ids)
        answer = {"request": number, "would_delete": ids.tolist(), "classes": model.select(ids=ids).classes}
        answer |= {"identical": twins.tolist(), "copies": copies, "left": len(left)}
        answers.append(answer | json_answers.forgotten(plan.earlier) if plan.earlier else answer)
    return answers


def carry_out(
    model: Predictor,
    plans: Plans,
    salts: Mapping[str | None, bytes],
    done: list[Json],
    *,
    tell_salts: bool = True,
    list_ids: bool = False,
    **how: bool,
) -> Iterator[tuple[Json, Certificate]]:
    """Forget, request by request; each answer is put into `done` at once. Then purge and certify what was deleted.

    salts: of the requests that want a certificate. how: as for `Predictor.forget`. Yields these answers with their
    certificates. Where the purge could not finish, or files stay that are not the memory's, the answers say `unpurged`.
    """
    certified = []
    for number, plan in plans.items():
        held = model.ids
        copies = _copies(model, np.intersect1d(plan.ids, held))
        receipt = model.forget(plan.ids, ignore_missing=True, request=number, **how)
        done.append(json_answers.forgotten(receipt) | {"copies": copies})
        done[-1]["left"] = len(left := model.ids)
        if not receipt.sequences:
            done[-1]["why"] = "the memory held none of these samples (any more): `log` lists earlier requests"
        if number in salts and receipt.sequences and not receipt.repeated:
            done[-1] |= {"salt": salts[number].hex()} if tell_salts else {}
            certified.append((done[-1], receipt, np.setdiff1d(held, left).tolist(), salts[number]))
    unpurged = ""
    if certified:
        try:
            if foreign := model.purge():
                unpurged = f"purged, but not part of the memory, so not looked at: {', '.join(foreign)}"
        except LockedMemoryError as error:
            unpurged = f"{error}; until then, names of source files and units may be left in it"
        for answer in done:
            answer.update({"unpurged": unpurged} if unpurged else {"purged": True})
    exact = model.digests() if certified else None
    for answer, receipt, ids, salt in certified:
        made = certificate.certify(model.store, receipt, live=answer["left"], purged=not unpurged, exact=exact)
        yield answer, certificate.naming(made, ids, salt, listed=list_ids)

"""What `munkey forget` does with requests: plan them all, then preview them, or carry out, purge and certify them."""

import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from munkey.cli.arguments import Line, require_certificate, require_outside, salt_of
from munkey.cli.output import working
from munkey.core.console import counted
from munkey.deploy import certificate, json_answers
from munkey.deploy.errors import first_ten
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.errors import LockedMemoryError

Json = dict[str, Any]


class RequestPlan(NamedTuple):
    """What a request comes to. ids: that it means, (N,) int64; file, salt_file: of its certificate and its salt."""

    ids: np.ndarray
    file: Path | None = None
    salt_file: Path | None = None


Plans = Mapping[str | None, RequestPlan]  # by the number of the request


def planned(
    predictor: Predictor, requests: Mapping[str | None, Sequence[Line]], file: Path | None, salt_file: Path | None
) -> tuple[Plans, list[str]]:
    """What each request comes to, and all that is named and not there. One that was carried out before means no ids.

    file, salt_file: as in a plan, with {request} for its number. Raises ValueError where these lie in the model or
    exist, and for a request that was carried out and names samples that the memory holds.
    """
    plans: dict[str | None, RequestPlan] = {}
    missing: list[str] = []
    for number, lines in requests.items():
        ids, unknown = _meant(predictor, lines)
        if number is not None and (earlier := predictor.store.receipt(number)):
            if len(ids):
                said = (
                    f"and names {counted(len(ids), 'sample')} that the memory holds; give this deletion another number"
                )
                raise ValueError(f"request {number!r} was carried out on {earlier.when.isoformat()}, {said}")
            plans[number] = RequestPlan(ids)
            continue
        missing += unknown
        name = (number or "").replace("/", "-")
        own = [one and Path(str(one).replace("{request}", name)) for one in (file, salt_file)]
        plans[number] = RequestPlan(ids, *own)
        for one in filter(None, own):
            require_outside(predictor.directory, one)
        if own[0]:
            require_certificate(predictor.directory, own[0])
    files = [one for plan in plans.values() for one in plan[1:] if one]
    if len(set(files)) < len(files):
        raise ValueError("each certificate and salt needs a file of its own: put {request} into its name")
    return plans, missing


def _meant(predictor: Predictor, lines: Sequence[Line]) -> tuple[np.ndarray, list[str]]:
    """The ids (N,) that any of the lines means, and the names and lines that mean none."""
    together: Line = {}  # of lines with one kind of name: looked up at once
    found: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
    missing: list[str] = []
    for line in lines:
        if len(line) == 1:
            [(kind, names)] = line.items()
            together.setdefault(kind, []).extend(names)
            continue
        both = predictor.ids
        for kind, names in line.items():
            if len(both):  # else nothing more need be looked up
                both = np.intersect1d(both, predictor.select(**{kind: names}, ignore_missing=True).ids)
        found.append(both)
        if not len(both):
            missing.append(" and ".join(str(name) for names in line.values() for name in names))
    selection = predictor.select(**together, ignore_missing=True)
    return np.unique(np.concatenate([*found, selection.ids])), [*selection.missing, *missing]


def preview(predictor: Predictor, plans: Plans, also_identical: bool) -> list[Json]:
    """What each request would forget."""
    answers, view, left = [], predictor.store.view, predictor.ids
    for number, plan in plans.items():
        ids = np.intersect1d(plan.ids, left)
        twins = view.ids[predictor.store.twins_of(np.flatnonzero(view.live & np.isin(view.ids, ids)))]
        if also_identical:
            ids, twins = np.union1d(ids, twins), twins[:0]
        left = np.setdiff1d(left, ids)
        answer = {"request": number, "would_delete": ids.tolist(), "classes": predictor.select(ids=ids).classes}
        answers.append(answer | {"identical": np.sort(twins).tolist(), "left": len(left)})
        if plan.file:
            answers[-1]["certificate"] = str(plan.file) if len(ids) else None
    return answers


def carry_out(predictor: Predictor, plans: Plans, list_ids: bool, how: Mapping[str, bool], done: list[Json]) -> None:
    """Forget, request by request; what was done is put into `done` at once. Then purge, and write certificates.

    Where a reader is in the way of the purge, zeros are on the disk, but names of source files may stay.
    """
    salts = {
        number: salt_of(None, plan.salt_file, new=True) if plan.salt_file else secrets.token_bytes(16)
        for number, plan in plans.items()
        if plan.file and len(plan.ids)
    }
    certified = []
    for number, plan in plans.items():
        before, held = certificate.snapshot(predictor.store), predictor.ids
        with working("forgetting"):
            receipt = predictor.forget(plan.ids, ignore_missing=True, request=number, **how)
        done.append(json_answers.forgotten(receipt))
        done[-1]["left"] = len(left := predictor.ids)
        if number in salts and receipt.sequences:
            done[-1] |= {} if plan.salt_file else {"salt": salts[number].hex()}
            certified.append((number, done[-1], receipt, before, np.setdiff1d(held, left)))
        elif plan.file:
            done[-1]["certificate"] = None
    if certified:
        try:
            foreign = predictor.store.purge()
            for answer in done:
                answer["purged"] = not foreign
            if foreign:
                said = "purged, but not part of the memory, so not looked at"
                print(f"munkey: {said}: {', '.join(foreign)}", file=sys.stderr)
        except LockedMemoryError as error:
            print(f"munkey: {error}; until then, names of source files may be left in it", file=sys.stderr)
    for number, answer, receipt, before, deleted in certified:
        made = certificate.certify(predictor.store, receipt, before, purged=answer["purged"])
        made = certificate.naming(made, deleted.tolist(), salts[number], listed=list_ids)
        file = str(plans[number].file)
        answer |= {"page": str(certificate.write_certificate(made, file)), "certificate": file}


def worded(answer: Json) -> str:
    """What was done for a request, or would be."""
    name = f"request {answer['request']}: " if answer["request"] else ""
    if answer.get("repeated"):
        return f"{name}carried out on {answer['when']}, so nothing was changed"
    if dry_run := "would_delete" in answer:
        classes = ", ".join(f"{each} {count:,}" for each, count in answer["classes"].items())
        said = f"would forget {counted(len(answer['would_delete']), 'sample')}{classes and f' ({classes})'} and keep"
        lines = [f"{name}{said} {answer['left']:,}"]
    else:
        numbers = f"; numbers {answer['first']} to {answer['last']} of the chain" if answer["deleted"] else ""
        lines = [f"{name}forgot {counted(answer['deleted'], 'sample')}, {answer['left']:,} left{numbers}"]
    if twins := answer["identical"]:
        lines.append(f"exact copies of these stay: ids {first_ten(twins)}; --also-identical forgets them too")
    if emptied := answer.get("emptied"):
        lines.append(f"no sample is left of {first_ten(emptied)}; `predict --only-held-classes` never answers it")
    if "certificate" in answer:
        file = answer["certificate"]
        place = f"would be written to {file}" if dry_run else f"{file}; readable page: {answer.get('page')}"
        lines.append(f"certificate: {place if file else 'none, since there is nothing to delete'}")
    if "salt" in answer:
        lines.append(f"salt of its ids, stored in no file: {answer['salt']}")
    return "\n".join(lines)

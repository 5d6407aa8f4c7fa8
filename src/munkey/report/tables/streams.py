"""Requests one after another: accuracy, seconds, and the residual share of each earlier request."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from typing_extensions import TypedDict

from munkey.audits.attacks.residual_share import contrasts, differences_of, ratio
from munkey.audits.evidence import Halves, Pairs
from munkey.audits.margins import margins
from munkey.core.diverged import DIVERGED
from munkey.core.files import read_json, read_npz
from munkey.report.tables.audits import RESIDUE
from munkey.report.tables.markup import ABSENT, Titled, plus_minus, two_digits

CURVES = ["name", "title", "seed", "RA", "TA", "done", "seconds"]
SHARES = ["name", "title", "done", "request", "share", "share_low", "share_high"]
EVERY = 0  # in place of the number of a request: all that have been forgotten so far


class StreamedSystem(TypedDict):
    """A system as the plan lists it (munkey.experiment.plan.streams). logits, records: files, a model each."""

    name: str
    title: str
    stored: str
    logits: list[str]
    records: list[str]


class Found(NamedTuple):
    """curves: name, title, seed, done, seconds, RA, TA. shares: name, title, done, request (EVERY: of all so far), and
    share, share_low, share_high: the residual share, percent, with its interval over pairs. diverged: by name, which
    seeds did, why.
    """

    curves: pd.DataFrame
    shares: pd.DataFrame
    diverged: Mapping[str, str] = {}


def findings(systems: Sequence[StreamedSystem]) -> Found:
    """Read the files of all systems. An oracle, which never saw what was deleted, has no shares.

    Of a system of which a model diverged there are neither.
    """
    gone: dict[str, str] = {}
    curves: list[dict[str, object]] = []
    shares: list[dict[str, object]] = []
    for system in systems:
        key = {"name": system["name"], "title": system["title"]}
        records = [read_json(file) for file in system["records"]]
        reasons = [
            f"seed {seed}: {record[DIVERGED]}"
            for seed, record in enumerate(records)
            if DIVERGED in record
        ]
        if reasons:
            gone[system["name"]] = "; ".join(reasons)
            continue
        for seed, record in enumerate(records):
            curves += [key | {"seed": seed} | moment for moment in record["moments"]]
        arrays = [read_npz(file) for file in system["logits"]]
        if not arrays[0]["done"][0]:
            shares += [key | line for line in shares_of_requests(arrays)]
    return Found(pd.DataFrame(curves, columns=CURVES), pd.DataFrame(shares, columns=SHARES), gone)


def shares_of_requests(models: Sequence[dict[str, np.ndarray]]) -> Iterator[dict[str, object]]:
    """A line for each request after it and after each later one: what is left, as `residual_share` measures it.

    models: arrays of `munkey.jobs.relearn.stream`, seeds 2p and 2p + 1 a pair. The partner has had as many requests,
    so what these do to everything else cancels.
    """
    deleted = np.stack([arrays["request"] > 0 for arrays in models])
    absent = deleted.reshape(-1, 2, deleted.shape[1])[:, ::-1].reshape(deleted.shape)
    halves = Halves(deleted, absent, models[0]["splits"] == "test")
    first = halves.first
    numbers = np.stack([arrays["request"][halves.pool] for arrays in models])
    request = np.where(first, numbers[::2], numbers[1::2])  # (P, n)
    phi = [
        np.stack([margins(arrays["logits"][at], arrays["labels"]) for arrays in models])
        for at in models[0]["done"]
    ]
    before, *after = (differences_of(Pairs(each, halves).scores, first) for each in phi)
    for done, apart in enumerate(after, 1):
        for number in (EVERY, *range(1, done + 1)):
            is_counted = (request <= done) if number == EVERY else request == number
            contrast = contrasts(apart, first, is_counted)
            nothing = contrasts(before, first, is_counted)
            share = ratio(contrast, nothing, paired=True)
            yield {
                "done": done,
                "request": number,
                "share": share.value,
                "share_low": share.low,
                "share_high": share.high,
            }


def stream_tables(found: Found, systems: Sequence[StreamedSystem], dataset: str) -> list[Titled]:
    """The summary, and for each method a triangle: the residual share of each request after it and after later ones."""
    curves = found.curves
    last = int(curves["done"].max()) if len(curves) else 0
    milestones = dict.fromkeys((0, 1, (last + 1) // 2, last))
    lines: list[dict[str, object]] = []
    for system in systems:
        if system["name"] in found.diverged:
            lines.append(
                {"Method": system["title"], RESIDUE: DIVERGED, "Must be kept": system["stored"]}
            )
            continue
        curve = curves[curves["name"] == system["name"]]
        shares = found.shares[found.shares["name"] == system["name"]]
        shares = shares.set_index(["done", "request"])
        seconds = curve[curve["done"] > 0].groupby("seed")["seconds"]
        cells: dict[str, object] = {"Method": system["title"]}
        for done in milestones:
            cells[f"TA after {done}"] = _mean(curve, "TA", done)
        cells[f"RA after {last}"] = _mean(curve, "RA", last)
        cells["Request [s]"] = two_digits(seconds.median().mean())
        cells["In all [s]"] = ABSENT if shares.empty else two_digits(seconds.sum().mean())
        cells[RESIDUE] = _share(shares, last, EVERY)
        cells[f"{RESIDUE}, first request, at once"] = _share(shares, 1, 1)
        cells[f"{RESIDUE}, first request, in the end"] = _share(shares, last, 1)
        cells["Must be kept"] = system["stored"]
        lines.append(cells)
    titles = {system["name"]: system["title"] for system in systems}
    reasons = [f"{titles[name]}, {why}" for name, why in found.diverged.items()]
    remark = f"Diverged: {'. '.join(reasons)}." if reasons else ""
    pairs = len(systems[0]["records"]) // 2
    title = f"{dataset}: {last} requests one after another; mean over {2 * pairs} models, [95 % over {pairs} pairs]"
    return [Titled(title, pd.DataFrame(lines).fillna(ABSENT), remark), *_triangles(found.shares)]


def _triangles(shares: pd.DataFrame) -> Iterator[Titled]:
    for title, part in shares[shares["request"] != EVERY].groupby("title", sort=False):
        wide = part.pivot(index="request", columns="done", values="share")
        cells = wide.map(lambda value: "" if pd.isna(value) else f"{value:.0f}")
        cells.columns = [f"after {done}" for done in cells.columns]
        yield Titled(
            f"{title}: residual share of each request [%]",
            cells.reset_index().rename(columns={"request": "Request"}),
        )


def _mean(curve: pd.DataFrame, metric: str, done: int) -> str:
    values = curve.loc[curve["done"] == done, metric]
    return plus_minus(values.mean(), values.std()) if len(values) else ABSENT


def _share(shares: pd.DataFrame, done: int, request: int) -> str:
    if shares.empty:  # of an oracle
        return ABSENT
    line = shares.xs((done, request))[["share", "share_low", "share_high"]].astype(float)
    value, low, high = (f"{one:.0f}".replace("inf", "∞") for one in (line + 0.0).round())
    return f"{value} [{low}, {high}]"

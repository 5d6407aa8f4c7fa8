"""Requests one after another: accuracy, seconds, and the residual share of each earlier request."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from typing_extensions import TypedDict

from munkey.audits.attacks.residual_share import (
    compute_contrasts,
    compute_differences,
    estimate_ratio,
)
from munkey.audits.evidence import Halves, Pairs, swap_partners
from munkey.audits.margins import compute_margins
from munkey.core.diverged import DIVERGED
from munkey.core.files import read_json, read_npz
from munkey.report.tables.audits import RESIDUE
from munkey.report.tables.markup import (
    ABSENT,
    TitledTable,
    diverged_remark,
    format_plus_minus,
    format_two_digits,
)

CURVES = ["name", "title", "seed", "RA", "TA", "done", "seconds"]
SHARES = ["name", "title", "done", "request", "share", "share_low", "share_high"]
ALL_REQUESTS = 0  # in place of a request's number: all samples that were forgotten so far


class StreamedSystem(TypedDict):
    """A system, as `munkey.experiment.plan.streams` lists it.

    Attributes
    ----------
    logits, records
        The files of each model.
    """

    name: str
    title: str
    stored: str
    logits: list[str]
    records: list[str]


class StreamFindings(NamedTuple):
    """The findings on all systems.

    Attributes
    ----------
    curves
        A table with the columns name, title, seed, RA, TA, done (the number of requests so far) and
        seconds.
    shares
        A table with the columns name, title, done, request (or ALL_REQUESTS), and the residual share
        in percent with its interval over pairs: share, share_low and share_high.
    diverged
        The seeds that diverged and the reasons, by the system's name.
    """

    curves: pd.DataFrame
    shares: pd.DataFrame
    diverged: Mapping[str, str] = {}


def compute_findings(systems: Sequence[StreamedSystem]) -> StreamFindings:
    """Read the files of all systems, and compute their residual shares.

    An oracle never saw the deleted samples, so it has no shares. A system with a diverged model has
    no curves either.
    """
    diverged: dict[str, str] = {}
    curves: list[dict[str, object]] = []
    shares: list[dict[str, object]] = []
    for system in systems:
        key = {"name": system["name"], "title": system["title"]}
        records = list(map(read_json, system["records"]))
        reasons = []
        for seed, record in enumerate(records):
            if DIVERGED in record:
                reasons.append(f"seed {seed}: {record[DIVERGED]}")
        if reasons:
            diverged[system["name"]] = "; ".join(reasons)
            continue
        for seed, record in enumerate(records):
            for moment in record["moments"]:
                curves.append({**key, "seed": seed, **moment})
        arrays = list(map(read_npz, system["logits"]))
        is_oracle = arrays[0]["done"][0] > 0  # an oracle has no logits before the first request
        if not is_oracle:
            for row in compute_shares(arrays):
                shares.append({**key, **row})
    return StreamFindings(
        pd.DataFrame(curves, columns=CURVES), pd.DataFrame(shares, columns=SHARES), diverged
    )


def compute_shares(models: Sequence[dict[str, np.ndarray]]) -> Iterator[dict[str, object]]:
    """Yield the residual share of each request's samples, after this and after each later request.

    Shares are computed in pairs of models, which never saw the samples that the other one deletes.
    Both have carried out equally many requests, so the effects on all other samples cancel.

    Parameters
    ----------
    models
        The arrays that `munkey.jobs.relearn.stream` writes; those of seeds 2p and 2p + 1 are a pair.
    """
    requests = np.stack([arrays["request"] for arrays in models])  # (2P, N); 0 if not deleted
    deleted = requests > 0
    absent = swap_partners(deleted)
    halves = Halves(deleted, absent, models[0]["splits"] == "test")
    first = halves.first
    in_pool = requests[:, halves.pool]
    request = np.where(first, in_pool[::2], in_pool[1::2])  # (P, n)
    differences = []  # by the number of requests so far
    for done in models[0]["done"]:
        margins = []
        for arrays in models:
            margins.append(compute_margins(arrays["logits"][done], arrays["labels"]))
        scores = Pairs(np.stack(margins), halves).scores
        differences.append(compute_differences(scores, first))
    before = differences[0]
    for done, after in enumerate(differences[1:], 1):
        for number in (ALL_REQUESTS, *range(1, done + 1)):
            if number == ALL_REQUESTS:
                is_counted = request <= done
            else:
                is_counted = request == number
            contrast = compute_contrasts(after, first, is_counted)
            nothing = compute_contrasts(before, first, is_counted)
            share = estimate_ratio(contrast, nothing, paired=True)
            yield {
                "done": done,
                "request": number,
                "share": share.value,
                "share_low": share.low,
                "share_high": share.high,
            }


def make_tables(
    results: StreamFindings, systems: Sequence[StreamedSystem], dataset: str
) -> list[TitledTable]:
    """Make a summary of all systems, and for each method a table of its residual shares.

    The latter has a row per request, with its share after this and after each later request.
    """
    curves = results.curves
    last = 0
    if len(curves):
        last = int(curves["done"].max())
    milestones = dict.fromkeys((0, 1, (last + 1) // 2, last))
    rows: list[dict[str, object]] = []
    for system in systems:
        if system["name"] in results.diverged:
            rows.append(
                {"Method": system["title"], RESIDUE: DIVERGED, "Must be kept": system["stored"]}
            )
            continue
        curve = curves[curves["name"] == system["name"]]
        shares = results.shares[results.shares["name"] == system["name"]]
        shares = shares.set_index(["done", "request"])
        seconds = curve[curve["done"] > 0].groupby("seed")["seconds"]
        cells: dict[str, object] = {"Method": system["title"]}
        for done in milestones:
            cells[f"TA after {done}"] = _format_mean(curve, "TA", done)
        cells[f"RA after {last}"] = _format_mean(curve, "RA", last)
        cells["Request [s]"] = format_two_digits(seconds.median().mean())
        cells["In all [s]"] = format_two_digits(seconds.sum().mean())
        if shares.empty:
            cells["In all [s]"] = ABSENT
        cells[RESIDUE] = _format_share(shares, last, ALL_REQUESTS)
        cells[f"{RESIDUE}, first request, at once"] = _format_share(shares, 1, 1)
        cells[f"{RESIDUE}, first request, in the end"] = _format_share(shares, last, 1)
        cells["Must be kept"] = system["stored"]
        rows.append(cells)
    titles = {system["name"]: system["title"] for system in systems}
    reasons = [f"{titles[name]}, {why}" for name, why in results.diverged.items()]
    remark = diverged_remark(reasons)
    pairs = len(systems[0]["records"]) // 2
    basis = f"mean over {2 * pairs} models, [95 % over {pairs} pairs]"
    title = f"{dataset}: {last} requests one after another; {basis}"
    return [
        TitledTable(title, pd.DataFrame(rows).fillna(ABSENT), remark),
        *_make_triangles(results.shares),
    ]


def _make_triangles(shares: pd.DataFrame) -> Iterator[TitledTable]:
    """Yield a table per method, with a row per request and a column per number of requests so far."""
    for title, part in shares[shares["request"] != ALL_REQUESTS].groupby("title", sort=False):
        wide = part.pivot(index="request", columns="done", values="share")
        cells = wide.map("{:.0f}".format, na_action="ignore").fillna("").add_prefix("after ")
        frame = cells.reset_index().rename(columns={"request": "Request"})
        yield TitledTable(f"{title}: residual share of each request [%]", frame)


def _format_mean(curve: pd.DataFrame, metric: str, done: int) -> str:
    values = curve.loc[curve["done"] == done, metric]
    if values.empty:
        return ABSENT
    return format_plus_minus(values.mean(), values.std())


def _format_share(shares: pd.DataFrame, done: int, request: int) -> str:
    """Format the share of a request after `done` requests, with its interval, in whole percent."""
    if shares.empty:  # for an oracle
        return ABSENT
    row = shares.xs((done, request))[["share", "share_low", "share_high"]].astype(float)
    value, low, high = (row + 0.0).round()
    return f"{value:.0f} [{low:.0f}, {high:.0f}]".replace("inf", "∞")

"""Tables of streams of requests: accuracy, seconds, and the residual share of each earlier request."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
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
from munkey.core.files import read_json, read_npz, write_text
from munkey.report.figures import theme
from munkey.report.tables.markup import (
    ABSENT,
    TitledTable,
    describe_divergence,
    format_mean_sd,
    format_two_digits,
    render,
)
from munkey.report.tables.summary import RESIDUE
from munkey.studies.streams.figure import streams_plot

CURVES = ["name", "title", "seed", "RA", "TA", "done", "seconds"]
SHARES = ["name", "title", "done", "request", "share", "share_low", "share_high"]
ALL_REQUESTS = 0  # in the column `request`: all samples that have been forgotten so far


class StreamedSystem(TypedDict):
    """A system that takes part in a stream, as the plan lists it.

    Attributes
    ----------
    stored
        A phrase that lists what must be kept to predict and to forget.
    logits, records
        The paths of the files with logits and of the job records, one for each model.
    """

    name: str
    title: str
    stored: str
    logits: list[str]
    records: list[str]


class StreamFindings(NamedTuple):
    """The findings for all systems.

    Attributes
    ----------
    curves
        A table with the columns name, title, seed, done, seconds, RA and TA.
    shares
        A table with the columns name, title, done, request (a number, or ALL_REQUESTS), share,
        share_low and share_high: the residual share in percent, with its interval over pairs.
    diverged
        The diverged seeds with their reasons, by the name of the system.
    """

    curves: pd.DataFrame
    shares: pd.DataFrame
    diverged: Mapping[str, str] = {}


def compute_findings(systems: Sequence[StreamedSystem]) -> StreamFindings:
    """Read the files of all systems, and compute their residual shares.

    Oracles have no shares, because they never saw the deleted samples. A system with a diverged
    model has neither curves nor shares.
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
            for share in compute_shares(arrays):
                shares.append({**key, **share})
    return StreamFindings(
        pd.DataFrame(curves, columns=CURVES), pd.DataFrame(shares, columns=SHARES), diverged
    )


def compute_shares(models: Sequence[dict[str, np.ndarray]]) -> Iterator[dict[str, object]]:
    """Yield the residual share of each request, right after it and after each later request.

    Shares are computed from pairs of models. Each model never saw the samples that its partner
    deletes. Both have processed the same number of requests, so side effects of the requests cancel.

    Parameters
    ----------
    models
        The arrays that `munkey.studies.streams.jobs.stream` wrote. Seeds 2p and 2p + 1 form a pair.
    """
    # In shapes, P is the number of pairs, N that of all samples, and n that of pool samples.
    requests = np.stack([arrays["request"] for arrays in models])  # (2P, N); 0 if never deleted
    deleted = requests > 0
    absent = swap_partners(deleted)
    halves = Halves(deleted, absent, models[0]["splits"] == "test")
    pool_requests = requests[:, halves.pool]
    # Which request deletes each pool sample. In each pair, only one of the partners deletes it.
    request_numbers = np.where(halves.first, pool_requests[::2], pool_requests[1::2])  # (P, n)
    differences = []  # one array per number of requests done
    for done in models[0]["done"]:
        margins = []
        for arrays in models:
            margins.append(compute_margins(arrays["logits"][done], arrays["labels"]))
        scores = Pairs(np.stack(margins), halves).scores
        differences.append(compute_differences(scores, halves.first))
    before = differences[0]
    for done, after in enumerate(differences[1:], 1):
        for number in (ALL_REQUESTS, *range(1, done + 1)):
            if number == ALL_REQUESTS:
                is_counted = request_numbers <= done
            else:
                is_counted = request_numbers == number
            contrast = compute_contrasts(after, halves.first, is_counted)
            original_contrast = compute_contrasts(before, halves.first, is_counted)
            share = estimate_ratio(contrast, original_contrast, paired=True)
            yield {
                "done": done,
                "request": number,
                "share": share.value,
                "share_low": share.low,
                "share_high": share.high,
            }


def make_stream_tables(
    results: StreamFindings, systems: Sequence[StreamedSystem], dataset: str
) -> list[TitledTable]:
    """Return a summary of all systems, followed by one table of residual shares per method.

    The tables of shares are triangular: they show the share of each request right after it and
    after each later request.
    """
    curves = results.curves
    last = 0
    if len(curves):
        last = int(curves["done"].max())
    milestones = list(dict.fromkeys((0, 1, (last + 1) // 2, last)))  # distinct, in order
    table_rows: list[dict[str, object]] = []
    for system in systems:
        if system["name"] in results.diverged:
            table_rows.append(
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
        if shares.empty:  # an oracle is retrained only at some requests
            cells["In all [s]"] = ABSENT
        else:
            cells["In all [s]"] = format_two_digits(seconds.sum().mean())
        cells[RESIDUE] = _format_share(shares, last, ALL_REQUESTS)
        cells[f"{RESIDUE}, first request, at once"] = _format_share(shares, 1, 1)
        cells[f"{RESIDUE}, first request, in the end"] = _format_share(shares, last, 1)
        cells["Must be kept"] = system["stored"]
        table_rows.append(cells)
    titles = {system["name"]: system["title"] for system in systems}
    reasons = [f"{titles[name]}, {why}" for name, why in results.diverged.items()]
    remark = describe_divergence(reasons)
    pairs = len(systems[0]["records"]) // 2
    basis = f"mean over {2 * pairs} models, [95% over {pairs} pairs]"
    title = f"{dataset}: a stream of {last} requests; {basis}"
    return [
        TitledTable(title, pd.DataFrame(table_rows).fillna(ABSENT), remark),
        *_make_triangles(results.shares),
    ]


def _make_triangles(shares: pd.DataFrame) -> Iterator[TitledTable]:
    """Yield one table per method, with one row per request and one column per number of requests done."""
    for title, part in shares[shares["request"] != ALL_REQUESTS].groupby("title", sort=False):
        wide = part.pivot(index="request", columns="done", values="share")
        whole = wide.astype(float).round() + 0.0  # -0.0 + 0.0 is 0.0
        cells = whole.map("{:.0f}".format, na_action="ignore").fillna("").add_prefix("after ")
        frame = cells.reset_index().rename(columns={"request": "Request"})
        yield TitledTable(f"{title}: residual share of each request [%]", frame)


def _format_mean(curve: pd.DataFrame, metric: str, done: int) -> str:
    values = curve.loc[curve["done"] == done, metric]
    if values.empty:
        return ABSENT
    return format_mean_sd(values.mean(), values.std())


def _format_share(shares: pd.DataFrame, done: int, request: int) -> str:
    """Return the share of a request after `done` requests with its interval, in whole percent."""
    if shares.empty:  # the system is an oracle
        return ABSENT
    row = shares.xs((done, request))[["share", "share_low", "share_high"]].astype(float)
    value, low, high = row.round() + 0.0  # -0.0 + 0.0 is 0.0
    return f"{value:.0f} [{low:.0f}, {high:.0f}]".replace("inf", "∞")


def stream_tables(
    systems: list[StreamedSystem],
    dataset: str,
    curves: Path,
    shares: Path,
    markdown: Path,
    svg: Path,
) -> None:
    """Write the tables and the figure of a stream of requests, and CSV files with their numbers."""
    findings = compute_findings(systems)
    write_text(curves, findings.curves.to_csv(index=False))
    write_text(shares, findings.shares.to_csv(index=False))
    titled = make_stream_tables(findings, systems, dataset)
    write_text(markdown, render(titled, "markdown"))
    theme.save(streams_plot(findings.curves, findings.shares), svg.with_suffix(""))

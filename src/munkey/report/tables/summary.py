"""Summaries of metrics: means and standard deviations over seeds, and gaps to the oracle.

Metrics are tidy: one value per row, with the columns dataset, rate, seed, method, metric and value.
A summary has one row per data set, forget rate and system.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from munkey.core.console import pluralize
from munkey.core.diverged import DIVERGED
from munkey.core.files import read_table
from munkey.report.tables.comparisons import (
    DIFFERENCES,
    are_distinguishable,
    compare_accuracies,
    compute_seed_interval,
    format_interval,
    get_difference,
    index_differences,
)
from munkey.report.tables.markup import diverged_remark, format_percent

GAP_METRICS = ("TA", "RA", "FA", "MIA")
ORIGINAL = "original-m"  # MUNKEY before deletion
DELETED = "munkey"  # MUNKEY after deletion
FITTED = ("knn", "lda", "ncm", "ranpac", "krr")  # methods that are fitted to the same keys
LEARNED = 99.0  # retain accuracy [%] above which longer training would hardly help
ORACLE_PREFIX = "retrain-"  # of the names of all oracles (munkey.models.family)
MAX_LOSS = 5.0  # points of test accuracy; methods that lost more are listed below the table
CHANCE = 50.0  # AUROC of a random attack [%]
DIFFERENCES_FILE = "differences.csv"  # in the folder of main.csv
SEPARATOR = " | "  # between the reasons of several seeds


@dataclass(frozen=True)
class Row:
    """A system in the tables.

    Attributes
    ----------
    oracle
        The name of the system that its gap is measured against; None for an oracle itself.
    context
        Whether it is only shown for comparison and not ranked, like an original.
    """

    name: str
    title: str
    oracle: str | None
    context: bool = False

    @property
    def is_ranked(self) -> bool:
        """Whether its gap is compared with those of other systems."""
        return self.oracle is not None and not self.context


class Key(NamedTuple):
    """The columns that identify a row of a summary."""

    dataset: str
    rate: float
    method: str


def read_metrics(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Read and concatenate the tidy metrics in several CSV files."""
    parts = [read_table(path) for path in paths]
    if not parts:
        columns = ["dataset", "case", "rate", "seed", "method", "metric", "value"]
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True)


def read_main(path: str | Path) -> pd.DataFrame:
    """Read the summary in the main table's CSV, with its systems' differences from the file next to it."""
    path = Path(path)
    summary = read_table(path)
    return add_differences(summary, read_table(path.with_name(DIFFERENCES_FILE)))


def add_differences(summary: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Add the column `differences` with each system's differences to others, by their names.

    Parameters
    ----------
    rows
        The result of `munkey.evaluation.paired.compare_systems`.
    """
    by_system = index_differences(rows)
    keys = summary[list(Key._fields)].itertuples(index=False, name=None)
    by_row = [by_system.get(key, {}) for key in keys]
    return summary.assign(**{DIFFERENCES: pd.Series(by_row, index=summary.index, dtype=object)})


def add_seed_gaps(tidy: pd.DataFrame, systems: Sequence[Row]) -> pd.DataFrame:
    """Add the gap of each seed to tidy metrics, as the metric `gap`.

    The paper's gap compares means over seeds, so it may hide a seed that failed; this one cannot.
    A seed that diverged, or whose oracle did, has no gap.

    Raises
    ------
    KeyError
        If the metrics of a system or its oracle are missing.
    """
    wide = tidy.pivot(index=["dataset", "rate", "seed", "method"], columns="metric", values="value")
    parts = [tidy]
    for system in systems:
        if system.oracle is not None:
            gaps = _compute_seed_gaps(wide, system.name, system.oracle)
            parts.append(gaps.reindex(columns=tidy.columns))
    return pd.concat(parts, ignore_index=True)


def summarize(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Compute means and standard deviations over seeds, in a row per data set, rate and system.

    Larger rates come first. The columns are the number of seeds n, METRIC_mean and METRIC_sd (ddof
    = 1), and gap_mean and gap_sd, the Avg Gap (sec. 4): the mean over TA, RA, FA, MIA of |mean of
    the system - mean of its oracle|, and its standard deviation 1/4 * sqrt(sum of both variances).

    A system with a diverged seed has no means, since means over the other seeds would be too
    optimistic. The column `diverged`, which exists only if any system diverged, lists the seeds,
    the reasons and the logs.

    Raises
    ------
    KeyError
        If the metrics of an oracle are missing.
    """
    grouped = tidy[tidy["metric"] != "gap"].groupby([*Key._fields, "metric"], sort=False)["value"]
    mean = grouped.mean().unstack("metric")
    sd = grouped.std(ddof=1).unstack("metric")
    columns = list(GAP_METRICS)
    reasons = pd.Series(dtype=object)
    if DIVERGED in mean:
        reasons = _join_reasons(tidy)
        # If all systems diverged, the metrics of the gap are missing as columns.
        names = mean.columns.drop(DIVERGED).union(columns, sort=False)
        mean = mean.reindex(columns=names)
        sd = sd.reindex(columns=names)
        mean.loc[reasons.index] = np.nan
        sd.loc[reasons.index] = np.nan
    table = mean.add_suffix("_mean").join(sd.add_suffix("_sd"))
    table["n"] = tidy.groupby(list(Key._fields))["seed"].nunique()
    if len(reasons):
        table[DIVERGED] = reasons
    datasets_and_rates = table.reset_index()[["dataset", "rate"]].drop_duplicates()
    for dataset, rate in datasets_and_rates.itertuples(index=False):
        for row in rows:
            if row.oracle is None:
                continue
            system = Key(dataset, rate, row.name)
            oracle = Key(dataset, rate, row.oracle)
            if oracle not in mean.index:
                raise KeyError(
                    f"{row.title} on {dataset} at rate {rate}: its oracle {row.oracle} is missing"
                )
            # mypy takes a row of a frame for a frame.
            means = cast("pd.Series[float]", mean.loc[system, columns] - mean.loc[oracle, columns])
            variances = cast(
                "pd.Series[float]", sd.loc[system, columns] ** 2 + sd.loc[oracle, columns] ** 2
            )
            table.loc[system, "gap_mean"] = means.abs().mean()
            table.loc[system, "gap_sd"] = math.sqrt(variances.sum(skipna=False)) / len(columns)
    titles = {row.name: row.title for row in rows}
    places = {row.name: place for place, row in enumerate(rows)}
    table = table.reset_index()
    table.insert(3, "title", table["method"].map(titles))
    table["place"] = table["method"].map(places)
    table = table.sort_values(["dataset", "rate", "place"], ascending=[True, False, True])
    return table.drop(columns="place").reset_index(drop=True)


def describe_diverged(part: pd.DataFrame) -> str:
    """Write a sentence on what diverged, and what cannot be compared as a consequence; else empty.

    Parameters
    ----------
    part
        Rows of a summary, one data set.
    """
    if DIVERGED not in part:
        return ""
    rows = part.dropna(subset=DIVERGED)
    # A diverged original shares its reason with all systems that start from it, so titles are
    # grouped by reason. The inner dict serves as an ordered set.
    titles_by_reason: dict[str, dict[str, None]] = {}
    for _, row in rows.iterrows():
        title = f"{row['title']} @{format_percent(row['rate'])}"
        if "case" in row:
            title += f" ({row['case']})"
        for reason in str(row[DIVERGED]).split(SEPARATOR):
            titles_by_reason.setdefault(reason, {})[title] = None
    phrases = [f"{', '.join(titles)}, {reason}" for reason, titles in titles_by_reason.items()]
    oracles = rows.loc[rows["method"].str.startswith(ORACLE_PREFIX), "title"].unique()
    if len(oracles):
        phrases.append(f"Methods compared with {', '.join(oracles)} have no Avg Gap there")
    return diverged_remark(phrases)


def describe_underfit(part: pd.DataFrame) -> str:
    """Write a sentence if the best classifier fitted to the same keys is at least as accurate as MUNKEY.

    Else, return an empty text. Both are compared after deletion, so that they have the same rows,
    and at the smallest rate, at which nearly all rows remain.

    Parameters
    ----------
    part
        Rows of a summary, one data set.
    """
    rows = part[part["rate"] == part["rate"].min()].set_index("method", drop=False)
    fitted = rows.reindex(FITTED).dropna(subset="TA_mean")
    if DELETED not in rows.index or fitted.empty:
        return ""
    trained = rows.loc[DELETED]
    best = fitted.loc[fitted["TA_mean"].idxmax()].copy()
    # Several may have exactly the same accuracy; then all of them are named.
    best["title"] = " or ".join(fitted.loc[fitted["TA_mean"] == best["TA_mean"], "title"])
    if not trained["TA_mean"] <= best["TA_mean"]:
        return ""
    is_worse = are_distinguishable(best, trained)
    if is_worse:
        verdict = "Training MUNKEY does not pay off here"
    else:
        verdict = "Training MUNKEY is not shown to pay off here"
    has_learned = "MUNKEY has learned its training set"
    was_learned = ORIGINAL in rows.index and rows.loc[ORIGINAL].get("RA_mean", 0) >= LEARNED
    if not was_learned:
        advice = "It may be underfitted: try more train.epochs or another train.lr (docs/data.md#underfitting)."
    elif is_worse:
        advice = f"{has_learned}, so {best['title']}, which deletes exactly, is the better choice."
    else:
        advice = f"{has_learned}, and {best['title']} deletes exactly."
    comparison = compare_accuracies(best, trained)
    return f"{verdict}. After deletion, on the same keys, {comparison}. {advice}"


def describe_damage(part: pd.DataFrame, systems: Sequence[Row]) -> str:
    """Write sentences on methods that lost much test accuracy, or whose MIA is below chance.

    A loss is relative to the original, and is given together with the oracle's. MIA is below chance
    if its whole interval over seeds is. With a single seed there is no interval, so its MIA is not
    reported here.

    Parameters
    ----------
    part
        Rows of a summary, one data set.
    """
    originals = {system.oracle: system.name for system in systems if system.context}
    losses = list[str]()
    attacks = list[str]()
    for rate in part["rate"].unique():
        rows = part[part["rate"] == rate]
        at_rate = dict(rows.set_index("method", drop=False).iterrows())
        for system in systems:
            if not system.is_ranked or system.name not in at_rate:
                continue
            row = at_rate[system.name]
            oracle = at_rate[str(system.oracle)]
            name = f"{system.title} @{format_percent(rate)}"
            original = at_rate.get(originals.get(system.oracle, ""))
            if original is not None and original["TA_mean"] - row["TA_mean"] > MAX_LOSS:
                loss = _format_loss(original, row)
                losses.append(f"{name} {loss} (its oracle {_format_loss(original, oracle)})")
            if _is_below_chance(row):
                attack = _format_attack(row)
                attacks.append(f"{name} {attack} (its oracle {_format_attack(oracle)})")
    sentences = list[str]()
    if losses:
        sentences.append(
            f"Lost more than {MAX_LOSS:g} points of test accuracy: {'; '.join(losses)}."
        )
    if attacks:
        sentences.append(
            f"MIA below {CHANCE:g} %, so forgotten samples look less like training samples than test samples do:"
            f" {'; '.join(attacks)}."
        )
    return " ".join(sentences)


def _format_loss(original: pd.Series, row: pd.Series) -> str:
    """Format the points of test accuracy that a system lost, with their interval if there is one."""
    if pd.isna(row["TA_mean"]):
        return DIVERGED
    loss = f"{original['TA_mean'] - row['TA_mean']:.1f}"
    distance = get_difference(original, row)
    if distance is None:
        return loss
    return f"{loss} {format_interval(distance.interval)}"


def _format_attack(row: pd.Series) -> str:
    """Format the MIA of a system with its interval over seeds."""
    if pd.isna(row["MIA_mean"]):
        return DIVERGED
    interval = compute_seed_interval(row, "MIA")
    value = f"{row['MIA_mean']:.1f}"
    if interval is None:
        return f"{value} %, one seed"
    return f"{value} {format_interval(interval)} %"


def _is_below_chance(row: pd.Series) -> bool:
    """Return whether the whole interval of the MIA lies below chance; False for a single seed."""
    interval = compute_seed_interval(row, "MIA")
    return interval is not None and interval.high < CHANCE


def describe_certificates(part: pd.DataFrame) -> str:
    """Write a sentence on each certified removal; empty if there is none.

    Parameters
    ----------
    part
        Rows of a summary, one data set.
    """
    if "budget_mean" not in part:
        return ""
    sentences = list[str]()
    for _, row in part.dropna(subset="budget_mean").iterrows():
        sentences.append(
            f"{row['title']} @{format_percent(row['rate'])} is certified with epsilon {row['budget_mean']:g}, delta"
            f" {row['delta_mean']:g}, each model by itself; its weights are so close to their optimum that epsilon"
            f" {row['epsilon_mean']:.2g} would do (mean of {pluralize(int(row['n']), 'seed')})."
        )
    return " ".join(sentences)


def _compute_seed_gaps(wide: pd.DataFrame, system: str, oracle: str) -> pd.DataFrame:
    """Compute the gap of each seed, as tidy metrics.

    Parameters
    ----------
    wide
        Metrics with a column per metric, and a row per data set, rate, seed and method.
    """
    systems = _select_method(wide, system)
    oracles = _select_method(wide, oracle)
    if DIVERGED in wide:  # a seed is left out if the system or its oracle diverged
        system_diverged = systems.index[systems[DIVERGED].notna()]
        oracle_diverged = oracles.index[oracles[DIVERGED].notna()]
        diverged = system_diverged.union(oracle_diverged)
        systems = systems.drop(diverged, errors="ignore")
        oracles = oracles.drop(diverged, errors="ignore")
    difference = (systems - oracles).reindex(columns=list(GAP_METRICS))
    gap = difference.abs().mean(axis=1, skipna=False).rename("value")
    if gap.isna().any():
        raise KeyError(
            f"{system} and its oracle {oracle} differ in seeds: {gap[gap.isna()].index.tolist()}"
        )
    return gap.reset_index().assign(method=system, metric="gap")


def _join_reasons(tidy: pd.DataFrame) -> "pd.Series[str]":
    """Join the seeds that diverged and the reasons, by dataset, rate and method."""
    rows = tidy[tidy["metric"] == DIVERGED]
    reasons = "seed " + rows["seed"].astype(str) + ": " + rows["why"]
    return reasons.groupby([rows[name] for name in Key._fields]).agg(SEPARATOR.join)


def _select_method(wide: pd.DataFrame, method: str) -> pd.DataFrame:
    """Select the rows of one method, and drop its name from the index."""
    methods = wide.index.get_level_values("method")
    if method not in methods:
        raise KeyError(f"no metrics of {method!r}: its evaluation is missing")
    return wide[methods == method].droplevel("method")


def round_short(value: float) -> float:
    """Round a number to four significant digits, for display; the CSV files have all digits."""
    return float(f"{value:.4g}")

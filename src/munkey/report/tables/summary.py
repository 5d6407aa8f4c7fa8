"""From metrics of single runs to summaries: means and standard deviations over seeds, and the gap to the oracle.

Metrics are tidy: one line per value, with the columns dataset, rate, seed, method, metric and
value. A summary has one line per data set, forget rate and system.
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
DELETED = "munkey"  # and after
FITTED = ("knn", "lda", "ncm", "ranpac", "krr")  # to the same keys
LEARNED = 99.0  # percent of the retain set: training longer would teach nothing more
ORACLES = "retrain-"  # how the names of all oracles begin (munkey.models.family)
WORSE = 5.0  # points of test accuracy; a method that lost more is named below the table
CHANCE = 50.0  # percent: an attack that knows nothing
DIFFERENCES_FILE = "differences.csv"  # beside main.csv
BETWEEN = " | "  # the reasons of several seeds


@dataclass(frozen=True)
class Row:
    """A system in the tables.

    Attributes
    ----------
    oracle
        The name of the system that its gap is measured against; None for an oracle itself.
    context
        Shown but not ranked, as originals before unlearning are.
    """

    name: str
    title: str
    oracle: str | None
    context: bool = False

    @property
    def is_ranked(self) -> bool:
        """Whether its gap competes with those of other rows."""
        return self.oracle is not None and not self.context


class Key(NamedTuple):
    """The index of a line of a summary."""

    dataset: str
    rate: float
    method: str


def read_metrics(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Return the concatenated tidy metrics of several CSV files."""
    parts = [read_table(path) for path in paths]
    if not parts:
        columns = ["dataset", "case", "rate", "seed", "method", "metric", "value"]
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True)


def read_main(path: str | Path) -> pd.DataFrame:
    """Return the summary in the main table's CSV, with the differences between its systems from the file beside it."""
    path = Path(path)
    summary = read_table(path)
    return add_differences(summary, read_table(path.with_name(DIFFERENCES_FILE)))


def add_differences(summary: pd.DataFrame, lines: pd.DataFrame) -> pd.DataFrame:
    """Return a summary whose column `differences` holds each system's differences to others, by their names.

    Parameters
    ----------
    lines
        The result of `munkey.evaluation.paired.compare_systems`.
    """
    by_system = index_differences(lines)
    keys = summary[list(Key._fields)].itertuples(index=False, name=None)
    by_line = [by_system.get(key, {}) for key in keys]
    return summary.assign(**{DIFFERENCES: pd.Series(by_line, index=summary.index, dtype=object)})


def add_seed_gaps(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Return tidy metrics plus the gap of each seed on its own, as the metric `gap`.

    The paper's gap compares means over seeds and so hides a seed that failed; this one does not.
    A seed that diverged, or whose oracle did, has no gap.

    Raises KeyError where an oracle is missing.
    """
    wide = tidy.pivot(index=["dataset", "rate", "seed", "method"], columns="metric", values="value")
    parts = [tidy]
    for row in rows:
        if row.oracle is not None:
            gaps = _compute_seed_gaps(wide, row.name, row.oracle)
            parts.append(gaps.reindex(columns=tidy.columns))
    return pd.concat(parts, ignore_index=True)


def summarize(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Return one line per data set, rate and row, with means and standard deviations over seeds.

    Larger rates come first. The columns are the number of seeds n, METRIC_mean and METRIC_sd (ddof
    = 1), and gap_mean and gap_sd, the Avg Gap (sec. 4): the mean over TA, RA, FA, MIA of |mean of
    the system - mean of its oracle|, and its standard deviation 1/4 * sqrt(sum of both variances).

    A system with a diverged seed has no means: means over the other seeds would be too optimistic.
    The column `diverged`, which exists only if any system diverged, has the seeds, the reasons and
    the logs.

    Raises KeyError where a system or its oracle is missing.
    """
    grouped = tidy[tidy["metric"] != "gap"].groupby([*Key._fields, "metric"], sort=False)["value"]
    mean = grouped.mean().unstack("metric")
    sd = grouped.std(ddof=1).unstack("metric")
    columns = list(GAP_METRICS)
    reasons = pd.Series(dtype=object)
    if DIVERGED in mean:
        reasons = _join_reasons(tidy)
        # Where all that was measured diverged, nothing else is a column.
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
            # mypy takes a line of a frame for a frame.
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
    """Return a sentence that names what diverged, and what cannot be compared without it; else empty.

    Parameters
    ----------
    part
        Lines of a summary, one data set.
    """
    if DIVERGED not in part:
        return ""
    lines = part.dropna(subset=DIVERGED)
    # By reason, since a diverged original and all that starts from it share one. The inner dict
    # serves as a set that keeps its order.
    titles_by_reason: dict[str, dict[str, None]] = {}
    for _, line in lines.iterrows():
        title = f"{line['title']} @{format_percent(line['rate'])}"
        if "case" in line:
            title += f" ({line['case']})"
        for reason in str(line[DIVERGED]).split(BETWEEN):
            titles_by_reason.setdefault(reason, {})[title] = None
    phrases = [f"{', '.join(titles)}, {reason}" for reason, titles in titles_by_reason.items()]
    oracles = lines.loc[lines["method"].str.startswith(ORACLES), "title"].unique()
    if len(oracles):
        phrases.append(f"Methods compared with {', '.join(oracles)} have no Avg Gap there")
    return diverged_remark(phrases)


def describe_underfit(part: pd.DataFrame) -> str:
    """Return a sentence if trained MUNKEY is no more accurate than the best classifier fitted to the same keys.

    Else, it is empty. Both are compared after deletion, so on the same rows, and at the smallest
    rate, which keeps nearly all of them.

    Parameters
    ----------
    part
        Lines of a summary, one data set.
    """
    lines = part[part["rate"] == part["rate"].min()].set_index("method", drop=False)
    fitted = lines.reindex(FITTED).dropna(subset="TA_mean")
    if DELETED not in lines.index or fitted.empty:
        return ""
    trained = lines.loc[DELETED]
    best = fitted.loc[fitted["TA_mean"].idxmax()].copy()
    # Several may be equally accurate, to the bit: name them all
    best["title"] = " or ".join(fitted.loc[fitted["TA_mean"] == best["TA_mean"], "title"])
    if not trained["TA_mean"] <= best["TA_mean"]:
        return ""
    is_worse = are_distinguishable(best, trained)
    verdict = "Training MUNKEY is not shown to pay off here"
    if is_worse:
        verdict = "Training MUNKEY does not pay off here"
    has_learned = "MUNKEY has learned its training set"
    was_learned = ORIGINAL in lines.index and lines.loc[ORIGINAL].get("RA_mean", 0) >= LEARNED
    if not was_learned:
        advice = "It may be underfitted: try more train.epochs or another train.lr (docs/data.md#underfitting)."
    elif is_worse:
        advice = f"{has_learned}, so {best['title']}, which deletes exactly, is the better choice."
    else:
        advice = f"{has_learned}, and {best['title']} deletes exactly."
    comparison = compare_accuracies(best, trained)
    return f"{verdict}. After deletion, on the same keys, {comparison}. {advice}"


def describe_damage(part: pd.DataFrame, rows: Sequence[Row]) -> str:
    """Return sentences that name methods that lost much test accuracy, or whose attack falls below chance.

    A loss is counted from the original, beside the oracle's own. An attack counts as below 50 % if
    its whole interval over seeds is. One seed has no interval, so its attacks are not named.

    Parameters
    ----------
    part
        Lines of a summary, one data set.
    """
    originals = {row.oracle: row.name for row in rows if row.context}
    losses = list[str]()
    attacks = list[str]()
    for rate in part["rate"].unique():
        lines = part[part["rate"] == rate]
        at_rate = dict(lines.set_index("method", drop=False).iterrows())
        for row in rows:
            if not row.is_ranked or row.name not in at_rate:
                continue
            line = at_rate[row.name]
            oracle = at_rate[str(row.oracle)]
            name = f"{row.title} @{format_percent(rate)}"
            original = at_rate.get(originals.get(row.oracle, ""))
            if original is not None and original["TA_mean"] - line["TA_mean"] > WORSE:
                loss = _format_loss(original, line)
                losses.append(f"{name} {loss} (its oracle {_format_loss(original, oracle)})")
            if _is_below_chance(line):
                attack = _format_attack(line)
                attacks.append(f"{name} {attack} (its oracle {_format_attack(oracle)})")
    sentences = list[str]()
    if losses:
        sentences.append(f"Lost more than {WORSE:g} points of test accuracy: {'; '.join(losses)}.")
    if attacks:
        sentences.append(
            f"MIA below {CHANCE:g} %, so forgotten samples look less like training samples than test samples do:"
            f" {'; '.join(attacks)}."
        )
    return " ".join(sentences)


def _format_loss(original: pd.Series, line: pd.Series) -> str:
    """Return the points of test accuracy that a system lost, with their interval where there is one."""
    if pd.isna(line["TA_mean"]):
        return DIVERGED
    loss = f"{original['TA_mean'] - line['TA_mean']:.1f}"
    distance = get_difference(original, line)
    if distance is None:
        return loss
    return f"{loss} {format_interval(distance.interval)}"


def _format_attack(line: pd.Series) -> str:
    """Return the MIA of a system with its interval over seeds."""
    if pd.isna(line["MIA_mean"]):
        return DIVERGED
    interval = compute_seed_interval(line, "MIA")
    value = f"{line['MIA_mean']:.1f}"
    if interval is None:
        return f"{value} %, one seed"
    return f"{value} {format_interval(interval)} %"


def _is_below_chance(line: pd.Series) -> bool:
    """Return whether the whole interval of an attack lies below chance; one seed has no interval."""
    interval = compute_seed_interval(line, "MIA")
    return interval is not None and interval.high < CHANCE


def describe_certificates(part: pd.DataFrame) -> str:
    """Return a sentence for each certified removal, to stand beside an audit's finding; else empty.

    Parameters
    ----------
    part
        Lines of a summary, one data set.
    """
    if "budget_mean" not in part:
        return ""
    sentences = list[str]()
    for _, line in part.dropna(subset="budget_mean").iterrows():
        sentences.append(
            f"{line['title']} @{format_percent(line['rate'])} is certified with epsilon {line['budget_mean']:g}, delta"
            f" {line['delta_mean']:g}, each model alone; its weights are so near their optimum that epsilon"
            f" {line['epsilon_mean']:.2g} would do (mean of {pluralize(int(line['n']), 'seed')})."
        )
    return " ".join(sentences)


def _compute_seed_gaps(wide: pd.DataFrame, system: str, oracle: str) -> pd.DataFrame:
    """Return tidy lines with the gap of each seed.

    Parameters
    ----------
    wide
        Metrics with a column per metric, and a line per data set, rate, seed and method.
    """
    systems = _select_method(wide, system)
    oracles = _select_method(wide, oracle)
    if DIVERGED in wide:  # where either did, there is nothing to compare
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
    """Return in words which seeds diverged and why, by dataset, rate and method."""
    lines = tidy[tidy["metric"] == DIVERGED]
    words = "seed " + lines["seed"].astype(str) + ": " + lines["why"]
    return words.groupby([lines[name] for name in Key._fields]).agg(BETWEEN.join)


def _select_method(wide: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return the lines of one method, without its name in their index."""
    methods = wide.index.get_level_values("method")
    if method not in methods:
        raise KeyError(f"no metrics of {method!r}: its evaluation is missing")
    return wide[methods == method].droplevel("method")


def round_short(value: float) -> float:
    """Return a number with four significant digits, for columns that are read.

    The CSV files have all digits.
    """
    return float(f"{value:.4g}")

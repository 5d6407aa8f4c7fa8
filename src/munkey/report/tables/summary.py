"""Summaries of metrics: means and standard deviations over seeds, and the gap to the oracle.

Metrics are tidy: one row per value, with the columns dataset, rate, seed, method, metric and value.
A summary has one row per data set, forget rate and system.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from munkey.core.diverged import DIVERGED
from munkey.core.files import read_table
from munkey.report.tables.comparisons import (
    DIFFERENCES,
    compare_accuracies,
    compute_mia_interval,
    differ_significantly,
    format_interval,
    get_difference,
    group_differences,
)
from munkey.report.tables.markup import describe_divergence, format_seeds, percent

GAP_METRICS = ("TA", "RA", "FA", "MIA")
ORIGINAL = "original-m"  # MUNKEY before deletion
DELETED = "munkey"  # MUNKEY after deletion
FITTED = ("knn", "lda", "ncm", "ranpac", "krr")  # classifiers fitted to the same keys as MUNKEY
FULLY_LEARNED = 99.0  # retain accuracy [%] above which longer training would not help
ORACLES = "retrain-"  # prefix of the names of all oracles (munkey.models.family)
LARGE_LOSS = 5.0  # points of test accuracy; methods that lose more are listed below the table
CHANCE = 50.0  # MIA [%] of an attack that guesses
SEPARATOR = " | "  # between the reasons of several seeds
# The residual shares that audits measure, a column beside the main run's.
RESIDUE = "residual share [%]"  # the header of columns and axes
ATTACK_ONLY = "†"  # marks a residue that only an attack flagged
TEST_ONLY = "‡"  # marks a residue that a test of the share found, although its interval contains 0
ABOUT_SHARE = (
    "residual share: measured by an audit, with its 95% interval;"
    f" {ATTACK_ONLY}: flagged only by an attack; {TEST_ONLY}: a test finds a residue, although the"
    " interval contains 0"
)
# Residual shares as text, by data set and system.
Residue = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Row:
    """A system in the tables.

    Attributes
    ----------
    oracle
        The name of the system that its gap is measured against; None if it is an oracle itself.
    context
        Whether it is shown only for comparison and not ranked, like originals before unlearning.
    """

    name: str
    title: str
    oracle: str | None
    context: bool = False

    @property
    def is_ranked(self) -> bool:
        """Whether the system's gap is ranked: it has an oracle, and is not shown for context only."""
        return self.oracle is not None and not self.context


class Key(NamedTuple):
    """The columns that identify a row of a summary."""

    dataset: str
    rate: float
    method: str


def read_metrics(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Read tidy metrics from several CSV files, and concatenate them."""
    parts = [read_table(path) for path in paths]
    if not parts:
        columns = ["dataset", "case", "rate", "seed", "method", "metric", "value"]
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True)


def read_main(main_table: str | Path, differences: str | Path) -> pd.DataFrame:
    """Read the summary in the main table's CSV file, and the differences between its systems."""
    return add_differences(read_table(main_table), read_table(differences))


def read_cases(path: str | Path) -> pd.DataFrame:
    """Read the summary of cases in a CSV file. Knob values are text even if they look like numbers."""
    return split_cases(read_table(path))


def split_cases(summary: pd.DataFrame) -> pd.DataFrame:
    """Return a summary with the columns knob and value, split from the case KNOB/VALUE."""
    parts = summary["case"].astype(object).str.split("/", n=1)
    return summary.assign(knob=parts.str[0], value=parts.str[1])


def add_differences(summary: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """Return a summary with the column `differences`: a system's differences to others, by name.

    Parameters
    ----------
    differences
        The result of `munkey.evaluation.paired.compare_systems`.
    """
    by_system = group_differences(differences)
    keys = summary[list(Key._fields)].itertuples(index=False, name=None)
    by_row = [by_system.get(key, {}) for key in keys]
    return summary.assign(**{DIFFERENCES: pd.Series(by_row, index=summary.index, dtype=object)})


def add_seed_gaps(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Return tidy metrics with the gap of each seed added as the metric `gap`.

    The paper's gap compares means over seeds, which can hide a seed that failed. The gaps of single
    seeds show it. A seed has no gap if the system or its oracle diverged.

    Raises KeyError if an oracle is missing.
    """
    wide = tidy.pivot(index=["dataset", "rate", "seed", "method"], columns="metric", values="value")
    parts = [tidy]
    for row in rows:
        if row.oracle is not None:
            gaps = _compute_seed_gaps(wide, row.name, row.oracle)
            parts.append(gaps.reindex(columns=tidy.columns))
    return pd.concat(parts, ignore_index=True)


def summarize(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Return means and standard deviations over seeds, one row per data set, rate and system.

    Larger rates come first. The columns are the number of seeds n, METRIC_mean and METRIC_sd (ddof
    = 1), and gap_mean and gap_sd, the Avg Gap (sec. 4). Its mean is the average of |mean of the
    system - mean of its oracle| over TA, RA, FA and MIA; its standard deviation is 1/4 * sqrt(sum of
    the variances of both).

    A system with a diverged seed has no means, because means over the other seeds would be too
    optimistic. If any system diverged, the column `diverged` contains the seeds, the reasons and the
    log files.

    Raises KeyError if a system or its oracle is missing.
    """
    grouped = tidy[tidy["metric"] != "gap"].groupby([*Key._fields, "metric"], sort=False)["value"]
    mean = grouped.mean().unstack("metric")
    sd = grouped.std(ddof=1).unstack("metric")
    columns = list(GAP_METRICS)
    reasons = pd.Series(dtype=object)
    if DIVERGED in mean:
        reasons = _join_reasons(tidy)
        # If every evaluation diverged, the columns of the other metrics do not exist yet.
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
            # Casts because mypy infers that a row of a frame is a frame.
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


def describe_diverged_systems(part: pd.DataFrame) -> str:
    """Return a sentence that lists the diverged systems and the gaps that are missing as a result.

    The sentence is empty if no system diverged.

    Parameters
    ----------
    part
        The rows of a summary for one data set.
    """
    if DIVERGED not in part:
        return ""
    diverged_rows = part.dropna(subset=DIVERGED)
    # Grouped by reason, because all systems that start from a diverged original share its reason.
    # The inner dict serves as an ordered set.
    titles_by_reason: dict[str, dict[str, None]] = {}
    for _, diverged_row in diverged_rows.iterrows():
        title = f"{diverged_row['title']} @{percent(diverged_row['rate'])}"
        if "case" in diverged_row:
            title += f" ({diverged_row['case']})"
        for reason in str(diverged_row[DIVERGED]).split(SEPARATOR):
            titles_by_reason.setdefault(reason, {})[title] = None
    phrases = [f"{', '.join(titles)}, {reason}" for reason, titles in titles_by_reason.items()]
    is_oracle = diverged_rows["method"].str.startswith(ORACLES)
    oracles = diverged_rows.loc[is_oracle, "title"].unique()
    if len(oracles):
        phrases.append(f"Methods compared with {', '.join(oracles)} have no Avg Gap there")
    return describe_divergence(phrases)


def describe_underfitting(part: pd.DataFrame) -> str:
    """Return a warning if MUNKEY is no more accurate than the best classifier fitted to the same keys.

    Empty otherwise. Both are compared after deletion, so on the same rows, at the smallest rate, which
    keeps nearly all of them. part: the rows of a summary for one data set.
    """
    by_method = part[part["rate"] == part["rate"].min()].set_index("method", drop=False)
    fitted = by_method.reindex(FITTED).dropna(subset="TA_mean")
    if DELETED not in by_method.index or fitted.empty:
        return ""
    trained = by_method.loc[DELETED]
    best = fitted.loc[fitted["TA_mean"].idxmax()].copy()
    # If several classifiers have exactly the same accuracy, name all of them.
    best["title"] = " or ".join(fitted.loc[fitted["TA_mean"] == best["TA_mean"], "title"])
    if not trained["TA_mean"] <= best["TA_mean"]:
        return ""
    is_worse = differ_significantly(best, trained)
    if is_worse:
        verdict = "Training MUNKEY does not pay off here"
    else:
        verdict = "Training MUNKEY is not shown to pay off here"
    has_learned = False
    if ORIGINAL in by_method.index:
        has_learned = bool(by_method.loc[ORIGINAL].get("RA_mean", 0) >= FULLY_LEARNED)
    if not has_learned:
        advice = (
            "It may be underfitted: try more train.epochs or another train.lr"
            " (docs/data.md#underfitting)."
        )
    elif is_worse:
        advice = (
            f"MUNKEY has learned its training set, so {best['title']}, which deletes exactly, is the"
            " better choice."
        )
    else:
        advice = f"MUNKEY has learned its training set, and {best['title']} deletes exactly."
    comparison = compare_accuracies(best, trained)
    return f"{verdict}. After deletion, on the same keys, {comparison}. {advice}"


def describe_damage(part: pd.DataFrame, rows: Sequence[Row]) -> str:
    """Return sentences that list the methods that lost much accuracy or whose MIA is below chance.

    Losses are measured from the original and shown together with the oracle's loss. A method lost
    more than the limit if the whole interval of its loss is above it. If only the loss itself is,
    the sentence says that it may have. A MIA is below chance if its whole interval is below 50%.
    With a single seed, there is no interval, so no MIA is listed.

    Parameters
    ----------
    part
        The rows of a summary for one data set.
    """
    originals = {row.oracle: row.name for row in rows if row.context}
    losses: list[str] = []
    possible_losses: list[str] = []
    attacks: list[str] = []
    for rate in part["rate"].unique():
        at_rate = part[part["rate"] == rate]
        summary_rows = dict(at_rate.set_index("method", drop=False).iterrows())
        for row in rows:
            if not row.is_ranked or row.name not in summary_rows:
                continue
            system = summary_rows[row.name]
            oracle = summary_rows[str(row.oracle)]
            name = f"{row.title} @{percent(rate)}"
            original = summary_rows.get(originals.get(row.oracle, ""))
            if original is not None and original["TA_mean"] - system["TA_mean"] > LARGE_LOSS:
                loss = _format_loss(original, system)
                phrase = f"{name} {loss} (its oracle {_format_loss(original, oracle)})"
                difference = get_difference(original, system)
                if difference is not None and difference.interval.low > LARGE_LOSS:
                    losses.append(phrase)
                else:
                    possible_losses.append(phrase)
            if _is_below_chance(system):
                attack = _format_attack(system)
                attacks.append(f"{name} {attack} (its oracle {_format_attack(oracle)})")
    sentences: list[str] = []
    if losses:
        sentences.append(
            f"Lost more than {LARGE_LOSS:g} points of test accuracy: {'; '.join(losses)}."
        )
    if possible_losses:
        sentences.append(
            f"May have lost more than {LARGE_LOSS:g} points: {'; '.join(possible_losses)}."
        )
    if attacks:
        sentences.append(
            f"MIA below {CHANCE:g}%, so forgotten samples look less like training samples than test samples do:"
            f" {'; '.join(attacks)}."
        )
    return " ".join(sentences)


def _format_loss(original: pd.Series, system: pd.Series) -> str:
    """Return how many points of test accuracy a system lost, with the interval if it is known."""
    if pd.isna(system["TA_mean"]):
        return DIVERGED
    loss = f"{original['TA_mean'] - system['TA_mean']:.1f}"
    difference = get_difference(original, system)
    if difference is None:
        return loss
    return f"{loss} {format_interval(difference.interval)}"


def _format_attack(system: pd.Series) -> str:
    """Return the MIA of a system with its interval."""
    if pd.isna(system["MIA_mean"]):
        return DIVERGED
    interval = compute_mia_interval(system)
    value = f"{system['MIA_mean']:.1f}"
    if interval is None:
        return f"{value}%, one seed"
    return f"{value} {format_interval(interval)}%"


def _is_below_chance(system: pd.Series) -> bool:
    """Return whether the whole interval of the MIA is below chance."""
    interval = compute_mia_interval(system)
    return interval is not None and interval.high < CHANCE


def describe_certificates(part: pd.DataFrame) -> str:
    """Return one sentence per method that can be certified, or an empty string if there is none.

    Parameters
    ----------
    part
        The rows of a summary for one data set.
    """
    if "budget_mean" not in part:
        return ""
    sentences: list[str] = []
    for _, system in part.dropna(subset="budget_mean").iterrows():
        name = f"{system['title']} @{percent(system['rate'])}"
        if system.get("certified_mean", 0) < 1:
            sentences.append(
                f"{name} is not certified: its noise follows from params.yaml, so others can subtract"
                " it. A secret changes this (docs/methods/newton.md)."
            )
            continue
        seeds = format_seeds(int(system["n"]))
        sentences.append(
            f"{name} is certified with epsilon"
            f" {system['budget_mean']:g} and delta {system['delta_mean']:g} for each model separately;"
            " its weights are so close to their optimum that epsilon"
            f" {system['epsilon_mean']:.2g} would suffice (mean over {seeds})."
        )
    return " ".join(sentences)


def _compute_seed_gaps(wide: pd.DataFrame, system: str, oracle: str) -> pd.DataFrame:
    """Return the gap of each seed as tidy metrics. Raises KeyError without an oracle of the same seeds.

    wide: one column per metric, one row per data set, rate, seed and method.
    """
    systems = _select_method(wide, system)
    oracles = _select_method(wide, oracle)
    if DIVERGED in wide:  # a seed has no gap if either of the two diverged
        system_diverged = systems.index[systems[DIVERGED].notna()]
        oracle_diverged = oracles.index[oracles[DIVERGED].notna()]
        diverged = system_diverged.union(oracle_diverged)
        systems = systems.drop(diverged, errors="ignore")
        oracles = oracles.drop(diverged, errors="ignore")
    differences = (systems - oracles).reindex(columns=list(GAP_METRICS))
    gap = differences.abs().mean(axis=1, skipna=False).rename("value")
    if gap.isna().any():
        raise KeyError(
            f"{system} and its oracle {oracle} have different seeds:"
            f" {gap[gap.isna()].index.tolist()}"
        )
    return gap.reset_index().assign(method=system, metric="gap")


def _join_reasons(tidy: pd.DataFrame) -> "pd.Series[str]":
    """Return the diverged seeds with their reasons as text, by dataset, rate and method."""
    rows = tidy[tidy["metric"] == DIVERGED]
    reasons = "seed " + rows["seed"].astype(str) + ": " + rows["why"]
    return reasons.groupby([rows[name] for name in Key._fields]).agg(SEPARATOR.join)


def _select_method(wide: pd.DataFrame, method: str) -> pd.DataFrame:
    """Return the rows of one method, and drop its name from the index."""
    methods = wide.index.get_level_values("method")
    if method not in methods:
        raise KeyError(f"no metrics of {method!r}: its evaluation is missing")
    return wide[methods == method].droplevel("method")


def round_to_four_digits(value: float) -> float:
    """Return a number rounded to four significant digits, for display."""
    return float(f"{value:.4g}")

"""The table of relearning: how much a system recovers of forgotten samples, compared with its oracle."""

from collections.abc import Sequence
from typing import Literal

import pandas as pd

from munkey.audits.attacks.relearning import RelearnedSystem, relearning
from munkey.audits.evidence import Curves
from munkey.audits.family_audit import DEPLOYED
from munkey.core.diverged import DIVERGED
from munkey.core.files import read_table
from munkey.report.tables.audits import name_audited_row
from munkey.report.tables.markup import (
    ABSENT,
    TitledTable,
    diverged_remark,
    format_plus_minus,
    format_seed_count,
)

FACTS: tuple[Literal["family", "name", "title", "role"], ...] = ("family", "name", "title", "role")
DIGITS = {"FA": 1, "margin": 2}


def read_curves(systems: Sequence[RelearnedSystem], seeds: Sequence[int]) -> pd.DataFrame:
    """Read the curves of all systems into one table.

    The columns are family, name, title, role, seed, step, FA, TA and margin. A model that diverged
    has a single row, with the reason in the column `diverged`, which exists only in this case.

    Parameters
    ----------
    seeds
        The seeds of each system's files, in their order.
    """
    parts = []
    for system in systems:
        facts: dict[str, object] = {fact: system[fact] for fact in FACTS}
        for seed, path in zip(seeds, system["curves"], strict=True):
            rows = read_table(path)
            parts.append(pd.DataFrame({**facts, "seed": seed}, index=rows.index).join(rows))
    return pd.concat(parts, ignore_index=True)


def summarize_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Summarize curves, with a row per system.

    The columns are the number of seeds n, mean FA and TA at the first and the last step, and the
    distance above the oracle: METRIC_before, METRIC_highest and METRIC_area, with mean and sd over
    seeds, for FA (points) and margin (sd of test).
    """
    rows = []
    all_reasons = _read_reasons(curves)
    for facts, curve in curves.groupby(list(FACTS), sort=False):
        row: dict[str, object] = dict(zip(FACTS, facts, strict=True))
        row["n"] = curve["seed"].nunique()
        is_oracle = (curves["role"] == "oracle") & (curves["family"] == row["family"])
        oracle = curves[is_oracle]
        reasons = all_reasons[all_reasons.index.isin(curve.index)]
        if reasons.empty:
            oracle_reasons = all_reasons[all_reasons.index.isin(oracle.index)]
            reasons = "its oracle diverged, " + oracle_reasons
        if len(reasons):
            row[DIVERGED] = "; ".join(reasons)
            rows.append(row)
            continue
        steps = curve.groupby("step")[["FA", "TA"]].mean()
        for metric in steps:
            row[f"{metric}_first"] = steps[metric].iloc[0]
            row[f"{metric}_last"] = steps[metric].iloc[-1]
        for metric in DIGITS:
            system = curve.pivot(index="seed", columns="step", values=metric)
            reference = oracle.pivot(index="seed", columns="step", values=metric)
            measured = Curves(system.columns.to_numpy(), system.to_numpy(), reference.to_numpy())
            above = relearning(measured)
            for name in ("before", "highest", "area"):
                spread = getattr(above, name)
                row[f"{metric}_{name}_mean"] = spread.mean
                row[f"{metric}_{name}_sd"] = spread.sd
        rows.append(row)
    return pd.DataFrame(rows)


def make_table(results: pd.DataFrame, curves: pd.DataFrame, dataset: str) -> TitledTable:
    """Make a table with a row per system. An oracle's row has no distances to an oracle.

    Parameters
    ----------
    results
        The result of `summarize_curves`.
    curves
        The result of `read_curves`.
    """
    if "step" in curves:
        steps = f"{curves['step'].max():g} steps"
    else:  # all models diverged
        steps = "steps"
    title = f"{dataset}: {steps} on the retain set, above the oracle, {format_seed_count(results['n'].max())}"
    rows = []
    reasons = []
    for _, row in results.assign(path=DEPLOYED).iterrows():
        rows.append(_format_row(row))
        if pd.notna(row.get(DIVERGED)):
            reasons.append(f"{name_audited_row(row)}, {row[DIVERGED]}")
    return TitledTable(title, pd.DataFrame(rows).fillna(ABSENT), diverged_remark(reasons))


def _read_reasons(curves: pd.DataFrame) -> "pd.Series[str]":
    """Return the seed and the reason of each diverged row, by its index."""
    if DIVERGED not in curves:
        return pd.Series(dtype=str)
    rows = curves.dropna(subset=DIVERGED)
    return "seed " + rows["seed"].astype(str) + ": " + rows[DIVERGED]


def _format_row(row: pd.Series) -> dict[str, str]:
    """Format the cells of a system, by their columns."""
    if pd.notna(row.get(DIVERGED)):
        return {"Model, and what was done": name_audited_row(row), "FA [%]": DIVERGED}
    cells = {
        "Model, and what was done": name_audited_row(row),
        "FA [%]": f"{row['FA_first']:.1f} → {row['FA_last']:.1f}",
        "TA [%]": f"{row['TA_first']:.1f} → {row['TA_last']:.1f}",
    }
    titles = {"FA": "FA above [points]", "margin": "margin above [sd]"}
    measures = {"before": "before", "highest": "at most", "area": "on average"}
    for metric, digits in DIGITS.items():
        for measure, label in measures.items():
            text = ABSENT
            if row["role"] != "oracle":
                mean = row[f"{metric}_{measure}_mean"]
                text = format_plus_minus(mean, row[f"{metric}_{measure}_sd"], digits)
            cells[f"{titles[metric]}: {label}"] = text
    return cells

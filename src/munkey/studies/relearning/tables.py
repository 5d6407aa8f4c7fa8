"""The relearning table: how far forgotten samples come back, compared with an oracle trained equally long."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pandas as pd
from typing_extensions import TypedDict

from munkey.audits.attacks.relearning import Role, relearning
from munkey.audits.evidence import Curves
from munkey.core.diverged import DIVERGED
from munkey.core.files import read_table, write_text
from munkey.evaluation.records import DEPLOYED
from munkey.report.figures import theme
from munkey.report.tables.markup import (
    ABSENT,
    TitledTable,
    describe_divergence,
    format_mean_sd,
    format_seed_count,
    render,
)
from munkey.report.tables.shares import name_audited_system
from munkey.studies.relearning.figure import relearning_plot

FACTS: tuple[Literal["family", "name", "title", "role"], ...] = ("family", "name", "title", "role")
DIGITS = {"FA": 1, "margin": 2}  # decimals of each metric


class RelearnedSystem(TypedDict):
    """A system that is trained further, as the plan lists it.

    Attributes
    ----------
    curves
        The curve files, one per seed.
    """

    name: str
    title: str
    role: Role
    family: str
    curves: list[str]


def read_curves(systems: Sequence[RelearnedSystem], seeds: Sequence[int]) -> pd.DataFrame:
    """Read the curves of all systems.

    Parameters
    ----------
    seeds
        The seeds, in the order of each system's curve files.

    Returns
    -------
    curves
        The columns are family, name, title, role, seed, step, FA, TA and margin. If a model
        diverged, its only row has the reason in the additional column `diverged`.
    """
    parts = []
    for system in systems:
        facts: dict[str, object] = {fact: system[fact] for fact in FACTS}
        for seed, path in zip(seeds, system["curves"], strict=True):
            curve = read_table(path)
            parts.append(pd.DataFrame({**facts, "seed": seed}, index=curve.index).join(curve))
    return pd.concat(parts, ignore_index=True)


def summarize_relearning(curves: pd.DataFrame) -> pd.DataFrame:
    """Return one row per system that summarizes its curve, compared with its oracle's.

    A row has the number of seeds n, and the mean FA and TA at the first and the last step. The
    excess over the oracle is in METRIC_before, METRIC_highest and METRIC_area, each with the mean
    and the sd over seeds, for FA (percentage points) and margin (standard deviations of test
    samples). If a system or its oracle diverged, its row has the reason instead.
    """
    rows = []
    all_reasons = _read_reasons(curves)
    for facts, curve in curves.groupby(list(FACTS), sort=False):
        row: dict[str, object] = dict(zip(FACTS, facts, strict=True))
        row["n"] = curve["seed"].nunique()
        is_its_oracle = (curves["role"] == "oracle") & (curves["family"] == row["family"])
        oracle = curves[is_its_oracle]
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
            excess = relearning(measured)
            for name in ("before", "highest", "area"):
                statistic = getattr(excess, name)
                row[f"{metric}_{name}_mean"] = statistic.mean
                row[f"{metric}_{name}_sd"] = statistic.sd
        rows.append(row)
    return pd.DataFrame(rows)


def make_relearning_table(results: pd.DataFrame, curves: pd.DataFrame, dataset: str) -> TitledTable:
    """Return a table with one row per system. An oracle's row has only its own curve.

    Parameters
    ----------
    results
        The result of `summarize_relearning`.
    curves
        The result of `read_curves`.
    """
    if "step" in curves:
        steps = f"{curves['step'].max():g} steps"
    else:  # every system diverged
        steps = "steps"
    title = f"{dataset}: {steps} on the retain set, above the oracle, {format_seed_count(results['n'].max())}"
    table_rows = []
    reasons = []
    for _, row in results.assign(path=DEPLOYED).iterrows():
        table_rows.append(_make_cells(row))
        if pd.notna(row.get(DIVERGED)):
            reasons.append(f"{name_audited_system(row)}, {row[DIVERGED]}")
    return TitledTable(title, pd.DataFrame(table_rows).fillna(ABSENT), describe_divergence(reasons))


def _read_reasons(curves: pd.DataFrame) -> "pd.Series[str]":
    """Return the seed and the reason of each diverged row, by the row's index."""
    if DIVERGED not in curves:
        return pd.Series(dtype=str)
    rows = curves.dropna(subset=DIVERGED)
    return "seed " + rows["seed"].astype(str) + ": " + rows[DIVERGED]


def _make_cells(row: pd.Series) -> dict[str, str]:
    """Return the cells of one system by column."""
    if pd.notna(row.get(DIVERGED)):
        return {"Model, and what was done": name_audited_system(row), "FA [%]": DIVERGED}
    cells = {
        "Model, and what was done": name_audited_system(row),
        "FA [%]": f"{row['FA_first']:.1f} → {row['FA_last']:.1f}",
        "TA [%]": f"{row['TA_first']:.1f} → {row['TA_last']:.1f}",
    }
    titles = {"FA": "FA above [points]", "margin": "margin above [sd]"}
    measures = {"before": "before", "highest": "at most", "area": "on average"}
    for metric, digits in DIGITS.items():
        for measure, description in measures.items():
            column = f"{titles[metric]}: {description}"
            if row["role"] == "oracle":
                cells[column] = ABSENT
            else:
                mean = row[f"{metric}_{measure}_mean"]
                cells[column] = format_mean_sd(mean, row[f"{metric}_{measure}_sd"], digits)
    return cells


def relearning_table(
    systems: list[RelearnedSystem],
    seeds: list[int],
    dataset: str,
    curves: Path,
    table: Path,
    markdown: Path,
    svg: Path,
) -> None:
    """Compare each system's relearning with its oracle's, in curves, a table and a figure.

    Parameters
    ----------
    seeds
        The seeds of each system's curves.
    """
    all_curves = read_curves(systems, seeds)
    findings = summarize_relearning(all_curves)
    write_text(curves, all_curves.to_csv(index=False))
    write_text(table, findings.to_csv(index=False))
    titled = [make_relearning_table(findings, all_curves, dataset)]
    write_text(markdown, render(titled, "markdown"))
    theme.save(relearning_plot(all_curves), svg.with_suffix(""))

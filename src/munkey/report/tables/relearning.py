"""The table of relearning: how far forgotten samples come back, against the oracle under the same steps."""

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
    """Read the curves of all systems, with the columns family, name, title, role, seed, step, FA, TA and margin.

    A system that diverged has one line, with the reason in the column `diverged`; without such a
    system, there is no such column.

    Parameters
    ----------
    seeds
        The seed of each of a system's files.
    """
    parts = []
    for system in systems:
        facts: dict[str, object] = {fact: system[fact] for fact in FACTS}
        for seed, path in zip(seeds, system["curves"], strict=True):
            lines = read_table(path)
            parts.append(pd.DataFrame({**facts, "seed": seed}, index=lines.index).join(lines))
    return pd.concat(parts, ignore_index=True)


def summarize_curves(curves: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each system with the number of seeds n, its accuracies, and how far it is above its oracle.

    The accuracies are mean FA and TA at the first and the last step. How far it is above its oracle
    is in the columns METRIC_before, METRIC_highest and METRIC_area with mean and sd over seeds, for
    FA (points) and margin (sd of test).
    """
    lines = []
    all_reasons = _read_reasons(curves)
    for facts, curve in curves.groupby(list(FACTS), sort=False):
        line: dict[str, object] = dict(zip(FACTS, facts, strict=True))
        line["n"] = curve["seed"].nunique()
        is_its_oracle = (curves["role"] == "oracle") & (curves["family"] == line["family"])
        oracle = curves[is_its_oracle]
        reasons = all_reasons[all_reasons.index.isin(curve.index)]
        if reasons.empty:
            oracle_reasons = all_reasons[all_reasons.index.isin(oracle.index)]
            reasons = "its oracle diverged, " + oracle_reasons
        if len(reasons):
            line[DIVERGED] = "; ".join(reasons)
            lines.append(line)
            continue
        steps = curve.groupby("step")[["FA", "TA"]].mean()
        for metric in steps:
            line[f"{metric}_first"] = steps[metric].iloc[0]
            line[f"{metric}_last"] = steps[metric].iloc[-1]
        for metric in DIGITS:
            system = curve.pivot(index="seed", columns="step", values=metric)
            reference = oracle.pivot(index="seed", columns="step", values=metric)
            measured = Curves(system.columns.to_numpy(), system.to_numpy(), reference.to_numpy())
            above = relearning(measured)
            for name in ("before", "highest", "area"):
                spread = getattr(above, name)
                line[f"{metric}_{name}_mean"] = spread.mean
                line[f"{metric}_{name}_sd"] = spread.sd
        lines.append(line)
    return pd.DataFrame(lines)


def make_table(results: pd.DataFrame, curves: pd.DataFrame, dataset: str) -> TitledTable:
    """Return a table with a line for each system, in the order of the results; an oracle shows its own curve alone.

    Parameters
    ----------
    results
        The result of `findings`.
    curves
        The result of `read_curves`.
    """
    steps = "steps"
    if "step" in curves:
        steps = f"{curves['step'].max():g} steps"
    title = f"{dataset}: {steps} on the retain set, above the oracle, {format_seed_count(results['n'].max())}"
    lines = []
    reasons = []
    for _, line in results.assign(path=DEPLOYED).iterrows():
        lines.append(_format_line(line))
        if pd.notna(line.get(DIVERGED)):
            reasons.append(f"{name_audited_row(line)}, {line[DIVERGED]}")
    return TitledTable(title, pd.DataFrame(lines).fillna(ABSENT), diverged_remark(reasons))


def _read_reasons(curves: pd.DataFrame) -> "pd.Series[str]":
    """Return in words why each line diverged that did, and its seed, by the index of the line."""
    if DIVERGED not in curves:
        return pd.Series(dtype=str)
    lines = curves.dropna(subset=DIVERGED)
    return "seed " + lines["seed"].astype(str) + ": " + lines[DIVERGED]


def _format_line(line: pd.Series) -> dict[str, str]:
    """Return the cells of a system by their columns."""
    if pd.notna(line.get(DIVERGED)):
        return {"Model, and what was done": name_audited_row(line), "FA [%]": DIVERGED}
    cells = {
        "Model, and what was done": name_audited_row(line),
        "FA [%]": f"{line['FA_first']:.1f} → {line['FA_last']:.1f}",
        "TA [%]": f"{line['TA_first']:.1f} → {line['TA_last']:.1f}",
    }
    titles = {"FA": "FA above [points]", "margin": "margin above [sd]"}
    measures = {"before": "before", "highest": "at most", "area": "on average"}
    for metric, digits in DIGITS.items():
        for measure, words in measures.items():
            text = ABSENT
            if line["role"] != "oracle":
                mean = line[f"{metric}_{measure}_mean"]
                text = format_plus_minus(mean, line[f"{metric}_{measure}_sd"], digits)
            cells[f"{titles[metric]}: {words}"] = text
    return cells

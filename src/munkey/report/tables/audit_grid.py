"""The table of an audit's grid: what the weights keep, by how they are trained."""

from collections.abc import Sequence

import pandas as pd

from munkey.audits.family_audit import DEPLOYED
from munkey.report.tables.audits import PATHS, interval
from munkey.report.tables.markup import ABSENT, Titled
from munkey.settings import short_names


def knobs_of(grid: pd.DataFrame) -> list[str]:
    """The knobs whose values differ, by dotted name."""
    return [name for name in grid.columns if "." in name and grid[name].astype(str).nunique() > 1]


def deployed(grid: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting, as it is deployed, in the order of its knobs."""
    rows = grid[grid["path"] == DEPLOYED]
    return rows.sort_values(knobs_of(grid), kind="stable").reset_index(drop=True) if knobs_of(grid) else rows


def shown(value: object) -> str:
    """A knob's value as a person writes it: 0.6–1 for [0.6, 1.0]."""
    if isinstance(value, str) and value.startswith("["):
        return "–".join(f"{float(part):g}" for part in value.strip("[]").split(","))
    return f"{value:g}" if isinstance(value, float) else str(value)


def table(grid: pd.DataFrame, dataset: str) -> Titled:
    """A line for each setting: shares by path, what training had put there, P_s before deletion, accuracies."""
    knobs, rows = knobs_of(grid), deployed(grid)
    lines = [_line(line, grid[grid["setting"] == line["setting"]], knobs) for _, line in rows.iterrows()]
    pairs, rank = grid["pairs"].max(), float(rows["P_s"].corr(rows["share"], "spearman"))
    title = f"{dataset}: {pairs} pairs of models for each setting; Spearman's correlation of P_s and share: {rank:.2f}"
    return Titled(title, pd.DataFrame(lines))


def _line(line: pd.Series, paths: pd.DataFrame, knobs: Sequence[str]) -> dict[str, str]:
    by_path = {f"left [%], {words}": name for name, words in PATHS.items() if name != DEPLOYED}
    shares = paths.set_index("path")["share"]
    return {
        **{name: shown(line[knob]) for knob, name in short_names(knobs).items()},
        "left [%]": interval(line, "share"),
        **{column: f"{shares[path]:.1f}" if path in shares else ABSENT for column, path in by_path.items()},
        "put there [sd]": f"{line['nothing']:.2f}",
        "P_s": f"{line['P_s']:.3f}",
        "VA before": f"{line['val_before']:.1f}",
        "VA after": f"{line['val_after']:.1f}",
        "TA after": f"{line['test_after']:.1f}",
    }

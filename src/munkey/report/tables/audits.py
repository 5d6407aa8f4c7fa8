"""The tables of the audits: residual shares, attacks, traces in files, and grids of settings."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from munkey.audits.family_audit import DEPLOYED
from munkey.audits.registry import AUDITS
from munkey.core.diverged import DIVERGED
from munkey.report.tables.markup import (
    ABSENT,
    TitledTable,
    diverged_remark,
    format_number,
    format_percent,
    format_seed_count,
)
from munkey.report.tables.summary import Row
from munkey.settings import knob_text, short_names

PATHS = {  # labels of the ways to query a memory, the deployed one first
    "deployed": "",
    "softmax": "neighbors averaged",
    "image": "image alone",
    "token": "neighbors' tokens alone",
}
STRATA = {
    "low": "least memorized third",
    "mid": "middle third",
    "high": "most memorized third",
    "top": "top tenth",
}
# Titles of the built-in attacks on a single model; plug-ins have their own.
ATTACKS = {"loss": "Loss", "margin": "Margin", "logistic": "Logistic"}
RESIDUE = "residual share [%]"
HEAD = "TA after, head alone"  # of the head (LDA) on the same rows
ONLY_ATTACK = "†"
ABOUT_SHARE = (
    f"residual share: of an audit, with its 95 % interval; {ONLY_ATTACK}: flagged only by an attack"
)
# The residual shares of audits as text, by data set and system.
Residue = Mapping[str, Mapping[str, str]]


def name_audited_row(row: pd.Series) -> str:
    """Name a row of an audit by its method or control, and by the path on which it was queried."""
    role = str(row["role"])
    path = PATHS[str(row["path"])]
    name = str(row["title"])
    if role.startswith("control"):
        name = f"Control: {name}"
    if role == "control nothing":
        name += ", original"
    if path:
        name += f", {path}"
    return name


def make_audit_table(audit: pd.DataFrame, dataset: str) -> TitledTable:
    """Make a table with a row for each system and path, in the order of the audit."""
    rows = []
    for _, row in audit.iterrows():
        if pd.notna(row.get("words")):
            verdict = str(row["words"])
        else:
            verdict = "exploratory"
        rows.append(
            {
                "Model, and what was done": name_audited_row(row),
                RESIDUE: format_share(row),
                "of the tenth that keeps most": format_estimate(row, "tenth"),
                "verdict": verdict,
                "LiRA AUROC": format_estimate(row, "u-lira_auroc"),
                "TPR @ 1 %": format_estimate(row, "u-lira_tpr_1"),
                "RMIA AUROC": format_estimate(row, "rmia_auroc"),
                "p": _format_p_value(row.get("p")),
                "spread of test margins": _format_percent(row.get("unit")),
                "distance / floor": format_number(row.get("js_ratio"), 2),
            }
        )
    counts = audit["pairs"]
    has_converged = audit["verdict"] != DIVERGED
    if has_converged.any():
        counts = counts[has_converged]
    pairs = f"{counts.min()}"
    if counts.max() != counts.min():
        pairs += f" to {counts.max()}"
    return TitledTable(f"{dataset}: {pairs} pairs of models, percent", pd.DataFrame(rows))


def _format_p_value(p: float | None) -> str:
    if p is not None and p < 0.0005:
        return "< 0.001"
    return format_number(p, 3)


def _format_percent(share: float | None) -> str:
    if share is None or pd.isna(share):
        return ABSENT
    return f"{100 * share:.0f} %"


def make_strata_table(audit: pd.DataFrame, dataset: str) -> TitledTable:
    """Make a table of residual shares by how much a sample was memorized, with a row per method."""
    methods = audit[(audit["path"] == DEPLOYED) & (audit["role"] == "method")]
    rows = []
    for _, row in methods.iterrows():
        cells = {"Method": str(row["title"]), RESIDUE: format_share(row)}
        for name, label in STRATA.items():
            cells[f"{RESIDUE}, {label}"] = format_estimate(row, f"share_of_{name}")
        put_there = [format_number(row.get(f"put_{name}"), 2) for name in STRATA]
        cells["put there [scores]"] = " / ".join(put_there)
        rows.append(cells)
    title = f"{dataset}: residual share by how much a sample was memorized, percent"
    return TitledTable(title, pd.DataFrame(rows), _describe_strata(methods))


def _describe_strata(methods: pd.DataFrame) -> str:
    """Write sentences on findings in the strata that the verdicts do not show.

    They name methods that keep more of the most memorized tenth than on average (its interval lies
    above the average's), and methods with a residue in a stratum but none on average.
    """
    if "share_of_top" not in methods:
        return "Strata need two pairs of models that swap the same halves, and a larger pool."
    keeps_more = methods["share_of_top_low"] > methods["share_high"].clip(lower=0)
    keepers = []
    for _, row in methods[keeps_more].iterrows():
        keepers.append(f"{row['title']} {format_estimate(row, 'share_of_top')}")
    hidden = []
    for _, row in methods[methods["verdict"] == "none found"].iterrows():
        for name, label in STRATA.items():
            if row[f"share_of_{name}_low"] > 0:
                hidden.append(f"{row['title']}, {label} {format_estimate(row, f'share_of_{name}')}")
    text = "Shown to keep more of the most memorized tenth than on average: "
    text += f"{'; '.join(keepers) or 'no method'}."
    if hidden:
        text += f" None found on average, but above 0 here: {'; '.join(hidden)}."
    return f"{text} These intervals are not corrected for their number."


def select_main_rows(audit: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of the deployed path; for methods, those of all paths."""
    return audit[(audit["path"] == DEPLOYED) | (audit["role"] == "method")].reset_index(drop=True)


def collect_residue(audits: Mapping[Path, pd.DataFrame]) -> Residue:
    """Collect the main table's column `residual share [%]`, by data set and system.

    The shares are those on the deployed path. If an audit has no power or a model diverged, the
    entry says so instead.

    Parameters
    ----------
    audits
        The rows of each audit, by its folder, which is named for its data set.
    """
    residue = {}
    for folder, audit in audits.items():
        deployed = audit[(audit["path"] == DEPLOYED) & ~audit["role"].str.startswith("control")]
        texts = {}
        for _, row in deployed.iterrows():
            if row["verdict"] in ("no power", DIVERGED):
                text = row["verdict"]
            else:
                text = format_share(row)
            texts[str(row["name"])] = text
        residue[folder.name] = texts
    return residue


def format_share(row: pd.Series) -> str:
    """Format the share with its interval, and a mark if only an attack found a residue."""
    text = format_estimate(row, "share")
    if is_flagged_only_by_attack(row):
        text += f" {ONLY_ATTACK}"
    return text


def is_flagged_only_by_attack(row: pd.Series) -> bool:
    """Return whether an attack flags the row, but its residual share does not."""
    return row.get("verdict") == "residue" and "share" not in str(row["flagged"]).split()


def format_estimate(row: pd.Series, name: str) -> str:
    """Format an estimate and its interval as `value [low, high]`, or – if it is missing."""
    if pd.isna(row.get(name)):
        return ABSENT
    low = row[f"{name}_low"]
    high = row[f"{name}_high"]
    if math.isfinite(high - low):
        bounds = f"{_format_bound(low)}, {_format_bound(high)}"
    else:
        bounds = "unbounded"
    return f"{format_decimal(row[name])} [{bounds}]"


def _format_bound(value: float) -> str:
    """Format a bound with one decimal; a huge one, whose digits are meaningless, as `> 999`."""
    if abs(value) < 1000:
        return format_decimal(value)
    if value < 0:
        return "< -999"
    return "> 999"


def format_decimal(value: float) -> str:
    """Format a number with one decimal, and zero without a sign."""
    return f"{round(value, 1) + 0.0:.1f}"  # -0.0 + 0.0 is 0.0


def make_attack_tables(
    attacks: pd.DataFrame, tidy: pd.DataFrame, systems: Sequence[Row]
) -> list[TitledTable]:
    """Make a table of attacks on a single model, next to the paper's MIA, per data set and rate.

    Numbers are means over seeds in percent; the brackets contain the lowest and the highest bound
    of any seed.

    Parameters
    ----------
    attacks
        The rows of `munkey.audits.main_run.make_attack_lines`.
    tidy
        The metrics of all systems, with MIA.
    """
    mia = tidy[tidy["metric"] == "MIA"]
    titled = []
    attack_titles = dict(ATTACKS)
    for name in map(str, attacks["attack"].unique()):
        if name not in ATTACKS:
            attack_titles[name] = AUDITS[name].title
    by_rate = attacks.astype({"rate": float}).groupby(["dataset", "rate"], sort=False)
    for (dataset, rate), part in by_rate:
        mia_at_rate = mia[(mia["dataset"] == dataset) & (mia["rate"].astype(float) == rate)]
        rows = []
        for system in systems:
            system_attacks = part[part["method"] == system.name]
            mia_values = mia_at_rate[mia_at_rate["method"] == system.name]["value"]
            if len(mia_values) < system_attacks["seed"].nunique():  # the other seeds diverged
                rows.append({"Method": system.title, "MIA": DIVERGED})
                continue
            # Without values, the mean is NaN, which is shown as –.
            row = {"Method": system.title, "MIA": format_number(mia_values.mean(), 1)}
            for name, attack_title in attack_titles.items():
                results = system_attacks[system_attacks["attack"] == name]
                row[f"{attack_title}: AUROC"] = _format_over_seeds(results, "auroc")
                row[f"{attack_title}: TPR @ 1 %"] = _format_over_seeds(results, "tpr_1")
            rows.append(row)
        n = part["seed"].nunique()
        title = (
            f"{dataset}, forget rate {format_percent(part['rate'].iloc[0])}: {format_seed_count(n)}"
        )
        titled.append(TitledTable(title, pd.DataFrame(rows).fillna(ABSENT)))
    return titled


def _format_over_seeds(rows: pd.DataFrame, name: str) -> str:
    """Format an attack's result over seeds as `mean [low, high]`.

    Returns `too few test samples` if there are too few to estimate a rate, and – without an attack.
    """
    if rows.empty:
        return ABSENT
    if name not in rows or rows[name].isna().any():
        return "too few test samples"
    low = rows[f"{name}_low"].min()
    high = rows[f"{name}_high"].max()
    return f"{rows[name].mean():.1f} [{low:.1f}, {high:.1f}]"


def make_storage_tables(searches: pd.DataFrame) -> list[TitledTable]:
    """Make a table per data set of the traces of deleted samples in files, before and after deletion.

    Numbers are sums over seeds.

    Parameters
    ----------
    searches
        The rows of `munkey.audits.main_run.make_storage_lines`.
    """
    titled = []
    for dataset, part in searches.groupby("dataset", sort=False):
        rows = []
        for (_, title), files in part.groupby(["rate", "title"], sort=False):
            rate = float(files["rate"].iloc[0])
            before = files[files["file"] == "original"]
            after = files[files["file"] == "unlearned"]
            row = {
                "Method": str(title),
                "Forget": format_percent(rate),
                "keys and tokens, before": _format_traces(before, "rows"),
                "keys and tokens, after": _format_traces(after, "rows"),
                "ids, before": _format_traces(before, "ids"),
                "ids, after": _format_traces(after, "ids"),
            }
            if "deletion" in files:  # results of earlier versions have no such column
                deletion = files["deletion"].iloc[0]
                row["deletion is"] = ABSENT if pd.isna(deletion) else str(deletion)
            rows.append(row)
        n = format_seed_count(part["seed"].nunique())
        title = f"{dataset}: traces of deleted samples in the system's file, {n}"
        remark = f"Searched for: {AUDITS['storage'].definition}; no other form."
        if "deletion" in part:
            remark += (
                " Exact: equal, bit for bit, to a fit without the samples; given constants: these were"
                " chosen with the samples, and stay. –: weights were trained with the samples."
            )
        titled.append(TitledTable(title, pd.DataFrame(rows), remark))
    return titled


def _format_traces(rows: pd.DataFrame, name: str) -> str:
    """Format how many deleted rows or ids were found (`6 of 6`), or why the search is inconclusive."""
    if rows["why"].notna().any():
        return str(rows["why"].dropna().iloc[0])
    return f"{rows[name].sum():.0f} of {rows[f'{name}_of'].sum()}"


def make_differencing_tables(attacks: pd.DataFrame, dataset: str) -> list[TitledTable]:
    """Make a table of how many deleted samples two versions of a model reveal; none without an attack.

    It has a row for each method and number of samples deleted together.

    Parameters
    ----------
    attacks
        The rows of `munkey.audits.two_versions.Attacker`.
    """
    if attacks.empty:
        return []
    rows = []
    for (title, batch), attackers in attacks.groupby(["title", "batch"], sort=False):
        precisions = attackers.set_index("attacker")["precision"]
        first = attackers.iloc[0]
        row = {
            "Method": str(title),
            "deleted at once": f"{batch}",
            "deletions": f"{first['deletions']}",
        }
        for attacker in ("answers", "margins", "weights"):
            row[attacker] = format_number(precisions.get(attacker), 0)
        row["chance"] = f"{first['chance']:.2g}"
        rows.append(row)
    title = f"{dataset}: deleted samples that two versions give away among all training samples, percent"
    remark = f"{ABSENT}: no linear head; two versions of a memory show which rows are gone."
    return [TitledTable(title, pd.DataFrame(rows), remark)]


def list_knobs(grid: pd.DataFrame) -> list[str]:
    """List the knobs, by dotted name, whose values differ within an audit's grid."""
    knobs = grid.loc[:, grid.columns.str.contains(".", regex=False)]
    return list(knobs.columns[knobs.astype(str).nunique() > 1])


def select_deployed_rows(grid: pd.DataFrame) -> pd.DataFrame:
    """Select the row of each setting of a grid on the deployed path, in the order of the knobs."""
    rows = grid[grid["path"] == DEPLOYED]
    knobs = list_knobs(grid)
    if not knobs:
        return rows
    return rows.sort_values(knobs, kind="stable").reset_index(drop=True)


def make_grid_table(grid: pd.DataFrame, dataset: str) -> TitledTable:
    """Make a table of how much the weights remember, with a row for each setting of the grid.

    A row has the residual share on each path, the contrast before deletion, P_s and accuracies.
    """
    names = short_names(list_knobs(grid))
    rows = select_deployed_rows(grid)
    table_rows = []
    reasons: list[str] = []
    for _, row in rows.iterrows():
        cells = {name: knob_text(row[knob]) for knob, name in names.items()}
        if pd.notna(row.get(DIVERGED)):
            cells[RESIDUE] = DIVERGED
            table_rows.append(cells)
            reasons.append(f"{row['setting']}, {row[DIVERGED]}")
            continue
        shares = grid[grid["setting"] == row["setting"]].set_index("path")["share"]
        cells[RESIDUE] = format_estimate(row, "share")
        for path, label in PATHS.items():
            if path == DEPLOYED:
                continue
            share = ABSENT
            if path in shares:
                share = format_decimal(shares[path])
            cells[f"{RESIDUE}, {label}"] = share
        cells["put there [scores]"] = f"{row['nothing']:.2f}"
        cells["P_s"] = f"{row['P_s']:.3f}"
        cells["VA before"] = f"{row['val_before']:.1f}"
        cells["VA after"] = f"{row['val_after']:.1f}"
        cells["TA after"] = f"{row['test_after']:.1f}"
        if "alone_after" in grid:
            cells[HEAD] = ABSENT
            if pd.notna(row["alone_after"]):
                cells[HEAD] = format_decimal(row["alone_after"])
        table_rows.append(cells)
    pairs = grid["pairs"].max()
    correlation = math.nan
    if "P_s" in rows:
        correlation = float(rows["P_s"].corr(rows["share"], "spearman"))
    title = (
        f"{dataset}: {pairs} pairs of models for each setting; Spearman's correlation of P_s and share:"
        f" {correlation:.2f}"
    )
    return TitledTable(title, pd.DataFrame(table_rows).fillna(ABSENT), diverged_remark(reasons))

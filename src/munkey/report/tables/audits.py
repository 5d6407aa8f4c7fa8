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
    number_cell,
    percent,
    seeds,
)
from munkey.report.tables.summary import Row
from munkey.settings import knob_text, short_names

PATHS = {  # how a memory is queried; the first is how it is deployed
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
# on one model; those of plug-ins follow
ATTACKS = {"loss": "Loss", "margin": "Margin", "logistic": "Logistic"}
RESIDUE = "residual share [%]"
HEAD = "TA after, head alone"  # LDA on the same rows
ALONE = "†"
ABOUT_SHARE = (
    f"residual share: of an audit, with its 95 % interval; {ALONE}: flagged by an attack alone"
)
# by data set and system: the residual share of an audit, as text
Residue = Mapping[str, Mapping[str, str]]


def audited_name(line: pd.Series) -> str:
    """Return the name of an audit's row: the method or control, and the pathway on which it was queried."""
    role = str(line["role"])
    path = PATHS[str(line["path"])]
    name = str(line["title"])
    if role.startswith("control"):
        name = f"Control: {name}"
    if role == "control nothing":
        name += ", original"
    if path:
        name += f", {path}"
    return name


def audit_table(audit: pd.DataFrame, dataset: str) -> TitledTable:
    """Return a table with a line for each system and path, in the order of the audit."""
    lines = []
    for _, line in audit.iterrows():
        verdict = "exploratory"
        if pd.notna(line.get("words")):
            verdict = str(line["words"])
        lines.append(
            {
                "Model, and what was done": audited_name(line),
                RESIDUE: share_text(line),
                "of the tenth that keeps most": interval(line, "tenth"),
                "verdict": verdict,
                "LiRA AUROC": interval(line, "u-lira_auroc"),
                "TPR @ 1 %": interval(line, "u-lira_tpr_1"),
                "RMIA AUROC": interval(line, "rmia_auroc"),
                "p": _format_p_value(line.get("p")),
                "spread of test margins": _format_percent(line.get("unit")),
                "distance / floor": number_cell(line.get("js_ratio"), 2),
            }
        )
    counts = audit["pairs"]
    has_answers = audit["verdict"] != DIVERGED
    if has_answers.any():
        counts = counts[has_answers]
    pairs = f"{counts.min()}"
    if counts.max() != counts.min():
        pairs += f" to {counts.max()}"
    return TitledTable(f"{dataset}: {pairs} pairs of models, percent", pd.DataFrame(lines))


def _format_p_value(p: float | None) -> str:
    if p is not None and p < 0.0005:
        return "< 0.001"
    return number_cell(p, 3)


def _format_percent(share: float | None) -> str:
    if share is None or pd.isna(share):
        return ABSENT
    return f"{100 * share:.0f} %"


def strata_table(audit: pd.DataFrame, dataset: str) -> TitledTable:
    """Return residual shares by how much a sample was memorized, a line per method, and a remark on the top tenth."""
    methods = audit[(audit["path"] == DEPLOYED) & (audit["role"] == "method")]
    lines = []
    for _, line in methods.iterrows():
        cells = {"Method": str(line["title"]), RESIDUE: share_text(line)}
        for name, words in STRATA.items():
            cells[f"{RESIDUE}, {words}"] = interval(line, f"share_of_{name}")
        put_there = [number_cell(line.get(f"put_{name}"), 2) for name in STRATA]
        cells["put there [scores]"] = " / ".join(put_there)
        lines.append(cells)
    title = f"{dataset}: residual share by how much a sample was memorized, percent"
    return TitledTable(title, pd.DataFrame(lines), _describe_strata(methods))


def _describe_strata(methods: pd.DataFrame) -> str:
    """Return sentences on findings of the strata that no verdict shows.

    They name the methods that keep more of the most memorized tenth than on average, that is, the
    tenth's interval lies above that of the average, and the methods with no residue on average but
    one in a stratum.
    """
    if "share_of_top" not in methods:
        return "Strata need two pairs of models that swap the same halves, and a pool of some size."
    keeps_more = methods["share_of_top_low"] > methods["share_high"].clip(lower=0)
    keepers = []
    for _, line in methods[keeps_more].iterrows():
        keepers.append(f"{line['title']} {interval(line, 'share_of_top')}")
    hidden = []
    for _, line in methods[methods["verdict"] == "none found"].iterrows():
        for name, words in STRATA.items():
            if line[f"share_of_{name}_low"] > 0:
                hidden.append(f"{line['title']}, {words} {interval(line, f'share_of_{name}')}")
    text = "Shown to keep more of the most memorized tenth than on average: "
    text += f"{'; '.join(keepers) or 'no method'}."
    if hidden:
        text += f" None found on average, but above 0 here: {'; '.join(hidden)}."
    return f"{text} These intervals are not corrected for their number."


def first_rows(audit: pd.DataFrame) -> pd.DataFrame:
    """Return the rows to look at first: those of the deployed path, and of methods those of all paths."""
    return audit[(audit["path"] == DEPLOYED) | (audit["role"] == "method")].reset_index(drop=True)


def collect_residue(audits: Mapping[Path, pd.DataFrame]) -> Residue:
    """Return the column `residual share [%]` of the main table, by data set and system.

    The shares are those on the deployed path. Where an audit has no power or diverged, that stands
    instead of a share.

    Parameters
    ----------
    audits
        The rows of each audit, by its folder, which is named for its data set.
    """
    residue = {}
    for folder, audit in audits.items():
        deployed = audit[(audit["path"] == DEPLOYED) & ~audit["role"].str.startswith("control")]
        texts = {}
        for _, line in deployed.iterrows():
            text = share_text(line)
            if line["verdict"] in ("no power", DIVERGED):
                text = line["verdict"]
            texts[str(line["name"])] = text
        residue[folder.name] = texts
    return residue


def share_text(line: pd.Series) -> str:
    """Return the share with its interval, marked where an attack alone found a residue."""
    text = interval(line, "share")
    if flagged_alone(line):
        text += f" {ALONE}"
    return text


def flagged_alone(line: pd.Series) -> bool:
    """Return whether a method's row is flagged, but not by its share."""
    return line.get("verdict") == "residue" and "share" not in str(line["flagged"]).split()


def interval(line: pd.Series, name: str) -> str:
    """Return `value [low, high]` for an estimate and its interval, or – if it is missing."""
    if pd.isna(line.get(name)):
        return ABSENT
    low = line[f"{name}_low"]
    high = line[f"{name}_high"]
    bounds = "unbounded"
    if math.isfinite(high - low):
        bounds = f"{_bound(low)}, {_bound(high)}"
    return f"{decimal(line[name])} [{bounds}]"


def _bound(value: float) -> str:
    """Return a bound with one decimal, or `> 999` if it is so far away that its digits mean nothing."""
    if abs(value) < 1000:
        return decimal(value)
    if value < 0:
        return "< -999"
    return "> 999"


def decimal(value: float) -> str:
    """Return a number with one decimal, and without a sign where it is 0."""
    return f"{round(value, 1) + 0.0:.1f}"  # -0.0 + 0.0 is 0.0


def attacks_tables(
    attacks: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]
) -> list[TitledTable]:
    """Return attacks on one model beside the paper's MIA, a table for each data set and rate.

    Numbers are means over seeds in percent; in brackets stand the lowest and the highest bound of
    any seed.

    Parameters
    ----------
    attacks
        The rows of `munkey.audits.main_run.make_attack_rows`.
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
        lines = []
        for row in rows:
            on_system = part[part["method"] == row.name]
            mia_values = mia_at_rate[mia_at_rate["method"] == row.name]["value"]
            if len(mia_values) < on_system["seed"].nunique():  # the other seeds diverged
                lines.append({"Method": row.title, "MIA": DIVERGED})
                continue
            # the mean of no values is NaN
            line = {"Method": row.title, "MIA": number_cell(mia_values.mean(), 1)}
            for name, attack_title in attack_titles.items():
                results = on_system[on_system["attack"] == name]
                line[f"{attack_title}: AUROC"] = _format_over_seeds(results, "auroc")
                line[f"{attack_title}: TPR @ 1 %"] = _format_over_seeds(results, "tpr_1")
            lines.append(line)
        n = part["seed"].nunique()
        title = f"{dataset}, forget rate {percent(part['rate'].iloc[0])}: {seeds(n)}"
        titled.append(TitledTable(title, pd.DataFrame(lines).fillna(ABSENT)))
    return titled


def _format_over_seeds(lines: pd.DataFrame, name: str) -> str:
    """Return `mean [low, high]` over the seeds of an attack.

    In its place stand `too few test samples` where they do not suffice for a rate, and – where
    nothing was attacked.
    """
    if lines.empty:
        return ABSENT
    if name not in lines or lines[name].isna().any():
        return "too few test samples"
    low = lines[f"{name}_low"].min()
    high = lines[f"{name}_high"].max()
    return f"{lines[name].mean():.1f} [{low:.1f}, {high:.1f}]"


def storage_tables(searches: pd.DataFrame) -> list[TitledTable]:
    """Return how many traces of deleted samples are in files before and after deletion, a table per data set.

    Numbers are sums over seeds.

    Parameters
    ----------
    searches
        The rows of `munkey.audits.main_run.make_storage_rows`.
    """
    titled = []
    for dataset, part in searches.groupby("dataset", sort=False):
        lines = []
        for (_, title), files in part.groupby(["rate", "title"], sort=False):
            rate = float(files["rate"].iloc[0])
            before = files[files["file"] == "original"]
            after = files[files["file"] == "unlearned"]
            line = {
                "Method": str(title),
                "Forget": percent(rate),
                "keys and tokens, before": _format_traces(before, "rows"),
                "keys and tokens, after": _format_traces(after, "rows"),
                "ids, before": _format_traces(before, "ids"),
                "ids, after": _format_traces(after, "ids"),
            }
            if "deletion" in files:  # earlier results have no such column
                deletion = files["deletion"].iloc[0]
                line["deletion is"] = ABSENT if pd.isna(deletion) else str(deletion)
            lines.append(line)
        over = seeds(part["seed"].nunique())
        title = f"{dataset}: traces of deleted samples in the system's file, {over}"
        remark = f"Searched for: {AUDITS['storage'].definition}; no other form."
        if "deletion" in part:
            remark += (
                " Exact: equal, to the bit, to a fit without the samples; given constants: these were"
                " chosen with the samples, and stay. –: weights were trained with the samples."
            )
        titled.append(TitledTable(title, pd.DataFrame(lines), remark))
    return titled


def _format_traces(lines: pd.DataFrame, name: str) -> str:
    """Return how many of the deleted rows or ids were found (`6 of 6`), or why the search proves nothing."""
    if lines["why"].notna().any():
        return str(lines["why"].dropna().iloc[0])
    return f"{lines[name].sum():.0f} of {lines[f'{name}_of'].sum()}"


def differencing_tables(attacks: pd.DataFrame, dataset: str) -> list[TitledTable]:
    """Return how many deleted samples two versions of a model give away; no table without an attack.

    There is a line for each method and number of samples deleted together.

    Parameters
    ----------
    attacks
        The rows of `munkey.audits.two_versions.Attacker`.
    """
    if attacks.empty:
        return []
    lines = []
    for (title, batch), attackers in attacks.groupby(["title", "batch"], sort=False):
        precisions = attackers.set_index("attacker")["precision"]
        first = attackers.iloc[0]
        line = {
            "Method": str(title),
            "deleted at once": f"{batch}",
            "deletions": f"{first['deletions']}",
        }
        for attacker in ("answers", "margins", "weights"):
            line[attacker] = number_cell(precisions.get(attacker), 0)
        line["chance"] = f"{first['chance']:.2g}"
        lines.append(line)
    title = f"{dataset}: deleted samples that two versions give away among all training samples, percent"
    remark = f"{ABSENT}: no linear head; two versions of a memory show which rows are gone."
    return [TitledTable(title, pd.DataFrame(lines), remark)]


def list_knobs(grid: pd.DataFrame) -> list[str]:
    """Return the knobs of an audit's grid whose values differ, by dotted name."""
    knobs = grid.loc[:, grid.columns.str.contains(".", regex=False)]
    return list(knobs.columns[knobs.astype(str).nunique() > 1])


def deployed_rows(grid: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each setting of a grid, as it is deployed, in the order of its knobs."""
    rows = grid[grid["path"] == DEPLOYED]
    knobs = list_knobs(grid)
    if not knobs:
        return rows
    return rows.sort_values(knobs, kind="stable").reset_index(drop=True)


def grid_table(grid: pd.DataFrame, dataset: str) -> TitledTable:
    """Return how much the weights keep, by how they are trained, a line for each setting of the grid.

    A line has the shares by path, what training had put there, P_s before deletion, and accuracies.
    """
    names = short_names(list_knobs(grid))
    rows = deployed_rows(grid)
    lines = []
    reasons: list[str] = []
    for _, line in rows.iterrows():
        cells = {name: knob_text(line[knob]) for knob, name in names.items()}
        if pd.notna(line.get(DIVERGED)):
            cells[RESIDUE] = DIVERGED
            lines.append(cells)
            reasons.append(f"{line['setting']}, {line[DIVERGED]}")
            continue
        shares = grid[grid["setting"] == line["setting"]].set_index("path")["share"]
        cells[RESIDUE] = interval(line, "share")
        for path, words in PATHS.items():
            if path == DEPLOYED:
                continue
            cells[f"{RESIDUE}, {words}"] = ABSENT
            if path in shares:
                cells[f"{RESIDUE}, {words}"] = decimal(shares[path])
        cells["put there [scores]"] = f"{line['nothing']:.2f}"
        cells["P_s"] = f"{line['P_s']:.3f}"
        cells["VA before"] = f"{line['val_before']:.1f}"
        cells["VA after"] = f"{line['val_after']:.1f}"
        cells["TA after"] = f"{line['test_after']:.1f}"
        if "alone_after" in grid:
            cells[HEAD] = ABSENT
            if pd.notna(line["alone_after"]):
                cells[HEAD] = decimal(line["alone_after"])
        lines.append(cells)
    pairs = grid["pairs"].max()
    correlation = math.nan
    if "P_s" in rows:
        correlation = float(rows["P_s"].corr(rows["share"], "spearman"))
    title = (
        f"{dataset}: {pairs} pairs of models for each setting; Spearman's correlation of P_s and share:"
        f" {correlation:.2f}"
    )
    return TitledTable(title, pd.DataFrame(lines).fillna(ABSENT), diverged_remark(reasons))

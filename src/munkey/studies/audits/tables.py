"""The tables of the audits: residual shares, attacks, traces in files, and grids of settings."""

from collections.abc import Sequence

import pandas as pd

from munkey.audits.registry import AUDITS
from munkey.core.diverged import DIVERGED
from munkey.core.knobs import format_knob_value, shorten_knobs
from munkey.evaluation.records import DEPLOYED
from munkey.report.tables.comparisons import compute_interval_of_seeds, format_interval
from munkey.report.tables.markup import (
    ABSENT,
    TitledTable,
    describe_divergence,
    format_number,
    format_seed_count,
    percent,
)
from munkey.report.tables.shares import (
    MEMORY_PATHS,
    format_decimal,
    format_estimate,
    format_share,
    name_audited_system,
)
from munkey.report.tables.summary import RESIDUE, Row

STRATA = {
    "low": "least memorized third",
    "mid": "middle third",
    "high": "most memorized third",
    "top": "top tenth",
}
# Column titles of the built-in attacks on a single model. Those of plug-ins follow in the table.
ATTACKS = {"loss": "Loss", "margin": "Margin", "logistic": "Logistic"}
MIN_SETTINGS = 8  # a grid of fewer settings has no correlation
HEAD_ONLY = "TA after, head alone"  # of LDA fitted to the same rows


def make_audit_table(audit: pd.DataFrame, dataset: str) -> TitledTable:
    """Return a table with one row per system and path, in the order of the audit's rows."""
    table_rows = []
    for _, row in audit.iterrows():
        if pd.notna(row.get("words")):
            verdict = str(row["words"])
        else:
            verdict = "exploratory"
        table_rows.append(
            {
                "Model, and what was done": name_audited_system(row),
                RESIDUE: format_share(row),
                "of the tenth that keeps most": format_estimate(row, "tenth"),
                "verdict": verdict,
                "LiRA AUROC": format_estimate(row, "u-lira_auroc"),
                "TPR @ 1%": format_estimate(row, "u-lira_tpr_1"),
                "RMIA AUROC": format_estimate(row, "rmia_auroc"),
                "p": _format_p_value(row.get("p")),
                "spread of test margins": _format_percent(row.get("unit")),
                "distance / floor": format_number(row.get("js_ratio"), 2),
            }
        )
    pair_counts = audit["pairs"]
    has_predictions = audit["verdict"] != DIVERGED
    if has_predictions.any():
        pair_counts = pair_counts[has_predictions]
    pairs = f"{pair_counts.min()}"
    if pair_counts.max() != pair_counts.min():
        pairs += f" to {pair_counts.max()}"
    return TitledTable(f"{dataset}: {pairs} pairs of models, percent", pd.DataFrame(table_rows))


def _format_p_value(p: float | None) -> str:
    if p is not None and p < 0.0005:
        return "< 0.001"
    return format_number(p, 3)


def _format_percent(share: float | None) -> str:
    if share is None or pd.isna(share):
        return ABSENT
    return f"{100 * share:.0f}%"


def make_strata_table(audit: pd.DataFrame, dataset: str) -> TitledTable:
    """Return residual shares by how much the samples were memorized, with one row per method."""
    methods = audit[(audit["path"] == DEPLOYED) & (audit["role"] == "method")]
    table_rows = []
    for _, row in methods.iterrows():
        cells = {"Method": str(row["title"]), RESIDUE: format_share(row)}
        for name, description in STRATA.items():
            cells[f"{RESIDUE}, {description}"] = format_estimate(row, f"share_of_{name}")
        put_there = [format_number(row.get(f"put_{name}"), 2) for name in STRATA]
        cells["put there [scores]"] = " / ".join(put_there)
        table_rows.append(cells)
    title = f"{dataset}: residual share by how much a sample was memorized, percent"
    return TitledTable(title, pd.DataFrame(table_rows), _describe_strata(methods))


def _describe_strata(methods: pd.DataFrame) -> str:
    """Return sentences on findings in single strata, which the verdicts do not show."""
    if "share_of_top" not in methods:
        return (
            "Strata need at least two pairs of models that swap the same halves, and a pool that is"
            " large enough."
        )
    is_higher = methods["share_of_top_low"] > methods["share_high"].clip(lower=0)
    higher_shares = []
    for _, row in methods[is_higher].iterrows():
        higher_shares.append(f"{row['title']} {format_estimate(row, 'share_of_top')}")
    hidden_shares = []
    for _, row in methods[methods["verdict"] == "none found"].iterrows():
        for name, description in STRATA.items():
            if row[f"share_of_{name}_low"] > 0:
                share = format_estimate(row, f"share_of_{name}")
                hidden_shares.append(f"{row['title']}, {description} {share}")
    text = (
        "Shown to retain more of the most memorized tenth than of all samples:"
        f" {'; '.join(higher_shares) or 'no method'}."
    )
    if hidden_shares:
        text += f" No residue found on average, but above 0 here: {'; '.join(hidden_shares)}."
    return f"{text} These intervals are not corrected for multiple comparisons."


def select_first_rows(audit: pd.DataFrame) -> pd.DataFrame:
    """Return the most important rows: methods on all paths, and controls on the deployed path."""
    return audit[(audit["path"] == DEPLOYED) | (audit["role"] == "method")].reset_index(drop=True)


def make_attack_tables(
    attacks: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]
) -> list[TitledTable]:
    """Return tables of attacks on one model and the paper's MIA, one per data set and rate.

    The numbers are means over seeds, in percent, with 95% intervals over seeds and samples.

    Parameters
    ----------
    attacks
        The rows of `munkey.audits.main_run.make_attack_rows`.
    tidy
        The metrics of all systems, including MIA.
    """
    mia = tidy[tidy["metric"] == "MIA"]
    tables = []
    attack_titles = dict(ATTACKS)
    for name in map(str, attacks["attack"].unique()):
        if name not in ATTACKS:
            attack_titles[name] = AUDITS[name].title
    by_rate = attacks.astype({"rate": float}).groupby(["dataset", "rate"], sort=False)
    for (dataset, rate), part in by_rate:
        mia_at_rate = mia[(mia["dataset"] == dataset) & (mia["rate"].astype(float) == rate)]
        table_rows = []
        for system in rows:
            system_attacks = part[part["method"] == system.name]
            mia_values = mia_at_rate[mia_at_rate["method"] == system.name]["value"]
            if len(mia_values) < system_attacks["seed"].nunique():  # the other seeds diverged
                table_rows.append({"Method": system.title, "MIA": DIVERGED})
                continue
            # A system without MIA has the mean NaN, which is shown as –.
            cells = {"Method": system.title, "MIA": format_number(mia_values.mean(), 1)}
            for name, attack_title in attack_titles.items():
                results = system_attacks[system_attacks["attack"] == name]
                cells[f"{attack_title}: AUROC"] = _format_over_seeds(results, "auroc")
                cells[f"{attack_title}: TPR @ 1%"] = _format_over_seeds(results, "tpr_1")
            table_rows.append(cells)
        n = part["seed"].nunique()
        title = f"{dataset}, forget rate {percent(part['rate'].iloc[0])}: {format_seed_count(n)}"
        tables.append(TitledTable(title, pd.DataFrame(table_rows).fillna(ABSENT)))
    return tables


def _format_over_seeds(results: pd.DataFrame, name: str) -> str:
    """Return `mean [low, high]` of an attack, with its interval over seeds and samples.

    Returns – if the system was not attacked, and `too few test samples` if a rate could not be
    computed.
    """
    if results.empty:
        return ABSENT
    if name not in results or results[name].isna().any():
        return "too few test samples"
    interval = compute_interval_of_seeds(
        results[name], results[f"{name}_low"], results[f"{name}_high"]
    )
    return f"{results[name].mean():.1f} {format_interval(interval)}"


def make_storage_tables(searches: pd.DataFrame) -> list[TitledTable]:
    """Return one table per data set that counts traces of deleted samples in the systems' files.

    Traces are counted before and after deletion and summed over seeds.

    Parameters
    ----------
    searches
        The rows of `munkey.audits.main_run.make_storage_rows`.
    """
    tables = []
    for dataset, part in searches.groupby("dataset", sort=False):
        table_rows = []
        for (_, title), files in part.groupby(["rate", "title"], sort=False):
            rate = float(files["rate"].iloc[0])
            before = files[files["file"] == "original"]
            after = files[files["file"] == "unlearned"]
            cells = {
                "Method": str(title),
                "Forget": percent(rate),
                "keys and tokens, before": _format_traces(before, "rows"),
                "keys and tokens, after": _format_traces(after, "rows"),
                "ids, before": _format_traces(before, "ids"),
                "ids, after": _format_traces(after, "ids"),
            }
            if "deletion" in files:  # results of earlier versions lack this column
                deletion = files["deletion"].iloc[0]
                cells["deletion is"] = ABSENT if pd.isna(deletion) else str(deletion)
            table_rows.append(cells)
        over = format_seed_count(part["seed"].nunique())
        title = f"{dataset}: traces of deleted samples in the system's file, {over}"
        remark = f"Searched for: {AUDITS['storage'].definition}; not for any other form."
        if "deletion" in part:
            remark += (
                " Exact: bit for bit equal to a fit without the samples. Given constants: the same,"
                " but the constants were chosen with the samples and are kept. –: the weights were"
                " trained on the samples."
            )
        tables.append(TitledTable(title, pd.DataFrame(table_rows), remark))
    return tables


def _format_traces(files: pd.DataFrame, name: str) -> str:
    """Return how many of the deleted rows or ids were found (`6 of 6`).

    If the search is inconclusive, return the reason instead.
    """
    if files["why"].notna().any():
        return str(files["why"].dropna().iloc[0])
    return f"{files[name].sum():.0f} of {files[f'{name}_of'].sum()}"


def make_differencing_tables(attacks: pd.DataFrame, dataset: str) -> list[TitledTable]:
    """Return how many deleted samples can be identified by comparing two versions of a model.

    There is one table, with one row per method and batch size, or none if there were no attacks.

    Parameters
    ----------
    attacks
        The rows of `munkey.audits.two_versions.Attacker.make_rows`.
    """
    if attacks.empty:
        return []
    table_rows = []
    for (title, batch), attackers in attacks.groupby(["title", "batch"], sort=False):
        precisions = attackers.set_index("attacker")["precision"]
        first = attackers.iloc[0]
        cells = {
            "Method": str(title),
            "deleted at once": f"{batch}",
            "deletions": f"{first['deletions']}",
        }
        for attacker in ("answers", "margins", "weights"):
            cells[attacker] = format_number(precisions.get(attacker), 0)
        cells["chance"] = f"{first['chance']:.2g}"
        table_rows.append(cells)
    title = f"{dataset}: deleted samples that two versions give away among all training samples, percent"
    remark = (
        f"{ABSENT}: the model has no linear head. Comparing two versions of a memory reveals which"
        " rows were deleted."
    )
    return [TitledTable(title, pd.DataFrame(table_rows), remark)]


def list_knobs(grid: pd.DataFrame) -> list[str]:
    """Return the dotted names of the settings that vary within an audit's grid."""
    knobs = grid.loc[:, grid.columns.str.contains(".", regex=False)]
    return list(knobs.columns[knobs.astype(str).nunique() > 1])


def select_deployed_rows(grid: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the deployed path, one per setting of the grid, sorted by the knobs."""
    rows = grid[grid["path"] == DEPLOYED]
    knobs = list_knobs(grid)
    if not knobs:
        return rows
    return rows.sort_values(knobs, kind="stable").reset_index(drop=True)


def make_grid_table(grid: pd.DataFrame, dataset: str) -> TitledTable:
    """Return a table of how much the weights remember under each training setting.

    The row of a setting has the residual share of each path, the effect of training ("put there"),
    P_s before deletion, and accuracies. From MIN_SETTINGS settings on, the title has the correlation
    of P_s and share.
    """
    names = shorten_knobs(list_knobs(grid))
    rows = select_deployed_rows(grid)
    table_rows = []
    reasons: list[str] = []
    for _, row in rows.iterrows():
        cells = {name: format_knob_value(row[knob]) for knob, name in names.items()}
        if pd.notna(row.get(DIVERGED)):
            cells[RESIDUE] = DIVERGED
            table_rows.append(cells)
            reasons.append(f"{row['setting']}, {row[DIVERGED]}")
            continue
        shares = grid[grid["setting"] == row["setting"]].set_index("path")["share"]
        cells[RESIDUE] = format_estimate(row, "share")
        for path, description in MEMORY_PATHS.items():
            if path == DEPLOYED:
                continue
            column = f"{RESIDUE}, {description}"
            cells[column] = format_decimal(shares[path]) if path in shares else ABSENT
        cells["put there [scores]"] = f"{row['nothing']:.2f}"
        cells["P_s"] = f"{row['P_s']:.3f}"
        cells["VA before"] = f"{row['val_before']:.1f}"
        cells["VA after"] = f"{row['val_after']:.1f}"
        cells["TA after"] = f"{row['test_after']:.1f}"
        if "alone_after" in grid:
            head_accuracy = row["alone_after"]
            cells[HEAD_ONLY] = ABSENT if pd.isna(head_accuracy) else format_decimal(head_accuracy)
        table_rows.append(cells)
    pairs = grid["pairs"].max()
    title = f"{dataset}: {pairs} pairs of models for each setting"
    if "P_s" in rows and len(rows) >= MIN_SETTINGS:
        correlation = float(rows["P_s"].corr(rows["share"], "spearman"))
        title += f"; Spearman's correlation of P_s and share: {correlation:.2f}"
    return TitledTable(title, pd.DataFrame(table_rows).fillna(ABSENT), describe_divergence(reasons))

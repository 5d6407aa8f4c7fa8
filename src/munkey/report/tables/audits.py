"""The tables of the audits: what is left, how well attacks do, what files hold, and what a grid of settings changes."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from munkey.audits.family_audit import DEPLOYED
from munkey.audits.registry import AUDITS
from munkey.core.diverged import DIVERGED
from munkey.report.tables.markup import ABSENT, Titled, seeds
from munkey.report.tables.summary import Row
from munkey.settings import knob_text, short_names

PATHS = {  # how a memory is asked; the first is how it is deployed
    "deployed": "",
    "softmax": "neighbors averaged",
    "image": "image alone",
    "token": "neighbors' tokens alone",
}
STRATA = {"low": "least memorized third", "mid": "middle third", "high": "most memorized third", "top": "top tenth"}
ATTACKS = {"loss": "Loss", "margin": "Margin", "logistic": "Logistic"}  # on one model; those of plug-ins follow
RESIDUE = "residual share [%]"
HEAD = "TA after, head alone"  # LDA on the same rows
ALONE = "†"
ABOUT_SHARE = f"residual share: of an audit, with its 95 % interval; {ALONE}: flagged by an attack alone"
Residue = Mapping[str, Mapping[str, str]]  # by data set and system: what an audit found to be left, as it is printed


def audited_name(line: pd.Series) -> str:
    """A row's name: the method or what was done to which model, and how it was asked."""
    role, path = str(line["role"]), PATHS[str(line["path"])]
    name = f"Control: {line['title']}" if role.startswith("control") else str(line["title"])
    return ", ".join(filter(None, [name, "original" if role == "control nothing" else "", path]))


def audit_table(audit: pd.DataFrame, dataset: str) -> Titled:
    """A line for each system and path, in the order of the audit."""
    lines = [
        {
            "Model, and what was done": audited_name(line),
            RESIDUE: share_text(line),
            "of the tenth that keeps most": interval(line, "tenth"),
            "verdict": str(line["words"]) if pd.notna(line.get("words")) else "exploratory",
            "LiRA AUROC": interval(line, "u-lira_auroc"),
            "TPR @ 1 %": interval(line, "u-lira_tpr_1"),
            "RMIA AUROC": interval(line, "rmia_auroc"),
            "p": ABSENT if pd.isna(line.get("p")) else "< 0.001" if line["p"] < 0.0005 else f"{line['p']:.3f}",
            "spread of test margins": ABSENT if pd.isna(line.get("unit")) else f"{100 * line['unit']:.0f} %",
            "distance / floor": ABSENT if pd.isna(line.get("js_ratio")) else f"{line['js_ratio']:.2f}",
        }
        for _, line in audit.iterrows()
    ]
    counts = (
        audit.loc[audit["verdict"] != DIVERGED, "pairs"] if (audit["verdict"] != DIVERGED).any() else audit["pairs"]
    )
    pairs = " to ".join(map(str, dict.fromkeys([counts.min(), counts.max()])))
    return Titled(f"{dataset}: {pairs} pairs of models, percent", pd.DataFrame(lines))


def strata_table(audit: pd.DataFrame, dataset: str) -> Titled:
    """What is left by how much a sample was memorized, a line for each method, and a sentence about the top tenth."""
    methods = audit[(audit["path"] == DEPLOYED) & (audit["role"] == "method")]
    lines = [
        {
            "Method": str(line["title"]),
            RESIDUE: share_text(line),
            **{f"{RESIDUE}, {words}": interval(line, f"share_of_{name}") for name, words in STRATA.items()},
            "put there [scores]": " / ".join(
                ABSENT if pd.isna(line.get(f"put_{name}")) else f"{line[f'put_{name}']:.2f}" for name in STRATA
            ),
        }
        for _, line in methods.iterrows()
    ]
    title = f"{dataset}: residual share by how much a sample was memorized, percent"
    return Titled(title, pd.DataFrame(lines), _about_strata(methods))


def _about_strata(methods: pd.DataFrame) -> str:
    """Of which methods more is left of the most memorized tenth than on average; what the verdicts do not see.

    More: the tenth's interval lies above that of the average.
    """
    if "share_of_top" not in methods:
        return "Strata need two pairs of models that swap the same halves, and a pool of some size."
    top = [
        f"{line['title']} {interval(line, 'share_of_top')}"
        for _, line in methods[methods["share_of_top_low"] > methods["share_high"].clip(lower=0)].iterrows()
    ]
    unseen = [
        f"{line['title']}, {words} {interval(line, f'share_of_{name}')}"
        for _, line in methods[methods["verdict"] == "none found"].iterrows()
        for name, words in STRATA.items()
        if line[f"share_of_{name}_low"] > 0
    ]
    said = [f"Shown to keep more of the most memorized tenth than on average: {'; '.join(top) or 'no method'}."]
    if unseen:
        said.append(f"None found on average, but above 0 here: {'; '.join(unseen)}.")
    return " ".join([*said, "These intervals are not corrected for their number."])


def first_rows(audit: pd.DataFrame) -> pd.DataFrame:
    """The rows to look at first: other paths than the deployed one of methods alone."""
    return audit[(audit["path"] == DEPLOYED) | (audit["role"] == "method")].reset_index(drop=True)


def residue_of(audits: Mapping[Path, pd.DataFrame]) -> Residue:
    """The column `residual share [%]` of the main table, on the deployed path; none where an audit has no power.

    audits: their rows, by their folders, which are named for the data sets.
    """
    residue = {}
    for folder, audit in audits.items():
        deployed = audit[(audit["path"] == DEPLOYED) & ~audit["role"].str.startswith("control")]
        residue[folder.name] = {
            str(line["name"]): line["verdict"] if line["verdict"] in ("no power", DIVERGED) else share_text(line)
            for _, line in deployed.iterrows()
        }
    return residue


def share_text(line: pd.Series) -> str:
    """The share with its interval, marked where an attack alone found a residue."""
    return f"{interval(line, 'share')} {ALONE}" if flagged_alone(line) else interval(line, "share")


def flagged_alone(line: pd.Series) -> bool:
    """Whether a method's row is flagged, but not by its share."""
    return line.get("verdict") == "residue" and "share" not in str(line["flagged"]).split()


def interval(line: pd.Series, name: str) -> str:
    """`value [low, high]`, – where there is none."""
    if pd.isna(line.get(name)):
        return ABSENT
    low, high = line[f"{name}_low"], line[f"{name}_high"]
    bounds = f"{_bound(low)}, {_bound(high)}" if math.isfinite(high - low) else "unbounded"
    return f"{decimal(line[name])} [{bounds}]"


def _bound(value: float) -> str:
    """A bound that says no more than that it is far away has no figure."""
    return decimal(value) if abs(value) < 1000 else "< -999" if value < 0 else "> 999"


def decimal(value: float) -> str:
    """With one decimal, and without a sign where it is 0."""
    return f"{round(value, 1) + 0.0:.1f}"


def attacks_tables(found: pd.DataFrame, tidy: pd.DataFrame, rows: Sequence[Row]) -> list[Titled]:
    """Attacks on one model beside the paper's MIA, a table for each data set and rate: means over seeds, percent.

    found: of `munkey.audits.main_run.attack_lines`; tidy: metrics. In brackets: the lowest and the highest bound of any
    seed.
    """
    mia, titled = tidy[tidy["metric"] == "MIA"], []
    others = {str(name): AUDITS[str(name)].title for name in found["attack"].unique() if name not in ATTACKS}
    for (dataset, rate), part in found.astype({"rate": float}).groupby(["dataset", "rate"], sort=False):
        of_rate = mia[(mia["dataset"] == dataset) & (mia["rate"].astype(float) == rate)]
        lines = []
        for row in rows:
            own = part[part["method"] == row.name]
            measured = of_rate[of_rate["method"] == row.name]["value"]
            if len(measured) < own["seed"].nunique():  # of another seed it was not measured
                lines.append({"Method": row.title, "MIA": DIVERGED})
                continue
            line = {"Method": row.title, "MIA": f"{measured.mean():.1f}" if len(measured) else ABSENT}
            for name, attack in (ATTACKS | others).items():
                of_attack = own[own["attack"] == name]
                line[f"{attack}: AUROC"] = _over_seeds(of_attack, "auroc")
                line[f"{attack}: TPR @ 1 %"] = _over_seeds(of_attack, "tpr_1")
            lines.append(line)
        title = f"{dataset}, forget rate {100 * part['rate'].iloc[0]:g} %: {seeds(part['seed'].nunique())}"
        titled.append(Titled(title, pd.DataFrame(lines).fillna(ABSENT)))
    return titled


def _over_seeds(lines: pd.DataFrame, name: str) -> str:
    """Mean over seeds; `too few test samples` where there are too few for the rate; – where nothing was attacked."""
    if lines.empty:
        return ABSENT
    if name not in lines or lines[name].isna().any():
        return "too few test samples"
    return f"{lines[name].mean():.1f} [{lines[f'{name}_low'].min():.1f}, {lines[f'{name}_high'].max():.1f}]"


def storage_tables(found: pd.DataFrame) -> list[Titled]:
    """What files still hold of what was deleted, before and after deletion, a table for each data set: sums over seeds.

    found: lines of `munkey.audits.main_run.storage_lines`.
    """
    titled = []
    for dataset, part in found.groupby("dataset", sort=False):
        lines = []
        for (_, title), own in part.groupby(["rate", "title"], sort=False):
            line = {"Method": str(title), "Forget": f"{100 * float(own['rate'].iloc[0]):g} %"}
            for column, name in (("keys and tokens", "rows"), ("ids", "ids")):
                for when, file in (("before", "original"), ("after", "unlearned")):
                    line[f"{column}, {when}"] = _found_of_deleted(own[own["file"] == file], name)
            lines.append(line)
        over = seeds(part["seed"].nunique())
        title = f"{dataset}: what was deleted and is found in the system's file, {over}"
        titled.append(Titled(title, pd.DataFrame(lines), f"Looked for: {AUDITS['storage'].definition}; no other form."))
    return titled


def _found_of_deleted(lines: pd.DataFrame, name: str) -> str:
    """`6 of 6`, or why the search proves nothing."""
    if lines["why"].notna().any():
        return str(lines["why"].dropna().iloc[0])
    return f"{lines[name].sum():.0f} of {lines[f'{name}_of'].sum()}"


def differencing_tables(found: pd.DataFrame, dataset: str) -> list[Titled]:
    """Whom two versions name, a line for each method and number of samples deleted at once; no table of no lines.

    found: lines of `munkey.audits.two_versions.Holder`.
    """
    lines = []
    for (title, batch), own in found.groupby(["title", "batch"], sort=False) if len(found) else ():
        named, first = own.set_index("attacker")["precision"], own.iloc[0]
        line = {"Method": str(title), "deleted at once": f"{batch}", "deletions": f"{first['deletions']}"}
        line |= {who: f"{named[who]:.0f}" if who in named else ABSENT for who in ("answers", "margins", "weights")}
        lines.append(line | {"chance": f"{first['chance']:.2g}"})
    title = f"{dataset}: of the deleted, percent that two versions name among all training samples"
    remark = f"{ABSENT}: no linear head; of a memory, whoever holds both versions sees which rows are gone."
    return [Titled(title, pd.DataFrame(lines), remark)] if lines else []


def knobs_of(grid: pd.DataFrame) -> list[str]:
    """The knobs of an audit's grid whose values differ, by dotted name."""
    return [name for name in grid.columns if "." in name and grid[name].astype(str).nunique() > 1]


def deployed_rows(grid: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting of a grid, as it is deployed, in the order of its knobs."""
    rows, knobs = grid[grid["path"] == DEPLOYED], knobs_of(grid)
    return rows.sort_values(knobs, kind="stable").reset_index(drop=True) if knobs else rows


def grid_table(grid: pd.DataFrame, dataset: str) -> Titled:
    """What the weights keep, by how they are trained, a line for each setting of the grid.

    Shares by path, what training had put there, P_s before deletion, accuracies.
    """
    names, rows, lines = short_names(knobs_of(grid)), deployed_rows(grid), []
    heads = "alone_after" in grid
    reasons: list[str] = []
    for _, line in rows.iterrows():
        if pd.notna(line.get(DIVERGED)):
            knobs = {name: knob_text(line[knob]) for knob, name in names.items()}
            lines.append({**knobs, RESIDUE: DIVERGED})
            reasons.append(f"{line['setting']}, {line[DIVERGED]}")
            continue
        shares = grid[grid["setting"] == line["setting"]].set_index("path")["share"]
        lines.append(
            {
                **{name: knob_text(line[knob]) for knob, name in names.items()},
                RESIDUE: interval(line, "share"),
                **{
                    f"{RESIDUE}, {words}": decimal(shares[path]) if path in shares else ABSENT
                    for path, words in PATHS.items()
                    if path != DEPLOYED
                },
                "put there [scores]": f"{line['nothing']:.2f}",
                "P_s": f"{line['P_s']:.3f}",
                "VA before": f"{line['val_before']:.1f}",
                "VA after": f"{line['val_after']:.1f}",
                "TA after": f"{line['test_after']:.1f}",
                **({HEAD: ABSENT if pd.isna(line["alone_after"]) else decimal(line["alone_after"])} if heads else {}),
            }
        )
    pairs = grid["pairs"].max()
    rank = float(rows["P_s"].corr(rows["share"], "spearman")) if "P_s" in rows else math.nan
    title = f"{dataset}: {pairs} pairs of models for each setting; Spearman's correlation of P_s and share: {rank:.2f}"
    remark = f"Diverged: {'. '.join(reasons)}." if reasons else ""
    return Titled(title, pd.DataFrame(lines).fillna(ABSENT), remark)

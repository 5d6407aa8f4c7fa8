"""The frontier of designs: residual share, test accuracy, seconds to forget, and storage."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from munkey.audits.family_audit import DEPLOYED
from munkey.core.diverged import DIVERGED
from munkey.report.tables.audits import (
    ABOUT_SHARE,
    RESIDUE,
    format_share,
    is_flagged_only_by_attack,
)
from munkey.report.tables.comparisons import (
    TESTED,
    compute_accuracy_interval,
    format_interval,
    get_difference,
)
from munkey.report.tables.markup import (
    ABSENT,
    Markup,
    TitledTable,
    describe_statistic,
    emphasize,
    format_cell,
    format_percent,
    format_plus_minus,
    format_two_digits,
)

CONDITIONS = {  # by the largest residual share [%]
    1.0: "Most accurate with a residual share of at most 1 %",
    5.0: "With at most 5 %",
    math.inf: "Whatever the share",
}
TIE = 9  # decimals; accuracies that agree to this many decimals count as equal
KINDS = {  # kinds of designs, with their labels in legends
    "exact": "deletes exactly",
    "rows": "deletes rows, keeps the weights",
    "weights": "changes the network",
    "anew": "retrained (reference)",
}
NOT_AUDITED = "not audited"
NO_POWER = "no power"
# The largest residual share [%] of a recommended design: 1 % if any design meets it, else 5 %.
SHARE_LIMITS = (1.0, 5.0)
SHARES = ("share", "share_low", "share_high")
RULE = (
    "A design has a residual share of at most 1 % if its whole 95 % interval lies within ± 1 %. Designs that only an"
    " attack flagged (†), or that were not audited, do not count. Bold: no more accurate design has as small a residual"
    " share. Not significantly better: the 95 % interval of the difference in test accuracy contains 0."
)


@dataclass(frozen=True)
class Design:
    """A family with its way to forget.

    Attributes
    ----------
    name, title
        The system's name and title in the tables.
    kind
        One of KINDS. `exact`: equal to its oracle, bit for bit, after a deletion; `rows`: deletes
        rows of a memory, but keeps weights that were trained on them; `weights`: changes the
        weights of a trained network, or switches parts of it off; `anew`: an oracle, which is a
        reference and no rival.
    stored
        What must be stored to predict and to forget.
    """

    name: str
    title: str
    kind: Literal["exact", "rows", "weights", "anew"]
    stored: str


def make_points(
    summary: pd.DataFrame, audit: pd.DataFrame | None, designs: Sequence[Design]
) -> pd.DataFrame:
    """Make a table of the designs on one data set at its largest forget rate.

    Parameters
    ----------
    summary
        The summary of that data set.
    audit
        The rows of `munkey.audits.family_audit`; None without an audit.

    Returns
    -------
    points
        A row per design, the smallest bound first. It has the summary's columns, and
        share_text (the share as printed), share, share_low, share_high (percent), bound (percent:
        the largest absolute share in the interval; infinite if no bound holds), seconds (to forget;
        for an oracle, to train) and front (whether no other design with as small a bound is more
        accurate; equal designs are all on the front).
    """
    largest = summary[summary["rate"] == summary["rate"].max()].set_index("method")
    audited = {}
    if audit is not None:
        deployed = audit[(audit["path"] == DEPLOYED) & (audit["role"] == "method")]
        audited = dict(deployed.set_index("name", drop=False).iterrows())
    rows = []
    for design in designs:
        numbers = largest.loc[design.name]
        if design.kind == "anew":
            seconds = numbers.get("train_s_mean", math.nan)
        else:
            seconds = numbers.get("unlearn_s_mean", math.nan)
        share = _find_share(design, audited.get(design.name))
        rows.append({"method": design.name, **numbers, **vars(design), **share, "seconds": seconds})
    return mark_front(pd.DataFrame(rows))


def mark_front(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows of `make_points` and add the column `front`.

    In the order of bounds, then of accuracies, a design is on the front if none before it is more
    accurate.
    """
    table = rows.sort_values(["bound", "TA_mean"], ascending=[True, False], ignore_index=True)
    # Oracles are references, not rivals, so their accuracy does not count.
    rivals = table["TA_mean"].where(table["kind"] != "anew", -math.inf).round(TIE)
    return table.assign(front=(rivals >= rivals.cummax()) & (table["kind"] != "anew"))


def _find_share(design: Design, audited: pd.Series | None) -> dict[str, object]:
    """Return the residual share of a design, as text and as numbers.

    Parameters
    ----------
    audited
        The design's row in the audit; None if it was not audited. Its `contrast` is 0 if the
        design's predictions equal those of its oracle, bit for bit.
    """
    nothing = dict.fromkeys(SHARES, 0.0) | {"bound": 0.0}
    unknown = dict.fromkeys(SHARES, math.nan) | {"bound": math.inf}
    contrast = math.nan
    if audited is not None:
        contrast = audited.get("contrast", math.nan)
    if design.kind == "anew":
        return nothing | {"share_text": "0, by definition"}
    if design.kind == "exact" and contrast == 0:
        return nothing | {"share_text": "0, to the bit"}
    if design.kind == "exact" and math.isnan(contrast):
        return nothing | {"share_text": "0, by construction"}
    if audited is None:
        return unknown | {"share_text": NOT_AUDITED}
    if audited["verdict"] in (NO_POWER, DIVERGED):
        return unknown | {"share_text": audited["verdict"]}
    bound = math.inf
    if not is_flagged_only_by_attack(audited):
        bound = max(abs(audited["share_low"]), abs(audited["share_high"]))
    return {**audited[list(SHARES)], "share_text": format_share(audited), "bound": bound}


def write_advice(points: pd.DataFrame) -> str:
    """Write one sentence on which design to deploy, and why.

    It names the most accurate design among those with a small enough residual share, and the ones
    whose accuracy does not differ significantly from it. If another design is significantly more
    accurate, but has no such share, it is named with the difference.

    Parameters
    ----------
    points
        The result of `make_points`.
    """
    points = points.dropna(subset="TA_mean")
    rivals = points[points["kind"] != "anew"]
    # The smallest limit that any design meets.
    limits = [limit for limit in SHARE_LIMITS if (rivals["bound"] <= limit).any()]
    if not limits:
        return _explain_no_advice(rivals, points[points["kind"] == "anew"])
    limit = limits[0]
    allowed = _sort_by_accuracy(rivals[rivals["bound"] <= limit])
    best = allowed.iloc[0]
    names = [_title_and_accuracy(best)]
    for _, other in allowed[1:].iterrows():
        if not _is_shown_better(best, other):
            names.append(_title_and_accuracy(other))
    remark = ""
    if len(names) > 1:
        remark = ", none of which is shown to be more accurate"
    are_exact = (allowed["kind"] == "exact").all()
    if len(allowed) > 1:
        if are_exact:
            virtue = "delete exactly"
        else:
            virtue = f"are shown to have a residual share of at most {limit:g} %"
        reason = f"the most accurate of the {len(allowed)} designs that {virtue}"
    elif are_exact:
        reason = "the only design that deletes exactly"
    else:
        reason = f"the only design that is shown to have a residual share of at most {limit:g} %"
    rival = _name_more_accurate(best, rivals[rivals["bound"] > limit])
    return f"Deploy {' or '.join(names)}{remark}: {reason}{rival}."


def _sort_by_accuracy(points: pd.DataFrame) -> pd.DataFrame:
    return points.sort_values("TA_mean", ascending=False, kind="stable")


def _title_and_accuracy(row: pd.Series) -> str:
    return f"{row['title']} ({_format_accuracy(row)} %)"


def _is_shown_better(one: pd.Series, other: pd.Series) -> bool:
    """Return whether one design is significantly more accurate than the other (95 % interval)."""
    distance = get_difference(one, other)
    return distance is not None and distance.excludes_zero and distance.value > 0


def _name_more_accurate(best: pd.Series, others: pd.DataFrame) -> str:
    """Return a clause on the most accurate design that is significantly better than the advised one.

    It is empty if there is none.
    """
    for _, rival in _sort_by_accuracy(others).iterrows():
        if _is_shown_better(rival, best):
            distance = get_difference(rival, best)
            assert distance is not None
            interval = f"95 % interval of the difference: {format_interval(distance.interval)}"
            margin = f"{distance.value:.1f} points ({interval})"
            return (
                f"; {rival['title']} is more accurate by {margin}, but {_explain_not_shown(rival)}"
            )
    return ""


def _explain_not_shown(row: pd.Series) -> str:
    """Return why a design is not shown to have a small residual share."""
    if row["share_text"] == NOT_AUDITED:
        return "it has not been audited (run `make audits`)"
    if row["share_text"] == NO_POWER:
        return "its audit has no power"
    return f"its residual share is {row['share_text']} %"


def _explain_no_advice(rivals: pd.DataFrame, oracles: pd.DataFrame) -> str:
    """Write why no design can be recommended, and that an oracle is always safe."""
    safe_choice = "retrain to be sure"
    if len(oracles):
        safe_choice += f": {' or '.join(oracles['title'])}"
    if len(rivals) and (rivals["share_text"] == NOT_AUDITED).all():
        return (
            "No design can be recommended: none deletes exactly, and none was audited (run `make audits`);"
            f" {safe_choice}."
        )
    return (
        "No design can be recommended: none is shown to have a residual share of at most"
        f" {SHARE_LIMITS[-1]:g} %; {safe_choice}."
    )


def describe_frontier(points: pd.DataFrame) -> str:
    """Write sentences on the most accurate designs: for each limit of the residual share, and overall.

    They also list the designs that are not significantly less accurate, and those whose share is
    unknown.

    Parameters
    ----------
    points
        The result of `make_points`.
    """
    has_diverged = points["TA_mean"].isna() | (points["share_text"] == DIVERGED)
    diverged = list(points.loc[has_diverged, "title"])
    points = points.dropna(subset="TA_mean")
    points = points.assign(accuracy=[f"{_format_accuracy(row)} %" for _, row in points.iterrows()])
    is_oracle = points["kind"] == "anew"
    rivals = points[~is_oracle]
    sentences = []
    previous_names = ""
    for limit, condition in CONDITIONS.items():
        allowed = rivals[rivals["bound"] <= limit]
        if len(allowed):
            names = _name_best(allowed)
        else:
            names = "none is shown to have so small a share"
        if names == previous_names:
            sentences.append(f"{condition}: the same.")
        else:
            sentences.append(f"{condition}: {names}.")
        previous_names = names
    oracles = []
    for _, row in points[is_oracle].iterrows():
        oracles.append(f"{row['title']} ({row['accuracy']}, {_format_seconds(row)} s)")
    sentences.append(f"Retraining leaves nothing by definition: {', '.join(oracles)}.")
    unknown = list(rivals[rivals["share_text"].isin([NOT_AUDITED, NO_POWER])]["title"])
    if unknown:
        sentences.append(f"Not audited, or without power: {', '.join(unknown)}.")
    if diverged:
        sentences.append(f"Diverged: {', '.join(diverged)}.")
    return " ".join(sentences)


def _name_best(allowed: pd.DataFrame) -> str:
    """Name the most accurate designs (all of a tie), and those not significantly less accurate."""
    accuracies = allowed["TA_mean"].round(TIE)
    is_best = accuracies == accuracies.max()
    best = allowed[is_best]
    similar = []
    for _, row in _sort_by_accuracy(allowed[~is_best]).iterrows():
        distance = get_difference(best.iloc[0], row)
        if distance is not None and not distance.excludes_zero:
            similar.append(row["title"])
    clause = ""
    if similar:
        clause = f", not significantly better than {', '.join(similar)}"
    return f"{' and '.join(best['title'])} ({best.iloc[0]['accuracy']}){clause}"


def _format_accuracy(row: pd.Series) -> str:
    """Format a test accuracy in percent: ± over seeds, or for one seed the interval over test samples."""
    interval = compute_accuracy_interval(row)
    if row["n"] > 1 or interval is None:
        return format_plus_minus(row["TA_mean"], row["TA_sd"])
    return f"{row['TA_mean']:.2f} [{interval.low:.1f}, {interval.high:.1f}]"


def _format_seconds(row: pd.Series) -> str:
    if pd.isna(row["seconds"]):
        return ABSENT
    return format_two_digits(row["seconds"])


def make_frontier_table(points: pd.DataFrame, markup: Markup) -> TitledTable:
    """Make a table with a row for each of `points`, and the front in bold."""
    rows = []
    for _, row in points.iterrows():
        title = row["title"]
        if row["front"]:
            title = emphasize(title, markup)
        rows.append(
            {
                "Method": title,
                RESIDUE: row["share_text"],
                "Test accuracy": _format_accuracy(row),
                "Seconds": _format_seconds(row),
                "Must be stored": row["stored"],
                "Avg Gap": format_cell(row, "gap", markup),
            }
        )
    first = points.iloc[0]
    n = int(points["n"].min())
    statistic = describe_statistic(n)
    if n == 1 and compute_accuracy_interval(first) is not None:
        statistic += (
            f", test accuracy with its 95 % interval over {first[TESTED]:,.0f} test samples"
        )
    about = f"{format_percent(first['rate'])} forgotten: {statistic}, percent; {ABOUT_SHARE}"
    return TitledTable(f"{first['dataset']}, {about}", pd.DataFrame(rows))

"""The frontier: residual share, accuracy, seconds and storage of each design."""

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

MOST = {
    1.0: "Most accurate with a residual share of at most 1 %",
    5.0: "With at most 5 %",
    math.inf: "Whatever the share",
}
TIE = 9  # digits: accuracies that differ by less differ by rounding alone
KINDS = {  # of designs, as legends have them
    "exact": "deletes exactly",
    "rows": "deletes rows, keeps the weights",
    "weights": "changes the network",
    "anew": "retrained (reference)",
}
NOT_AUDITED = "not audited"
NO_POWER = "no power"
# percent: largest residual share of a recommended design; the smaller one if any design meets it
LITTLE = 1.0, 5.0
SHARES = ("share", "share_low", "share_high")
RULE = (
    "A design has a residual share of at most 1 % if its whole 95 % interval lies within ± 1 %. Designs that only an"
    " attack flagged (†), or that were not audited, do not count. Bold: no more accurate design has as small a residual"
    " share. Not told apart: the 95 % interval of the difference in test accuracy contains 0."
)


@dataclass(frozen=True)
class Design:
    """A way to forget.

    Attributes
    ----------
    name, title
        As in the tables.
    stored
        What must be kept to answer and to forget, in words.
    kind
        One of KINDS. `exact`: after a deletion it is its oracle, to the bit; `rows`: its weights
        were trained on the deleted rows, and stay; `weights`: it changes or switches off parts of a
        trained network; `anew`: an oracle, which is the reference and no rival.
    """

    name: str
    title: str
    kind: Literal["exact", "rows", "weights", "anew"]
    stored: str


def make_points(
    summary: pd.DataFrame, audit: pd.DataFrame | None, designs: Sequence[Design]
) -> pd.DataFrame:
    """Return a line for each design of one data set, at its largest forget rate, the smallest bound first.

    Columns beside those of the summary: share_text (the share as printed), bound (percent: the most
    that the share may be, in either direction; infinite if no bound holds), share, share_low,
    share_high, seconds (to forget; an oracle's are those of training), front (whether no other
    design is more accurate with a bound as small; designs that are equal are all on the front).

    Parameters
    ----------
    summary
        The summary of that data set.
    audit
        Rows of `munkey.audits.family_audit`; None without an audit.
    """
    largest = summary[summary["rate"] == summary["rate"].max()].set_index("method")
    audited = {}
    if audit is not None:
        deployed = audit[(audit["path"] == DEPLOYED) & (audit["role"] == "method")]
        audited = dict(deployed.set_index("name", drop=False).iterrows())
    lines = []
    for design in designs:
        numbers = largest.loc[design.name]
        seconds = numbers.get("unlearn_s_mean", math.nan)
        if design.kind == "anew":
            seconds = numbers.get("train_s_mean", math.nan)
        share = _find_share(design, audited.get(design.name))
        lines.append(
            {"method": design.name, **numbers, **vars(design), **share, "seconds": seconds}
        )
    return mark_front(pd.DataFrame(lines))


def mark_front(lines: pd.DataFrame) -> pd.DataFrame:
    """Return lines by their bound, then by accuracy, with the column `front`.

    In this order, a design is on the front if none before it is more accurate.
    """
    table = lines.sort_values(["bound", "TA_mean"], ascending=[True, False], ignore_index=True)
    # Oracles are references, not rivals, so their accuracy does not count.
    rivals = table["TA_mean"].where(table["kind"] != "anew", -math.inf).round(TIE)
    return table.assign(front=(rivals >= rivals.cummax()) & (table["kind"] != "anew"))


def _find_share(design: Design, audited: pd.Series | None) -> dict[str, object]:
    """Return the residual share of a design, as text and as numbers.

    Parameters
    ----------
    audited
        The row of the design in an audit; None if it was not audited. `contrast` is 0 there if the
        design answers as its oracle does, to the bit.
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
    """Return one sentence that says which design to deploy, and why.

    It names the most accurate of the designs that are shown to leave little, and all designs that
    are not told apart from it. A design that is shown to be more accurate, but not to leave so
    little, is named with the difference.

    Parameters
    ----------
    points
        The result of the function `points`.
    """
    points = points.dropna(subset="TA_mean")
    rivals = points[points["kind"] != "anew"]
    # The smallest share that any design is shown to keep to.
    limits = [limit for limit in LITTLE if (rivals["bound"] <= limit).any()]
    if not limits:
        return _explain_no_advice(rivals, points[points["kind"] == "anew"])
    limit = limits[0]
    allowed = _sort_by_accuracy(rivals[rivals["bound"] <= limit])
    best = allowed.iloc[0]
    names = [_title_and_accuracy(best)]
    for _, other in allowed[1:].iterrows():
        if not _is_shown_better(best, other):
            names.append(_title_and_accuracy(other))
    several = ""
    if len(names) > 1:
        several = ", which are not told apart in test accuracy"
    are_exact = (allowed["kind"] == "exact").all()
    if len(allowed) > 1:
        virtue = f"are shown to have a residual share of at most {limit:g} %"
        if are_exact:
            virtue = "delete exactly"
        reason = f"the most accurate of the {len(allowed)} designs that {virtue}"
    elif are_exact:
        reason = "it alone deletes exactly"
    else:
        reason = f"it alone is shown to have a residual share of at most {limit:g} %"
    rival = _name_more_accurate(best, rivals[rivals["bound"] > limit])
    return f"Deploy {' or '.join(names)}{several}: {reason}{rival}."


def _sort_by_accuracy(points: pd.DataFrame) -> pd.DataFrame:
    return points.sort_values("TA_mean", ascending=False, kind="stable")


def _title_and_accuracy(line: pd.Series) -> str:
    return f"{line['title']} ({_format_accuracy(line)} %)"


def _is_shown_better(one: pd.Series, other: pd.Series) -> bool:
    """Return whether one's accuracy is above the other's by more than the interval of their difference allows."""
    distance = get_difference(one, other)
    return distance is not None and distance.excludes_zero and distance.value > 0


def _name_more_accurate(best: pd.Series, others: pd.DataFrame) -> str:
    """Return a clause on the most accurate of the others that are shown to be more accurate than the advised one.

    It is empty if there is no such design.
    """
    for _, rival in _sort_by_accuracy(others).iterrows():
        if _is_shown_better(rival, best):
            distance = get_difference(rival, best)
            assert distance is not None
            interval = f"95 % interval of the difference: {format_interval(distance.interval)}"
            points = f"{distance.value:.1f} points ({interval})"
            return (
                f"; {rival['title']} is more accurate by {points}, but {_explain_not_shown(rival)}"
            )
    return ""


def _explain_not_shown(line: pd.Series) -> str:
    """Return why a design is not shown to leave little."""
    if line["share_text"] == NOT_AUDITED:
        return "it has not been audited (run `make audits`)"
    if line["share_text"] == NO_POWER:
        return "its audit has no power"
    return f"its residual share is {line['share_text']} %"


def _explain_no_advice(rivals: pd.DataFrame, oracles: pd.DataFrame) -> str:
    """Return the sentence if no design is shown to leave little: why, and that an oracle is sure to leave nothing."""
    safe = "train anew to be sure"
    if len(oracles):
        safe += f": {' or '.join(oracles['title'])}"
    if len(rivals) and (rivals["share_text"] == NOT_AUDITED).all():
        return f"No design can be advised: none deletes exactly, and none was audited (run `make audits`); {safe}."
    return f"No design can be advised: none is shown to have a residual share of at most {LITTLE[-1]:g} %; {safe}."


def describe_frontier(points: pd.DataFrame) -> str:
    """Return sentences on the most accurate designs: of those that leave little, and of all.

    They also say which designs are not told apart from it, and which are unknown.

    Parameters
    ----------
    points
        The result of the function `points`.
    """
    has_diverged = points["TA_mean"].isna() | (points["share_text"] == DIVERGED)
    diverged = list(points.loc[has_diverged, "title"])
    points = points.dropna(subset="TA_mean")
    points = points.assign(
        accuracy=[f"{_format_accuracy(line)} %" for _, line in points.iterrows()]
    )
    is_oracle = points["kind"] == "anew"
    rivals = points[~is_oracle]
    sentences = []
    previous_answer = ""
    for limit, words in MOST.items():
        allowed = rivals[rivals["bound"] <= limit]
        answer = "none is shown to have so small a share"
        if len(allowed):
            answer = _name_best(allowed)
        if answer == previous_answer:
            sentences.append(f"{words}: the same.")
        else:
            sentences.append(f"{words}: {answer}.")
        previous_answer = answer
    oracles = []
    for _, line in points[is_oracle].iterrows():
        oracles.append(f"{line['title']} ({line['accuracy']}, {_format_seconds(line)} s)")
    sentences.append(f"Training anew leaves nothing by definition: {', '.join(oracles)}.")
    unknown = list(rivals[rivals["share_text"].isin([NOT_AUDITED, NO_POWER])]["title"])
    if unknown:
        sentences.append(f"Not audited, or without power: {', '.join(unknown)}.")
    if diverged:
        sentences.append(f"Diverged: {', '.join(diverged)}.")
    return " ".join(sentences)


def _name_best(allowed: pd.DataFrame) -> str:
    """Return the names of the most accurate designs (all of a tie), and of those not told apart from the first."""
    accuracies = allowed["TA_mean"].round(TIE)
    is_best = accuracies == accuracies.max()
    best = allowed[is_best]
    similar = []
    for _, line in _sort_by_accuracy(allowed[~is_best]).iterrows():
        distance = get_difference(best.iloc[0], line)
        if distance is not None and not distance.excludes_zero:
            similar.append(line["title"])
    clause = ""
    if similar:
        clause = f", not told apart from {', '.join(similar)}"
    return f"{' and '.join(best['title'])} ({best.iloc[0]['accuracy']}){clause}"


def _format_accuracy(line: pd.Series) -> str:
    """Return a test accuracy in percent, ± over seeds; that of one seed with its interval over test samples."""
    interval = compute_accuracy_interval(line)
    if line["n"] > 1 or interval is None:
        return format_plus_minus(line["TA_mean"], line["TA_sd"])
    return f"{line['TA_mean']:.2f} [{interval.low:.1f}, {interval.high:.1f}]"


def _format_seconds(line: pd.Series) -> str:
    if pd.isna(line["seconds"]):
        return ABSENT
    return format_two_digits(line["seconds"])


def make_frontier_table(points: pd.DataFrame, markup: Markup) -> TitledTable:
    """Return a table with a line for each of `points`, the front in bold."""
    lines = []
    for _, line in points.iterrows():
        title = line["title"]
        if line["front"]:
            title = emphasize(title, markup)
        lines.append(
            {
                "Method": title,
                RESIDUE: line["share_text"],
                "Test accuracy": _format_accuracy(line),
                "Seconds": _format_seconds(line),
                "Must be stored": line["stored"],
                "Avg Gap": format_cell(line, "gap", markup),
            }
        )
    first = points.iloc[0]
    seeds = describe_statistic(int(points["n"].min()))
    if int(points["n"].min()) == 1 and compute_accuracy_interval(first) is not None:
        seeds += f", test accuracy with its 95 % interval over {first[TESTED]:,.0f} test samples"
    about = f"{format_percent(first['rate'])} forgotten: {seeds}, percent; {ABOUT_SHARE}"
    return TitledTable(f"{first['dataset']}, {about}", pd.DataFrame(lines))

"""The frontier of designs: the residual share, accuracy, seconds and storage of each design.

A point is a design with its measurements on a data set. A design is on the front if no other design
is more accurate with a bound of the residual share that is at most as large.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from munkey.core.diverged import DIVERGED
from munkey.evaluation.records import DEPLOYED
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
    format_cell,
    format_mean_sd,
    format_two_digits,
    make_bold,
    percent,
)
from munkey.report.tables.shares import format_estimate, format_share, is_flagged_by_attack_only
from munkey.report.tables.summary import ABOUT_SHARE, RESIDUE

LIMIT_PHRASES = {
    1.0: "Most accurate with a residual share of at most 1%",
    5.0: "With at most 5%",
    math.inf: "With any share",
}
TIE_DIGITS = 9  # decimals; smaller differences between accuracies are rounding errors
KINDS = {  # kinds of designs, as shown in legends
    "exact": "deletes exactly",
    "rows": "deletes rows, keeps the weights",
    "weights": "changes the network",
    "anew": "retrained (reference)",
}
NOT_AUDITED = "not audited"
NO_POWER = "no power"
# Largest residual share [%] of a recommended design. The smaller limit applies if any design meets it.
SMALL_SHARES = (1.0, 5.0)
SHARES = ("share", "share_low", "share_high")
LEFT = "still remembered [normal scores]"
ATTACK = "LiRA AUROC"
CHANCE = 50.0  # AUROC of an attack that only guesses, in percent
RULE = (
    "A residual share counts as at most 1% if its whole 95% interval lies within ± 1%. Designs that were"
    " flagged only by an attack (†), or that were not audited, have no bound and count only where any share is"
    " allowed. Bold: no more accurate design, oracles aside, has as small a bound, the far end of the interval. Not"
    " significantly different: the 95% interval of the difference in test accuracy contains 0."
)


@dataclass(frozen=True)
class Design:
    """A model together with the way it forgets.

    Attributes
    ----------
    name, title
        As in the tables.
    kind
        A key of KINDS. After a deletion, an `exact` design equals its oracle bit for bit. `rows`
        deletes rows of a memory but keeps weights that were trained on them. `weights` changes or
        switches off parts of a trained network. `anew` is an oracle, which serves as the reference
        and is never recommended.
    stored
        A phrase that lists what must be kept to predict and to forget.
    tried
        How many settings were compared to choose the design's own, and on what.
    """

    name: str
    title: str
    kind: Literal["exact", "rows", "weights", "anew"]
    stored: str
    tried: str


def collect_all_points(
    main: pd.DataFrame, audits: Mapping[str, pd.DataFrame], designs: Sequence[Design]
) -> dict[str, pd.DataFrame]:
    """Return the points of each data set (`collect_points`).

    Parameters
    ----------
    main
        The summary of the main experiment.
    audits
        The rows of audits, by data set. Data sets without an audit are left out.
    """
    points = {}
    for dataset, summary in main.groupby("dataset", sort=False):
        points[str(dataset)] = collect_points(summary, audits.get(str(dataset)), designs)
    return points


def collect_points(
    summary: pd.DataFrame, audit: pd.DataFrame | None, designs: Sequence[Design]
) -> pd.DataFrame:
    """Return one row per design of a data set at its largest forget rate, smallest bound first.

    Parameters
    ----------
    summary
        The data set's summary.
    audit
        The rows of its audit (`munkey.audits.family_audit`); None if it was not audited.

    Returns
    -------
    points
        The columns of the summary and of `Design`, and

        - share, share_low, share_high: the residual share in percent, with its interval
        - share_text: the share as printed
        - before: the contrast of the design's original, in normal scores; NaN if it is unknown
        - left, left_low, left_high: the contrast after deletion, in normal scores, with its 95%
          interval over pairs. Unlike shares, it has the same unit in all families.
        - auroc, auroc_low, auroc_high: the AUROC of U-LiRA after deletion, in percent
        - unknown_because: NOT_AUDITED, NO_POWER or DIVERGED if the share is unknown, otherwise
          empty
        - bound: the largest absolute residual share in percent that the interval allows; infinite
          if there is no bound
        - seconds: how long forgetting takes; for an oracle, how long training takes
        - front: whether no other design is more accurate with a bound that is at most as large.
          Designs that tie are all on the front.
    """
    largest = summary[summary["rate"] == summary["rate"].max()].set_index("method")
    audit_rows = {}
    contrasts: dict[str, float] = {}  # of originals, by family
    if audit is not None:
        deployed = audit[audit["path"] == DEPLOYED]
        methods = deployed[deployed["role"] == "method"]
        audit_rows = dict(methods.set_index("name", drop=False).iterrows())
        originals = deployed[deployed["role"] == "nothing"]
        contrasts = dict(zip(originals["family"], originals["contrast"], strict=True))
    rows = []
    for design in designs:
        metrics = largest.loc[design.name]
        if design.kind == "anew":
            seconds = metrics.get("train_s_mean", math.nan)
        else:
            seconds = metrics.get("unlearn_s_mean", math.nan)
        audited = audit_rows.get(design.name)
        share = _find_share(design, audited)
        before = math.nan
        if audited is not None:
            before = contrasts.get(audited["family"], math.nan)
        left = _find_what_is_left(share, audited)
        auroc = _find_auroc(share, audited)
        fields = {"method": design.name, **metrics, **vars(design), **share, **left, **auroc}
        rows.append(fields | {"before": before, "seconds": seconds})
    return mark_front(pd.DataFrame(rows))


def _find_what_is_left(share: Mapping[str, Any], audited: pd.Series | None) -> dict[str, float]:
    """Return the contrast after deletion, with the 95% interval of the t-test over pairs."""
    from scipy.stats import t

    columns = ("left", "left_low", "left_high")
    if share["bound"] == 0:
        return dict.fromkeys(columns, 0.0)
    if audited is None or share["unknown_because"]:
        return dict.fromkeys(columns, math.nan)
    contrast = audited["contrast"]
    # The audit's table has the p of this test, from which its standard error follows.
    degrees = audited["pairs"] - 1
    half = abs(contrast) * t.isf(0.025, degrees) / t.isf(audited["p_pairs"] / 2, degrees)
    return {"left": contrast, "left_low": contrast - half, "left_high": contrast + half}


def _find_auroc(share: Mapping[str, Any], audited: pd.Series | None) -> dict[str, float]:
    """Return the AUROC of U-LiRA after deletion, with its interval. If nothing is left, it is chance.

    The attack needs three pairs.
    """
    columns = ("auroc", "auroc_low", "auroc_high")
    if share["bound"] == 0:
        return dict.fromkeys(columns, CHANCE)
    if audited is None or share["unknown_because"]:
        return dict.fromkeys(columns, math.nan)
    return {column: audited.get(f"u-lira_{column}", math.nan) for column in columns}


def mark_front(points: pd.DataFrame) -> pd.DataFrame:
    """Return points sorted by bound, then by accuracy, with the column `front`.

    In this order, a design is on the front if it has a bound and no design before it is more
    accurate.
    """
    ranked = points.sort_values(["bound", "TA_mean"], ascending=[True, False], ignore_index=True)
    # Oracles are only references, so their accuracy does not count.
    is_candidate = ranked["kind"] != "anew"
    accuracies = ranked["TA_mean"].where(is_candidate, -math.inf).round(TIE_DIGITS)
    is_front = (accuracies >= accuracies.cummax()) & is_candidate & np.isfinite(ranked["bound"])
    return ranked.assign(front=is_front)


def _find_share(design: Design, audited: pd.Series | None) -> dict[str, Any]:
    """Return the residual share of a design, as numbers and as text.

    audited: its row in an audit; None if it was not audited.
    """
    nothing = dict.fromkeys(SHARES, 0.0) | {"bound": 0.0, "unknown_because": ""}
    if design.kind == "anew":
        return nothing | {"share_text": "0, by definition"}
    if design.kind == "exact":
        if audited is None or pd.isna(audited.get("contrast")):
            return nothing | {"share_text": "0, by construction"}
        if audited["equal"]:
            return nothing | {"share_text": "0, to the bit"}
    if audited is None:
        return _make_unknown_share(NOT_AUDITED)
    if audited["verdict"] in (NO_POWER, DIVERGED):
        return _make_unknown_share(audited["verdict"])
    bound = math.inf
    if not is_flagged_by_attack_only(audited):
        bound = max(abs(audited["share_low"]), abs(audited["share_high"]))
    return {
        **audited[list(SHARES)],
        "share_text": format_share(audited),
        "bound": bound,
        "unknown_because": "",
    }


def _make_unknown_share(reason: str) -> dict[str, object]:
    """Return an unknown residual share; the reason takes its place in tables."""
    unknown: dict[str, object] = dict.fromkeys(SHARES, math.nan)
    return unknown | {"bound": math.inf, "unknown_because": reason, "share_text": reason}


def recommend_design(points: pd.DataFrame) -> str:
    """Return a recommendation of a design to deploy, with the reason.

    Recommended is the most accurate of the designs whose residual share is shown to be small, with
    those whose accuracy does not differ significantly. A significantly more accurate design with a
    larger share is named, too. If no share is shown to be small, retraining is suggested.
    points: from `collect_points`.
    """
    points = points.dropna(subset="TA_mean")
    candidates = points[points["kind"] != "anew"]
    limits = [limit for limit in SMALL_SHARES if (candidates["bound"] <= limit).any()]
    if not limits:
        return _explain_no_recommendation(candidates, points[points["kind"] == "anew"])
    limit = limits[0]  # the smallest that any design meets
    allowed = _sort_by_accuracy(candidates[candidates["bound"] <= limit])
    best = allowed.iloc[0]
    names = [_title_and_accuracy(best)]
    for _, other in allowed[1:].iterrows():
        if not _is_shown_better(best, other):
            names.append(_title_and_accuracy(other))
    if len(names) > 1:
        comparison = ", which do not differ significantly in test accuracy"
    else:
        comparison = ""
    are_exact = (allowed["kind"] == "exact").all()
    if len(allowed) > 1 and are_exact:
        reason = f"the most accurate of the {len(allowed)} designs that delete exactly"
    elif len(allowed) > 1:
        reason = (
            f"the most accurate of the {len(allowed)} designs that are shown to have a residual"
            f" share of at most {limit:g}%"
        )
    elif are_exact:
        reason = "the only design that deletes exactly"
    else:
        reason = f"the only design shown to have a residual share of at most {limit:g}%"
    rival = _describe_more_accurate_rival(best, candidates[candidates["bound"] > limit])
    return f"Deploy {' or '.join(names)}{comparison}: {reason}{rival}."


def _sort_by_accuracy(points: pd.DataFrame) -> pd.DataFrame:
    return points.sort_values("TA_mean", ascending=False, kind="stable")


def _title_and_accuracy(point: pd.Series) -> str:
    return f"{point['title']} ({_format_accuracy(point)}%)"


def _is_shown_better(one: pd.Series, other: pd.Series) -> bool:
    """Return whether the first design is significantly more accurate than the other."""
    difference = get_difference(one, other)
    return difference is not None and difference.is_significant and difference.value > 0


def _describe_more_accurate_rival(best: pd.Series, others: pd.DataFrame) -> str:
    """Return a clause on the most accurate design that is significantly better than `best`, or ""."""
    for _, rival in _sort_by_accuracy(others).iterrows():
        if _is_shown_better(rival, best):
            difference = get_difference(rival, best)
            assert difference is not None
            interval = f"95% interval of the difference: {format_interval(difference.interval)}"
            points = f"{difference.value:.1f} points ({interval})"
            return (
                f"; {rival['title']} is more accurate by {points}, but {_explain_not_shown(rival)}"
            )
    return ""


def _explain_not_shown(point: pd.Series) -> str:
    """Return the reason why a design's residual share is not shown to be small."""
    if point["unknown_because"] == NOT_AUDITED:
        return "it has not been audited (run `make audits`)"
    if point["unknown_because"] == NO_POWER:
        return "its audit has no power"
    if point["unknown_because"] == DIVERGED:
        return "its audit diverged"
    value, _, interval = point["share_text"].partition(" ")
    return f"its residual share is {value}% {interval}"


def _explain_no_recommendation(candidates: pd.DataFrame, oracles: pd.DataFrame) -> str:
    """Return two sentences: why none of the candidates is recommended, and advice to retrain."""
    if len(candidates) and (candidates["unknown_because"] == NOT_AUDITED).all():
        reason = "none deletes exactly, and none was audited (run `make audits`)"
    else:
        reason = f"none is shown to have a residual share of at most {SMALL_SHARES[-1]:g}%"
    oracle_names = ""
    if len(oracles):
        oracle_names = f" ({' or '.join(oracles['title'])})"
    return f"No design can be recommended, because {reason}. To be sure, retrain{oracle_names}."


def describe_frontier(points: pd.DataFrame) -> str:
    """Return sentences that name the most accurate designs within each limit of the residual share.

    The sentences also name the designs that do not differ significantly from these, the oracles,
    and the designs whose residual share is unknown. points: from `collect_points`.
    """
    has_diverged = points["TA_mean"].isna() | (points["unknown_because"] == DIVERGED)
    diverged = list(points.loc[has_diverged, "title"])
    points = points.dropna(subset="TA_mean")
    points = points.assign(
        accuracy=[f"{_format_accuracy(point)}%" for _, point in points.iterrows()]
    )
    is_oracle = points["kind"] == "anew"
    candidates = points[~is_oracle]
    sentences = []
    previous_designs = ""
    for limit, phrase in LIMIT_PHRASES.items():
        allowed = candidates[candidates["bound"] <= limit]
        if len(allowed):
            best_designs = _describe_best(allowed)
        else:
            best_designs = "no design is shown to have such a small share"
        if best_designs == previous_designs:
            sentences.append(f"{phrase}: the same.")
        else:
            sentences.append(f"{phrase}: {best_designs}.")
        previous_designs = best_designs
    oracles = []
    for _, point in points[is_oracle].iterrows():
        oracles.append(f"{point['title']} ({point['accuracy']}, {_format_seconds(point)} s)")
    sentences.append(f"Retraining leaves nothing by definition: {', '.join(oracles)}.")
    is_unknown = candidates["unknown_because"].isin([NOT_AUDITED, NO_POWER])
    unknown_titles = list(candidates.loc[is_unknown, "title"])
    if unknown_titles:
        sentences.append(f"Not audited, or audited without power: {', '.join(unknown_titles)}.")
    if diverged:
        sentences.append(f"Diverged: {', '.join(diverged)}.")
    return " ".join(sentences)


def _describe_best(allowed: pd.DataFrame) -> str:
    """Name the most accurate designs, and those that do not differ significantly from them."""
    accuracies = allowed["TA_mean"].round(TIE_DIGITS)
    is_best = accuracies == accuracies.max()
    best = allowed[is_best]
    similar = []
    for _, point in _sort_by_accuracy(allowed[~is_best]).iterrows():
        difference = get_difference(best.iloc[0], point)
        if difference is not None and not difference.is_significant:
            similar.append(point["title"])
    clause = ""
    if similar:
        clause = f", not significantly different from {', '.join(similar)}"
    return f"{' and '.join(best['title'])} ({best.iloc[0]['accuracy']}){clause}"


def _format_accuracy(point: pd.Series) -> str:
    """Return a test accuracy as mean ± sd or, for one seed, with its interval over test samples."""
    interval = compute_accuracy_interval(point)
    if point["n"] > 1 or interval is None:
        return format_mean_sd(point["TA_mean"], point["TA_sd"])
    return f"{point['TA_mean']:.2f} [{interval.low:.1f}, {interval.high:.1f}]"


def _format_seconds(point: pd.Series) -> str:
    if pd.isna(point["seconds"]):
        return ABSENT
    return format_two_digits(point["seconds"])


def _format_what_is_left(point: pd.Series) -> str:
    """Return the contrast after deletion, with its interval, and the one before."""
    if point["unknown_because"]:
        return ABSENT
    if point["left_low"] == point["left_high"] == 0:
        text = "0"
    else:
        interval = f"[{_format_score(point['left_low'])}, {_format_score(point['left_high'])}]"
        text = f"{_format_score(point['left'])} {interval}"
    if pd.notna(point["before"]):
        text += f" of {_format_score(point['before'])}"
    return text


def _format_score(score: float) -> str:
    """Return a normal score with two decimals. Zero has no minus sign."""
    return f"{round(score, 2) + 0.0:.2f}"  # -0.0 + 0.0 is 0.0


def _format_auroc(point: pd.Series) -> str:
    if point["auroc_low"] == point["auroc_high"] == CHANCE:
        return "50"
    return format_estimate(point, "auroc")


def make_frontier_table(points: pd.DataFrame, markup: Markup) -> TitledTable:
    """Return a table with one row per design, in the order of the points.

    The titles of designs on the front are bold.

    Parameters
    ----------
    points
        The result of `collect_points`.
    """
    table_rows = []
    for _, point in points.iterrows():
        title = point["title"]
        if point["front"]:
            title = make_bold(title, markup)
        table_rows.append(
            {
                "Method": title,
                RESIDUE: point["share_text"],
                LEFT: _format_what_is_left(point),
                ATTACK: _format_auroc(point),
                "Test accuracy": _format_accuracy(point),
                "Seconds": _format_seconds(point),
                "Must be stored": point["stored"],
                "Settings tried": point["tried"],
                "Avg Gap": format_cell(point, "gap", markup),
            }
        )
    return TitledTable(_make_caption(points), pd.DataFrame(table_rows))


def _make_caption(points: pd.DataFrame) -> str:
    """Return a caption with the data set, the forget rate and the statistics of the table."""
    first_point = points.iloc[0]
    # The designs may differ in their number of seeds; all of them have at least this many.
    seed_count = int(points["n"].min())
    statistic = describe_statistic(seed_count)
    if seed_count == 1 and compute_accuracy_interval(first_point) is not None:
        test_count = f"{first_point[TESTED]:,.0f} test samples"
        statistic += f", test accuracy with its 95% interval over {test_count}"
    forgotten = f"{percent(first_point['rate'])} forgotten"
    return f"{first_point['dataset']}, {forgotten}: {statistic}, percent; {ABOUT_SHARE}"

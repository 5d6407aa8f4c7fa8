"""Tables of the ablations (app. D): MUNKEY with one thing changed, against a Retrain (M) of its own kind."""

from collections.abc import Iterator

import pandas as pd

from munkey.tables import Row, cell, emphasised, summarise

ROWS = (
    Row("original-m", "Original (M)", "retrain-m", context=True),
    Row("retrain-m", "Retrain (M)", None),
    Row("munkey", "MUNKEY", "retrain-m"),
)
METRICS = ("TA", "RA", "FA", "MIA", "P_s")
# The paper's strategies in its order (tab. 3, app. D.1): how each is called, by the knob that makes it.
STRATEGIES = {
    "munkey.architecture/direct-key": "Direct Key",
    "munkey.architecture/deep-prompt": "Deep Prompt",
    "munkey.architecture/cross-attention": "Cross Attention",
    "inference.fusion/ensemble": "Ensemble",
    "inference.fusion/softmax": "Softmax",
    "inference.fusion/rank": "Rank",
}
Block = tuple[str, pd.DataFrame]


def summarised(tidy: pd.DataFrame) -> pd.DataFrame:
    """One line per data set, case (KNOB/VALUE), rate and system: means, deviations and gap as `tables.summarise`."""
    parts = [
        summarise(part.drop(columns="case"), ROWS).assign(case=case) for case, part in tidy.groupby("case", sort=False)
    ]
    found = pd.concat(parts, ignore_index=True)
    found[["knob", "value"]] = found["case"].str.split("/", n=1, expand=True)
    return found


def every_knob(summary: pd.DataFrame, style: str) -> Iterator[Block]:
    """All ablations of each data set: a line per knob and value, the lowest gap of each knob bold."""
    for dataset, part in _munkey(summary).groupby("dataset", sort=False):
        lines = []
        for knob, values in part.groupby("knob", sort=False):
            ranks = _ranks(values)
            for place, line in values.iterrows():
                cells = [cell(line, name, style, 3 if name == "P_s" else 2) for name in METRICS]
                gap = emphasised(cell(line, "gap", style), ranks.get(place), style)
                lines.append([knob, line["value"], *cells, gap])
        yield _titled(str(dataset), part), pd.DataFrame(lines, columns=["Knob", "Value", *METRICS, "Avg Gap"])


def aggregation(summary: pd.DataFrame, style: str) -> Iterator[Block]:
    """The paper's tables of app. D.1, one per data set: every strategy, its oracle first, then MUNKEY."""
    chosen = summary[summary["case"].isin(STRATEGIES)]
    for dataset, part in chosen.groupby("dataset", sort=False):
        ranks = _ranks(_munkey(part))
        lines = []
        for method, group in (("retrain-m", "Retrained"), ("munkey", "MUNKEY")):
            for place, line in _ordered(part[part["method"] == method]).iterrows():
                cells = [cell(line, name, style, 3 if name == "P_s" else 2) for name in METRICS]
                gap = emphasised(cell(line, "gap", style), ranks.get(place), style)
                lines.append([group, STRATEGIES[line["case"]], *cells, gap])
        yield (
            _titled(str(dataset), part),
            pd.DataFrame(lines, columns=["Category", "Model variant", *METRICS, "Avg Gap"]),
        )


def strategies(summary: pd.DataFrame, style: str) -> Iterator[Block]:
    """The paper's table 3: P_s and Avg Gap of each strategy, data sets side by side."""
    part = _munkey(summary[summary["case"].isin(STRATEGIES)])
    if part.empty:
        return
    present = [case for case in STRATEGIES if case in set(part["case"])]
    table: dict[str, list[str]] = {"Strategy": [STRATEGIES[case] for case in present]}
    for dataset, own in part.groupby("dataset", sort=False):
        ranks = _ranks(own)
        lines = {line["case"]: (place, line) for place, line in own.iterrows()}
        found = [lines[case] for case in present]
        table[f"P_s, {dataset}"] = [cell(line, "P_s", style, 3) for _, line in found]
        table[f"Avg Gap, {dataset}"] = [
            emphasised(cell(line, "gap", style), ranks.get(place), style) for place, line in found
        ]
    yield _titled("P_s and Avg Gap (lower is better)", part), pd.DataFrame(table)


def encoders(summary: pd.DataFrame, style: str) -> Iterator[Block]:
    """The paper's table of app. D.2: every key encoder, its oracle first, then MUNKEY."""
    for dataset, part in summary[summary["knob"].isin(["keys", "keys.encoder"])].groupby("dataset", sort=False):
        ranks = _ranks(_munkey(part))
        lines = []
        for method, title in (("retrain-m", "Retrained ({})"), ("munkey", "Key encoder {}")):
            for place, line in part[part["method"] == method].iterrows():
                cells = [cell(line, name, style) for name in METRICS[:-1]]
                gap = emphasised(cell(line, "gap", style), ranks.get(place), style)
                lines.append([title.format(line["value"]), *cells, gap])
        yield _titled(str(dataset), part), pd.DataFrame(lines, columns=["Model", *METRICS[:-1], "Avg Gap"])


def _munkey(summary: pd.DataFrame) -> pd.DataFrame:
    return summary[summary["method"] == "munkey"]


def _ordered(part: pd.DataFrame) -> pd.DataFrame:
    order = list(STRATEGIES)
    return part.sort_values("case", key=lambda cases: cases.map(order.index))


def _ranks(part: pd.DataFrame) -> dict[object, int]:
    """By index: 0 for the lowest gap as printed, 1 for the next; ties share."""
    gaps = part["gap_mean"].round(2)
    order = sorted(gaps.unique())[:2]
    return {place: order.index(gap) for place, gap in gaps.items() if gap in order}


def _titled(what: str, part: pd.DataFrame) -> str:
    rates = ", ".join(f"{100 * rate:g} %" for rate in part["rate"].unique())
    return f"{what}: mean ± sd over n = {int(part['n'].min())} seeds, forget rate {rates}"


TABLES = {"ablations": every_knob, "aggregation": aggregation, "strategies": strategies, "encoders": encoders}

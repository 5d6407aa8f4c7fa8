"""From tidy metrics to the paper's tables: means and standard deviations over seeds, and the gap to the oracle."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

GAP_METRICS = ("TA", "RA", "FA", "MIA")
KEYS = ["dataset", "rate", "method"]

Block = tuple[str, int, list[list[str]]]  # data set, number of seeds, rows of cells
STYLE = (
    "body{font:14px system-ui,sans-serif;margin:1.5em}table{border-collapse:collapse}"
    "th,td{padding:.35em .8em;text-align:right;border-bottom:1px solid #ccc;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}"
)


@dataclass(frozen=True)
class Row:
    """A row of the tables. oracle: the row its gap is measured against, None where there is none.

    context: shown, but not ranked (originals before unlearning).
    """

    name: str
    title: str
    oracle: str | None
    context: bool = False
    latex_title: str = ""


def with_seed_gaps(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """Tidy metrics (dataset, rate, seed, method, metric, value) plus each seed's own gap, metric `gap`.

    The paper's gap compares means over seeds and so hides a seed that failed; this one does not. Raises KeyError where
    an oracle is missing.
    """
    wide = tidy.pivot(index=["dataset", "rate", "seed", "method"], columns="metric", values="value")
    gaps = []
    for row in rows:
        if row.oracle is None:
            continue
        values, oracle = (_part(wide, name) for name in (row.name, row.oracle))
        gap = (values - oracle)[list(GAP_METRICS)].abs().mean(axis=1, skipna=False).rename("value")
        if gap.isna().any():
            raise KeyError(f"{row.name} and its oracle {row.oracle} differ in seeds: {gap[gap.isna()].index.tolist()}")
        gaps.append(gap.reset_index().assign(method=row.name, metric="gap"))
    return pd.concat([tidy, *(gap[tidy.columns] for gap in gaps)], ignore_index=True)


def summarise(tidy: pd.DataFrame, rows: Sequence[Row]) -> pd.DataFrame:
    """One line per (data set, rate, row): n seeds, METRIC_mean and METRIC_sd (ddof = 1), Avg Gap with its sd.

    Avg Gap is the mean over TA, RA, FA, MIA of |mean of the method - mean of its oracle|, its sd
    1/4 * sqrt(sum of both variances) (sec. 4).
    """
    grouped = tidy[tidy["metric"] != "gap"].groupby([*KEYS, "metric"], sort=False)["value"]
    mean, sd = grouped.mean().unstack("metric"), grouped.std(ddof=1).unstack("metric")
    table = mean.add_suffix("_mean").join(sd.add_suffix("_sd"))
    table["n"] = tidy.groupby(KEYS)["seed"].nunique()
    columns = list(GAP_METRICS)
    for dataset, rate in dict.fromkeys((d, r) for d, r, _ in table.index):
        for row in rows:
            if row.oracle is None:
                continue
            own, oracle = (dataset, rate, row.name), (dataset, rate, row.oracle)
            if oracle not in mean.index:
                raise KeyError(f"{row.title} on {dataset} at rate {rate}: its oracle {row.oracle} is missing")
            table.loc[own, "gap_mean"] = (mean.loc[own, columns] - mean.loc[oracle, columns]).abs().mean()
            variance = sd.loc[own, columns] ** 2 + sd.loc[oracle, columns] ** 2
            table.loc[own, "gap_sd"] = np.sqrt(variance.to_numpy(dtype=float).sum()) / len(columns)
    order = {row.name: place for place, row in enumerate(rows)}
    titles = {row.name: row.title for row in rows}
    table = table.reset_index()
    table.insert(3, "title", table["method"].map(titles))
    table["place"] = table["method"].map(order)
    table = table.sort_values(["dataset", "rate", "place"], ascending=[True, False, True])
    return table.drop(columns="place").reset_index(drop=True)


def main_table(summary: pd.DataFrame, rows: Sequence[Row], style: str) -> str:
    """The paper's main table, rates side by side: lowest gap bold, second underlined.

    style: `markdown` | `html` | `latex`.
    """
    rates, header, blocks = _main(summary, rows, style)
    if style == "latex":
        return _latex(header, rates, blocks)
    body = render(_blocks(header, rates, blocks), style)
    return f"<!doctype html><meta charset='utf-8'><style>{STYLE}</style>\n{body}" if style == "html" else body


def main_frames(summary: pd.DataFrame, rows: Sequence[Row], style: str) -> list[tuple[str, pd.DataFrame]]:
    """The same as a titled frame of cells per data set."""
    rates, header, blocks = _main(summary, rows, style)
    return _blocks(header, rates, blocks)


def _main(summary: pd.DataFrame, rows: Sequence[Row], style: str) -> tuple[list[float], list[str], list[Block]]:
    rates = sorted(summary["rate"].unique(), reverse=True)
    header = ["Method", *(column for _ in rates for column in (*GAP_METRICS, "Avg Gap"))]
    blocks = []
    for dataset, part in summary.groupby("dataset", sort=False):
        ranks = {rate: _ranks(part[part["rate"] == rate], rows) for rate in rates}
        lines = []
        for row in rows:
            cells = [(row.latex_title or row.title) if style == "latex" else row.title]
            for rate in rates:
                found = part[(part["rate"] == rate) & (part["method"] == row.name)]
                if found.empty:
                    cells += ["–"] * (len(GAP_METRICS) + 1)
                    continue
                values = found.iloc[0]
                cells += [cell(values, metric, style) for metric in GAP_METRICS]
                cells.append(emphasised(cell(values, "gap", style), ranks[rate].get(row.name), style))
            lines.append(cells)
        blocks.append((str(dataset), int(part["n"].min()), lines))
    return rates, header, blocks


def runtime_table(summary: pd.DataFrame, style: str = "markdown") -> pd.DataFrame:
    """Seconds to unlearn, to search for settings (all candidates), and per training epoch of the base model; P_s."""
    columns = {"unlearn_s": "Unlearn [s]", "search_s": "Search [s]", "train_epoch_s": "Train/epoch [s]", "P_s": "P_s"}
    lines = []
    for _, values in summary.iterrows():
        cells = [cell(values, name, style, digits=4) for name in columns]
        lines.append([values["dataset"], f"{100 * values['rate']:g} %", values["title"], *cells])
    return pd.DataFrame(lines, columns=["Data set", "Forget", "Method", *columns.values()])


def render(blocks: Sequence[tuple[str, pd.DataFrame]], style: str) -> str:
    """Titled frames of cells that are ready to print, one after the other. style: as in `main_table`."""
    if style == "markdown":
        parts = (
            (f"### {title}\n\n" if title else "") + frame.to_markdown(index=False, disable_numparse=True)
            for title, frame in blocks
        )
        return "\n\n".join(parts) + "\n"
    if style == "html":
        parts = (f"<h3>{title}</h3>\n{frame.to_html(index=False, escape=False, border=0)}" for title, frame in blocks)
        return "\n".join(parts) + "\n"
    return "\n".join(_tabular(title, frame) for title, frame in blocks)


def _tabular(title: str, frame: pd.DataFrame) -> str:
    """A booktabs table; text is escaped, formulas between $ are left alone."""
    lines = [[_latex_text(str(cell)) for cell in row] for row in [list(frame.columns), *frame.to_numpy().tolist()]]
    head, *body = [" & ".join(cells) + r" \\" for cells in lines]
    rows = [r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
    return (
        "\n".join([f"% {title}", rf"\begin{{tabular}}{{{'l' * len(frame.columns)}}}", *rows, r"\end{tabular}"]) + "\n"
    )


def _latex_text(cell: str) -> str:
    if "$" in cell:
        return cell
    return cell.replace("–", "--").replace("%", r"\%").replace("_", r"\_").replace("±", r"$\pm$")


def _part(wide: pd.DataFrame, method: str) -> pd.DataFrame:
    if method not in wide.index.get_level_values("method"):
        raise KeyError(f"no metrics of {method!r}: its evaluation is missing")
    return wide[wide.index.get_level_values("method") == method].droplevel("method")


def _ranks(part: pd.DataFrame, rows: Sequence[Row]) -> dict[str, int]:
    """0 for the lowest gap as printed, 1 for the next; ties share."""
    ranked = {row.name for row in rows if row.oracle and not row.context}
    gaps = part[part["method"].isin(ranked)].set_index("method")["gap_mean"].round(2)
    order = sorted(gaps.unique())[:2]
    return {str(name): order.index(gap) for name, gap in gaps.items() if gap in order}


def cell(values: pd.Series, metric: str, style: str, digits: int = 2) -> str:
    """`mean ± sd` of a metric out of a line of a summary, – where it has none. style as in `main_table`."""
    mean, sd = values.get(f"{metric}_mean", np.nan), values.get(f"{metric}_sd", np.nan)
    if pd.isna(mean):
        return "–"
    spread = "" if pd.isna(sd) else f"{sd:.{digits}f}"
    if style == "latex":
        return f"${mean:.{digits}f}" + (rf"_{{\pm \text{{\tiny {spread}}}}}$" if spread else "$")
    return f"{mean:.{digits}f}" + (f" ± {spread}" if spread else "")


def emphasised(cell: str, rank: int | None, style: str) -> str:
    """A cell in bold for rank 0, underlined for rank 1."""
    marks = {
        "markdown": ("**{}**", "<u>{}</u>"),
        "html": ("<b>{}</b>", "<u>{}</u>"),
        "latex": (r"\boldmath{{{}}}", r"\underline{{{}}}"),
    }[style]
    return cell if rank is None else marks[rank].format(cell)


def _blocks(header: list[str], rates: list[float], blocks: list[Block]) -> list[tuple[str, pd.DataFrame]]:
    """Per data set a caption and a frame whose columns name metric and rate."""
    each = np.repeat(rates, len(GAP_METRICS) + 1)
    columns = [header[0], *(f"{name} @{100 * rate:g} %" for name, rate in zip(header[1:], each, strict=True))]
    return [
        (f"{dataset}: mean ± sd over n = {n} seeds, percent", pd.DataFrame(lines, columns=columns))
        for dataset, n, lines in blocks
    ]


def _latex(header: list[str], rates: list[float], blocks: list[Block]) -> str:
    width = len(GAP_METRICS) + 1
    spans = " & ".join(rf"\multicolumn{{{width}}}{{c}}{{Random forget ({100 * rate:g}\,\%)}}" for rate in rates)
    rules = " ".join(rf"\cmidrule(lr){{{2 + i * width}-{1 + (i + 1) * width}}}" for i in range(len(rates)))
    lines = [
        "% needs booktabs, amsmath",
        rf"\begin{{tabular}}{{l {' '.join(['cccc c'] * len(rates))}}}",
        r"\toprule",
        rf" & {spans} \\ {rules}",
        " & ".join(header).replace("Avg Gap", r"Avg Gap $\downarrow$") + r" \\",
    ]
    for dataset, n, body in blocks:
        lines += [r"\midrule", rf"\multicolumn{{{len(header)}}}{{c}}{{{dataset} ($n = {n}$ seeds)}} \\", r"\midrule"]
        lines += [" & ".join("--" if cell == "–" else cell for cell in cells) + r" \\" for cells in body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

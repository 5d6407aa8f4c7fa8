"""The figure at the top of the README, drawn from the kept audit of CIFAR-10, in words that need no glossary.

python -m tools.headline
"""

import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from munkey.report.figures import theme
from tools.docs_tables import lines_of

AUDIT = Path("docs/results/cifar10-full-audit/audit/imagefolder/table.md")
PICTURE = Path("docs/headline.png")
ROWS = {  # of the audit: what was done to the model, in words
    "ViT, nothing done": "Do nothing",
    "CF": "CF: train on without it",
    "NegGrad+": "NegGrad+: train away from it",
    "Amnesiac": "Amnesiac: train wrong labels for it",
    "MUNKEY": "MUNKEY: delete its row",
    "ViT, oracle": "Retrain: train anew without it",
}
MARKS = {-32: "worse than\nnever seen", 0: "as if\nnever seen", 100: "nothing\nforgotten"}


def left(table: str) -> dict[str, list[float]]:
    """Of ROWS, what is left of a forgotten picture and the ends of its 95 % interval, percent.

    table: of an audit, in Markdown. Raises KeyError where a row is missing.
    """
    found = {line["Model, and what was done"]: line["left [%]"] for line in lines_of(table[table.index("|") :])}
    return {words: [*map(float, re.findall(r"-?[\d.]+", found[name]))] for name, words in ROWS.items()}


@matplotlib.rc_context(theme.THEME)
def headline(shares: dict[str, list[float]]) -> Figure:
    """A line for each row: its share, its interval, and the share in digits."""
    figure = theme.canvas(theme.DOUBLE, 2.5)
    axes = figure.subplots()
    for place, (words, (share, low, high)) in enumerate(shares.items()):
        color = theme.BLUE if words.startswith("MUNKEY") else theme.BLACK
        axes.plot([low, high], [place, place], color=color, linewidth=1.5)
        axes.plot(share, place, marker="o", color=color, markersize=6)
        end, away, side = (high, 7, "left") if share >= 0 else (low, -5, "right")
        axes.annotate(f"{share:.1f} %", (end, place), (away, 0), textcoords="offset points", ha=side, va="center")
    for value, words in MARKS.items():
        axes.annotate(words, (value, -0.7), ha="center", va="bottom", annotation_clip=False)
    for value in (0, 100):
        axes.axvline(value, color=theme.GRAY, linewidth=0.8, zorder=0)
    theme.name_lines(axes, list(shares), next(words for words in shares if words.startswith("MUNKEY")))
    axes.set(xlim=(-52, 122), xlabel="how much of a picture is left in the model's answers after forgetting it [%]")
    return theme.freeze(figure)


if __name__ == "__main__":
    headline(left(AUDIT.read_text())).savefig(PICTURE, dpi=theme.DPI, metadata={"Software": None})

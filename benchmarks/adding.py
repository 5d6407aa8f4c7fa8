"""How adding samples without training changes accuracy.

`python -m benchmarks.adding default/digits` reads a finished run. The oracle of a forget set was
trained without some of the training samples. Here, they are added to its memory, and its accuracy
is measured before and after.
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from munkey.core.files import read_npz, write_text
from munkey.data import forget_sets
from munkey.data.prepared import Dataset, load
from munkey.deploy.model.export import export
from munkey.deploy.predictor import Predictor

Accuracies = dict[str, float]


@dataclass(frozen=True)
class Run:
    """A finished run on a data set.

    Attributes
    ----------
    rate
        The rate of the forget set that is held out, such as `rate0.1`.
    """

    configuration: str
    dataset: str
    rate: str

    def at(self, kind: str, *parts: str) -> Path:
        """Return a path in the data set's folder of results of a kind, such as `models`."""
        return Path("results", self.configuration, kind, self.dataset, *parts)

    @cached_property
    def samples(self) -> Dataset:
        """The prepared data set."""
        return load(self.at("data"))


def accuracies(run: Run, seed: str) -> Accuracies:
    """Return accuracies in percent, on the test split and on the held-out samples.

    Each is measured without the held-out samples, after they are added, and after training on them.
    """
    dataset = run.samples
    held_out_ids = forget_sets.read(run.at("forget", seed, f"{run.rate}.csv"))
    rows = {"test": dataset.rows(dataset.get_ids("test")), "held out": dataset.rows(held_out_ids)}
    percentages: Accuracies = {}
    with tempfile.TemporaryDirectory() as folder:
        directory = export(run.at("models", seed, run.rate, "retrain-m"), Path(folder) / "model")
        with Predictor.load(directory, device="cpu") as model:
            for name, part in rows.items():
                percentages[f"{name}, without"] = _percent(model, dataset, part)
            model.add(dataset.images[rows["held out"]], dataset.labels[rows["held out"]])
            for name, part in rows.items():
                percentages[f"{name}, added"] = _percent(model, dataset, part)
    logits = read_npz(run.at("logits", seed, "full", "original-m.npz"))["logits"]
    is_correct = logits.argmax(axis=1) == dataset.labels
    for name, part in rows.items():
        percentages[f"{name}, trained"] = 100 * float(is_correct[part].mean())
    return percentages


def _percent(model: Predictor, dataset: Dataset, rows: np.ndarray) -> float:
    """Return the model's accuracy on these rows, in percent."""
    predicted_labels = model.predict(dataset.images[rows]).labels
    return 100 * float((predicted_labels == dataset.labels[rows]).mean())


def table(measured: Sequence[Accuracies]) -> str:
    """Return the table in Markdown: the mean ± standard deviation over seeds.

    It has a row for the test split and one for the held-out samples.
    """
    lines = [
        f"### {len(measured)} seeds, percent\n",
        "| accuracy | trained without | then added | trained with |",
    ]
    lines.append("|:---|:---|:---|:---|")
    for title, name in (("of the test split", "test"), ("of the tenth itself", "held out")):
        cells = []
        for state in ("without", "added", "trained"):
            values = [percentages[f"{name}, {state}"] for percentages in measured]
            cells.append(_format_mean_sd(values))
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _format_mean_sd(values: Sequence[float]) -> str:
    """Format the mean and, of several values, the standard deviation."""
    if len(values) == 1:
        return f"{mean(values):.2f}"
    return f"{mean(values):.2f} ± {stdev(values):.2f}"


def main(name: str, rate: str = "rate0.1") -> None:
    """Write and print the table of a run.

    Parameters
    ----------
    name
        The configuration and the data set of the run, such as `default/digits`.
    """
    configuration, dataset = name.split("/")
    run = Run(configuration, dataset, rate)
    seeds = sorted(path.name for path in run.at("models").glob("seed*"))
    text = table([accuracies(run, seed) for seed in seeds])
    write_text(Path("results", configuration, "adding", f"{dataset}.md"), text)
    print(text)


if __name__ == "__main__":
    main(*sys.argv[1:])

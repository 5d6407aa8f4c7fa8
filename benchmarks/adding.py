"""What adding samples without training does to accuracy: `python -m benchmarks.adding default/digits`.

Reads a finished run. The oracle of a forget set was trained without a share of the training samples; here they are
added to its memory, and it is asked again.
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
    """A finished run on a data set; rate: of the forget set that is held out."""

    configuration: str
    dataset: str
    rate: str

    def at(self, kind: str, *parts: str) -> Path:
        return Path("results", self.configuration, kind, self.dataset, *parts)

    @cached_property
    def samples(self) -> Dataset:
        return load(self.at("data"))


def accuracies(run: Run, seed: str) -> Accuracies:
    """Accuracy [percent] of the test split, and of the held-out samples themselves, before and after they are added."""
    dataset = run.samples
    held = forget_sets.read(run.at("forget", seed, f"{run.rate}.csv"))
    rows = {"test": dataset.rows(dataset.get_ids("test")), "held out": dataset.rows(held)}
    with tempfile.TemporaryDirectory() as folder:
        directory = export(run.at("models", seed, run.rate, "retrain-m"), Path(folder) / "model")
        with Predictor.load(directory, writer=True, device="cpu") as model:
            found = {
                f"{what}, without": _percent(model, run.samples, part)
                for what, part in rows.items()
            }
            model.add(dataset.images[rows["held out"]], dataset.labels[rows["held out"]])
            found |= {
                f"{what}, added": _percent(model, run.samples, part) for what, part in rows.items()
            }
    right = (
        read_npz(run.at("logits", seed, "full", "original-m.npz"))["logits"].argmax(axis=1)
        == dataset.labels
    )
    return found | {
        f"{what}, trained": 100 * float(right[part].mean()) for what, part in rows.items()
    }


def _percent(model: Predictor, dataset: Dataset, rows: np.ndarray) -> float:
    return 100 * float((model.predict(dataset.images[rows]).labels == dataset.labels[rows]).mean())


def table(measured: Sequence[Accuracies]) -> str:
    """A line for the test split and one for the held-out tenth, mean ± sd over seeds, in Markdown."""
    lines = [
        f"### {len(measured)} seeds, percent\n",
        "| accuracy | trained without | then added | trained with |",
    ]
    lines.append("|:---|:---|:---|:---|")
    for name, what in (("of the test split", "test"), ("of the tenth itself", "held out")):
        cells = (
            _spread([one[f"{what}, {how}"] for one in measured])
            for how in ("without", "added", "trained")
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def main(name: str, rate: str = "rate0.1") -> None:
    """Write and print the table of a run. name: of its configuration and data set, e.g. default/digits."""
    configuration, dataset = name.split("/")
    run = Run(configuration, dataset, rate)
    seeds = sorted(path.name for path in run.at("models").glob("seed*"))
    text = table([accuracies(run, seed) for seed in seeds])
    write_text(Path("results", configuration, "adding", f"{dataset}.md"), text)
    print(text)


if __name__ == "__main__":
    main(*sys.argv[1:])

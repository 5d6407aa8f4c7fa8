"""Audits of small networks on further paths: perturbed pictures, and a linear probe on features.

    python -m benchmarks.further_paths --audits 40

Each audit trains pairs of networks that swap halves of a pool of digits, and as many that never see
the pool. An entry returns the margins of a system on each path; the tables say how often each path
flags it, one table for each world. With one label in six wrong, a network has to remember these
samples; with right labels, it remembers little.
"""

import argparse
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import binomtest
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional as F

from benchmarks.gauntlet import REDRAWS
from munkey.audits.evidence import Halves, Pairs, draw_halves
from munkey.audits.margins import compute_margins
from munkey.audits.verdict import ALPHA, run_joint_tests
from munkey.core.console import progress
from munkey.core.files import write_text
from munkey.data.image_set import ImageSet, perturb
from munkey.evaluation.predict import fit_probe
from munkey.report.tables.markup import TitledTable, render

SAMPLES = 700
TEST = 200
CLASSES = 10
HIDDEN = 32
STEPS = 100  # of training
FEW_STEPS = 10  # of fine-tuning
PATHS = ("deployed", "perturbed", "probe")
Layers = list[Tensor]  # the weights of S networks: (S, 64, HIDDEN) and (S, HIDDEN, CLASSES)
Margins = dict[str, np.ndarray]  # (S, N) by path


@dataclass(frozen=True)
class World:
    """What an audit audits.

    Attributes
    ----------
    pool
        The number of samples in the pool.
    wrong
        The share of wrong labels.
    """

    title: str
    pairs: int
    pool: int
    wrong: float


WORLDS = (
    World("one label in six wrong, 4 pairs, 120 samples", 4, 120, 1 / 6),
    World("one label in six wrong, 2 pairs, 120 samples", 2, 120, 1 / 6),
    World("right labels, 4 pairs, 120 samples", 4, 120, 0.0),
)


@dataclass(frozen=True)
class Networks:
    """Networks of an audit.

    Attributes
    ----------
    pictures, perturbed
        (N, 64): pixels of digits, without and with noise.
    labels
        (N,), some of them wrong.
    halves
        The halves of the models that were trained on them.
    trained, never
        Models that were trained on their half of the pool, and others that never saw the pool.
    unseen
        (S, N): margins of other models, which were trained like these but not on the deleted
        samples, as far as a model deleted them.
    """

    pictures: Tensor
    perturbed: Tensor
    labels: Tensor
    halves: Halves
    common: Tensor
    trained: Layers
    never: Layers
    unseen: np.ndarray
    generator: torch.Generator

    def answer(self, layers: Layers) -> np.ndarray:
        """Return the margins (S, N) of networks."""
        return compute_all_margins(layers, self.pictures, self.labels)

    def probe(self, layers: Layers) -> np.ndarray:
        """Return the margins (S, N) of linear probes that are fitted to the common samples."""
        common = self.common.numpy()
        labels = self.labels.numpy()
        margins = []
        for features in read_features(layers, self.pictures).numpy():
            logits = fit_probe(features[common], labels[common], features, CLASSES)
            margins.append(compute_margins(logits, labels))
        return np.stack(margins)

    @cached_property
    def probe_of_trained(self) -> np.ndarray:
        return self.probe(self.trained)

    def query(self, layers: Layers) -> Margins:
        """Return the margins of networks on all paths."""
        has_trained_features = layers[0] is self.trained[0]
        return {
            "deployed": self.answer(layers),
            "perturbed": compute_all_margins(layers, self.perturbed, self.labels),
            "probe": self.probe_of_trained if has_trained_features else self.probe(layers),
        }


def read_features(layers: Layers, pictures: Tensor) -> Tensor:
    """Return the features (S, N, HIDDEN) that the heads read."""
    return torch.relu(pictures @ layers[0])


def forward(layers: Layers, pictures: Tensor) -> Tensor:
    """Return the logits (S, N, CLASSES)."""
    return read_features(layers, pictures) @ layers[1]


def compute_all_margins(layers: Layers, pictures: Tensor, labels: Tensor) -> np.ndarray:
    """Return the margins (S, N) of networks for pictures with these labels."""
    logits = forward(layers, pictures).numpy()
    return np.stack([compute_margins(one, labels.numpy()) for one in logits])


def draw_layers(count: int, generator: torch.Generator) -> Layers:
    """Draw the initial weights of networks."""
    sizes = ((64, HIDDEN), (HIDDEN, CLASSES))
    return [torch.randn(count, *size, generator=generator) / size[0] ** 0.5 for size in sizes]


def train(
    layers: Layers,
    pictures: Tensor,
    labels: Tensor,
    members: Tensor,
    steps: int = STEPS,
) -> Layers:
    """Return the layers after training.

    Parameters
    ----------
    members
        (S, N) bool: whether a model is trained on a sample.
    """
    layers = [layer.clone().requires_grad_() for layer in layers]
    optimizer = torch.optim.Adam(layers, lr=0.01)
    used = members.any(dim=0)
    weights = (members[:, used] / members.sum(dim=1, keepdim=True)).flatten()
    targets = labels[used].repeat(len(members))
    for _ in range(steps):
        logits = forward(layers, pictures[used]).flatten(0, 1)
        losses = F.cross_entropy(logits, targets, reduction="none")
        optimizer.zero_grad()
        (losses * weights).sum().backward()
        optimizer.step()
    return [layer.detach() for layer in layers]


def make_networks(seed: int, world: World) -> Networks:
    """Train the networks of an audit."""
    pairs = world.pairs
    numbers = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    digits = load_digits()
    order = numbers.permutation(len(digits.target))[:SAMPLES]
    images = np.rint(digits.images[order] * 255 / 16).astype(np.uint8)[..., None]
    labels = torch.tensor(digits.target[order])
    is_wrong = torch.tensor(numbers.random(SAMPLES) < world.wrong)
    labels = torch.where(is_wrong, (labels + 1) % CLASSES, labels)
    rows = np.arange(SAMPLES)
    noisy = perturb(ImageSet(images, rows, rows, labels.numpy())).images
    number = np.arange(SAMPLES)
    is_test = number >= SAMPLES - TEST
    all_halves = draw_halves(number < world.pool, is_test, 2 * pairs, numbers)
    halves = Halves(all_halves.deleted[: 2 * pairs], all_halves.absent[: 2 * pairs], is_test)
    common = torch.tensor((number >= world.pool) & ~is_test)
    pictures = torch.tensor(images.reshape(SAMPLES, -1) / 255, dtype=torch.float32)
    perturbed = torch.tensor(np.asarray(noisy).reshape(SAMPLES, -1) / 255, dtype=torch.float32)
    members = common | torch.tensor(all_halves.deleted)
    both = train(draw_layers(4 * pairs, generator), pictures, labels, members)
    trained = [layer[: 2 * pairs] for layer in both]
    without = common.expand(2 * pairs, -1)
    never = train(draw_layers(2 * pairs, generator), pictures, labels, without)
    others = compute_all_margins([layer[2 * pairs :] for layer in both], pictures, labels)
    # Of the two models of each other pair, take the one that did not see the sample.
    is_seen = all_halves.deleted[2 * pairs :]
    of_pairs = np.where(is_seen[::2], others[1::2], others[::2])
    unseen = of_pairs.repeat(2, axis=0)
    return Networks(pictures, perturbed, labels, halves, common, trained, never, unseen, generator)


Entry = Callable[[Networks], Margins]
ENTRIES: dict[str, Entry] = {}


def entry(words: str) -> Callable[[Entry], Entry]:
    """Register the decorated function as an entry, described by `words`."""

    def register(function: Entry) -> Entry:
        ENTRIES[words] = function
        return function

    return register


@entry("retrained")
def retrained(networks: Networks) -> Margins:
    return networks.query(networks.never)


@entry("nothing done")
def nothing_done(networks: Networks) -> Margins:
    return networks.query(networks.trained)


@entry("fine-tuned")
def fine_tuned(networks: Networks) -> Margins:
    common = networks.common.expand(len(networks.trained[0]), -1)
    layers = train(networks.trained, networks.pictures, networks.labels, common, FEW_STEPS)
    return networks.query(layers)


@entry("head drawn anew")
def head_drawn_anew(networks: Networks) -> Margins:
    features, head = networks.trained
    _, new_head = draw_layers(len(head), networks.generator)
    return networks.query([features, new_head])


@entry("only the answers for deleted pictures replaced")
def answers_replaced(networks: Networks) -> Margins:
    """A table holds answers for exactly these pictures, of networks that did not see them."""
    margins = networks.query(networks.trained)
    deployed = np.where(networks.halves.deleted, networks.unseen, margins["deployed"])
    return {**margins, "deployed": deployed}


def flag(
    seed: int, world: World, entries: Iterable[str] = tuple(ENTRIES)
) -> dict[tuple[str, str], bool]:
    """Return whether entries are flagged on each path in an audit."""
    networks = make_networks(seed, world)
    generator = np.random.default_rng(seed)
    nothing = Pairs(networks.answer(networks.trained), networks.halves)
    flags = {}
    for words in entries:
        for path, margins in ENTRIES[words](networks).items():
            pairs_of_path = Pairs(margins, networks.halves, nothing)
            tests = run_joint_tests(pairs_of_path, generator, REDRAWS)
            flags[words, path] = min(test.p for test in tests.values()) <= ALPHA
    return flags


def make_table(audits: list[dict[tuple[str, str], bool]], title: str) -> TitledTable:
    """Return how many audits flag each entry on each path, with 95% intervals (Wilson)."""
    lines = []
    for words in ENTRIES:
        line = {"What is audited": words}
        for path in PATHS:
            flags = [flags[words, path] for flags in audits]
            interval = binomtest(sum(flags), len(flags)).proportion_ci(method="wilson")
            bounds = f"[{100 * interval.low:.0f}, {100 * interval.high:.0f}]%"
            line[path] = f"{sum(flags)} of {len(flags)} {bounds}"
        lines.append(line)
    return TitledTable(title, pd.DataFrame(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.further_paths", description=__doc__)
    parser.add_argument("--audits", type=int, default=40, help="audits per cell")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    tables = []
    with ProcessPoolExecutor(given.jobs) as executor:
        for world in WORLDS:
            audits = executor.map(partial(flag, world=world), range(given.audits))
            flags = list(progress(audits, world.title, "audits"))
            tables.append(make_table(flags, world.title))
    command = f"python -m benchmarks.further_paths --audits {given.audits}"
    write_text(given.folder / "further-paths.md", f"`{command}`\n\n{render(tables, 'markdown')}")

"""MUNKEY with a network trained only on public classes. Private pictures are only in its memory.

    python -m benchmarks.public_classes data/cifar10-images --table public-classes.md

Five of CIFAR-10's classes are public, and the other five are private. MUNKEY with Direct Key
(app. D.1), whose tokens are the frozen keys, is trained on the public classes and then frozen. The
network cannot predict a private class. Therefore, an exact head, fitted to the private rows,
classifies the network's features ([CLS] before its own head). The feature of a row is computed from
its image and its key, and the feature of a test picture from its image and the keys of the nearest
private rows. No weight depends on a private picture, so deleting a row is exact by construction.

A tenth of the private rows is deleted, and accuracy is measured on all test pictures of the private
classes. This is repeated for `--splits` random splits of the classes. The baselines use the same
private rows: exact heads on the keys alone, and MUNKEY trained on the private rows themselves,
which is not exact.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from tabulate import tabulate
from torch import nn

from benchmarks.keys import RATE, Pictures, format_difference, pictures_in
from benchmarks.keys import Keys as ExtractedKeys
from munkey import ForgettingKNN, ForgettingKRR, ForgettingLDA, ForgettingNCM
from munkey.core.console import progress
from munkey.core.files import write_text
from munkey.data.image_set import ImageSet
from munkey.encoders.keys import Keys, normalize_rows
from munkey.encoders.parts import join_keys
from munkey.estimators.classifier import ForgettingClassifier
from munkey.experiment.params.load import read_params
from munkey.memory.neighbors import drop_self, find_nearest
from munkey.models.family import FAMILIES, MemberKeys, Retrieval, System, Training
from munkey.settings import DataSettings, InferenceSettings

ENCODER = "efficientnet-lite0@160+efficientnet-lite1@192+efficientnet-lite2@224"
SECTIONS = read_params([Path("workflow/presets/cifar10-small.yaml")])  # the ViT and its training
DATA = DataSettings.model_validate(SECTIONS["data"])
HEADS: dict[str, ForgettingClassifier] = {
    "KNN": ForgettingKNN(k=16, vote="equal"),
    "NCM": ForgettingNCM(temperature=1.0),
    "LDA": ForgettingLDA(alpha="auto"),
    "KRR": ForgettingKRR(lam="auto"),
}
MUNKEY = FAMILIES["munkey"]


@dataclass(frozen=True)
class Group:
    """Pictures of some classes.

    Attributes
    ----------
    samples
        The pictures. Their labels are numbered from 0 within the group.
    keys
        (N, d).
    """

    samples: ImageSet
    keys: Keys

    def select(self, rows: np.ndarray) -> "Group":
        """Return the pictures at `rows` of this group."""
        samples = replace(
            self.samples,
            rows=self.samples.rows[rows],
            ids=self.samples.ids[rows],
            labels=self.samples.labels[rows],
        )
        return Group(samples, Keys(self.keys.ids[rows], self.keys.keys[rows]))


@dataclass(frozen=True)
class Split:
    """A split of the classes into public and private ones.

    Attributes
    ----------
    public, private
        The training pictures of each kind.
    deleted
        Ids of private training pictures to delete.
    test
        The test pictures of the private classes.
    """

    public: Group
    private: Group
    deleted: np.ndarray
    test: Group


def make_group(
    pictures: Pictures, keys: np.ndarray, rows: np.ndarray, classes: np.ndarray
) -> Group:
    """Make a group of the pictures at `rows` that belong to `classes`. Their ids are their rows."""
    ids = rows[np.isin(pictures.labels[rows], classes)]
    labels = np.searchsorted(classes, pictures.labels[ids])
    return Group(ImageSet(pictures.images, ids, ids, labels), Keys(ids, keys[ids]))


def draw_split(pictures: Pictures, keys: np.ndarray, seed: int) -> Split:
    """Draw half of the classes as public ones, and private pictures to delete."""
    generator = np.random.default_rng(seed)
    classes = generator.permutation(pictures.labels.max() + 1)
    half = len(classes) // 2
    public_classes = np.sort(classes[:half])
    private_classes = np.sort(classes[half:])
    train_rows = np.arange(pictures.train_count)
    test_rows = np.arange(pictures.train_count, len(pictures.labels))
    private = make_group(pictures, keys, train_rows, private_classes)
    count = round(RATE * len(private.keys.ids))
    return Split(
        public=make_group(pictures, keys, train_rows, public_classes),
        private=private,
        deleted=np.sort(generator.choice(private.keys.ids, count, replace=False)),
        test=make_group(pictures, keys, test_rows, private_classes),
    )


def train_munkey(group: Group, architecture: str, seed: int, device: str) -> System:
    """Train MUNKEY on a group."""
    settings = MUNKEY.read_section(SECTIONS).model_copy(update={"architecture": architecture})
    stage = MUNKEY.make_stage(seed, "public-classes", architecture)
    recipe = MUNKEY.make_recipe({**SECTIONS, "munkey": settings.model_dump()}, stage)
    depth = recipe.family.neighbors[1]
    ids = group.keys.ids
    neighbors = drop_self(find_nearest(group.keys, group.keys, depth + 1), ids, depth)
    members = MemberKeys(group.keys.keys, neighbors)
    classes = int(group.samples.labels.max()) + 1
    training = Training(
        samples=group.samples,
        classes=classes,
        recipe=recipe,
        device=device,
        report=lambda _: None,
        members=members,
    )
    return MUNKEY.train(training).system


def answer(system: System, queries: Group, device: str) -> np.ndarray:
    """Return the network's output (S, C) for queries with their nearest rows in the memory."""
    memory = system.require_memory()
    rows = Keys(memory.ids.numpy(), memory.keys.cpu().numpy())
    inference = InferenceSettings.model_validate(SECTIONS["inference"])
    retrieval = Retrieval(find_nearest(queries.keys, rows, inference.k), inference)
    return MUNKEY.predict_logits(system, queries.samples, DATA, device, retrieval)


def forget_rows(system: System, ids: np.ndarray) -> System:
    return replace(system, memory=system.require_memory().forget(ids))


def fill_memory(trained: System, rows: Group) -> System:
    """Return the trained system, with the same network but only these rows in its memory."""
    public_ids = trained.require_memory().ids.numpy()
    inference = InferenceSettings.model_validate(SECTIONS["inference"])
    system = MUNKEY.add_samples(trained, rows.keys, rows.samples.labels, inference)
    return forget_rows(system, public_ids)


def read_rows(system: System, rows: Group, device: str) -> np.ndarray:
    """Compute a feature of each row (N, width) from its own image and key."""
    return normalize_rows(MUNKEY.extract_features(system, rows.samples, DATA, device))


def read_queries(system: System, queries: Group, device: str) -> np.ndarray:
    """Compute a feature of each query (S, width) from its image and its nearest rows' keys."""
    network = system.copy_model()
    network.head = nn.Identity()
    return normalize_rows(answer(replace(system, model=network), queries, device))


def measure(split: Split, seed: int, device: str) -> dict[tuple[str, str], np.ndarray]:
    """Return whether each test picture (T,) is classified correctly, by input and head."""
    private_ids = split.private.keys.ids
    labels = split.private.samples.labels
    remaining = split.private.select(np.flatnonzero(~np.isin(private_ids, split.deleted)))
    public_system = train_munkey(split.public, "direct-key", seed, device)
    system = fill_memory(public_system, split.private)
    row_features = read_rows(system, split.private, device)
    system = forget_rows(system, split.deleted)
    test_features = read_queries(system, split.test, device)
    never_private = fill_memory(public_system, remaining)
    if not np.array_equal(test_features, read_queries(never_private, split.test, device)):
        raise RuntimeError("after a deletion, answers differ from those without the rows")
    inputs = {
        "keys": (split.private.keys.keys, split.test.keys.keys),
        "features": (row_features, test_features),
    }
    inputs["keys and features"] = (
        join_keys([split.private.keys.keys, row_features]),
        join_keys([split.test.keys.keys, test_features]),
    )
    correct = {}
    for name, (rows, queries) in inputs.items():
        for head_name, head in HEADS.items():
            head.fit(rows, labels, ids=private_ids)
            head.forget(split.deleted)
            correct[name, head_name] = head.predict(queries) == split.test.samples.labels
    trained = train_munkey(split.private, "input-level", seed, device)
    logits = answer(forget_rows(trained, split.deleted), split.test, device)
    correct["trained on private pictures", "MUNKEY"] = (
        logits.argmax(axis=1) == split.test.samples.labels
    )
    return correct


def make_row(
    name: tuple[str, str], flags: np.ndarray, baseline: np.ndarray | None
) -> dict[str, object]:
    """Make a row of the table.

    Parameters
    ----------
    name
        The input and the head.
    flags
        (splits, T) bool: whether a test picture is classified correctly.
    baseline
        The same for this head on the keys alone. None to omit the comparison.
    """
    by_split = 100 * flags.mean(axis=1)
    row: dict[str, object] = {
        "input": name[0],
        "head": name[1],
        "accuracy (%)": f"{by_split.mean():.2f} ± {by_split.std(ddof=1):.2f}",
        "minus keys alone": "",
    }
    if baseline is not None:
        row["minus keys alone"] = format_difference(flags, baseline)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--per-class", type=int, default=300)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--cache", type=Path, default=Path("cache/benchmarks/keys"))
    parser.add_argument("--table", type=Path)
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pictures = pictures_in(arguments.folder, arguments.per_class)
    keys = ExtractedKeys(pictures, arguments.cache).of(ENCODER, mirror=True)
    by_split = []
    for seed in progress(range(arguments.splits), "splits", "splits"):
        by_split.append(measure(draw_split(pictures, keys, seed), seed, device))
    rows = []
    for name in by_split[0]:
        flags = np.stack([correct[name] for correct in by_split])
        baseline = None
        if "features" in name[0]:
            baseline = np.stack([correct["keys", name[1]] for correct in by_split])
        rows.append(make_row(name, flags, baseline))
    table = tabulate(rows, headers="keys", tablefmt="pipe")
    print(table)
    if arguments.table:
        write_text(arguments.table, table + "\n")


if __name__ == "__main__":
    main()

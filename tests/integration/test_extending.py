"""What docs/extending.md promises: one of everything is added where it says, and nowhere else, and takes part."""

from pathlib import Path

import pandas as pd
import pytest

from tests.integration.conftest import ROOT, Project
from tests.pages import block

DATA_SET = """
import numpy as np

from munkey.data.registry import dataset
from munkey.data.source import Source
from munkey.settings import SourceSettings


@dataset("bright-squares", "squares of three shades of gray")
def bright_squares(settings: SourceSettings) -> Source:
    labels = np.arange(240) % 3
    noise = np.random.default_rng(0).integers(0, 30, (240, 8, 8, 3))
    images = (noise + 80 * labels[:, None, None, None]).astype(np.uint8)
    splits = np.repeat(["train", "val", "test"], [120, 60, 60])
    return Source(images=images, labels=labels, splits=splits, classes=["dark", "gray", "bright"])
"""
ENCODER = """
from munkey.encoders.registry import Encoder, encoder
from munkey.settings import EncoderSettings


@encoder("mean-color", "mean color and contrast, d = 6", size="own")
def mean_color(settings: EncoderSettings, device: str) -> Encoder:
    import torch

    return lambda images: torch.cat([images.mean(dim=(2, 3)) + 0.1, images.std(dim=(2, 3))], dim=1)
"""
FAMILY = '''
"""A prototype per class: the mean image."""

from munkey.models.family import Architecture, Family, System, Trained, family
from munkey.settings import Positive, Section


class PrototypeSettings(Section):
    sharpness: Positive


@family
class Prototypes(Family):
    name = "prototypes"
    title = "Prototypes"
    letter = "p"
    settings = PrototypeSettings

    def architecture(self, recipe, classes, key_dim=None):
        return Architecture(classes)

    def stored_architecture(self, stored):
        return Architecture(**stored)

    def build(self, architecture, generator):
        import torch

        return torch.nn.Linear(1, architecture.classes)

    def train(self, training):
        import torch

        images, labels = training.samples.batch(torch.arange(len(training.samples)), training.device)
        brightness = images.mean(dim=(1, 2, 3))
        means = torch.stack([brightness[labels == c].mean() for c in range(training.classes)])
        model = self.build(Architecture(training.classes), None)
        sharpness = training.recipe.family.sharpness
        with torch.no_grad():
            model.weight.copy_(2 * sharpness * means[:, None])
            model.bias.copy_(-sharpness * means**2)
        history = [{"epoch": 1, "loss": 0.0, "accuracy": 100.0, "lr": 0.0, "seconds": 0.1}]
        return Trained(System(self.name, Architecture(training.classes), model), history)

    def logits(self, system, samples, data, device, retrieval):
        import torch

        images, _ = samples.batch(torch.arange(len(samples)), device)
        with torch.inference_mode():
            return system.model(images.mean(dim=(1, 2, 3))[:, None]).numpy()
'''
METHOD_OF_FAMILY = """
from munkey.models.family import System
from munkey.settings import Section
from munkey.unlearn.contract import Request, method


@method("keep", title="Keep", description="do nothing", family="prototypes")
def keep(system: System, request: Request, settings: Section) -> System:
    from dataclasses import replace

    return replace(system, model=system.copy_of_model())
"""


def replaced(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1, (path, before)
    path.write_text(text.replace(before, after))


def test_the_method_as_printed_runs(finished: Project, tmp_path: Path) -> None:
    project = finished.copy(tmp_path / "project")
    (project.path / "src/munkey/unlearn/methods/my_method.py").write_text(block("extending", "python", '"my-method",'))
    assert project.planned() == {}  # a file alone changes nothing
    project.params(
        {"methods": ["knn", "my-method"], "unlearn": {"my-method": {"lr_factor": 0.5, "strength": 1.0}}},
    )
    project.snakemake()
    table = (project.path / "results/default/tables/main.md").read_text()
    assert "| My method" in table


def test_a_broken_method_stops_only_those_who_list_it(fresh: Project, tmp_path: Path) -> None:
    project = fresh.copy(tmp_path / "project")
    (project.path / "src/munkey/unlearn/methods/my_method.py").write_text("from munkey import nosuch\n")
    project.params({"unlearn": {"my-method": {"lr_factor": 0.5}}})
    refusal = "src/munkey/unlearn/methods/my_method.py, line 1: ImportError: cannot import name 'nosuch'"
    planned = project.snakemake("-n", "--quiet")
    assert f"skipping what cannot be used: {refusal}" in planned.stdout
    project.params({"methods": ["knn", "my-method"]})
    refused = project.snakemake("-n", check=False)
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0 and "Traceback" not in said
    assert f"methods: the method 'my-method' cannot be used: {refusal}" in said


@pytest.fixture(scope="module")
def extended(fresh: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A data set, an encoder, a family with its method, a metric, a figure and an ablation, added and run."""
    project = fresh.copy(tmp_path_factory.mktemp("extended") / "project")
    package = project.path / "src/munkey"
    (package / "data/sets/squares.py").write_text(DATA_SET)
    (package / "encoders/mean_color.py").write_text(ENCODER)
    (package / "models/families/prototypes.py").write_text(FAMILY)
    (package / "unlearn/methods/keep.py").write_text(METHOD_OF_FAMILY)
    # a metric: 2 places
    replaced(
        package / "evaluation/metrics.py",
        '        "TA": accuracy(',
        '        "logit": float(logits.mean()),\n        "TA": accuracy(',
    )
    replaced(package / "report/tables/runtime.py", '"P_s": "P_s"}', '"P_s": "P_s", "logit": "Mean logit"}')
    # a figure: 1 place
    replaced(
        package / "report/figures/charts.py",
        '    "overview": ChartKind(',
        '    "again": ChartKind("The same again.", lambda layout: {}, _overview),\n    "overview": ChartKind(',
    )
    project.params(
        {
            "datasets": ["bright-squares"],
            "methods": ["keep", "munkey"],
            "keys": {"encoder": "mean-color", "image_size": None},
            "prototypes": {"sharpness": 10.0},
            "unlearn": {"keep": {}},
            "ablations": {"train.weight_decay": [0.0, 0.05]},
        }
    )
    project.snakemake("--", "all", "results/default/figures/again.png", "results/default/tables/ablations.csv")
    return project


def test_a_data_set_is_one_file(extended: Project) -> None:
    assert set(pd.read_csv(extended.path / "results/default/metrics.csv")["dataset"]) == {"bright-squares"}


def test_an_encoder_is_one_file(extended: Project) -> None:
    assert (extended.path / "results/default/keys/bright-squares/mean-color/keys.npz").exists()


def test_a_family_is_one_file_and_one_section(extended: Project) -> None:
    tidy = pd.read_csv(extended.path / "results/default/metrics.csv")
    assert {"original-p", "retrain-p", "keep"} <= set(tidy["method"])
    accuracy = tidy[(tidy["method"] == "keep") & (tidy["metric"] == "TA")]["value"]
    assert (accuracy > 95).all()  # it learned: the classes differ in brightness
    assert ((tidy["method"] == "keep") & (tidy["metric"] == "gap")).any()  # measured against its own oracle
    table = (extended.path / "results/default/tables/main.md").read_text()
    assert "| Original (P)" in table and "| Retrain (P)" in table and "| Keep" in table
    named = [path for path in (ROOT / "src").rglob("*.py") if "prototypes" in path.read_text()]
    assert named == []


def test_a_metric_is_two_places(extended: Project) -> None:
    assert "logit" in set(pd.read_csv(extended.path / "results/default/metrics.csv")["metric"])
    assert "Mean logit" in (extended.path / "results/default/tables/runtime.md").read_text()


def test_a_figure_is_one_place(extended: Project) -> None:
    assert (extended.path / "results/default/figures/again.png").stat().st_size > 1000


def test_an_ablation_of_a_knob_is_one_line(extended: Project) -> None:
    table = pd.read_csv(extended.path / "results/default/tables/ablations.csv")
    assert {"train.weight_decay/0.0", "train.weight_decay/0.05"} <= set(table["case"])

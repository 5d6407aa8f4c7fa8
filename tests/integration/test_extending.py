"""What docs/extending.md promises: one of everything is added where it says, and nowhere else, and takes part.

Some of it in the tree, some in a package of its own: a registry treats both alike (tests/core/test_plugins.py).
"""

import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.integration.conftest import ROOT, Project
from tests.pages import block
from tests.plugins import install, project, written

pytestmark = pytest.mark.ci
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

from munkey.models.family import Architecture, Family, System, TrainingResult, family
from munkey.settings import Positive, Section


class PrototypeSettings(Section):
    sharpness: Positive


@family
class Prototypes(Family):
    name = "prototypes"
    title = "Prototypes"
    letter = "y"
    settings = PrototypeSettings

    def make_architecture(self, recipe, classes, key_dim=None):
        return Architecture(classes)

    def restore_architecture(self, fields):
        return Architecture(**fields)

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
        return TrainingResult(System(self.name, Architecture(training.classes), model), history)

    def predict_logits(self, system, samples, data, device, retrieval):
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

    return replace(system, model=system.copy_model())
"""
PLUGINS = {
    "munkey.unlearn.methods": {"broken": "my_unlearning.broken"},
    "munkey.data.sets": {"bright-squares": "my_unlearning.squares"},
    "munkey.audits.attacks": {"my-audit": "my_unlearning.my_audit"},
}
MODULES = {
    "__init__": "",
    "my_method": block("extending", "python", '"my-method",'),
    "my_audit": block("extending", "python", '"my-audit",'),
    "squares": DATA_SET,
    "broken": "import nosuch\n",
}
ATTACKS = "results/default/audit/bright-squares/attacks.md"
FIGURE = "results/default/figures/again.png"
TABLES = [f"results/default/tables/{name}" for name in ("main.md", "runtime.md", "ablations.csv")]
TARGETS = ("--", *TABLES, ATTACKS, FIGURE)


def replace_text(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1, (path, before)
    path.write_text(text.replace(before, after))


@pytest.fixture(scope="module")
def extended(fresh: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """In the tree an encoder, a family with its method, a metric, a figure and an ablation; the rest as plug-ins."""
    folder = tmp_path_factory.mktemp("extended")
    extended = fresh.copy(folder / "project")
    package = extended.path / "src/munkey"
    (package / "encoders/mean_color.py").write_text(ENCODER)
    (package / "models/families/prototypes.py").write_text(FAMILY)
    (package / "unlearn/methods/keep.py").write_text(METHOD_OF_FAMILY)
    metrics = package / "evaluation/metrics.py"
    runtime = package / "report/tables/runtime.py"
    replace_text(
        metrics,
        '        "TA": compute_accuracy(',
        '        "logit": float(logits.mean()),\n        "TA": compute_accuracy(',
    )
    replace_text(runtime, '"P_s": "P_s"}', '"P_s": "P_s", "logit": "Mean logit"}')
    charts = package / "report/figures/charts.py"
    inputs = 'lambda layout: {"table": fill(layout.table, table="main", ending="csv")}'
    again = f'    "again": ChartKind("The same again.", {inputs}, _draw_forgetting),\n'
    replace_text(charts, '    "forgetting": ChartKind(', f'{again}    "forgetting": ChartKind(')
    printed = tomllib.loads(block("extending", "toml", "[project.entry-points"))["project"]
    assert printed["name"] == "my-unlearning"
    assert printed["version"] == "0.1.0"
    methods = printed["entry-points"]["munkey.unlearn.methods"] | PLUGINS["munkey.unlearn.methods"]
    described = project("my-unlearning", "0.1.0", PLUGINS | {"munkey.unlearn.methods": methods})
    modules = {f"my_unlearning/{name}.py": text for name, text in MODULES.items()}
    install(written(folder / "source", modules | {"pyproject.toml": described}), folder / "site")
    extended.plugins = folder / "site"
    tiny = yaml.safe_load((extended.path / "params.yaml").read_text())["ablations"]
    extended.params(
        {
            "datasets": ["bright-squares"],
            "methods": ["keep", "my-method", "munkey"],
            "keys": {"encoder": "mean-color", "image_size": None},
            "prototypes": {"sharpness": 10.0},
            "unlearn": {"keep": {}, "my-method": {"lr_factor": 0.5, "strength": 1.0}},
            "ablations": {knob: [] for knob in tiny} | {"train.weight_decay": [0.0, 0.05]},
        }
    )
    done = extended.snakemake(*TARGETS)
    (folder / "said").write_text(done.stdout + done.stderr)
    return extended


def test_an_addition_of_every_kind_takes_part_in_a_run(extended: Project) -> None:
    results = extended.path / "results/default"
    tidy = pd.read_csv(results / "metrics.csv")
    assert set(tidy["dataset"]) == {"bright-squares"}
    assert (results / "keys/bright-squares/mean-color/keys.npz").exists()
    assert {"original-y", "retrain-y", "keep", "my-method"} <= set(tidy["method"])
    accuracy = tidy[(tidy["method"] == "keep") & (tidy["metric"] == "TA")]["value"]
    assert (accuracy > 95).all()  # it learned: the classes differ in brightness
    # It is measured against an oracle of its family.
    assert ((tidy["method"] == "keep") & (tidy["metric"] == "gap")).any()
    table = (results / "tables/main.md").read_text()
    for title in ("Original (Y)", "Retrain (Y)", "Keep", "My method"):
        assert f"| {title}" in table
    assert "logit" in set(tidy["metric"])
    assert "Mean logit" in (results / "tables/runtime.md").read_text()
    assert "Confidence: AUROC" in (extended.path / ATTACKS).read_text()
    assert (extended.path / FIGURE).stat().st_size > 1000
    cases = set(pd.read_csv(results / "tables/ablations.csv")["case"])
    assert {"train.weight_decay/0.0", "train.weight_decay/0.05"} <= cases
    for path in (ROOT / "src").rglob("*.py"):
        assert "prototypes" not in path.read_text(), path


def test_a_broken_plugin_is_skipped_unless_a_run_lists_it(
    extended: Project, tmp_path: Path
) -> None:
    place = r"broken of my-unlearning 0.1.0, \S*my_unlearning/broken.py, line 1"
    why = f"{place}: ModuleNotFoundError: No module named 'nosuch'"
    log = (extended.path.parent / "said").read_text()
    assert re.search(f"skipping what cannot be used: {why}", log)
    copy = extended.copy(tmp_path / "project")
    copy.params({"methods": ["broken", "keep"], "unlearn": {"broken": {}}})
    refused = copy.snakemake("-n", check=False)
    output = refused.stdout + refused.stderr
    assert refused.returncode != 0
    assert "Traceback" not in output
    assert re.search(f"methods: the method 'broken' cannot be used: {why}", output)


def edit_plugin(extended: Project, tmp_path: Path, module: str, old: str, new: str) -> Project:
    """A copy of the project, with a copy of the package in which a text is replaced."""
    copy = extended.copy(tmp_path / "project")
    copy.plugins = Project(extended.plugins).copy(tmp_path / "site").path
    replace_text(copy.plugins / f"my_unlearning/{module}.py", old, new)
    return copy


def test_an_edited_plugin_reruns_exactly_what_depends_on_it(
    extended: Project, tmp_path: Path
) -> None:
    comment = edit_plugin(
        extended,
        tmp_path / "comment",
        "my_method",
        "    # Return a new system",
        "    # Give back another system",
    )
    assert comment.planned(*TARGETS) == {}
    method = edit_plugin(
        extended, tmp_path / "method", "my_method", "settings.strength * settings", "2 * settings"
    )
    again = {"unlearn": 1, "evaluate": 1, "metrics": 1, "tables": 1, "attacks": 1, "chart": 1}
    assert method.planned(*TARGETS) == again
    audit = edit_plugin(
        extended, tmp_path / "audit", "my_audit", "logits.max(axis=1)", "logits.min(axis=1)"
    )
    assert audit.planned(*TARGETS) == {"attacks": 1}
    needs = edit_plugin(
        extended,
        tmp_path / "needs",
        "my_method",
        '{"retain images", "retain labels"}',
        '{"retain images"}',
    )
    assert needs.planned(*TARGETS) == again

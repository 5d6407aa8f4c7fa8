"""What docs/extending.md promises of plug-ins: one of everything, in a package of its own, takes part in a run."""

import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from tests.integration.conftest import Project
from tests.integration.test_extending import DATA_SET, ENCODER, FAMILY, METHOD_OF_FAMILY, replaced
from tests.pages import block
from tests.plugins import install, project, written

ANNOUNCED = {
    "munkey.unlearn.methods": {"keep": "my_unlearning.keep", "broken": "my_unlearning.broken"},
    "munkey.data.sets": {"bright-squares": "my_unlearning.squares"},
    "munkey.encoders": {"mean-color": "my_unlearning.mean_color"},
    "munkey.models.families": {"prototypes": "my_unlearning.prototypes"},
    "munkey.audits": {"my-audit": "my_unlearning.my_audit"},
}
MODULES = {
    "__init__": "",
    "my_method": block("extending", "python", '"my-method",'),
    "my_audit": block("extending", "python", '"my-audit",'),
    "keep": METHOD_OF_FAMILY,
    "squares": DATA_SET,
    "mean_color": ENCODER,
    "prototypes": FAMILY,
    "broken": "import nosuch\n",
}
METRICS, ATTACKS = "results/default/metrics.csv", "results/default/audit/bright-squares/attacks.md"


def as_printed() -> dict[str, dict[str, str]]:
    """What the page's example announces."""
    printed = tomllib.loads(block("extending", "toml", "[project.entry-points"))["project"]
    assert (printed["name"], printed["version"]) == ("my-unlearning", "0.1.0")
    return dict(printed["entry-points"])


@pytest.fixture(scope="module")
def plugged(fresh: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project that nothing was added to, run with plug-ins of every kind, one of them broken."""
    folder = tmp_path_factory.mktemp("plugged")
    methods = as_printed()["munkey.unlearn.methods"] | ANNOUNCED["munkey.unlearn.methods"]
    described = project("my-unlearning", "0.1.0", ANNOUNCED | {"munkey.unlearn.methods": methods})
    modules = {f"my_unlearning/{name}.py": text for name, text in MODULES.items()}
    install(written(folder / "source", modules | {"pyproject.toml": described}), folder / "site")
    plugged = fresh.copy(folder / "project")
    plugged.plugins = folder / "site"
    plugged.params(
        {
            "datasets": ["bright-squares"],
            "methods": ["keep", "my-method"],
            "keys": {"encoder": "mean-color", "image_size": None},
            "prototypes": {"sharpness": 10.0},
            "unlearn": {"keep": {}, "my-method": {"lr_factor": 0.5, "strength": 1.0}},
        }
    )
    done = plugged.snakemake("--", "all", ATTACKS)
    (folder / "said").write_text(done.stdout + done.stderr)
    return plugged


def edited(plugged: Project, tmp_path: Path, module: str, old: str, new: str) -> Project:
    """A copy of the project, with a copy of the package in which a text is replaced."""
    copy = plugged.copy(tmp_path / "project")
    copy.plugins = Project(plugged.plugins).copy(tmp_path / "site").path
    replaced(copy.plugins / f"my_unlearning/{module}.py", old, new)
    return copy


def test_a_plug_in_of_every_kind_takes_part(plugged: Project) -> None:
    tidy = pd.read_csv(plugged.path / METRICS)
    assert set(tidy["dataset"]) == {"bright-squares"}
    assert {"original-p", "retrain-p", "keep", "my-method"} <= set(tidy["method"])
    assert (plugged.path / "results/default/keys/bright-squares/mean-color/keys.npz").exists()
    assert "Confidence: AUROC" in (plugged.path / ATTACKS).read_text()
    assert plugged.run("git", "status", "--porcelain").stdout.split() == ["M", "params.yaml"]


def test_a_broken_plug_in_is_named_and_stops_only_those_who_list_it(plugged: Project, tmp_path: Path) -> None:
    place = r"broken of my-unlearning 0.1.0, \S*my_unlearning/broken.py, line 1"
    why = f"{place}: ModuleNotFoundError: No module named 'nosuch'"
    said = (plugged.path.parent / "said").read_text()
    assert re.search(f"skipping what cannot be used: {why}", said)
    project = plugged.copy(tmp_path / "project")
    project.params({"methods": ["broken", "keep"], "unlearn": {"broken": {}}})
    refused = project.snakemake("-n", check=False)
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0 and "Traceback" not in said
    assert re.search(f"methods: the method 'broken' cannot be used: {why}", said)


def test_an_edit_of_a_plug_in_runs_again_what_depends_on_it_and_nothing_else(plugged: Project, tmp_path: Path) -> None:
    assert plugged.planned("--", "all", ATTACKS) == {}
    comment = edited(plugged, tmp_path / "comment", "my_method", "    # a request has", "    # any request has")
    assert comment.planned("--", "all", ATTACKS) == {}
    method = edited(plugged, tmp_path / "method", "my_method", "settings.strength * settings", "2 * settings")
    again = {"metrics": 1, "tables": 1, "summary": 1, "track": 1}
    assert method.planned("--", "all", ATTACKS) == {"unlearn": 1, "evaluate": 1, "attacks": 1} | again
    audit = edited(plugged, tmp_path / "audit", "my_audit", "logits.max(axis=1)", "logits.min(axis=1)")
    assert audit.planned("--", "all", ATTACKS) == {"attacks": 1}

"""The rules of the house that `make lint` does not check: heavy imports, links of pages, targets, lock, citation.

Ruff checks the style (pyproject.toml), import-linter where imports may point, codespell the spelling.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = sorted((ROOT / "src" / "munkey").rglob("*.py"))
HEAVY = (
    "faiss", "matplotlib", "medmnist", "mlflow", "pandas", "scipy", "sklearn", "timm", "torch", "torchvision",
    "transformers", "umap",
)  # fmt: skip


# Imports


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a project with the contracts of its pyproject.toml."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--no-logo"],
        cwd=project,
        env={"PYTHONPATH": str(project / "src"), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


FORBIDDEN = {
    "munkey.core.ids": "munkey.experiment.plan.plan",  # from the bottom to the top
    "munkey.encoders.keys": "munkey.memory.exemplars",  # one floor up
    "munkey.models.family": "munkey.models.system",  # up within a room
    "munkey.experiment.plan.plan": "munkey.unlearn.methods.cf",  # a method by name
    "munkey.experiment.plan.cases": "snakemake",
    "munkey.report.tables.summary": "mlflow",
}


def test_the_contracts_name_forbidden_imports_and_a_room_without_a_floor(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for importer, imported in FORBIDDEN.items():
        with (tmp_path / "src" / Path(*importer.split(".")).with_suffix(".py")).open("a") as module:
            module.write(f"\nimport {imported}  # noqa\n")
    violations = " ".join(lint_imports(tmp_path).stdout.split())
    for importer, imported in FORBIDDEN.items():
        assert f"{importer} -> {imported} " in violations, violations
    (tmp_path / "src/munkey/attic.py").write_text('"""A room that no contract lists."""\n')
    checked = lint_imports(tmp_path)
    assert checked.returncode != 0, checked.stdout
    assert "attic" in checked.stdout, checked.stdout


PLAN = """
import sys
from munkey.audits.registry import AUDITS
from munkey.data.registry import DATASETS
from munkey.encoders.registry import ENCODERS
from munkey.experiment.params.load import load, read_params
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.models.family import FAMILIES
from munkey.studies.ablations.plan import list_ablation_runs
from munkey.studies.selection.plan import list_selection_runs
from munkey.unlearn.contract import METHODS
import munkey.experiment.run.code_digest
assert all(map(len, (AUDITS, DATASETS, ENCODERS, FAMILIES, METHODS)))  # looking loads every entry
plan = Plan(load({**read_params([]), "search": True, "methods": ["cf", "knn", "munkey", "sisa"]}))
plan.main, list_ablation_runs(plan, "digits"), list_selection_runs(plan, "digits"), plan.external_state
plan.train_input("digits", "0", "full", "m"), plan.unlearn_settings("digits", "cf", 0)
Exhibits(plan).rows, Exhibits(plan).figures
print(*sorted(set(sys.argv) & set(sys.modules)))
"""


def test_planning_imports_nothing_heavy():
    command = [sys.executable, "-c", PLAN, *HEAVY]
    planned = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.split() == [], "`python -X importtime` shows which module imports them"


IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [module for module in sys.modules if module.split(".")[0] == "munkey"]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except Exception as error:
        raise ImportError(f"{name} cannot be imported first") from error
"""


@pytest.mark.ci
def test_every_module_can_be_imported_first():
    """In one fresh process, which forgets our modules each time: only the libraries stay loaded."""
    names = []
    for path in PACKAGE:
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        names.append(".".join(parts).removesuffix(".__init__"))
    assert {"munkey", "munkey.models.families.munkey", "munkey.experiment.plan.plan"} <= set(names)
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# Pages and the files around the code

PAGES = sorted([*ROOT.glob("*.md"), ROOT / "data" / "README.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = {
    "my_audit",
    "my_method",
    "my-method",
    "rounding",
}  # what a page says that its reader may add
PATH = re.compile(r"\b(?:src|tests|workflow|benchmarks|docs|profiles|tools|notebooks)/[\w./-]*\w")


def named_files(page: Path, line: str) -> list[tuple[Path, str]]:
    """Links and paths in a line of a page: the folder that they are relative to, and the name."""
    names = []
    for link in re.findall(r"\]\((?!\w+:)([^)#]+)", line):
        names.append((page.parent, link))
    for path in PATH.findall(re.sub(r"https?://\S+", "", line)):
        names.append((ROOT, path))
    return names


def is_example(name: str) -> bool:
    return any(example in name for example in EXAMPLES)


def test_pages_name_only_files_that_exist():
    missing = []
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), start=1):
            for folder, name in named_files(page, line):
                if not (folder / name).exists() and not is_example(name):
                    missing.append(f"{page.relative_to(ROOT)}:{number}: {name}")
    assert not missing, "\n".join(missing)


def test_make_alone_lists_every_target_with_a_sentence_and_starts_none():
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^  make (\S+) +(?=\w)", listed, re.MULTILINE)
    [phony] = re.findall(r"^\.PHONY: help (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert sorted(targets) == sorted(phony.split())


def test_the_lock_pins_every_dependency_and_names_no_host():
    lock = (ROOT / "requirements.lock").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {name.lower() for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    for names in (project["dependencies"], *project["optional-dependencies"].values()):
        for name in names:
            assert name.partition("[")[0].lower() in pinned  # without extras
    assert "://" not in lock


def test_the_citation_has_the_version_and_license_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert (ROOT / "LICENSE").read_text().startswith(f"{project['license']} License")

"""Each study can be removed with its folder, its rules and its sections; what is left is planned as before."""

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from munkey.experiment.params.studies import load_studies
from tests.conftest import ROOT, read_config
from tests.integration.conftest import Project, merge

OVERLAY = ROOT / "tests/experiment/plan/everything.yaml"
# Of the kernel, all but `paper`, to which studies add.
TARGETS = ["all", "page", "exports"]
# Of studies, where these are not named after them alone.
TARGETS_OF_STUDIES = {
    "audits": ["audits", "audit_grids", "differencing"],
    "paper": ["compare"],
}
# What shows parts of studies.
GATHERING = {"paper", "figures", "page", "explore_page"}
LIST_JOBS = """

@atexit.register
def list_jobs():
    import json
    for job in workflow.dag.jobs:
        # The report prints all settings, and so those of studies.
        params = {name: value for name, value in job.params.items() if name != "config"}
        if job.rule.name == "settings":  # of all cases; those of data sets alone are the kernel's
            params["cases"] = {case: value for case, value in params["cases"].items() if "/" not in case}
        parts = [job.rule.name, [*job.input], [*job.output], params]
        print("JOB", json.dumps(parts, default=repr, sort_keys=True))
"""
IMPORT_ALL = """
import importlib, pkgutil, munkey
for module in pkgutil.walk_packages(munkey.__path__, "munkey."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def remove(name: str, project: Path, params: dict) -> None:
    """Remove a study's folder and rules from a copy of the project, and its sections from parameters."""
    shutil.rmtree(project / "src/munkey/studies" / name)
    (project / "workflow/rules" / f"{name}.smk").unlink()
    study = load_studies()[name]
    for place in (*study.sections, *study.dataset_sections):
        outer, _, inner = place.partition(".")
        if inner:
            del params[outer][inner]
        else:
            params[outer] = keep_nested_sections(outer, params[outer])
        if not params[outer]:
            del params[outer]


def keep_nested_sections(section: str, values: dict) -> dict:
    """What a section has within it from other studies."""
    kept = {}
    for study in load_studies().values():
        for place in study.sections:
            outer, _, inner = place.partition(".")
            if inner and outer == section and inner in values:
                kept[inner] = values[inner]
    return kept


class Copy(Project):
    """A copy of the code and the parameters, without tests."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        for name in ("src", "workflow", "profiles"):
            unneeded = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, path / name, ignore=unneeded)
        shutil.copy2(ROOT / "pyproject.toml", path)
        (path / "Snakefile").write_text((ROOT / "Snakefile").read_text() + LIST_JOBS)
        (path / "import_all.py").write_text(IMPORT_ALL)
        params = read_config()
        self.sections = merge(params, yaml.safe_load(OVERLAY.read_text()))

    @cache  # noqa: B019  # the whole is planned for some targets again and again
    def plan(self, *targets: str) -> set[str]:
        """All jobs of these targets, each with its rule, inputs, outputs and params."""
        (self.path / "params.yaml").write_text(yaml.safe_dump(self.sections, sort_keys=False))
        printed = self.run("snakemake", "-n", "-q", "--", *targets).stdout
        return {line for line in printed.splitlines() if line.startswith("JOB ")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("whole") / "project")


def get_rule(job: str) -> str:
    return json.loads(job.removeprefix("JOB "))[0]


def list_removed(name: str) -> list[str]:
    """A study and all that need it, those that need others first."""
    removed = [name]
    for other, study in load_studies().items():
        if set(study.needs) & set(removed):
            removed.append(other)
    return removed[::-1]


def removals() -> list[list[str]]:
    """Each study with all that need it, and all of them."""
    names = list(load_studies())
    return [*map(list_removed, names), names[::-1]]


@pytest.mark.slow
@pytest.mark.parametrize("removed", removals(), ids=" ".join)
def test_what_is_left_is_planned_and_imported_as_before(
    removed: list[str], whole: Copy, tmp_path: Path
) -> None:
    copy = Copy(tmp_path / "project")
    for name in removed:
        remove(name, copy.path, copy.sections)
    targets = list(TARGETS)
    for name in load_studies():
        if name not in removed:
            targets += TARGETS_OF_STUDIES.get(name, [name])
    planned = copy.plan(*targets)
    assert len(planned) > 30
    for job in planned ^ whole.plan(*targets):
        assert get_rule(job) in GATHERING, f"planned in one of both alone: {job[:2000]}"
    for job in copy.plan("paper") - whole.plan("paper"):
        assert get_rule(job) in GATHERING, f"planned without these studies alone: {job[:2000]}"
    copy.run("python", "import_all.py")
    if len(removed) == len(
        load_studies()
    ):  # then no contract names a package that a single removal takes away
        copy.run("lint-imports", "--no-cache")


def test_planning_a_run_loads_no_table_of_a_study() -> None:
    plans = [
        f"munkey.studies.{file.parent.name}.plan"
        for file in (ROOT / "src/munkey/studies").glob("*/plan.py")
    ]
    code = f"import sys, {', '.join(plans)}; print(*(name for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [name for name in done.stdout.split() if name.startswith("munkey.studies.")]
    assert set(plans) <= set(loaded)
    assert not [name for name in loaded if name.endswith((".tables", ".figure", ".jobs"))]

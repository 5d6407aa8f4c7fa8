"""A project in a folder whose path has a space and other odd characters runs; what cannot run is refused by name."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import BIN, ROOT, Project

MADE = "results/default/data/digits/images.npy"


@pytest.mark.ci
def test_a_project_runs_in_a_folder_with_a_space_quotes_and_letters_of_its_own(
    fresh: Project, tmp_path: Path
) -> None:
    project = fresh.copy(tmp_path / "it's ä (b) &c" / "project")
    environment = project.path / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    [site] = environment.glob("lib/python*/site-packages")
    packages = [path for path in sys.path if path.endswith("site-packages")]
    (site / "tests.pth").write_text("\n".join(packages))
    code = (BIN / "snakemake").read_text().partition("\n")[2]
    # As uv and pip write a script whose interpreter's path has a space: a shell starts it.
    launcher = f"#!/bin/sh\n'''exec' \"{environment}/bin/python\" \"$0\" \"$@\"\n' '''\n"
    (environment / "bin/snakemake").write_text(launcher + code)
    (environment / "bin/snakemake").chmod(0o755)
    (environment / "ready").touch()
    done = project.run("make", "run", f"TARGET={MADE}", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.path / MADE).exists()


@pytest.mark.parametrize("name", ["a$b", 'a"b', "a`b", "a{b}", "a:b"])
def test_a_path_that_cannot_work_is_refused_before_anything_is_installed(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    for file in ("requirements.lock", "pyproject.toml"):
        (folder / file).touch()
    done = subprocess.run(
        ["make", ".venv/ready", "PYTHON=false"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"this folder, {folder}, has one of" in done.stderr
    assert "false -m venv" not in done.stdout

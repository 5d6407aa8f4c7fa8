"""What a run needs of its environment: a user without a name, and the Makefile's words for Snakemake."""

import os
import subprocess
import sys

from tests.conftest import ROOT

NAMELESS = """
import pwd
def refuse(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = refuse
"""
USER_VARIABLES = ("LOGNAME", "USER", "LNAME", "USERNAME")


def test_a_user_without_a_name_can_plan(tmp_path):
    """The failure: `docker run --user 12345` ended in 40 lines and a KeyError of Python's."""
    for name in ("Snakefile", "params.yaml", "workflow", "src"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(NAMELESS)
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    for name in USER_VARIABLES:
        environment.pop(name, None)
    target = "results/default/data/digits/samples.csv"
    dry_run = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "--", target],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert dry_run.returncode == 0, dry_run.stdout + dry_run.stderr
    assert "prepare the data set digits" in dry_run.stdout


def make_run(*arguments, **variables):
    """The commands of `make run`, and the variables of the Makefile."""
    command = ["make", "-n", "-o", ".venv/ready", "--print-data-base", "run", *arguments]
    process = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stdout


def test_make_passes_the_number_of_cores():
    assert "snakemake --cores all --resources gpu=1" in make_run()
    assert "snakemake --cores 2 --resources gpu=1" in make_run("CORES=2")


def test_without_a_writable_home_make_chooses_a_folder_for_caches(tmp_path):
    missing = str(tmp_path / "none")
    assert "XDG_CACHE_HOME = $(CURDIR)/cache/home\n" in make_run(HOME=missing)
    assert "cache/home" not in make_run(HOME=str(tmp_path))
    assert "XDG_CACHE_HOME = /mine\n" in make_run(HOME=missing, XDG_CACHE_HOME="/mine")

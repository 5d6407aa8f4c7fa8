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
    environment = {name: value for name, value in os.environ.items() if name not in USER_VARIABLES}
    environment["PYTHONPATH"] = str(tmp_path / "site")
    target = "results/default/data/digits/samples.csv"
    planned = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "--", target],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert "prepare the data set digits" in planned.stdout


def make_run(*arguments, **variables):
    """What `make run` would call."""
    command = ["make", "-n", "-o", ".venv/ready", "--print-data-base", "run", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_make_passes_the_number_of_cores():
    assert "snakemake --cores all --resources gpu=1" in make_run()
    assert "snakemake --cores 2 --resources gpu=1" in make_run("CORES=2")


def test_without_a_writable_home_make_chooses_a_folder_for_caches(tmp_path):
    missing = str(tmp_path / "none")
    assert "XDG_CACHE_HOME = $(CURDIR)/cache/home\n" in make_run(HOME=missing)
    assert "cache/home" not in make_run(HOME=str(tmp_path))
    assert "XDG_CACHE_HOME = /mine\n" in make_run(HOME=missing, XDG_CACHE_HOME="/mine")

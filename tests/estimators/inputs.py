"""The estimators that delete exactly, one for each family that can be exported."""

import subprocess
import sys

import pytest
from sklearn.utils.estimator_checks import check_estimator

import munkey
from munkey.deploy.model.manifest import EXPORTED_FAMILIES
from munkey.estimators.classifier import ForgettingClassifier


class RanPAC(munkey.ForgettingRanPAC):
    """With few features, which are quick to solve for."""

    def __init__(self, features=50, seed=0, lam="auto", temperature="auto"):
        super().__init__(features, seed, lam, temperature)


KINDS: tuple[type[ForgettingClassifier], ...] = (
    munkey.ForgettingLDA,
    munkey.ForgettingNCM,
    munkey.ForgettingKNN,
    RanPAC,
    munkey.ForgettingKRR,
)
EXACT = {kind.family: kind for kind in KINDS}
assert {"munkey", *EXACT} == {*EXPORTED_FAMILIES}, (
    "a family that can be exported has no estimator here"
)
each_kind = pytest.mark.parametrize("kind", KINDS)
each_place = pytest.mark.parametrize("place", ["memory", "directory"])

# The estimators take arrays of NumPy only; the check runs only where an environment asks for it.
SKIPPED_CHECKS = {"check_array_api_input"}
BASE_METHODS = ("fit", "add", "forget", "save", "load", "score", "__getstate__", "_validate_rows")
PRINT_FILES = """
import sys
from pathlib import Path
for file in Path(sys.argv[1]).rglob("*"):
    if file.is_file():
        sys.stdout.buffer.write(file.read_bytes())
"""


def check_scikit_learn(model) -> None:
    """All of scikit-learn's checks of an estimator pass."""
    results = check_estimator(model, on_skip=None, on_fail=None)
    exceptions = {}
    for result in results:
        if result["status"] != "passed":
            exceptions[result["check_name"]] = result["exception"]
    assert len(results) > 50
    assert set(exceptions) <= SKIPPED_CHECKS, exceptions


def put(model, place, tmp_path):
    """Return a fitted estimator, whose rows stay in memory or go to a directory."""
    if place != "memory":
        model.save(tmp_path / "model")
    return model


def content(folder) -> bytes:
    """The bytes of all files in a folder, as another process reads them.

    If this process closed a file of SQLite, it would lose SQLite's locks on it.
    """
    command = [sys.executable, "-c", PRINT_FILES, str(folder)]
    return subprocess.run(command, capture_output=True, check=True).stdout

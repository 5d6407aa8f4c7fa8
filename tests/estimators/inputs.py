"""The estimators that delete exactly, one for each family that can be exported."""

import subprocess
import sys

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


def content(folder) -> bytes:
    """All bytes of its files. In a process of its own: SQLite loses its locks where a file of its
    is closed.
    """
    code = "import pathlib, sys; [sys.stdout.buffer.write(f.read_bytes()) for f in pathlib.Path(sys.argv[1]).rglob('*')"
    command = [sys.executable, "-c", f"{code} if f.is_file()]", str(folder)]
    return subprocess.run(command, capture_output=True, check=True).stdout

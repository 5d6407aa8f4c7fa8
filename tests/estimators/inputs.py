"""The estimators that delete exactly, one for each family that can be exported."""

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

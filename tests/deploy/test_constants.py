"""Whether a deletion is exact given its constants, or without: the certificate and the card say which of the two."""

import numpy as np
import pytest

import munkey
from munkey.deploy.model.fitted import list_fixed_constants
from munkey.deploy.model.manifest import read_manifest
from munkey.deploy.predictor import Predictor
from tests.conftest import unit_rows

X = unit_rows(60, 6, seed=1)
Y = np.arange(60) % 3


@pytest.mark.parametrize(
    ("model", "constants"),
    [
        (munkey.ForgettingLDA(alpha=0.2, temperature=2.0), ["alpha", "temperature"]),
        (munkey.ForgettingLDA(), ["alpha"]),
        (munkey.ForgettingLDA(alpha="auto"), []),
        (munkey.ForgettingNCM(), []),
        (munkey.ForgettingKNN(), ["k", "vote", "temperature"]),
        (munkey.ForgettingRanPAC(features=20), []),
        (munkey.ForgettingRanPAC(features=20, lam=1.0), ["lam"]),
        (munkey.ForgettingKRR(), ["lam"]),
        (munkey.ForgettingKRR(lam="auto"), []),
        (munkey.ForgettingKRR(lam="auto", pixels=3), ["pixels", "sigma", "share"]),
        (munkey.ForgettingLDA(alpha="auto", norm=None), ["bound"]),
    ],
    ids=str,
)
def test_a_certificate_names_the_constants_that_no_deletion_changes(model, constants, tmp_path):
    model.fit(X, Y, save_to=tmp_path / "model")
    assert list_fixed_constants(read_manifest(tmp_path / "model")) == constants
    with Predictor.load(tmp_path / "model", device="cpu") as used:
        used.forget([3])
        not_claimed = used.certificate().not_claimed
        assert used.constants == constants
    named = [line for line in not_claimed if "would have been chosen" in line]
    assert len(named) == bool(constants)
    for line in named:
        assert line.startswith(f"That {' and '.join(constants)} would have been chosen")
    assert any("encoder" in line for line in not_claimed)


@pytest.mark.parametrize(
    "model",
    [
        munkey.ForgettingLDA(alpha="auto"),
        munkey.ForgettingRanPAC(features=20),
        munkey.ForgettingKRR(lam="auto"),
    ],
    ids=str,
)
def test_without_fixed_constants_a_model_equals_a_fit_that_chose_them_itself(model, tmp_path):
    """Saved, in another process's hands, and after deletions one by one: constants, digests and answers to the bit."""
    model.fit(X, Y, save_to=tmp_path / "model")
    model.predict(X[:2])
    order = np.random.default_rng(0).permutation(60)
    for row in order[:25]:
        model.forget([row])
    rows = np.sort(order[25:])
    never = type(model)(**model.get_params()).fit(X[rows], Y[rows], ids=rows)
    assert model.predict_proba(X).tobytes() == never.predict_proba(X).tobytes()
    assert model.temperature_ == never.temperature_
    for name in ("alpha_", "lam_"):
        assert getattr(model, name, None) == getattr(never, name, None)

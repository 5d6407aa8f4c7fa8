"""How far above its oracle a system rises while both are trained on the retain set."""

import math

import numpy as np
import pytest

from munkey.audits.attacks.relearning import relearning
from munkey.audits.evidence import Curves

STEPS = np.array([0, 1, 4])
SYSTEM = np.array([[90.0, 96.0, 94.0], [88.0, 88.0, 92.0]])
ORACLE = np.array([[90.0, 92.0, 92.0], [90.0, 90.0, 90.0]])


def test_relearning_by_hand():
    """Above the oracle: 0, 4, 2 and -2, -2, 2. Areas: (2 + 9) / 4 and (-2 + 0) / 4."""
    result = relearning(Curves(STEPS, SYSTEM, ORACLE))
    assert (result.before.mean, result.before.sd) == pytest.approx((-1, math.sqrt(2)))
    assert (result.highest.mean, result.highest.sd) == pytest.approx((3, math.sqrt(2)))
    assert (result.area.mean, result.area.sd) == pytest.approx((1.125, 3.25 / math.sqrt(2)))
    assert result.before.n == result.highest.n == result.area.n == 2


@pytest.mark.filterwarnings("error")
def test_one_seed_has_no_sd():
    result = relearning(Curves(STEPS, SYSTEM[:1], ORACLE[:1]))
    assert result.highest.mean == 4
    assert math.isnan(result.highest.sd)
    assert result.highest.n == 1

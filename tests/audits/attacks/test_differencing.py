"""How well suspicions name what was deleted: by hand, and by chance where nothing tells the candidates apart."""

import numpy as np
import pytest

from munkey.audits.attacks.differencing import differencing
from munkey.audits.evidence import Versions

DELETED = np.array([True, False, True, False, False])


def found(*scores: float) -> list[float]:
    named = differencing(Versions(np.array([scores]), DELETED[None]))
    return [named.precision, named.auroc]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ((5, 1, 4, 2, 3), [100, 100]),
        ((5, 4, 1, 2, 3), [50, 50]),
        ((1, 3, 2, 4, 5), [0, 0]),
        ((9, 3, 3, 3, 0), [50 + 50 / 3, 100 * (3 + 2) / 6]),  # one of three that tie takes the second place
        ((7, 7, 7, 7, 7), [40, 50]),  # a guess: 2 of 5
    ],
)
def test_by_hand(scores, expected):
    assert found(*scores) == pytest.approx(expected)


def test_it_is_the_mean_over_deletions():
    named = differencing(Versions(np.array([[5, 1, 4, 2, 3], [1, 3, 2, 4, 5]]), np.stack([DELETED, DELETED])))
    assert (named.precision, named.auroc) == (50, 50)

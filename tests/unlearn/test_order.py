"""Deletion of rows is a matter of which, not of when: any order and any batches leave the same bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from munkey.unlearn.contract import METHODS
from tests.unlearn.world import original, request, same, settings, tensors, world

# not exact
DELETING = [
    method.name for method in METHODS.values() if not method.needs and method.name != "newton"
]


def test_what_deletes_rows_or_parts_needs_no_data():
    assert set(DELETING) == {
        "knn",
        "munkey",
        "lda",
        "ncm",
        "ranpac",
        "krr",
        "example-tied-dropout",
    }


@pytest.mark.parametrize("name", DELETING)
@examples(max_examples=20, deadline=None)
@given(order=st.permutations(range(6)), cuts=st.sets(st.integers(1, 5)))
def test_requests_in_any_order_and_batches_leave_the_same_bytes(name, order, cuts):
    """Weights, keys, tokens, labels and ids."""
    ids = world().forget_ids[:6]
    left = original(name)
    for batch in np.split(ids[list(order)], sorted(cuts)):
        left = METHODS[name].run(left, request(name, forget_ids=batch), settings(name))
    at_once = METHODS[name].run(original(name), request(name, forget_ids=ids), settings(name))
    assert same(tensors(left), tensors(at_once)) and not same(
        tensors(left), tensors(original(name))
    )

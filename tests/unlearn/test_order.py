"""Deletion of rows is a matter of which, not of when: any order and any batches leave the same bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from munkey.unlearn.contract import METHODS
from tests.unlearn.world import make_request, original, same, settings, tensors, world

DELETING = ["knn", "munkey", "lda", "ncm", "ranpac", "krr", "example-tied-dropout", "spm"]


def test_methods_that_delete_rows_or_parts_need_no_data():
    without_data = {name for name in METHODS if not METHODS[name].needs}
    assert without_data == {*DELETING, "newton"}  # which is not exact


@pytest.mark.parametrize("name", DELETING)
@examples(max_examples=20, deadline=None)
@given(order=st.permutations(range(6)), cuts=st.sets(st.integers(1, 5)))
def test_requests_in_any_order_and_batches_leave_the_same_bytes(name, order, cuts):
    """Weights, keys, tokens, labels and ids."""
    ids = world().forget_ids[:6]
    system = original(name)
    for batch in np.split(ids[list(order)], sorted(cuts)):
        system = METHODS[name].run(system, make_request(name, forget_ids=batch), settings(name))
    at_once = METHODS[name].run(original(name), make_request(name, forget_ids=ids), settings(name))
    assert same(tensors(system), tensors(at_once))
    assert not same(tensors(system), tensors(original(name)))

"""Sample ids are found in sorted arrays of ids, or refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munkey.core.ids import find_rows


@given(st.sets(st.integers(-50, 50)), st.lists(st.integers(-50, 50)))
def test_find_rows_gives_the_rows_of_ids_or_names_an_unknown_one(known_ids, query):
    ids = np.array(sorted(known_ids), dtype=np.int64)
    if set(query) <= known_ids:
        assert ids[find_rows(ids, np.array(query, dtype=np.int64))].tolist() == query
    else:
        unknown = [i for i in query if i not in known_ids]
        with pytest.raises(KeyError, match=rf"{len(unknown)} unknown .*\[{unknown[0]}"):
            find_rows(ids, np.array(query, dtype=np.int64))


def test_find_rows_keeps_the_shape_of_the_query():
    assert find_rows(np.array([2, 4, 6]), np.array([[6, 2], [4, 4]])).tolist() == [[2, 0], [1, 1]]

"""Sample ids are found in sorted arrays of ids, or refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munkey.core.ids import find_rows


@given(st.sets(st.integers(-50, 50)), st.lists(st.integers(-50, 50)))
def test_rows_of_ids_point_at_these_ids_or_there_is_an_error(held, asked):
    ids = np.array(sorted(held), dtype=np.int64)
    if set(asked) <= held:
        assert ids[find_rows(ids, np.array(asked, dtype=np.int64))].tolist() == asked
    else:
        unknown = [i for i in asked if i not in held]
        with pytest.raises(
            KeyError, match=f"{len(unknown)} unknown sample id\\(s\\), e.g. \\[{unknown[0]}"
        ):
            find_rows(ids, np.array(asked, dtype=np.int64))


def test_rows_keep_the_shape_asked_for():
    assert find_rows(np.array([2, 4, 6]), np.array([[6, 2], [4, 4]])).tolist() == [[2, 0], [1, 1]]

"""The cases of the selection."""

from munkey.studies.selection.cases import list_pairs
from tests.experiment.inputs import small_exhibits


def test_pairs_of_the_selection_by_case() -> None:
    assert list_pairs(small_exhibits().params) == {
        "p_drop/0.0_0.0": {"p_image": 0.0, "p_token": 0.0},
        "p_drop/0.1_0.1": {"p_image": 0.1, "p_token": 0.1},
        "p_drop/0.3_0.1": {"p_image": 0.3, "p_token": 0.1},
    }

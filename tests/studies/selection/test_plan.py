"""The grid of the selection, and its figures."""

from munkey.studies.selection.plan import SelectionPlan
from tests.experiment.inputs import small_plan


def test_pairs_of_the_selection_by_case():
    assert SelectionPlan(small_plan()).pairs == {
        "p_drop/0.0_0.0": {"p_image": 0.0, "p_token": 0.0},
        "p_drop/0.1_0.1": {"p_image": 0.1, "p_token": 0.1},
        "p_drop/0.3_0.1": {"p_image": 0.3, "p_token": 0.1},
    }


def test_each_data_set_has_a_figure_of_its_grid_and_one_of_sensitivity():
    figures = SelectionPlan(small_plan({"datasets": ["digits", "cifar10"]})).figures
    assert list(figures) == [
        *("selection-digits", "selection-cifar10", "sensitivity-digits", "sensitivity-cifar10")
    ]
    assert figures["selection-digits"].endswith("Data set: digits.")

"""The grid of the selection, and its figures."""

from munkey.studies.selection.plan import SelectionPlan
from tests.experiment.inputs import small_plan


def test_each_data_set_has_a_figure_of_its_grid_and_one_of_sensitivity():
    figures = SelectionPlan(small_plan({"datasets": ["digits", "cifar10"]})).figures
    assert list(figures) == [
        *("selection-digits", "selection-cifar10", "sensitivity-digits", "sensitivity-cifar10")
    ]
    assert figures["selection-digits"].endswith("Data set: digits.")

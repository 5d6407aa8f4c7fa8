"""What the ablations show."""

from munkey.studies.ablations.plan import TABLES, AblationPlan
from munkey.studies.ablations.tables import TABLES as MADE
from tests.experiment.inputs import small_plan


def shown_figures(changes: dict[str, object]) -> dict[str, str]:
    return AblationPlan(small_plan(changes)).figures


def test_tables_of_ablations_show_munkey_its_oracle_and_what_is_left_after_deletion():
    rows = AblationPlan(small_plan({"methods": ["cf"]})).rows
    assert [(row["name"], row["oracle"], row.get("context", False)) for row in rows] == [
        ("original-m", "retrain-m", True),
        ("retrain-m", None, False),
        ("munkey", "retrain-m", False),
    ]


def test_neighbors_are_drawn_only_where_k_is_ablated():
    assert "neighbors" not in shown_figures({"ablations": {"munkey.token_dim": [32]}})
    assert "neighbors" not in shown_figures({"ablations": {"inference.k": []}})
    of_one = {"datasets": ["digits", "cifar10"], "ablations": {"inference.k": []}}
    assert "neighbors" in shown_figures(
        of_one | {"overrides": {"cifar10": {"ablations": {"inference.k": [1, 2]}}}}
    )


def test_the_tables_that_are_planned_are_those_that_are_made():
    assert list(MADE) == TABLES

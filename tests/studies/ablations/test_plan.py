"""What the ablations show."""

from munkey.studies.ablations.plan import TABLES, AblationPlan
from munkey.studies.ablations.tables import TABLES as MAKERS
from tests.experiment.inputs import small_plan


def plan_figures(changes: dict[str, object]) -> dict[str, str]:
    return AblationPlan(small_plan(changes)).figures


def test_tables_of_ablations_show_munkey_before_and_after_deletion_and_its_oracle():
    rows = AblationPlan(small_plan({"methods": ["cf"]})).rows
    assert [(row["name"], row["oracle"], row.get("context", False)) for row in rows] == [
        ("original-m", "retrain-m", True),
        ("retrain-m", None, False),
        ("munkey", "retrain-m", False),
    ]


def test_neighbors_are_drawn_only_if_k_is_ablated():
    assert "neighbors" not in plan_figures({"ablations": {"munkey.token_dim": [32]}})
    assert "neighbors" not in plan_figures({"ablations": {"inference.k": []}})
    two = {"datasets": ["digits", "cifar10"], "ablations": {"inference.k": []}}
    overrides = {"cifar10": {"ablations": {"inference.k": [1, 2]}}}
    assert "neighbors" in plan_figures(two | {"overrides": overrides})


def test_the_planned_tables_are_those_with_a_maker():
    assert list(MAKERS) == TABLES

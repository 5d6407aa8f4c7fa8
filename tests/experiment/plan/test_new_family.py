"""A new family of models is one class: planned and checked without a change elsewhere.

tests/integration/test_extending.py trains and evaluates one too.
"""

from collections.abc import Iterator

import pytest

from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.models.family import FAMILIES, Family, family
from munkey.settings import Positive, Section
from tests.experiment.inputs import small_config

SECTION = {"smoothing": 2.0}


@pytest.fixture
def frequency() -> Iterator[Family]:
    """The new family, registered during a test; parameters then need its section."""

    class FrequencySettings(Section):
        smoothing: Positive

    @family
    class FrequencyFamily(Family):
        name = "frequency"
        title = "Frequency"
        letter = "f"
        settings = FrequencySettings
        in_every_run = True
        place = 2.5
        # planning calls none of these
        make_architecture = restore_architecture = build = train = predict_logits = None

    yield FAMILIES["frequency"]
    FAMILIES.remove("frequency")


def plan_with_section(**changes: object) -> Plan:
    return Plan(load(small_config({"frequency": SECTION, **changes})))


def test_the_section_of_a_plug_in_is_needed_only_where_its_family_is_used(frequency, monkeypatch):
    """Otherwise installing a package would stop every experiment that does not use it."""
    monkeypatch.setitem(FAMILIES.origins, "frequency", "shop 1.0")
    with pytest.raises(ParamsError, match=r"'frequency' .* has no section"):
        load(small_config({}))
    monkeypatch.setattr(type(frequency), "in_every_run", False)
    assert load(small_config({})).get_family_section(frequency) is None
    with pytest.raises(ParamsError, match=r"frequency\.smoothing"):
        load(small_config({"frequency": {"smoothing": -1}}))


def test_the_section_of_a_new_family_is_checked(frequency: Family):
    with pytest.raises(ParamsError, match=r"- frequency: missing"):
        load(small_config())
    with pytest.raises(ParamsError, match=r"frequency\.smoothing = 0\.0: must be greater"):
        plan_with_section(frequency={"smoothing": 0.0})
    with pytest.raises(ParamsError, match=r"frequency\.smoothness = 1\.0.*'smoothing'"):
        plan_with_section(frequency={"smoothing": 1.0, "smoothness": 1.0})
    assert (
        plan_with_section().params.for_case("digits").get_family_section(frequency).smoothing == 2.0
    )


def test_the_section_of_a_new_family_can_be_overridden_for_a_data_set(frequency: Family):
    plan = plan_with_section(overrides={"digits": {"frequency": {"smoothing": 0.5}}})
    assert plan.train_settings("digits", "f")["frequency"].smoothing == 0.5
    assert plan.params.frequency.smoothing == 2.0


def test_the_section_of_a_family_that_is_not_registered_is_refused():
    with pytest.raises(ParamsError, match=r"frequency = .*: unknown key"):
        plan_with_section()


def test_a_new_family_is_planned_trained_and_evaluated(frequency: Family):
    plan = plan_with_section()
    assert [family.name for family in plan.families] == ["vit", "munkey", "frequency", "knn"]
    assert plan.train_settings("digits", "f").keys() == {"data", "model", "train", "frequency"}
    assert plan.train_input("digits", "0", "full", "f") == {}
    assert plan.train_input("digits", "0", "rate0.1", "f") == {
        "forget": "results/default/forget/digits/seed0/rate0.1.csv"
    }
    assert plan.evaluate_settings("digits", "retrain-f")["inference"] == Section()
    runs = [run for run in plan.main if run.method in ("original-f", "retrain-f")]
    assert len(runs) == 2 * 2 * 2  # rates, seeds, systems
    assert runs[0].logits == "results/default/logits/digits/seed0/full/original-f.npz"
    assert runs[1].training == "results/default/models/digits/seed0/rate0.02/retrain-f/record.json"
    rows = {row["name"]: row["title"] for row in Exhibits(plan).rows}
    assert (rows["original-f"], rows["retrain-f"]) == ("Original (F)", "Retrain (F)")


def test_a_new_family_changes_no_settings_of_others(frequency: Family):
    plan = plan_with_section()
    assert plan.train_settings("digits", "m").keys() == {"data", "model", "train", "munkey"}
    assert "frequency" not in plan.unlearn_settings("digits", "cf")
    assert plan.training_sections == ["source", "keys", "data", "model", "train", "munkey"]


def test_the_name_of_a_family_can_be_registered_once(frequency: Family):
    with pytest.raises(ValueError, match="family 'frequency' is registered twice"):
        family(type(frequency))

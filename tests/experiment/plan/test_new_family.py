"""A new family of models is one class: planned and checked without a change elsewhere.

That one is trained and evaluated too shows tests/integration/test_extending.py.
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
    """The new family, registered for the time of a test. Parameters must be checked with its section from then on."""

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
        make_architecture = restore_architecture = build = train = predict_logits = (
            None  # planning calls none of them
        )

    yield FAMILIES["frequency"]
    FAMILIES.remove("frequency")


def planned(**changes: object) -> Plan:
    return Plan(load(small_config({"frequency": SECTION, **changes})))


def test_a_plug_ins_section_is_needed_only_where_its_family_is_used(frequency, monkeypatch):
    """Otherwise installing a package would stop every experiment that does not use it."""
    monkeypatch.setitem(FAMILIES.origins, "frequency", "shop 1.0")
    with pytest.raises(
        ParamsError, match="the family 'frequency' is used but has no section frequency"
    ):
        load(small_config({}))
    monkeypatch.setattr(type(frequency), "in_every_run", False)
    assert load(small_config({})).get_family_section(frequency) is None
    with pytest.raises(ParamsError, match=r"frequency\.smoothing"):
        load(small_config({"frequency": {"smoothing": -1}}))


def test_its_section_is_checked(frequency: Family):
    with pytest.raises(ParamsError, match=r"- frequency: missing"):
        load(small_config())
    with pytest.raises(
        ParamsError, match=r"frequency\.smoothing = 0\.0: must be greater than or equal to 0.0"
    ):
        planned(frequency={"smoothing": 0.0})
    with pytest.raises(
        ParamsError, match=r"frequency\.smoothness = 1\.0: unknown key; did you mean 'smoothing'"
    ):
        planned(frequency={"smoothing": 1.0, "smoothness": 1.0})
    assert planned().params.for_case("digits").get_family_section(frequency).smoothing == 2.0


def test_its_section_can_be_overridden_for_a_data_set(frequency: Family):
    plan = planned(overrides={"digits": {"frequency": {"smoothing": 0.5}}})
    assert plan.train_settings("digits", "f")["frequency"].smoothing == 0.5
    assert plan.params.frequency.smoothing == 2.0


def test_without_it_its_section_is_refused():
    with pytest.raises(ParamsError, match=r"frequency = .*: unknown key"):
        planned()


def test_it_is_planned_trained_and_evaluated_like_the_others(frequency: Family):
    plan = planned()
    assert [f.name for f in plan.families] == ["vit", "munkey", "frequency", "knn"]
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


def test_others_train_and_unlearn_as_before(frequency: Family):
    with_it = planned()
    assert with_it.train_settings("digits", "m").keys() == {"data", "model", "train", "munkey"}
    assert "frequency" not in with_it.unlearn_settings("digits", "cf")
    assert with_it.training_sections == ["source", "keys", "data", "model", "train", "munkey"]


def test_a_name_can_be_registered_once(frequency: Family):
    with pytest.raises(ValueError, match="family 'frequency' is registered twice"):
        family(type(frequency))

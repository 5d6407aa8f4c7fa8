"""A new family of models is one class: planned, checked, trained, kept and evaluated without a change elsewhere."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from munkey.data.image_set import image_set
from munkey.data.prepared import Dataset
from munkey.evaluation.predict import predictions
from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.models import system
from munkey.models.family import FAMILIES, Architecture, Family, Recipe, System, Trained, Training, family
from munkey.settings import Positive, Section
from tests.experiment.inputs import small_config

SECTION = {"smoothing": 2.0}


class Frequencies(nn.Module):
    """Answers every image with the logarithms of the frequencies of the classes."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(classes))


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
        place = 3

        def architecture(self, recipe: Recipe, classes: int, key_dim: int | None = None) -> Architecture:
            return Architecture(classes)

        def stored_architecture(self, stored: Mapping[str, object]) -> Architecture:
            return Architecture(**stored)

        def build(self, architecture: Architecture, generator: torch.Generator | None) -> nn.Module:
            return Frequencies(architecture.classes)

        def train(self, training: Training) -> Trained:
            architecture = self.architecture(training.recipe, training.classes)
            model = self.build(architecture, (training.recipe.stage / "weights").torch_generator())
            counts = np.bincount(training.samples.labels, minlength=training.classes)
            smoothed = torch.from_numpy(counts) + training.recipe.family.smoothing
            model.logits.data = (smoothed / smoothed.sum()).log().float()
            history = [{"epoch": epoch, "seconds": 0.1 * epoch} for epoch in (1, 2, 3)]
            return Trained(System(self.name, architecture, model.eval()), history)

        def logits(self, system, samples, data, device, retrieval) -> np.ndarray:
            return system.model.logits.detach().expand(len(samples), -1).numpy()

    yield FAMILIES["frequency"]
    FAMILIES.remove("frequency")


def planned(**changes: object) -> Plan:
    return Plan(load(small_config({"frequency": SECTION, **changes})))


def test_a_plug_ins_section_is_needed_only_where_its_family_is_used(frequency, monkeypatch):
    """Otherwise installing a package would stop every experiment that does not use it."""
    monkeypatch.setitem(FAMILIES.origins, "frequency", "shop 1.0")
    with pytest.raises(ParamsError, match="the family 'frequency' is used but has no section frequency"):
        load(small_config({}))
    monkeypatch.setattr(type(frequency), "in_every_run", False)
    assert load(small_config({})).of_family(frequency) is None
    with pytest.raises(ParamsError, match=r"frequency\.smoothing"):
        load(small_config({"frequency": {"smoothing": -1}}))


def test_its_section_is_checked(frequency: Family):
    with pytest.raises(ParamsError, match=r"- frequency: missing"):
        load(small_config())
    with pytest.raises(ParamsError, match=r"frequency\.smoothing = 0\.0: must be greater than 0"):
        planned(frequency={"smoothing": 0.0})
    with pytest.raises(ParamsError, match=r"frequency\.smoothness = 1\.0: unknown key; did you mean 'smoothing'"):
        planned(frequency={"smoothing": 1.0, "smoothness": 1.0})
    assert planned().params.for_case("digits").of_family(frequency).smoothing == 2.0


def test_its_section_can_be_overridden_for_a_data_set(frequency: Family):
    plan = planned(overrides={"digits": {"frequency": {"smoothing": 0.5}}})
    assert plan.train_settings("digits", "f")["frequency"] == {"smoothing": 0.5}
    assert plan.params.frequency.smoothing == 2.0


def test_without_it_its_section_is_refused():
    with pytest.raises(ParamsError, match=r"frequency = .*: unknown key"):
        planned()


def test_it_is_planned_trained_and_evaluated_like_the_others(frequency: Family):
    plan = planned()
    assert [f.name for f in plan.families] == ["vit", "munkey", "frequency"]
    assert plan.train_settings("digits", "f").keys() == {"data", "model", "train", "frequency"}
    assert plan.train_input("digits", "0", "full", "f") == {}
    assert plan.train_input("digits", "0", "rate0.1", "f") == {
        "forget": "results/default/forget/digits/seed0/rate0.1.csv"
    }
    assert plan.evaluate_settings("digits", "retrain-f")["inference"] == {}
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


def test_it_trains_is_kept_and_answers(frequency: Family, tmp_path: Path):
    labels = np.array([0, 0, 0, 1, 2, 2])
    splits = np.array(["train", "train", "train", "train", "val", "test"])
    dataset = Dataset(np.zeros((6, 8, 8, 3), np.uint8), np.arange(6), labels, splits, ["a", "b", "c"])
    plan = planned()
    recipe = frequency.recipe(plan.train_settings("digits", "f"), frequency.stage(0, "digits", "full"))
    members = dataset.ids_of("train")
    training = Training(image_set(dataset, members), 3, recipe, "cpu")
    trained = frequency.train(training)
    assert frequency.epoch_seconds(trained.history, recipe) == 0.2
    system.save(tmp_path / "system", trained.system)
    kept = system.load(tmp_path / "system", frequency.architecture(recipe, 3))
    answers = predictions(kept, dataset, recipe.data, "cpu", None)
    expected = np.log(np.array([3 + 2, 1 + 2, 0 + 2]) / 10)
    np.testing.assert_allclose(answers["logits"], np.tile(expected, (6, 1)), rtol=1e-6)
    assert answers.keys() == {"ids", "labels", "splits", "logits"}


def test_a_name_can_be_registered_once(frequency: Family):
    with pytest.raises(ValueError, match="family 'frequency' is registered twice"):
        family(type(frequency))

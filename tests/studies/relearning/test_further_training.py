"""Training on the retain set alone: by the steps of the system's own training, and only what is retained learns."""

from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch.nn import functional as F

from munkey.core.randomness import Stage
from munkey.data.augment import Augmentation
from munkey.models.family import FAMILIES, System, Training
from munkey.models.networks.sisa import SisaArchitecture
from munkey.models.networks.spm import average_classes
from munkey.studies.relearning.further_training import EvaluationSamples, train_further
from munkey.studies.relearning.settings import RelearnSettings
from munkey.training.loop import adamw, shuffled_batches
from tests.conftest import MUNKEY, VIT, generator, image_set, lively
from tests.models.inputs import (
    DATA,
    member_keys,
    normalized,
    quiet,
    recipe,
    seven_samples,
    trained,
)

STAGE = Stage(0, "toy", "relearn")
RETAIN = image_set(12)  # ids 10, 12, ..., 32


@dataclass
class Recorder:
    """Copies each system that it is asked to measure; the n-th measurement is FA = n."""

    systems: list[System] = field(default_factory=list)

    def measure(self, system: System) -> dict[str, float]:
        memory = system.memory
        if memory is not None:
            memory = replace(memory, tokens=memory.tokens.detach().clone())
        self.systems.append(replace(system, model=system.copy_model(), memory=memory))
        return {"FA": float(len(self.systems))}


@pytest.fixture
def vit() -> System:
    return System("vit", VIT, lively(FAMILIES["vit"].build(VIT, generator())))


@pytest.fixture
def run(params):
    """Train a system further, and return the lines; `train` changes the recipe's section."""

    def train_on(
        system, recorder, steps=(0, 1, 3), samples=RETAIN, lr_factor=0.5, train=None, **section
    ):
        family_recipe = recipe(params, system.family, STAGE, train, **section)
        members = member_keys(samples.ids) if system.memory else None
        training = Training(samples, 3, family_recipe, "cpu", quiet, members)
        settings = RelearnSettings(steps=list(steps), lr_factor=lr_factor)
        return train_further(system, training, settings, recorder)

    return train_on


def weights(system: System) -> torch.Tensor:
    return torch.cat([parameter.detach().ravel() for parameter in system.model.parameters()])


def test_the_steps_are_those_of_training_at_a_constant_rate(run, vit, params):
    """By hand: 4 batches of 5, 5, 2 and 5 samples, cropped anew."""
    recorder = Recorder()
    run(vit, recorder, steps=[0, 1, 4])
    train = recipe(params, "vit").train
    order = (STAGE / "order").torch_generator()
    crops = (STAGE / "crops").torch_generator()
    augment = Augmentation.from_settings(DATA, train)
    model = vit.copy_model()
    optimizer = adamw(model.parameters(), train.betas, train.weight_decay)
    optimizer.param_groups[0]["lr"] = 0.5 * train.lr
    batches = [*shuffled_batches(12, 5, order), *shuffled_batches(12, 5, order)][:4]
    after = [weights(vit)]
    for index in batches:
        images, labels = RETAIN.batch(index, "cpu")
        optimizer.zero_grad()
        F.cross_entropy(model(augment(images, crops)), labels).backward()
        optimizer.step()
        after.append(weights(replace(vit, model=model)))
    for system, step in zip(recorder.systems, (0, 1, 4), strict=True):
        torch.testing.assert_close(weights(system), after[step])


@pytest.mark.parametrize("family", ["vit", "munkey"])
def test_measuring_more_often_changes_nothing(run, vit, munkey_system, family):
    system = {"vit": vit, "munkey": munkey_system}[family]
    samples = image_set(6)  # those that MUNKEY's memory holds
    seldom = Recorder()
    often = Recorder()
    run(system, seldom, steps=[0, 3], samples=samples)
    lines = run(system, often, steps=[0, 1, 2, 3], samples=samples)
    assert lines == [{"step": step, "FA": step + 1} for step in range(4)]
    assert torch.equal(weights(seldom.systems[-1]), weights(often.systems[-1]))
    assert not torch.equal(weights(often.systems[1]), weights(often.systems[2]))


def test_the_system_is_not_changed(run, munkey_system):
    before = weights(munkey_system)
    tokens = munkey_system.memory.tokens.clone()
    run(munkey_system, Recorder(), samples=image_set(6))
    assert torch.equal(weights(munkey_system), before)
    assert torch.equal(munkey_system.memory.tokens, tokens)


def test_only_tokens_of_retained_rows_learn(run, munkey_system):
    """As for the original, which still holds the samples to forget: here 10 and 18."""
    retained = np.array([12, 14, 16, 20])
    samples = replace(
        image_set(6), rows=np.array([1, 2, 3, 5]), ids=retained, labels=np.array([1, 2, 0, 2])
    )
    recorder = Recorder()
    run(
        munkey_system,
        recorder,
        steps=[0, 6],
        samples=samples,
        p_retrieve=0.0,
        p_token=0.0,
        p_image=0.0,
    )
    first, last = (system.memory for system in recorder.systems)
    assert torch.equal(first.tokens, munkey_system.memory.tokens)
    assert last.ids.tolist() == [10, 12, 14, 16, 18, 20]
    assert torch.equal(last.keys, first.keys)
    changed = (last.tokens != first.tokens).any(dim=1).tolist()
    assert changed == [False, True, True, True, False, True]


def test_the_forget_set_is_measured_against_the_test_samples(vit):
    """The first three samples are the forget set; phi is ranked among the other four."""
    samples = seven_samples()
    forget = np.arange(7) < 3
    line = EvaluationSamples(samples, forget, DATA, "cpu", None).measure(vit)
    logits = FAMILIES["vit"].predict_logits(vit, samples, DATA, "cpu", None).astype(float)
    right = logits.argmax(axis=1) == samples.labels
    phi = []
    for row, label in zip(logits, samples.labels, strict=True):
        phi.append(row[label] - np.log(np.exp(np.delete(row, label)).sum()))
    ranks = [np.sum(np.array(phi[3:]) < value) for value in phi[:3]]
    assert line == pytest.approx(
        {
            "FA": 100 * right[:3].mean(),
            "TA": 100 * right[3:].mean(),
            "margin": np.mean([norm.ppf((rank + 0.5) / 5) for rank in ranks]),
        }
    )


def test_keys_used_as_tokens_do_not_learn(run, munkey_system):
    fixed = replace(MUNKEY, architecture="direct-key", token_dim=4)
    model = lively(FAMILIES["munkey"].build(fixed, generator()))
    memory = replace(munkey_system.memory, tokens=munkey_system.memory.keys.clone())
    recorder = Recorder()
    run(
        System("munkey", fixed, model, memory),
        recorder,
        samples=image_set(6),
        architecture="direct-key",
    )
    for system in recorder.systems:
        assert torch.equal(system.memory.tokens, memory.keys)
    assert not torch.equal(weights(recorder.systems[0]), weights(recorder.systems[-1]))


def test_only_the_models_of_an_ensemble_that_answer_learn(run):
    """Of SISA, the last slice of each shard."""
    architecture = SisaArchitecture(**vars(VIT), shards=2, slices=2)
    recorder = Recorder()
    run(System("sisa", architecture, lively(FAMILIES["sisa"].build(architecture, None))), recorder)
    first, last = (system.model for system in (recorder.systems[0], recorder.systems[-1]))
    for shard, part in product(range(2), range(2)):
        same = torch.equal(
            first.get_checkpoint(shard, part).head.weight,
            last.get_checkpoint(shard, part).head.weight,
        )
        assert same == (part == 0)


def test_spm_answers_with_the_class_means_of_its_further_trained_network(run, params):
    samples = seven_samples()
    system = trained(recipe(params, "spm", train={"epochs": 1}), "spm", samples).system
    recorder = Recorder()
    run(system, recorder, steps=[0, 3], samples=samples)
    for measured in recorder.systems:
        with torch.inference_mode():
            embeddings = measured.model.embed(normalized(samples))
        means, _ = average_classes(embeddings, torch.from_numpy(samples.labels), 3)
        torch.testing.assert_close(measured.model.means, means)
    assert not torch.equal(recorder.systems[0].model.means, recorder.systems[1].model.means)

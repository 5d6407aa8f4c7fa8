"""The search for K predicts each training sample from a memory without that sample."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from munkey.core.files import write_json
from munkey.data import prepared
from munkey.data.image_set import image_set as of_dataset
from munkey.data.prepared import Source, prepare
from munkey.encoders import keys
from munkey.encoders.keys import Keys
from munkey.evaluation.neighbor_search import search_fitted, search_inference
from munkey.memory.neighbors import find_nearest
from munkey.models import system as systems
from munkey.models.family import FAMILIES, Retrieval
from munkey.settings import InferenceSettings
from tests.conftest import image_set, unit_rows
from tests.models.inputs import DATA, fitted

MEMBERS = np.arange(6)


@pytest.fixture
def folder(tmp_path):
    """A data set of six training, three validation, and six test samples, with their keys."""
    samples = image_set(15, side=10)
    splits = np.repeat(["train", "val", "test"], [6, 3, 6])
    source = Source(samples.images, samples.labels, splits, ["a", "b", "c"])
    prepare(source, tmp_path / "data/toy", lambda line: None)
    keys.write(tmp_path / "keys.npz", np.arange(15), unit_rows(15, 4, seed=9))
    return tmp_path


def measure_loss(system, folder, settings):
    """The mean loss of each member, predicted by a system whose memory lacks it."""
    family = FAMILIES[system.family]
    dataset = prepared.load(folder / "data/toy")
    losses = []
    for member in MEMBERS:
        ids = np.array([member])
        rest = replace(system, memory=system.memory.forget(ids))
        query = keys.read(folder / "keys.npz", ids)
        members = Keys(rest.memory.ids.numpy(), rest.memory.keys.numpy())
        retrieval = Retrieval(find_nearest(query, members, 5), settings)
        logits = family.predict_logits(rest, of_dataset(dataset, ids), DATA, "cpu", retrieval)[0]
        losses.append(np.logaddexp.reduce(logits) - logits[dataset.labels[member]])
    return np.mean(losses)


def test_a_trained_system_is_scored_without_the_row_of_the_sample(folder, munkey_system):
    member_keys = keys.read(folder / "keys.npz", MEMBERS).keys
    memory = replace(
        munkey_system.memory, ids=torch.from_numpy(MEMBERS), keys=torch.from_numpy(member_keys)
    )
    system = replace(munkey_system, memory=memory)
    file = folder / "system.safetensors"
    systems.save(file, system)
    write_json(folder / "record.json", {"settings": {"data": DATA.model_dump()}})
    candidates = search_inference(folder / "data/toy", folder / "keys.npz", [file])
    assert len(candidates) == 15
    assert candidates == sorted(candidates, key=lambda candidate: candidate.loss)
    for candidate in candidates:
        expected = measure_loss(system, folder, InferenceSettings(**candidate.settings))
        assert candidate.loss == pytest.approx(expected, rel=1e-5)


def test_a_knn_is_scored_without_the_row_of_the_sample(folder):
    dataset = prepared.load(folder / "data/toy")
    train = keys.read(folder / "keys.npz", MEMBERS)
    for candidate in search_fitted(folder / "data/toy", folder / "keys.npz", FAMILIES["knn"]):
        system = fitted("knn", train, dataset.labels[MEMBERS], **candidate.settings)
        assert candidate.loss == pytest.approx(measure_loss(system, folder, None), rel=1e-5)


def test_a_system_with_an_added_head_is_refused(folder, munkey_system):
    head = {"alpha": 0.2, "temperature": 1.0}
    architecture = replace(munkey_system.architecture, head=head)
    memory = replace(munkey_system.memory, labels=torch.arange(6) % 3)
    systems.save(
        folder / "system.safetensors",
        replace(munkey_system, architecture=architecture, memory=memory),
    )
    with pytest.raises(ValueError, match=r"system.safetensors.*munkey.head"):
        search_inference(folder / "data/toy", folder / "keys.npz", [folder / "system.safetensors"])

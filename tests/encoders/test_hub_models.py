"""Encoders of transformers, loaded from disk as the real ones are, against a direct call of the saved model."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from munkey.data.image_set import to_unit_range
from munkey.encoders import hub_models
from munkey.encoders.hub_models import (
    load_transformers_encoder,
    make_preprocess,
    require_repository,
)
from munkey.encoders.registry import ENCODERS, MissingEncoderError, find
from tests.conftest import ROOT
from tests.encoders.inputs import OTHER_TYPES, settings, tiny, tiny_of_type


@pytest.mark.parametrize("family", ["vit", "dinov2", "clip"])
def test_a_saved_transformers_model_gives_the_features_of_a_direct_call(
    family, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model, processor, feature = tiny(family)
    model.eval().save_pretrained(tmp_path / family)
    processor.save_pretrained(tmp_path / family)
    encode = find(f"{tmp_path}/{family}").build(settings(tmp_path / family), "cpu")
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (4, 6, 9, 3), dtype=np.uint8)
    pictures = []
    for small in smooth:
        pictures.append(Image.fromarray(small).resize((72, 48), Image.Resampling.BICUBIC))
    images = np.stack([np.asarray(picture) for picture in pictures])
    pixels = processor(pictures, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        ours = encode(to_unit_range(torch.from_numpy(images)))
        direct = feature(pixels)
    assert ours.shape == direct.shape
    cosines = torch.nn.functional.cosine_similarity(ours, direct)
    # processors round to whole pixel values after resizing, ours does not
    assert cosines.min() > 0.999
    assert torch.allclose(ours, direct, atol=0.05)


@pytest.mark.parametrize("model_type", OTHER_TYPES)
def test_a_saved_vision_model_of_another_type_gives_its_pooled_features(
    model_type, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model, processor, feature = tiny_of_type(model_type)
    model.eval().save_pretrained(tmp_path / model_type)
    processor.save_pretrained(tmp_path / model_type)
    encode = find(f"{tmp_path}/{model_type}").build(settings(tmp_path / model_type), "cpu")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    pixels = processor([Image.fromarray(image) for image in images], return_tensors="pt")[
        "pixel_values"
    ]
    with torch.no_grad():
        ours = encode(to_unit_range(torch.from_numpy(images)))
        direct = feature(pixels).flatten(1)
        again = encode(to_unit_range(torch.from_numpy(images)))
    assert ours.shape == (3, 16)
    assert torch.equal(ours, again)
    assert torch.nn.functional.cosine_similarity(ours, direct).min() > 0.999


def test_a_saved_model_without_pooled_features_is_refused(tmp_path, monkeypatch):
    import transformers

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = transformers.SegformerConfig(
        hidden_sizes=[8] * 4, depths=[1] * 4, num_attention_heads=[1] * 4, decoder_hidden_size=8
    )
    transformers.SegformerModel(config).save_pretrained(tmp_path / "segformer")
    transformers.SegformerImageProcessor(size={"height": 32, "width": 32}).save_pretrained(
        tmp_path / "segformer"
    )
    with pytest.raises(ValueError, match=r"segformer has no pooled .*ViT, DINOv2"):
        find(f"{tmp_path}/segformer").build(settings(tmp_path / "segformer"), "cpu")


@pytest.mark.parametrize("content", [{}, {"model_type": "no-such-type"}])
def test_a_folder_without_a_vision_model_is_refused_with_the_supported_types(
    content, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="ViT, DINOv2"):
        find(str(tmp_path)).build(settings(tmp_path), "cpu")


def test_a_saved_model_that_lacks_weights_is_refused(tmp_path, monkeypatch):
    from safetensors.torch import load_file, save_file

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model, processor, _ = tiny_of_type("dinov3_vit")
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights.pop("norm.weight")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"1 of .* missing, e\.g\. norm\.weight"):
        find(str(tmp_path)).build(settings(tmp_path), "cpu")


NORMAL = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 32, "width": 48}}


@pytest.mark.parametrize(
    ("fields", "resized"), [({}, True), ({"do_resize": True}, True), ({"do_resize": False}, False)]
)
def test_pictures_are_resized_unless_the_processor_disables_it(fields, resized):
    size = make_preprocess(NORMAL | fields).resize
    assert (size and (size.height, size.width)) == ((32, 48) if resized else None)


@pytest.mark.parametrize(
    ("fields", "cropped"),
    [
        ({"do_center_crop": True, "crop_size": {"height": 24, "width": 16}}, (24, 16)),
        ({"do_center_crop": False, "crop_size": {"height": 24, "width": 16}}, None),
        ({"do_center_crop": True}, None),
    ],
)
def test_pictures_are_cropped_only_if_the_processor_gives_a_size(fields, cropped):
    crop = make_preprocess(NORMAL | fields).crop
    assert (crop and (crop.height, crop.width)) == cropped


def test_pixels_are_not_normalized_if_the_processor_disables_it():
    plain = make_preprocess(NORMAL | {"do_normalize": False})
    assert (plain.mean, plain.std) == ([0, 0, 0], [1, 1, 1])
    assert (make_preprocess(NORMAL).mean, make_preprocess(NORMAL).std) == ([0.5] * 3, [0.5] * 3)


def test_a_filter_that_torchvision_lacks_is_refused_by_name():
    lanczos = 1  # Pillow's number
    with pytest.raises(ValueError, match=r"lanczos.*nearest, bilinear, bicubic"):
        make_preprocess(NORMAL | {"resample": lanczos})


OFFLINE = """
from munkey.encoders.registry import MissingEncoderError, find
from munkey.settings import EncoderSettings
for name in ("vit-b16", "dinov2", "clip"):
    entry = find(name)
    try:
        entry.build(EncoderSettings(encoder=name, revision=entry.revision, image_size=None, batch_size=1), "cpu")
    except MissingEncoderError as error:
        print(error)
"""


def test_the_error_without_a_network_has_the_command_that_downloads_the_model(tmp_path):
    env = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], capture_output=True, text=True, env=env, check=True
    )
    messages = done.stdout.splitlines()
    for name, message in zip(("vit-b16", "dinov2", "clip"), messages, strict=True):
        assert "hf download" in message
        assert ENCODERS[name].revision in message
        assert "--local-dir encoders/" in message


@pytest.mark.parametrize(
    "load",
    [require_repository, lambda *of: load_transformers_encoder(*of, "cpu")],
    ids=["look up", "load"],
)
@pytest.mark.parametrize(("revision", "pinned"), [("1234567", " --revision 1234567"), (None, "")])
def test_the_error_for_an_unreachable_repository_has_the_command_that_downloads_it(
    load, revision, pinned, monkeypatch
):
    import transformers

    requests = []

    def missing(*name, **options):
        requests.append((*name, options["revision"]))
        raise OSError("no network")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", missing)
    command = f"`hf download some/model{pinned} --local-dir encoders/model`"
    with pytest.raises(MissingEncoderError, match=command):
        load("some/model", revision)
    assert requests == [("some/model", revision)]


def test_a_published_encoder_is_built_from_its_repository_at_the_revision_of_the_settings(
    monkeypatch,
):
    monkeypatch.setattr(hub_models, "load_transformers_encoder", lambda *of: of)
    built = ENCODERS["dinov2"].build(settings("dinov2", revision="12" * 20), "cpu")
    assert built == ("facebook/dinov2-base", "12" * 20, "cpu")


def test_a_saved_vit_that_lacks_weights_is_refused(tmp_path, monkeypatch):
    import transformers
    from safetensors.torch import load_file, save_file

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=32,
    )
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    find(str(tmp_path)).build(settings(tmp_path), "cpu")
    weights = load_file(tmp_path / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if "layer" not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"weights are missing"):
        find(str(tmp_path)).build(settings(tmp_path), "cpu")

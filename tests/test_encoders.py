"""Key encoders, loaded from disk as the real ones are, against a direct call of the model that was saved."""

import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import timm
import torch
import transformers
from PIL import Image
from sklearn.datasets import load_digits

from munkey import keys, neighbors
from munkey.encoders import ENCODERS, MissingEncoderError, cache_name, find
from munkey.images import to_unit

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "patch_size": 8}
SHARED = Path(__file__).parents[2] / "shared/data/cifar10-images.tar.xz"


def settings(encoder, image_size=None, revision=None):
    return SimpleNamespace(encoder=str(encoder), revision=revision, image_size=image_size)


def tiny(family):
    """A random model of a real class, its image processor, and how the paper takes the feature from it."""
    torch.manual_seed(0)
    exact = {"size": {"height": 32, "width": 32}}
    if family == "vit":
        model = transformers.ViTForImageClassification(transformers.ViTConfig(image_size=32, num_labels=5, **SMALL))
        processor = transformers.ViTImageProcessor(**exact, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        return model, processor, lambda x: model.vit(pixel_values=x).last_hidden_state[:, 0]
    if family == "dinov2":
        small = {k: v for k, v in SMALL.items() if k != "intermediate_size"}
        model = transformers.Dinov2Model(transformers.Dinov2Config(image_size=32, **small))
        processor = transformers.BitImageProcessor(
            size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32}, resample=3, do_center_crop=True
        )
        return model, processor, lambda x: model(pixel_values=x).pooler_output
    vision = transformers.CLIPVisionConfig(image_size=32, projection_dim=12, **SMALL)
    text = transformers.CLIPTextConfig(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    config = transformers.CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=12)
    model = transformers.CLIPModel(config)
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    vision_model, project = model.vision_model, model.visual_projection
    return model, processor, lambda x: project(vision_model(pixel_values=x).pooler_output)


@pytest.mark.parametrize("family", ["vit", "dinov2", "clip"])
def test_a_saved_transformers_model_gives_what_a_direct_call_gives(family, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model, processor, feature = tiny(family)
    model.eval().save_pretrained(tmp_path / family)
    processor.save_pretrained(tmp_path / family)
    encode = find(f"{tmp_path}/{family}").build(settings(tmp_path / family), "cpu")
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (4, 6, 9, 3), dtype=np.uint8)
    images = np.stack([np.asarray(Image.fromarray(i).resize((72, 48), Image.Resampling.BICUBIC)) for i in smooth])
    pixels = processor([Image.fromarray(image) for image in images], return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        ours, direct = encode(to_unit(torch.from_numpy(images))), feature(pixels)
    assert ours.shape == direct.shape
    cosines = torch.nn.functional.cosine_similarity(ours, direct)
    assert cosines.min() > 0.999  # processors round to whole pixel values after resizing, ours does not
    assert torch.allclose(ours, direct, atol=0.05)


def test_a_saved_timm_model_gives_what_a_direct_call_gives(tmp_path):
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=0).eval()
    timm.models.save_for_hf(model, tmp_path / "model", model_config={"num_classes": 0})
    encode = find(f"{tmp_path}/model").build(settings(tmp_path / "model"), "cpu")
    images = torch.rand(2, 3, *model.pretrained_cfg["input_size"][1:])
    config = timm.data.resolve_data_config({}, model=model)
    if config["crop_pct"] != 1:
        pytest.skip("this timm resizes before cropping: compared on the transformers models instead")
    mean, std = (torch.tensor(config[name])[:, None, None] for name in ("mean", "std"))
    with torch.no_grad():
        torch.testing.assert_close(encode(images), model((images - mean) / std), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["vit-b16", "dinov2", "clip"])
def test_without_a_network_one_message_says_what_to_fetch(name, tmp_path):
    code = (
        "from types import SimpleNamespace as N\n"
        "from munkey.encoders import MissingEncoderError, find\n"
        f"entry = find({name!r})\n"
        "try:\n"
        f"    entry.build(N(encoder={name!r}, revision=entry.revision, image_size=None), 'cpu')\n"
        "except MissingEncoderError as error:\n"
        "    print(error)\n"
    )
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True).stdout
    assert "hf download" in said and ENCODERS[name].revision in said and "--local-dir encoders/" in said


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


INTERRUPTED = """
import sys, time, pathlib, numpy as np
from munkey import keys

images = np.random.default_rng(0).integers(0, 256, (4000, 8, 8, 3), dtype=np.uint8)
weights = np.random.default_rng(1).normal(size=(192, 16)).astype(np.float32)

def encode(batch):
    import torch
    time.sleep(float(sys.argv[2]))
    return batch.flatten(1) @ torch.from_numpy(weights)

found = keys.extract(encode, images, 10, "cpu", lambda batches: batches, pathlib.Path(sys.argv[1]))
np.save(sys.argv[3], found)
"""


def test_a_killed_extraction_goes_on_to_the_same_bytes(tmp_path):
    whole = subprocess.run([sys.executable, "-c", INTERRUPTED, tmp_path / "a", "0", tmp_path / "whole.npy"], check=True)
    assert whole.returncode == 0
    blocks = tmp_path / "b"
    running = subprocess.Popen([sys.executable, "-c", INTERRUPTED, blocks, "0.01", tmp_path / "killed.npy"])
    deadline = time.monotonic() + 60
    while len(list(blocks.glob("[0-9]*.npy"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    running.wait()
    stamps = {path: path.stat().st_mtime_ns for path in blocks.glob("[0-9]*.npy")}
    assert 3 <= len(stamps) < 25 and not (tmp_path / "killed.npy").exists()
    subprocess.run([sys.executable, "-c", INTERRUPTED, blocks, "0", tmp_path / "killed.npy"], check=True)
    assert (tmp_path / "killed.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps


def knn_accuracy(encode, train, train_labels, test, test_labels):
    """Percent correct of similarity-weighted votes of the 4 nearest keys, tau = 0.07."""
    found = keys.extract(encode, np.concatenate([train, test]), 64, "cpu", lambda batches: batches)
    return accuracy_of_keys(found[: len(train)], train_labels, found[len(train) :], test_labels)


def accuracy_of_keys(train, train_labels, test, test_labels):
    ids = np.arange(len(train) + len(test))
    near, cosines = neighbors.nearest(test, ids[len(train) :], train, ids[: len(train)], 4)
    weights = np.exp(cosines / 0.07)
    votes = np.zeros((len(test), train_labels.max() + 1))
    for place in range(4):
        np.add.at(votes, (np.arange(len(test)), train_labels[near[:, place]]), weights[:, place])
    return 100 * np.mean(votes.argmax(axis=1) == test_labels)


def cifar_pictures(part, first):
    """The first pictures of each class in name order, straight from the archive."""
    with tarfile.open(SHARED) as archive:
        members = [m for m in archive if m.isfile() and m.name.split("/")[0] == part]
        by_class = {}
        for member in sorted(members, key=lambda m: m.name):
            by_class.setdefault(member.name.split("/")[1], []).append(member)
        chosen = [(label, m) for label, (_, ms) in enumerate(sorted(by_class.items())) for m in ms[:first]]
        chosen.sort(key=lambda pair: pair[1].offset)  # read in the archive's order: it is one compressed stream
        images = [np.asarray(Image.open(archive.extractfile(m)).convert("RGB")) for _, m in chosen]
    return np.stack(images), np.array([label for label, _ in chosen])


@pytest.mark.skipif(not SHARED.exists(), reason=f"needs real pictures, {SHARED.name}")
def test_keys_of_real_pictures_tell_cifar_classes_apart():
    encode = find("efficientnet-lite0").build(settings("efficientnet-lite0", 128), "cpu")
    accuracy = knn_accuracy(encode, *cifar_pictures("train", 300), *cifar_pictures("test", 100))
    assert accuracy == pytest.approx(66.6, abs=0.5)


def test_keys_of_digits_tell_them_apart():
    digits = load_digits()
    images = np.repeat(np.round(digits.images * 255 / 16).astype(np.uint8)[..., None], 3, axis=-1)
    encode = find("efficientnet-lite0").build(settings("efficientnet-lite0", 96), "cpu")
    found, accuracies = keys.extract(encode, images, 64, "cpu", lambda batches: batches), []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(images))
        train, test = order[:1200], order[1200:]
        accuracies.append(accuracy_of_keys(found[train], digits.target[train], found[test], digits.target[test]))
    assert np.mean(accuracies) == pytest.approx(91.6, abs=1)

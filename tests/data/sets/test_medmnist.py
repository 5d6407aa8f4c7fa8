"""The MedMNIST data sets have the sizes and the classes that their package states."""

import pytest
from medmnist import INFO

from munkey.data.download import PublishedFile
from munkey.data.registry import DATASETS
from munkey.data.sizes import SIZES, Size
from tests.data.inputs import archive, counts, settings


def test_descriptions_state_the_train_counts_of_medmnist():
    for name in ("bloodmnist", "dermamnist", "pathmnist"):
        sizes = INFO[name]["n_samples"]
        described = DATASETS[name].description.replace(",", "")
        assert str(sizes["train"]) in described


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("bloodmnist", (12, 15, 9)), ("dermamnist", (12, 15, 9)), ("pathmnist", (12, 4, 11))],
)
def test_each_data_set_is_read_with_its_classes_or_refused_for_other_numbers(
    name, sizes, tmp_path, monkeypatch
):
    """PathMNIST takes val and test from its val split."""
    archive(tmp_path / f"{name}_224.npz", {"train": 12, "val": 15, "test": 9})
    monkeypatch.setattr(PublishedFile, "obtain", lambda file, **_: tmp_path / file.name)
    with pytest.raises(ValueError, match=f"{name} should have"):
        DATASETS[name].load(settings())
    monkeypatch.setitem(SIZES, name, Size(*sizes, 6, 3))
    source = DATASETS[name].load(settings())
    assert counts(source.splits) == list(sizes)
    for number, label in enumerate(source.classes):
        assert label == INFO[name]["label"][str(number)]
    assert len(source.classes) == len(INFO[name]["label"])

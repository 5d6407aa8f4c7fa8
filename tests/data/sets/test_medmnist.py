"""The MedMNIST data sets have the sizes that their package states."""

from medmnist import INFO

from munkey.data.registry import DATASETS


def test_the_medmnist_counts_are_those_of_its_package():
    for name in ("bloodmnist", "dermamnist", "pathmnist"):
        sizes = INFO[name]["n_samples"]
        described = DATASETS[name].description.replace(",", "")
        assert str(sizes["train"]) in described
    assert INFO["pathmnist"]["n_samples"]["val"] == 4_000 + 6_004

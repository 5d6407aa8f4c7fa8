"""Neighbors of every sample among all training samples or the remaining ones."""

import numpy as np
import pytest

from munkey.data import forget_sets
from munkey.data.source import SourceError
from munkey.jobs.keys import neighbors
from munkey.memory import neighbors as files
from tests.jobs.inputs import prepare_dataset, write_keys


def test_neighbors_are_the_requested_number_of_remaining_samples(tmp_path, capsys):
    dataset = prepare_dataset(tmp_path / "data")
    images = tmp_path / "data/images.npy"
    keyfile, _ = write_keys(tmp_path, dataset, 6)
    out = tmp_path / "out.npz"
    without = (tmp_path / "forget.csv", tmp_path / "absent.csv")
    forget_sets.write(without[0], np.arange(100))
    forget_sets.write(without[1], np.arange(100, 140))
    neighbors(images, keyfile, out, 40, *without)
    assert capsys.readouterr().out == "40 nearest of 40 members for 210 samples\n"
    nearest = files.read_neighbors(out, dataset.ids).ids
    assert (np.sort(nearest) == np.arange(140, 180)).all()
    with pytest.raises(SourceError, match=r"(?s)40 samples to retain, but keys.depth = 41"):
        neighbors(images, keyfile, out, 41, *without)

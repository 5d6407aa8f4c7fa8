"""Neighbors of every sample, of all training samples or of those that are left."""

import numpy as np
import pytest

from munkey.data import forget_sets
from munkey.data.source import SourceError
from munkey.jobs.keys import neighbors
from munkey.memory import neighbors as files
from tests.jobs.inputs import keyed, prepared


def test_neighbors_are_those_that_are_left_and_as_many_as_asked_for(tmp_path, capsys):
    dataset = prepared(tmp_path / "data")
    images, (keyfile, _) = tmp_path / "data/images.npy", keyed(tmp_path, dataset, 6)
    forget_sets.write(tmp_path / "forget.csv", np.arange(100))
    forget_sets.write(tmp_path / "absent.csv", np.arange(100, 140))
    neighbors(
        images, keyfile, tmp_path / "out.npz", 40, tmp_path / "forget.csv", tmp_path / "absent.csv"
    )
    assert capsys.readouterr().out == "40 nearest of 40 members for 210 samples\n"
    found = files.read_neighbors(tmp_path / "out.npz", dataset.ids).ids
    assert (np.sort(found) == np.arange(140, 180)).all()
    with pytest.raises(
        SourceError, match=r"(?s)too little data.*40 samples to retain, but keys.depth = 41"
    ):
        neighbors(
            images,
            keyfile,
            tmp_path / "out.npz",
            41,
            tmp_path / "forget.csv",
            tmp_path / "absent.csv",
        )

"""What a training reads from files: keys and neighbors by id, and what the selection chose."""

import numpy as np
import pytest

from munkey.core.files import write_json
from munkey.encoders import keys
from munkey.memory import neighbors
from munkey.models import training_inputs
from munkey.models.family import FAMILIES
from tests.conftest import unit_rows
from tests.models.inputs import others, recipe


def test_keys_and_neighbors_of_the_training_samples_are_read(params, tmp_path):
    """Keys of all samples are stored, neighbors of the training samples: more of each than training reads."""
    samples = keys.Keys(np.arange(20), unit_rows(20, 4))
    some = keys.Keys(samples.ids[3:15], samples.keys[3:15])
    keyfile = tmp_path / "keys.npz"
    neighborfile = tmp_path / "neighbors.npz"
    keys.write(keyfile, *samples)
    neighbors.write_neighbors(neighborfile, some.ids, neighbors.find_nearest(some, some, 9))
    members = training_inputs.read_member_keys(
        FAMILIES["munkey"], recipe(params, "munkey"), some.ids, keyfile, neighborfile
    )
    expected = others(some, 4)
    np.testing.assert_array_equal(members.keys, some.keys)
    np.testing.assert_array_equal(members.neighbors.ids, expected.ids)
    np.testing.assert_array_equal(members.neighbors.cosines, expected.cosines)


def test_a_family_without_a_memory_reads_no_files(params):
    for name in ("vit", "sisa"):
        members = training_inputs.read_member_keys(
            FAMILIES[name], recipe(params, name), np.arange(3), None, None
        )
        assert members is None


def test_a_family_with_a_memory_needs_files(params):
    with pytest.raises(ValueError, match="files of keys and neighbors"):
        training_inputs.read_member_keys(
            FAMILIES["munkey"], recipe(params, "munkey"), np.arange(3), None, None
        )


def test_the_selected_knobs_are_read_from_the_file_of_the_selection(tmp_path):
    write_json(
        tmp_path / "selected.json", {"chosen": {"p_image": 0.4, "p_token": 0.3}, "pairs": []}
    )
    assert training_inputs.read_selected_knobs(tmp_path / "selected.json") == {
        "p_image": 0.4,
        "p_token": 0.3,
    }
    assert training_inputs.read_selected_knobs(None) == {}

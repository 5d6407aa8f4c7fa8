"""Samples by their names: which classes a label can mean, and when similar names are suggested."""

from datetime import UTC, datetime

import numpy as np
import pytest

from munkey.deploy.model.samples import Samples
from munkey.memory.chain import Receipt
from munkey.memory.memory_file import Classes, MemoryFile


@pytest.fixture
def make_samples(tmp_path):
    def make(*names) -> Samples:
        keys = np.eye(4, dtype=np.float32)
        files = ["cat/00.png", "cat/01.png", "dog/00.png", "dog/01.png"]
        labels = [1, 1, 1, 1]
        classes = Classes(names)
        path = tmp_path / "memory.db"
        with MemoryFile.create(path, range(4), keys, keys, labels, files, classes=classes) as file:
            return Samples(file.snapshot(), None)

    return make


def receipt(deleted: int) -> Receipt:
    return Receipt("", range(1, deleted + 1), "", "", datetime.now(UTC), "2026-1")


def test_a_label_that_can_mean_two_classes_is_refused(make_samples):
    samples = make_samples("7", "7.0")
    assert samples.encode_labels(["7", "7.0", 0]).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"'7\.00' is not the name of a class"):
        samples.encode_labels(["7.00"])


def test_a_class_whose_name_was_forgotten_has_no_index_any_more(make_samples):
    samples = make_samples(None, "dog")
    assert samples.encode_labels([1]).tolist() == [1]
    with pytest.raises(ValueError, match="0 is not the name of a class"):
        samples.encode_labels([0])


def test_similar_files_are_suggested_unless_the_request_deleted_the_samples(make_samples):
    samples = make_samples("cat", "dog")
    name = "cat/0O.png"  # a letter in place of a zero
    for earlier_receipt, is_suggested in ((None, True), (receipt(0), True), (receipt(2), False)):
        selection = samples.select(
            files=[name], ignore_missing=True, earlier_receipt=earlier_receipt
        )
        assert selection.missing == (name,)
        assert ("cat/00.png" in selection.hint) == is_suggested

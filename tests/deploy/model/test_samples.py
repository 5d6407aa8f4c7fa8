"""Samples by their names: which classes a label can mean, and when similar names are suggested."""

from datetime import UTC, datetime

import numpy as np
import pytest

from munkey.deploy.errors import UnknownNamesError
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


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        (("1", "2", "3"), ["2", " 2", 2, 2.0, np.int64(3)], [1, 1, 1, 1, 2]),
        (("cat", "dog"), ["dog", 1, np.int64(0)], [1, 1, 0]),
        ((1, 2), [2, "2", 1.0, np.int64(2)], [1, 1, 0, 1]),
        ((False, True), [True, "False"], [1, 0]),
    ],
)
def test_a_number_is_the_name_of_a_class_or_else_its_index(make_samples, names, labels, expected):
    assert make_samples(*names).encode_labels(labels).tolist() == expected


@pytest.mark.parametrize("label", [0, True, "2.0"])
@pytest.mark.parametrize("names", [(1, 2), ("1", "2"), ("1", "cat")])
def test_a_number_that_is_no_class_is_refused(make_samples, names, label):
    with pytest.raises(ValueError, match="is not a class"):
        make_samples(*names).encode_labels([label])


def test_a_class_may_have_a_name_that_means_no_unit(make_samples):
    assert make_samples("NA", "dog").encode_labels(["NA "]).tolist() == [0]


def test_a_class_whose_name_was_forgotten_has_no_index_any_more(make_samples):
    samples = make_samples(None, "dog")
    assert samples.encode_labels([1]).tolist() == [1]
    with pytest.raises(ValueError, match="0 is not a class"):
        samples.encode_labels([0])


def test_an_unknown_class_is_a_missing_name_like_any_other(make_samples):
    samples = make_samples("cat", "dog")
    selection = samples.select(labels=["dog", "Cat", "Cat", 2, [0]], ignore_missing=True)
    assert selection.ids.tolist() == [0, 1, 2, 3]
    assert selection.missing == ("class Cat", "class 2", "class [0]")
    assert "'Cat': 'cat'" in selection.hint
    for look_up in (samples.select, lambda labels: samples.list_rows(labels, (), ())):
        with pytest.raises(UnknownNamesError, match=r"class Cat.* cat, dog"):
            look_up(labels=["Cat"])


def test_a_unit_may_be_given_as_a_number(make_samples):
    samples = make_samples("cat", "dog")
    assert samples.select(units=[8.0], ignore_missing=True).missing == ("unit 8",)
    for missing in (None, float("nan"), "NA", " "):
        with pytest.raises(ValueError, match="is no unit"):
            samples.select(units=[missing], ignore_missing=True)
        if missing is not None:
            with pytest.raises(ValueError, match="is no unit"):
                samples.list_rows((), [missing], ())


def test_a_unit_has_one_spelling_in_a_memory(tmp_path):
    """The failure: the name Zoë left the rows of Zoë in another Unicode form and with blanks."""
    keys = np.eye(4, dtype=np.float32)
    units = ["Zo\u00eb", "Zoe\u0308", " Zo\u00eb ", "Ben"]
    with MemoryFile.create(tmp_path / "memory.db", range(4), keys, keys, units=units) as file:
        file.add([4, 5], keys[:2], keys[:2], units=["Zoe\u0308 ", "7.0"])
        samples = Samples(file.snapshot(), None)
    for typed in ("Zo\u00eb", " Zoe\u0308"):
        assert samples.select(units=[typed]).ids.tolist() == [0, 1, 2, 4]
    assert samples.select(units=[7]).ids.tolist() == [5]


def test_similar_files_are_suggested_unless_the_request_deleted_the_samples(make_samples):
    samples = make_samples("cat", "dog")
    name = "cat/0O.png"  # a letter in place of a zero
    for earlier_receipt, is_suggested in ((None, True), (receipt(0), True), (receipt(2), False)):
        selection = samples.select(
            files=[name], ignore_missing=True, earlier_receipt=earlier_receipt
        )
        assert selection.missing == (name,)
        assert ("cat/00.png" in selection.hint) == is_suggested

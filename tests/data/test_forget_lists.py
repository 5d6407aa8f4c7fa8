"""Forget sets by list: ids and file names, as text, CSV and .npy; what does not fit is named."""

import numpy as np
import pytest

from munkey.data.forget_draws import find_listed_ids, get_list_path, read_list, require_listed_share

SAMPLES = [
    {"id": "0", "split": "train", "label": "0", "name": "train/cat/1.png"},
    {"id": "1", "split": "train", "label": "0", "name": "train/cat/2.png"},
    {"id": "2", "split": "train", "label": "1", "name": "train/dog/1.png"},
    {"id": "3", "split": "val", "label": "1", "name": "val/dog/9.png"},
]


@pytest.mark.parametrize(
    ("name", "text", "entries"),
    [
        ("a.txt", "2\n0\n\n", [2, 0]),
        ("a.txt", "\ufeffcat/1.png\r\n dog/1.png \r\n", ["cat/1.png", "dog/1.png"]),
        ("a.csv", "id,label\n2,x\n0,y\n", [2, 0]),
        ("a.csv", "id,label\n2.0,x\n0.0,y\n", [2, 0]),
        ("a.CSV", "label,file\nx,cat/1.png\n", ["cat/1.png"]),
    ],
)
def test_a_list_is_read_as_text_or_csv(tmp_path, name, text, entries):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_list(tmp_path / name) == entries


@pytest.mark.parametrize(
    "array", [np.array([2, 0]), np.array([2, 0], dtype=np.uint16), np.array(["2", "0"])]
)
def test_an_array_of_numbers_is_a_list_of_ids(tmp_path, array):
    np.save(tmp_path / "forget_idx.npy", array)
    assert read_list(tmp_path / "forget_idx.npy") == [2, 0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"", "contains no entries"),
        ("a.txt", b"1\n2\n1\n", "repeats 1 of its entries, e.g. 1"),
        ("a.txt", b"\xff\xfe1", "not text in UTF-8"),
        ("a.csv", b"number\n1\n", "no column `id` or `file`"),
        ("a.txt", b"0\n1\n1\n0\n", "mask of zeros and ones.*np.flatnonzero"),
        ("a.json", b"[3, 14, 15]\n", "is JSON, not a list"),
        ("a.txt", b"[3, 14, 15]\n", "is JSON, not a list"),
        ("a.txt", b'{"digits": [3]}', "is JSON, not a list"),
        ("a.pt", b"PK", "a file of PyTorch, not a list"),
        ("a.csv", b"PK\x03\x04", "is not text but a spreadsheet"),
        ("a.npy", b"no array", "not a NumPy array"),
        ("a.npy", b"", "not a NumPy array"),
        ("a.none", None, "cannot be read"),
    ],
)
def test_a_file_that_is_not_a_list_is_refused_by_name(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}: .*{words}"):
        read_list(tmp_path / name)


@pytest.mark.parametrize("array", [np.array([True, False]), np.array([0, 1, 0, 0, 1])])
def test_a_mask_is_named(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"is a mask.*np\.flatnonzero"):
        read_list(tmp_path / "a.npy")


@pytest.mark.parametrize("array", [np.zeros((2, 2), dtype=int), np.array([0.5])])
def test_an_array_of_something_else_is_refused(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match="one-dimensional array"):
        read_list(tmp_path / "a.npy")


def test_ids_and_file_names_find_the_same_samples(tmp_path):
    assert find_listed_ids([2, 0], SAMPLES, tmp_path).tolist() == [0, 2]
    assert find_listed_ids(["dog/1.png", "train/cat/1.png"], SAMPLES, tmp_path).tolist() == [0, 2]
    assert find_listed_ids(["2.png"], SAMPLES, tmp_path).tolist() == [1]


def test_a_file_is_found_in_another_unicode_form_unless_both_forms_are_files(tmp_path):
    composed, decomposed = "cat/Zo\u00eb.png", "cat/Zoe\u0308.png"
    samples = [{**SAMPLES[0], "name": f"train/{decomposed}"}, *SAMPLES[1:]]
    assert find_listed_ids([composed], samples, tmp_path).tolist() == [0]
    samples[1] = {**SAMPLES[1], "name": f"train/{composed}"}
    assert find_listed_ids([composed], samples, tmp_path).tolist() == [1]


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ([0, 7, 8], "lists 2 unknown ids, e.g. 7, 8"),
        ([0, 3], r"lists 1 samples .*not in training.* 3"),
        (["val/dog/9.png"], "not in training.*'val/dog/9.png'"),
        (["dog/7.png"], "lists 1 unknown files, e.g. 'dog/7.png'"),
        (["1.png"], "1 ambiguous names .*'1.png'"),
        (
            ["2.png", "cat/2.png"],
            "1 samples .* twice.*cat/2.png .* 2.png",
        ),
        ([2, 0, 2], "lists 1 samples that it lists twice"),
    ],
)
def test_entries_that_are_no_training_samples_are_named(tmp_path, listed, words):
    with pytest.raises(ValueError, match=words):
        find_listed_ids(listed, SAMPLES, tmp_path / "a.txt")


def test_names_of_files_need_a_data_set_of_files(tmp_path):
    samples = [{"id": "0", "split": "train", "label": "0"}]
    with pytest.raises(ValueError, match="are not files; list ids"):
        find_listed_ids(["1.png"], samples, tmp_path / "a.txt")


def test_the_rate_of_a_list_must_be_its_share_of_the_training_samples(tmp_path):
    require_listed_share(tmp_path, 108, 1078, 0.1)
    with pytest.raises(ValueError, match=r"108 of 1,078 .*forget\.rates: \[0\.1002\]"):
        require_listed_share(tmp_path, 108, 1078, 0.02)


def test_a_list_may_be_one_for_each_seed():
    assert str(get_list_path("lists/seed{seed}.txt", 0)) == "lists/seed0.txt"
    assert str(get_list_path("lists/seed{seed}.txt", 3)) == "lists/seed3.txt"

"""A directory that somebody else wrote: it is read or refused with a sentence, and nothing in it changes."""

import hashlib
import json
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.model.export import export
from munkey.deploy.model.manifest import read_manifest
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.store import Store

PICTURE = np.zeros((1, 10, 10, 3), np.uint8)
FIXED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def contents(directory: Path) -> dict[str, bytes]:
    """What nothing may change: all but the lock, and the ledger, in which a writer notes what it erased."""
    transient = ("-wal", "-shm", "lock", "store.db")
    files = (file for file in directory.rglob("*") if file.is_file() and not file.name.endswith(transient))
    return {str(file): file.read_bytes() for file in files}


def refused(directory: Path, *said: str) -> None:
    """It cannot be used, neither for reading nor for writing, and the sentence names the file and what to do."""
    before = contents(directory)
    for writer in (False, True):
        with (
            pytest.raises(UnreadableModelError) as raised,
            Predictor.load(directory, writer=writer, device="cpu") as model,
        ):
            model.predict(PICTURE)
        assert str(raised.value).endswith(". Nothing was changed; put an undamaged export there")
        assert str(raised.value).count("Nothing was changed") == 1
        for words in said:
            assert words in str(raised.value)
    assert contents(directory) == before


def manifest(directory: Path, **changes: object) -> None:
    """Change the manifest and seal it again. changes: of its entries, nested ones as `inference__k`."""
    content = changed(directory, **changes)
    del content["sha256"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    manifest_is(directory, content | {"sha256": hashlib.sha256(text.encode()).hexdigest()})


def manifest_is(directory: Path, content: dict[str, object]) -> None:
    (directory / "manifest.json").write_text(json.dumps(content))


def changed(directory: Path, **changes: object) -> dict[str, object]:
    content = json.loads((directory / "manifest.json").read_text())
    for place, value in changes.items():
        *parents, last = place.split("__")
        entry = content
        for parent in parents:
            entry = entry[parent]
        entry[last] = value
    return content


def weights(directory: Path, change) -> None:
    """Change the weights, with a manifest that agrees."""
    path = directory / "weights.safetensors"
    tensors = load(path.read_bytes())
    change(tensors)
    path.write_bytes(save(tensors))
    content = json.loads((directory / "manifest.json").read_text())
    sums = content["files"] | {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    manifest(directory, files=sums)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "of format 2, while this munkey reads format 3"),
        ({"version": "3"}, 'of format "3", while this munkey reads format 3'),
        ({"format": "something else"}, "not the manifest of a model"),
        ({"classes": []}, "classes"),
        ({"classes": ["cat"]}, "weights.safetensors"),
        ({"architecture": "../../x"}, "weights.safetensors"),
        ({"architecture": "deep-prompt"}, None),
        ({"token_dim": 6}, "of a size that does not fit"),
        ({"model__width": 16}, "weights.safetensors"),
        ({"model__depth": 1000}, "weights.safetensors"),
        ({"model__heads": 3}, "multiple of heads"),
        ({"model__patch_size": 3}, "weights.safetensors"),
        ({"data__image_size": 4096}, "too large"),
        ({"data__pixel_std": 0.0}, "pixel_std"),
        ({"inference__k": 0}, "inference.k"),
        ({"inference__k": 10**6}, "too large"),
        ({"inference__k": "4"}, "inference.k"),
        ({"inference__temperature": -1.0}, "temperature"),
        ({"lookup__probes": 10**6}, "lookup.probes"),
        ({"lookup__lists": 1}, "at most lists"),
        ({"encoder__settings__batch_size": 10**6}, "too large"),
        ({"encoder__probe": [0.0] * 1280}, "not made with the encoder"),
        ({"encoder__probe": [1.0]}, "of a size that does not fit"),
        ({"memory__store": "0" * 32}, "another model"),
        ({"memory__store": "../../x"}, "memory.store"),
        ({"stored__width": 10**9}, "stored.width"),
        ({"files": {"../../x": "0" * 64}}, "files"),
        ({"files": {}}, "SHA-256"),
        ({"files__weights.safetensors": "0" * 64}, "SHA-256"),
        ({"surprise": 1}, "surprise"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_manifest_that_makes_no_sense_is_refused(changes, said, directory):
    if said is None:  # the same weights fit another way of reading tokens: that is another model, not a damaged one
        manifest(directory, **changes)
        with Predictor.load(directory, device="cpu") as model:
            assert np.isfinite(model.predict(PICTURE).logits).all()
        return
    manifest(directory, **changes)
    refused(directory, said)


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": ["fish", "dog & co", "cat"]},
        {"inference__k": 1},
        {"memory__first_new_id": 0},
        {"sha256": None},
        {"sha256": "0" * 64},
    ],
    ids=str,
)
def test_a_manifest_that_makes_sense_and_is_not_the_one_that_was_written_is_refused(changes, directory):
    manifest_is(directory, changed(directory, **changes))
    refused(directory, "manifest.json: was changed after it was written")


@pytest.mark.parametrize(
    ("image_size", "patch_size", "right"), [(384, 16, True), (1024, 4, True), (1028, 4, False)], ids=str
)
def test_a_picture_may_have_2_16_patches(image_size, patch_size, right, directory):
    manifest(directory, data__image_size=image_size, model__patch_size=patch_size)
    if right:
        assert (read_manifest(directory).network.image_size, read_manifest(directory).model.patch_size) == (
            image_size,
            patch_size,
        )
    else:
        refused(directory, "too large")


@pytest.mark.parametrize(
    "text", ["", "[]", "nul", "1e999", "{" * 100_000, '{"format": NaN}', "\x00", '{"version": 1' + "0" * 9999 + "}"]
)
def test_a_manifest_that_is_no_json_is_refused(text, directory):
    (directory / "manifest.json").write_text(text)
    refused(directory, "manifest.json")


def test_what_is_no_export_is_refused(directory, tmp_path):
    for folder in (tmp_path / "nothing", tmp_path):
        with pytest.raises(UnreadableModelError, match="not an exported model"):
            Predictor.load(folder)
    with pytest.raises(UnreadableModelError):
        Predictor.load(directory / "manifest.json")


@pytest.mark.parametrize(
    "name",
    [
        "manifest.json",
        "weights.safetensors",
        "memory",
        "memory/lock",
        "memory/store.db",
        "memory/store.db-wal",
        "memory/generation-1/keys",
    ],
)
def test_links_and_pipes_are_not_followed(name, directory, tmp_path):
    path = directory / name
    if path.exists():
        shutil.move(path, tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    refused(directory)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UnreadableModelError), Predictor.load(directory, device="cpu") as model:
        model.predict(PICTURE)


def set_nan(tensors):
    tensors["head.bias"][0] = torch.nan


def set_type(tensors):
    tensors["head.bias"] = tensors["head.bias"].double()


def set_shape(tensors):
    tensors["head.bias"] = tensors["head.bias"][:2].clone()


def set_missing(tensors):
    del tensors["head.bias"]


def set_more(tensors):
    tensors["surprise"] = torch.zeros(1)


@pytest.mark.parametrize("change", [set_nan, set_type, set_shape, set_missing, set_more])
def test_weights_that_do_not_fit_are_refused(change, directory):
    weights(directory, change)
    refused(directory, "weights.safetensors")


def test_a_memory_of_another_model_is_refused(directory, result, tmp_path):
    other = export(result, tmp_path / "other")
    shutil.rmtree(directory / "memory")
    shutil.copytree(other / "memory", directory / "memory")
    refused(directory, "another model")


@pytest.mark.parametrize("changes", [{"memory__store": "0" * 32}, {"token_dim": 6}], ids=str)
def test_a_memory_that_is_refused_is_not_kept_open(changes, directory):
    manifest(directory, **changes)
    with pytest.raises(UnreadableModelError):
        Predictor.load(directory, writer=True)
    Store.open(directory / "memory", writer=True).close()


def test_a_label_that_is_no_class_is_found(directory):
    records = next(directory.glob("memory/generation-*/records"))
    array = np.memmap(
        records, np.dtype([("salt", "u1", (16,)), ("id", "<i8"), ("label", "<i8"), ("c", "u1", (32,))]), "r+"
    )
    array["label"][:] = 99
    array.flush()
    with pytest.raises(UnreadableModelError), Predictor.load(directory, device="cpu") as model:
        model.predict(PICTURE)


@pytest.mark.parametrize(
    "command",
    [
        "DROP TABLE sources",
        "DROP TABLE sources; CREATE VIEW sources AS WITH RECURSIVE n(row) AS (VALUES (1) UNION ALL SELECT row FROM n)"
        " SELECT row, '' AS file FROM n",
        "CREATE TRIGGER t AFTER DELETE ON sources BEGIN INSERT INTO sources VALUES (old.row, old.file); END",
    ],
)
def test_another_table_of_source_files_is_refused(command, directory):
    connection = sqlite3.connect(directory / "memory" / "store.db")
    connection.executescript(command)
    connection.close()
    refused(directory, "store.db", "its tables are not those of a memory")


def test_a_source_file_of_no_live_sample_is_found(directory):
    connection = sqlite3.connect(directory / "memory" / "store.db", isolation_level=None)
    connection.execute("INSERT INTO sources VALUES (1000, 'a trace')")
    connection.close()
    with Predictor.load(directory) as model:
        assert model.verify().problems == ("source files that belong to no live row: 1",)


FILES = [
    "manifest.json",
    "weights.safetensors",
    "README.md",
    "memory/store.db",
    "memory/generation-1/keys",
    "memory/generation-1/tokens",
    "memory/generation-1/records",
    "memory/generation-1/live",
]


@FIXED
@given(
    name=st.sampled_from(FILES),
    place=st.floats(0, 1),
    how=st.sampled_from(["cut", "flip", "empty", "swap", "missing"]),
    other=st.sampled_from(FILES),
)
def test_damage_anywhere_is_refused_or_found_or_harmless(name, place, how, other, exported, tmp_path_factory):
    """Never anything but a report or the one error; what `verify` calls sound holds the samples that it held."""
    directory = Path(shutil.copytree(exported, tmp_path_factory.mktemp("damaged") / "model"))
    with Predictor.load(directory) as model:
        expected = model.ids
    path = directory / name
    content = bytearray(path.read_bytes())
    spot = int(place * (len(content) - 1))
    if how == "flip":
        content[spot] ^= 0x41
    if how == "missing":
        path.unlink()
    else:
        swapped = (directory / other).read_bytes()
        path.write_bytes({"cut": content[:spot], "flip": content, "empty": b"", "swap": swapped}[how])
    try:
        with Predictor.load(directory, writer=True) as model:
            sound, ids = model.verify().sound, model.ids
    except UnreadableModelError:
        return
    assert not sound or np.array_equal(ids, expected)


@pytest.mark.parametrize(
    "ids", [[1.5], ["1"], [None], [-1], [2**63], [[1]], 7, "all", [True], {"a": 1}, [10**30], b"\x01"]
)
def test_ids_of_wrong_type_or_size_are_refused_and_nothing_is_deleted(ids, predictor):
    before = predictor.ids
    with pytest.raises(ValueError, match="ids"):
        predictor.forget(ids)
    assert np.array_equal(predictor.ids, before) and predictor.verify().deletions == 0

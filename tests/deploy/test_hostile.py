"""A directory that somebody else wrote: it is read or refused with a sentence, and nothing in it changes."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from munkey.deploy.errors import OTHER_VERSION, UnreadableModelError
from munkey.deploy.model.manifest import read_manifest, read_static_file
from munkey.deploy.predictor import Predictor
from munkey.deploy.store.store import Store

PICTURE = np.zeros((1, 10, 10, 3), np.uint8)


def contents(directory: Path) -> dict[str, bytes]:
    """What nothing may change: all but the lock, and the ledger, in which a writer notes what it erased."""
    transient = ("-wal", "-shm", "lock", "store.db")
    files = (
        file
        for file in directory.rglob("*")
        if file.is_file() and not file.name.endswith(transient)
    )
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
        to_do = (
            OTHER_VERSION
            if "this munkey reads" in str(raised.value)
            else "put an undamaged copy there"
        )
        assert str(raised.value).endswith(f". Nothing was changed; {to_do}")
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
        ({"version": 2}, "of format 2, while this munkey reads format 6"),
        ({"version": "3"}, 'of format "3", while this munkey reads format 6'),
        ({"format": "something else"}, "not the manifest of a model"),
        ({"classes": []}, "classes"),
        ({"classes": ["cat"]}, "weights.safetensors"),
        ({"architecture": "../../x"}, "weights.safetensors"),
        ({"token_dim": 6}, "of another width than its manifest states"),
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
        (
            {"version": 5, "lookup": {"approximate_from": 100_000}},
            "of format 5, while this munkey reads format 6",
        ),
        ({"lookup": {"approximate_from": 100_000}}, "lookup: Extra inputs are not permitted"),
        ({"encoder__settings__batch_size": 10**6}, "too large"),
        ({"encoder__probe": [0.0] * 1280}, "not created with the encoder"),
        ({"encoder__probe": [1.0]}, "of another width than its manifest states"),
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
def test_a_manifest_that_makes_sense_and_is_not_the_one_that_was_written_is_refused(
    changes, directory
):
    manifest_is(directory, changed(directory, **changes))
    refused(directory, "manifest.json: was changed after it was written")


@pytest.mark.parametrize(
    ("image_size", "patch_size", "right"),
    [(384, 16, True), (1024, 4, True), (1028, 4, False)],
    ids=str,
)
def test_a_picture_may_have_2_16_patches(image_size, patch_size, right, directory):
    manifest(directory, data__image_size=image_size, model__patch_size=patch_size)
    if right:
        assert (
            read_manifest(directory).network.image_size,
            read_manifest(directory).model.patch_size,
        ) == (
            image_size,
            patch_size,
        )
    else:
        refused(directory, "too large")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nul",
        "1e999",
        "{" * 100_000,
        '{"format": NaN}',
        "\x00",
        '{"version": 1' + "0" * 9999 + "}",
    ],
)
def test_a_manifest_that_is_no_json_is_refused(text, directory):
    (directory / "manifest.json").write_text(text)
    refused(directory, "manifest.json")


def test_a_file_whose_digest_the_manifest_lacks_is_not_called_damaged(directory):
    read_manifest(directory).model_copy(update={"files": {}}).write(directory)
    with pytest.raises(UnreadableModelError, match=r"manifest\.json: has no SHA-256 of README\.md"):
        read_static_file(directory, read_manifest(directory), "README.md")


def test_what_is_no_export_is_refused(directory, tmp_path):
    for folder in (tmp_path / "nothing", tmp_path):
        with pytest.raises(UnreadableModelError, match="not an exported model"):
            Predictor.load(folder)
    with pytest.raises(UnreadableModelError):
        Predictor.load(directory / "manifest.json")


@pytest.mark.parametrize(
    "name", ["manifest.json", "weights.safetensors", "memory", "memory/store.db"]
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


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors["head.bias"].fill_(torch.nan),
        lambda tensors: tensors.update({"head.bias": tensors["head.bias"].double()}),
        lambda tensors: tensors.update({"head.bias": tensors["head.bias"][:2].clone()}),
        lambda tensors: tensors.pop("head.bias"),
        lambda tensors: tensors.update({"surprise": torch.zeros(1)}),
    ],
    ids=["NaN", "type", "shape", "missing", "more"],
)
def test_weights_that_do_not_fit_are_refused(change, directory):
    weights(directory, change)
    refused(directory, "weights.safetensors")


@pytest.mark.parametrize("changes", [{"memory__store": "0" * 32}, {"token_dim": 6}], ids=str)
def test_a_memory_that_is_refused_is_not_kept_open(changes, directory):
    manifest(directory, **changes)
    with pytest.raises(UnreadableModelError):
        Predictor.load(directory)
    Store.open(directory / "memory").close()


def test_a_label_that_is_no_class_is_found(predictor, images):
    view = predictor._store.view
    predictor._store.add([1000], view.keys[:1].copy(), view.tokens[:1].copy(), [99])
    with pytest.raises(UnreadableModelError, match="labels that are not among its classes"):
        predictor.predict(images.images[:1])  # the nearest row of all
    assert predictor.select(ids=[1000]).classes == {"99": 1} and predictor.rows()[-1].label is None
    assert predictor.forget([1000]).emptied == ()

"""A directory that was damaged or forged: it is refused with an error that says what to do, and not changed."""

import hashlib
import json
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from munkey.deploy.errors import OTHER_VERSION, UnreadableModelError
from munkey.deploy.model.manifest import read_manifest, read_static_file
from munkey.deploy.predictor import Predictor
from munkey.memory import memory_file
from munkey.memory.database import SIDE_FILES
from munkey.memory.memory_file import MEMORY_FORMAT, MemoryFile
from tests.deploy.inputs import contents
from tests.memory.inputs import change_database, create, open_reader

PICTURE = np.zeros((1, 10, 10, 3), np.uint8)


def verify_and_predict(model: Predictor) -> None:
    """Check it, and then answer; a directory that is refused is not changed even then."""
    model.verify()
    model.predict(PICTURE)


def check_refused(directory: Path, *parts: str) -> None:
    """It can be used neither for answers nor for a check, nothing in it changes, and the error has these parts."""
    before = contents(directory)
    for use in (lambda model: model.predict(PICTURE), verify_and_predict):
        with (
            pytest.raises(UnreadableModelError) as raised,
            Predictor.load(directory, device="cpu") as model,
        ):
            use(model)
        to_do = "put an undamaged copy there"
        if "this munkey reads" in str(raised.value):
            is_memory = "memory.db" in str(raised.value)
            to_do = memory_file.OTHER_VERSION if is_memory else OTHER_VERSION
        message = str(raised.value)
        assert message.endswith(f". Nothing was changed; {to_do}")
        assert message.count("Nothing was changed") == 1
        for part in parts:
            assert part in message
    assert contents(directory) == before


def change_manifest(directory: Path, **changes: object) -> None:
    """Change the manifest and seal it again. changes: of its entries, nested ones as `inference__k`."""
    content = read_changed_manifest(directory, **changes)
    del content["sha256"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    write_manifest(directory, content | {"sha256": hashlib.sha256(text.encode()).hexdigest()})


def write_manifest(directory: Path, content: dict[str, object]) -> None:
    (directory / "manifest.json").write_text(json.dumps(content))


def read_changed_manifest(directory: Path, **changes: object) -> dict[str, object]:
    content = json.loads((directory / "manifest.json").read_text())
    for place, value in changes.items():
        *parents, last = place.split("__")
        entry = content
        for parent in parents:
            entry = entry[parent]
        entry[last] = value
    return content


def change_weights(directory: Path, change) -> None:
    """Change the weights, with a manifest that agrees."""
    path = directory / "weights.safetensors"
    tensors = load(path.read_bytes())
    change(tensors)
    path.write_bytes(save(tensors))
    content = json.loads((directory / "manifest.json").read_text())
    sums = content["files"] | {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}
    change_manifest(directory, files=sums)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "of format 2, while this munkey reads format 7"),
        ({"version": "3"}, 'of format "3", while this munkey reads format 7'),
        ({"format": "something else"}, "not the manifest of a model"),
        ({"classes": ["cat"]}, "classes: Extra inputs are not permitted"),
        ({"architecture": "../../x"}, "weights.safetensors"),
        ({"token_dim": 6}, "of another width than its manifest states"),
        ({"model__width": 16}, "weights.safetensors"),
        ({"model__depth": 1000}, "weights.safetensors"),
        ({"model__heads": 3}, "multiple of heads"),
        ({"model__patch_size": 3}, "weights.safetensors"),
        ({"data__image_size": 4096}, "too large"),
        ({"data__image_size": 1028, "model__patch_size": 4}, "too large"),
        ({"data__pixel_std": 0.0}, "pixel_std"),
        ({"inference__k": 0}, "inference.k"),
        ({"inference__k": 10**6}, "too large"),
        ({"inference__k": "4"}, "inference.k"),
        ({"inference__temperature": -1.0}, "temperature"),
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
def test_a_sealed_manifest_with_a_wrong_field_is_refused(changes, message, directory):
    change_manifest(directory, **changes)
    check_refused(directory, message)


@pytest.mark.parametrize(
    "changes",
    [
        {"token_dim": 6},
        {"inference__k": 1},
        {"memory__first_new_id": 0},
        {"sha256": None},
        {"sha256": "0" * 64},
    ],
    ids=str,
)
def test_a_manifest_that_was_changed_without_its_seal_is_refused(changes, directory):
    write_manifest(directory, read_changed_manifest(directory, **changes))
    check_refused(directory, "manifest.json: was changed after it was written")


@pytest.mark.parametrize(("image_size", "patch_size"), [(384, 16), (1024, 4)], ids=str)
def test_a_picture_may_have_2_16_patches(image_size, patch_size, directory):
    change_manifest(directory, data__image_size=image_size, model__patch_size=patch_size)
    manifest = read_manifest(directory)
    assert manifest.make_network(3).image_size == image_size
    assert manifest.model.patch_size == patch_size


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
    check_refused(directory, "manifest.json")


def test_a_file_whose_digest_the_manifest_lacks_is_not_called_damaged(directory):
    read_manifest(directory).model_copy(update={"files": {}}).write(directory)
    with pytest.raises(UnreadableModelError, match=r"no SHA-256 of README\.md"):
        read_static_file(directory, read_manifest(directory), "README.md")


def test_a_folder_that_is_no_export_is_refused(directory, tmp_path):
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
        "memory.db",
    ],
)
def test_links_and_pipes_are_not_followed(name, directory, tmp_path):
    path = directory / name
    shutil.move(path, tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    content = (tmp_path / "moved").read_bytes()
    check_refused(directory)
    assert (tmp_path / "moved").read_bytes() == content
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
    change_weights(directory, change)
    check_refused(directory, "weights.safetensors")


@pytest.mark.parametrize("changes", [{"memory__store": "0" * 32}, {"token_dim": 6}], ids=str)
def test_a_memory_that_is_refused_is_not_kept_open(changes, directory):
    change_manifest(directory, **changes)
    with pytest.raises(UnreadableModelError):
        Predictor.load(directory)
    for link in Path("/proc/self/fd").iterdir():
        assert not os.path.realpath(link).startswith(str(directory))
    MemoryFile.open(directory / "memory.db").close()


def replace_memory(directory: Path, other: Path) -> None:
    """Put another file in place of the memory, without the files beside it."""
    for suffix in ("", *SIDE_FILES):
        (directory / f"memory.db{suffix}").unlink(missing_ok=True)
    shutil.copy(other, directory / "memory.db")


def create_other_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE pets (name TEXT)")
    connection.execute("INSERT INTO pets VALUES ('Rex')")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (create_other_database, "memory.db: not a memory"),
        (lambda path: create(path).close(), "memory.db: is the memory of another model"),
    ],
    ids=["another database", "another memory"],
)
def test_a_file_that_is_not_the_memory_of_the_model_is_refused(make, message, directory, tmp_path):
    make(tmp_path / "other")
    replace_memory(directory, tmp_path / "other")
    check_refused(directory, message)


def test_a_missing_memory_is_refused_and_not_created(directory):
    for suffix in ("", *SIDE_FILES):
        (directory / f"memory.db{suffix}").unlink(missing_ok=True)
    check_refused(directory, "memory.db: not found")
    assert not list(directory.glob("memory.db*"))


@pytest.mark.parametrize("version", [MEMORY_FORMAT - 1, MEMORY_FORMAT + 1])
def test_a_memory_of_another_format_says_the_way_out(version, directory):
    change_database(directory / "memory.db", f"PRAGMA user_version = {version}")
    check_refused(directory, f"of format {version}, while this munkey reads format {MEMORY_FORMAT}")


def test_a_directory_of_format_6_says_the_way_out_and_stays(directory, tmp_path):
    """Its manifest has the classes, and its memory is a folder."""
    for suffix in ("", *SIDE_FILES):
        (directory / f"memory.db{suffix}").unlink(missing_ok=True)
    folder = directory / "memory"
    folder.mkdir()
    for name in ("keys.bin", "store.db", "lock"):
        (folder / name).write_bytes(b"of format 6")
    change_manifest(directory, version=6, classes=["cat", "dog & co", "fish"], memory__rows=36)
    check_refused(directory, "manifest.json: of format 6, while this munkey reads format 7")
    assert {file.name for file in folder.iterdir()} == {"keys.bin", "store.db", "lock"}


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER back AFTER DELETE ON rows BEGIN INSERT INTO rows SELECT * FROM rows; END",
        'UPDATE state SET classes = \'[["x", "y", "z"], null]\'',
        "UPDATE rows SET label = label + 1 WHERE number = (SELECT max(number) FROM rows)",
        "DELETE FROM vectors WHERE number = 1",
    ],
    ids=lambda statement: statement[:50],
)
def test_a_memory_that_was_changed_is_refused(statement, directory):
    """Other changes: tests/memory/test_memory_file.py."""
    change_database(directory / "memory.db", statement)
    check_refused(directory, "memory.db: damaged")


@pytest.mark.parametrize(
    "classes",
    [
        '[["cat"], null]',
        "[[], null]",
        "[]",
        "{}",
        "7",
        "[null, null]",
        "[[[1], [2], [3]], null]",
        '[["a", "b", "c"], 7]',
        '[["a", "b", "c"], "<i8"]',
        '[["a", "b", "c"], "<U99999999999"]',
        '[["a", "b", 7], "<U"]',
        '[[1, 2, 3], "<U"]',
        '[[1, 2, 300], "|u1"]',
        '[[1, 2, 3], "i4,i4"]',
        '[[1, 2, 3], "<M8[s]"]',
        '[[1, 2, 3], "V99999999999"]',
        '[[1, 2, 3], "words"]',
        "[" * 100_000,
    ],
)
def test_malformed_classes_are_refused_even_if_they_are_sealed(classes, directory):
    """Who has the file can compute its seal, which has no secret of its own."""
    with MemoryFile.open(directory / "memory.db") as file, file.change() as change:
        state = change.snapshot.state._replace(classes=classes)
        change._write(change.snapshot._replace(state=state))
    check_refused(directory)


def test_a_log_that_belongs_to_another_memory_is_refused(directory, tmp_path):
    other = shutil.copytree(directory, tmp_path / "other")
    with Predictor.load(other) as model:
        keys = model.keys()[1][:3]
        model._file.delete(model.ids[:5])
        with open_reader(other / "memory.db"):
            tokens = np.zeros((3, 5), np.float32)
            model._file.add(range(1000, 1003), keys, tokens, [0, 1, 2])
            log = (other / "memory.db-wal").read_bytes()
    assert log
    (directory / "memory.db-shm").unlink(missing_ok=True)
    (directory / "memory.db-wal").write_bytes(log)
    check_refused(directory, "memory.db: damaged")


def test_a_label_that_is_no_class_is_called_damage(predictor, images):
    memory = predictor._file.snapshot().memory
    predictor._file.add([1000], memory.keys[:1], memory.tokens[:1], [99])
    with pytest.raises(UnreadableModelError, match="labels"):
        predictor.predict(images.images[:1])  # the nearest row of all
    assert predictor.select(ids=[1000]).classes == {"99": 1}
    assert predictor.rows()[-1].label is None
    assert predictor.forget([1000]).emptied == ()

"""A run of one checkout is published, and checked and trained again in a fresh clone that has only the file."""

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from tests.integration.conftest import Project

LOGITS = "results/default/logits/digits/seed0/rate0.1/cf.npz"
TABLE = "results/default/tables/main.md"
KEYS = "#withheld/results/default/keys/digits/pixels_8px/keys.npz"
IMAGES = "#withheld/results/default/data/digits/images.npy"


@pytest.fixture(scope="module")
def published(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published run of the tiny grid, in an empty folder."""
    folder = tmp_path_factory.mktemp("published")
    finished.run("munkey", "publish", "--folder", str(folder))
    [file] = folder.glob("*.zip")
    return file


@pytest.fixture(scope="module")
def clone(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return finished.clone(tmp_path_factory.mktemp("clone") / "project")


def forge(file: Path, change: Callable[[dict[str, bytes], dict[str, dict]], None]) -> Path:
    """A file with changes whose checksums all agree, as a forger would make it."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(contents.pop("ro-crate-metadata.json"))
    entities = {entity["@id"]: entity for entity in description["@graph"]}
    change(contents, entities)
    for name, content in contents.items():
        entities[name] |= {
            "contentSize": str(len(content)),
            "sha256": sha256(content).hexdigest(),
        }
    contents["ro-crate-metadata.json"] = json.dumps(description).encode()
    forged = file.with_name("forged.zip")
    with zipfile.ZipFile(forged, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return forged


def as_list(references: dict | list[dict]) -> list[dict]:
    """One or several references of JSON-LD, as a list."""
    return [references] if isinstance(references, dict) else references


@pytest.mark.slow
def test_every_table_and_figure_can_be_computed_again_from_the_file_alone(
    published: Path, clone: Project
) -> None:
    done = clone.run("munkey", "check-run", str(published))
    [count] = re.findall(r"^(\d+) of \1 computed results are equal", done.stdout, re.MULTILINE)
    assert int(count) >= 10
    assert "other code" not in done.stdout
    assert not (clone.path / "results").exists()


@pytest.mark.slow
def test_logits_that_do_not_give_the_tables_are_found(published: Path, clone: Project) -> None:
    def flip(contents, _):
        with np.load(io.BytesIO(contents[LOGITS])) as archive:
            arrays = dict(archive)
        arrays["logits"] = -arrays["logits"]
        target = io.BytesIO()
        np.savez(target, **arrays)
        contents[LOGITS] = target.getvalue()

    done = clone.run("munkey", "check-run", str(forge(published, flip)), check=False)
    assert done.returncode == 1
    assert "DIFFERENT results/default/metrics/digits.csv: line" in done.stdout
    assert "DIFFERENT results/default/tables/main.md: line" in done.stdout


@pytest.mark.slow
def test_a_forged_table_is_found_although_its_job_is_said_to_read_keys(
    published: Path, clone: Project
) -> None:
    def hide(contents, entities):
        contents[TABLE] = contents[TABLE].replace(b"MUNKEY", b"MONKEY")
        for entity in entities.values():
            if {"@id": TABLE} in as_list(entity.get("result", [])):
                entity["object"] = [{"@id": KEYS}]

    done = clone.run("munkey", "check-run", str(forge(published, hide)), check=False)
    assert done.returncode == 1
    assert f"DIFFERENT {TABLE}: line" in done.stdout


@pytest.mark.ci
def test_a_seed_that_is_trained_again_gives_the_same_numbers(
    published: Path, clone: Project
) -> None:
    done = clone.run("munkey", "rerun", str(published), "--draw", "1")
    assert "seeds [0] of [0], drawn" in done.stdout
    rows = [line.split()[-3:] for line in done.stdout.splitlines() if line.startswith("logits ")]
    assert rows == [["9", "0", "0"]]
    assert "What differs from the publisher's machine:\nnothing" in done.stdout


@pytest.mark.ci
def test_nothing_is_trained_on_other_data(published: Path, clone: Project, tmp_path: Path) -> None:
    def claim_other_pictures(_, entities):
        entities[IMAGES]["sha256"] = "0" * 64

    forged = forge(published, claim_other_pictures)
    folder = tmp_path / "rerun"
    done = clone.run(
        "munkey", "rerun", str(forged), "--seed", "0", "--folder", str(folder), check=False
    )
    assert done.returncode == 1
    assert "nothing was trained: results/default/data/digits/images.npy" in done.stderr
    assert not (folder / "results/default/models").exists()


def test_results_that_are_out_of_date_are_not_published(project: Project) -> None:
    shutil.rmtree(project.path / "results/default/tables")
    done = project.run("munkey", "publish", check=False)
    assert done.returncode == 2
    assert "results are missing or out of date" in done.stderr
    assert "make publish" in done.stderr

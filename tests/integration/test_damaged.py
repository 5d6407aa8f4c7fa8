"""Files of a finished grid are damaged: the job that reads one names it and a command, which brings back its bytes."""

import os
import re
import shlex
from pathlib import Path

import pytest

from tests.integration.conftest import Project

MODELS = "results/default/models/digits/seed0"
# A file, and one that is made from it. Later files are damaged first: a file made anew has what is made from it made
# anew too, before anything could read the damage there.
READ_BY = [
    ("results/default/data/digits/images.npy", "results/default/forget/digits/seed0/rate0.1.csv"),
    ("results/default/data/digits/samples.csv", "results/default/forget/digits/seed0/rate0.1.csv"),
    ("results/default/data/digits/classes.json", "results/default/forget/digits/seed0/rate0.1.csv"),
    (
        "results/default/forget/digits/seed0/rate0.1.csv",
        f"{MODELS}/rate0.1/munkey/system.safetensors",
    ),
    (
        "results/default/keys/digits/efficientnet-lite0_32px/keys.npz",
        f"{MODELS}/full/original-m/system.safetensors",
    ),
    (
        f"{MODELS}/full/original-t/system.safetensors",
        "results/default/logits/digits/seed0/full/original-t.npz",
    ),
    ("results/default/logits/digits/seed0/rate0.1/cf.npz", "results/default/metrics/digits.csv"),
    (f"{MODELS}/rate0.1/cf/record.json", "results/default/metrics/digits.csv"),
    ("results/default/metrics/digits.csv", "results/default/tables/main.csv"),
    ("results/default/tables/main.csv", "results/default/figures/forgetting.svg"),
]
WITHOUT_TIMES = ("*.npy", "*.npz", "*.safetensors", "samples.csv", "classes.json", "rate*.csv")


def damage(path: Path) -> None:
    """Flip a bit in the middle and leave size and times as they were, as a bad disk does."""
    stamp = path.stat()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def contents(project: Project) -> dict[str, bytes]:
    """The bytes of the results that hold no times."""
    files = {}
    for pattern in WITHOUT_TIMES:
        for path in (project.path / "results").rglob(pattern):
            files[str(path.relative_to(project.path))] = path.read_bytes()
    return files


def find_command(message: str, damaged: str) -> list[str]:
    """The command that the message for a damaged file names."""
    pattern = rf"{re.escape(damaged)}: damaged.* Recreate it with `(.*?)`"
    [command] = set(re.findall(pattern, message))
    assert "elete" not in message
    return shlex.split(command)


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [READ_BY[8:9], pytest.param(READ_BY, marks=pytest.mark.soak(long=True))],
    ids=["one", "all"],
)
def test_a_damaged_file_is_reported_with_the_command_that_makes_it_anew(
    project: Project, files: list[tuple[str, str]]
) -> None:
    before = contents(project)
    for damaged, target in reversed(files):
        damage(project.path / damaged)
        (project.path / target).unlink(missing_ok=True)
        failed = project.make(target, check=False)
        assert failed.returncode != 0, f"{target} was made from a damaged {damaged}"
        project.run(*find_command(failed.stderr, damaged), MUNKEY_FORK_SERVER="0")
    table = "results/default/tables/main.md"
    project.make(table)
    assert contents(project) == before
    assert project.planned("--", table) == {}


@pytest.mark.soak(long=True)
def test_the_command_for_a_damaged_file_has_the_overlay_of_the_run(project: Project) -> None:
    (project.path / "own settings.yaml").write_text("inference: {k: 3}\n")
    overlay = ("--configfile", "own settings.yaml")
    logits = "results/own-settings/logits/digits/seed0/full/original-m.npz"
    project.snakemake(*overlay)
    before = (project.path / logits).read_bytes()
    damage(project.path / logits)
    metrics = "results/own-settings/metrics/digits.csv"
    failed = project.snakemake("--force", *overlay, "--", metrics, check=False)
    project.run(*find_command(failed.stderr, logits))
    assert (project.path / logits).read_bytes() == before
    project.snakemake(*overlay)
    assert project.planned(*overlay) == {}

"""Folders in which the workflow runs with the parameters and results of a published run."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from munkey.core.files import checksum_path, write_text
from munkey.experiment.params.load import read_file
from munkey.experiment.publish.contents import find_kind, is_result
from munkey.experiment.publish.crate import CODE, FACTS, PARAMS
from munkey.experiment.publish.published_run import NotAPublishedRunError, PublishedRun
from munkey.experiment.publish.workflow import SNAKEFILE

PUBLISHED_TIME = 946684800  # 2000-01-01: what has it afterwards was not computed again
EVALUATED = "__use_yte__"  # with this key, Snakemake would run Python code in the parameters
# What a checkout has of its own. Everything else, such as data and code, a training may read.
OWN = (".git", ".snakemake", "results", "logs", "params.yaml", "mlflow.db", "mlruns", "mlartifacts")


def make_workspace(run: PublishedRun, folder: Path, links: Sequence[str]) -> None:
    """Make a folder in which the workflow runs with the published parameters.

    Parameters
    ----------
    links
        The entries of this project's folder that it has, too.
    """
    if not SNAKEFILE.exists():
        raise FileNotFoundError(
            f"there is no {SNAKEFILE} in {Path.cwd()}: run this command in the project's folder"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / PARAMS).exists() and (folder / FACTS).read_bytes() != run.read(FACTS):
        raise FileExistsError(f"{folder}: has another run; choose an empty folder")
    for link in links:
        path = folder / link
        if not (path.is_symlink() or path.is_dir()):  # of an earlier attempt
            path.symlink_to(Path(link).absolute())
    run.unpack([PARAMS, FACTS], folder)
    config = read_file(folder / PARAMS)
    if EVALUATED in config:
        raise NotAPublishedRunError(f"{run.path}: refused, since its {PARAMS} contains {EVALUATED}")
    _check_name(run, config)
    write_text(folder / PARAMS, yaml.safe_dump(config, sort_keys=False))


def _check_name(run: PublishedRun, config: Mapping[str, Any]) -> None:
    """Check that the parameters name the folder of the results."""
    folders = {path.split("/")[1] for path in run.files if is_result(path)}
    for folder in sorted({*folders, run.facts.name}):
        if folder != config.get("name"):
            raise NotAPublishedRunError(
                f"{run.path}: refused, since its {PARAMS} has the name {config.get('name')!r}, but its"
                f" results are in results/{folder}"
            )


def make_workspace_without_data(run: PublishedRun, folder: Path) -> None:
    """Make a folder in which jobs run that read no data."""
    make_workspace(run, folder, CODE)
    run.unpack(run.facts.find_own_files(), folder)
    for source, kind in run.facts.sources.items():
        # Parameters that name missing files are refused. No job opens these.
        path = folder / source
        if PurePosixPath(source).parts[0] in CODE:  # a link into this checkout
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "folder":
            path.mkdir(exist_ok=True)
        else:
            path.touch()


def make_workspace_with_data(run: PublishedRun, folder: Path) -> None:
    """Make a folder in which jobs run that read this project's data, and the published lists."""
    links = [entry.name for entry in Path().iterdir() if entry.name not in OWN]
    make_workspace(run, folder, links)
    own_files = []
    for name in run.facts.find_own_files():
        if not checksum_path(folder / name).exists():  # not of an earlier attempt
            own_files.append(name)
    for name in own_files:
        _replace_links(folder, PurePosixPath(name))
    run.unpack(own_files, folder)


def _replace_links(folder: Path, name: PurePosixPath) -> None:
    """Make folders of the links on the way to a file, so that nothing is written through them."""
    path = folder
    for part in name.parts[:-1]:
        path = path / part
        if path.is_symlink():
            target = path.resolve()
            path.unlink()
            path.mkdir()
            for entry in target.iterdir():
                (path / entry.name).symlink_to(entry)
    (folder / name).unlink(missing_ok=True)


def unpack_results(run: PublishedRun, folder: Path) -> None:
    """Unpack the results that repeatable jobs may read and that a folder does not have, with an old time."""
    names = []
    for name, facts in run.files.items():
        is_read = is_result(name) and not find_kind(name) and not facts.withheld
        if is_read and not (folder / name).exists():
            names.append(name)
    run.unpack(names, folder)
    for name in names:
        os.utime(folder / name, (PUBLISHED_TIME, PUBLISHED_TIME))


def is_computed(path: Path) -> bool:
    """Return whether a file was computed, rather than unpacked."""
    return path.exists() and path.stat().st_mtime != PUBLISHED_TIME

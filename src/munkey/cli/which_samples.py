"""Which samples a command means: ids on the command line or in a file, or the files that the samples came from."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import given_text
from munkey.deploy.errors import UnknownFilesError
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.errors import UnknownIdsError
from munkey.deploy.store.rows import checked_ids

ID = re.compile(r"[0-9]{1,19}")  # up to 2^63 - 1


class Choice(NamedTuple):
    """ids: what is meant and held, ascending, (N,) int64; missing: ids and files that are not held."""

    ids: np.ndarray
    missing: list[str]


def numbers(text: str, where: str) -> list[int]:
    """Ids separated by commas or white space. Raises ValueError for anything else."""
    words = re.split(r"[\s,]+", text.strip(" ,\n\t\r"))
    for word in words:
        if not ID.fullmatch(word):
            raise ValueError(f"{where}: {word[:40]!r} is not an id; ids are whole numbers from 0, e.g. 1,2,3")
    return [int(word) for word in words]


def wanted_ids(ids: str | None, ids_file: Path | None) -> list[int]:
    """The ids of `--ids` and `--ids-file`; `-` is standard input."""
    wanted = [] if ids is None else numbers(ids, "--ids")
    if ids_file is not None:
        wanted += numbers(given_text(ids_file), str(ids_file))
    return wanted


def choose(predictor: Predictor, wanted: Sequence[int], files: Sequence[Path], ignore_missing: bool) -> Choice:
    """The samples that are meant. Raises UnknownIdsError or UnknownFilesError that lists all that are not held."""
    held = predictor.ids
    ids = np.unique(checked_ids(list(wanted)))
    unknown_ids = np.setdiff1d(ids, held).tolist()
    unknown_files = [file for file in files if not _known(predictor, file)]
    if unknown_ids and not ignore_missing:
        raise UnknownIdsError(unknown_ids)
    if unknown_files and not ignore_missing:
        raise UnknownFilesError([str(file) for file in unknown_files])
    known_files = [file for file in files if file not in unknown_files]
    chosen = np.union1d(np.intersect1d(ids, held), predictor.ids_of_files(known_files))
    return Choice(chosen, [*map(str, unknown_ids), *map(str, unknown_files)])


def _known(predictor: Predictor, file: Path) -> bool:
    try:
        predictor.ids_of_files([file])
    except UnknownFilesError:
        return False
    return True

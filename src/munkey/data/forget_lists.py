"""Forget sets by list: files of sample ids or of file names, as other benchmarks publish theirs."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

SEED = "{seed}"  # in the path of a list: a list for each seed
COLUMNS = ("id", "file")  # of a CSV file: ids, or names of files
SHOWN = 3  # entries that a message names
MOST_APART = 0.005  # by which the share of a list may differ from the rate that tables name


def path_of(file: str, seed: int) -> Path:
    """The list of a seed."""
    return Path(file.replace(SEED, str(seed)))


def read_list(path: Path) -> list[int] | list[str]:
    """The ids or the file names in a list: numbers in an .npy file, a column of a CSV file, or one a line.

    Raises ValueError that says what is wrong with the file.
    """
    if path.suffix == ".npy":
        entries = _read_npy(path)
    elif path.suffix == ".csv":
        entries = _read_column(path)
    else:
        entries = [line.strip() for line in _read_text(path).splitlines() if line.strip()]
    if not entries:
        raise ValueError(f"{path}: lists nothing")
    repeated = sorted(entry for entry, count in _counts(entries).items() if count > 1)
    if repeated:
        raise ValueError(f"{path}: lists {len(repeated)} entries twice, e.g. {repeated[0]}; list each once")
    if all(entry.isdecimal() for entry in entries):
        return [int(entry) for entry in entries]
    return entries


def ids_of(listed: list[int] | list[str], samples: Iterable[Mapping[str, str]], path: Path) -> np.ndarray:
    """Sorted ids of the listed samples, all of which must be in training.

    samples: lines of samples.csv: id, split and, for picture files, name. A listed file may leave out the first folders
    of its path, as long as one sample alone ends in what is left. Raises ValueError that names what does not fit.
    """
    lines = list(samples)
    splits = {int(line["id"]): line["split"] for line in lines}
    if isinstance(listed[0], int):
        ids = [entry for entry in listed if isinstance(entry, int)]
        _require_none(path, "ids that no sample has", [entry for entry in ids if entry not in splits])
    else:
        ids = _ids_of_files([str(entry) for entry in listed], lines, path)
    elsewhere = [entry for entry, each in zip(listed, ids, strict=True) if splits[each] != "train"]
    _require_none(path, "samples that are not in training, so that no model learns them", elsewhere)
    return np.sort(np.array(ids, dtype=np.int64))


def require_share(path: Path, count: int, training: int, rate: float) -> None:
    """Raise ValueError where a list holds another share of the training set than the rate that tables name."""
    share = count / training
    if abs(share - rate) > MOST_APART:
        raise ValueError(
            f"{path}: lists {count:,} of {training:,} training samples, but forget.rates = [{rate:g}], under which"
            f" tables show it; write forget.rates: [{share:.4g}]"
        )


def _ids_of_files(files: list[str], samples: list[Mapping[str, str]], path: Path) -> list[int]:
    if "name" not in samples[0]:
        raise ValueError(f"{path}: lists names of files, but the samples of this data set are no files; list ids")
    by_end: dict[str, list[int]] = {}
    for line in samples:
        parts = Path(line["name"]).parts
        for start in range(len(parts)):
            by_end.setdefault("/".join(parts[start:]), []).append(int(line["id"]))
    matches = {file: by_end.get("/".join(Path(file).parts), []) for file in files}
    _require_none(path, "files that no sample is", [file for file, ids in matches.items() if not ids])
    several = [file for file, ids in matches.items() if len(ids) > 1]
    _require_none(path, "names that several files have (write more of the path)", several)
    return [ids[0] for ids in matches.values()]


def _require_none(path: Path, what: str, entries: Sequence[object]) -> None:
    if entries:
        examples = ", ".join(map(repr, entries[:SHOWN]))
        raise ValueError(f"{path}: lists {len(entries):,} {what}, e.g. {examples}; correct the list")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is no text in UTF-8; save it as such, or as .npy") from None


def _read_column(path: Path) -> list[str]:
    lines = list(csv.DictReader(_read_text(path).splitlines()))
    column = next((name for name in COLUMNS if lines and name in lines[0]), None)
    if column is None:
        raise ValueError(f"{path}: has no column `id` or `file`; name one so")
    return [(line[column] or "").strip() for line in lines]


def _read_npy(path: Path) -> list[str]:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError:
        raise ValueError(f"{path}: is no array of numbers or names") from None
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(f"{path}: must hold one row of whole numbers or names")
    return [str(entry) for entry in array.tolist()]


def _counts(entries: list[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry] = counts.get(entry, 0) + 1
    return counts

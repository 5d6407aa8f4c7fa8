"""Draws of forget sets (sec. 4), once per data set, seed and rate, and forget sets from lists.

Reading them is another module, `forget_sets`, so that a change here redraws forget sets but does
not, say, extract keys again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import read_user_text
from munkey.core.ids import NOBODY, rows_of
from munkey.core.randomness import Stage
from munkey.core.registry import did_you_mean
from munkey.data.intake.csv_tables import parse_table
from munkey.data.prepared import Dataset
from munkey.data.splits import apportion
from munkey.settings import ForgetSettings

LEAST_GROUPS = 4  # so that pairs can cut a pool of them in three ways
SEED = "{seed}"  # in the path of a list: a list for each seed
COLUMNS = ("id", "file")  # of a CSV file: ids, or names of files
SHOWN = 3  # entries that a message names
MOST_APART = 0.005  # between the share of a list and the rate that tables name
KNOBS = "forget.rates (of an audit's pool, audit.pool)"


def draw(
    ids: np.ndarray, labels: np.ndarray, rate: float, sampling: str, generator: np.random.Generator
) -> np.ndarray:
    """Draw round(rate * N) samples to forget. Returns their sorted ids.

    Raises ValueError if the forget set would be empty, a whole class, or the whole set.

    Parameters
    ----------
    ids, labels
        (N,).
    sampling
        `uniform`, or `stratified` by class (proportional, largest remainder; ties go to the
        lower class).
    """
    count = round(rate * len(ids))
    if not 0 < count < len(ids):
        raise ValueError(
            f"{rate} of {len(ids)} training samples is {count}: change {KNOBS} or add data"
        )
    if sampling == "uniform":
        forget_ids = generator.choice(ids, size=count, replace=False)
    else:
        classes, sizes = np.unique(labels, return_counts=True)
        ids_by_class = []
        for label, share in zip(classes, apportion(sizes, count), strict=True):
            ids_of_class = ids[labels == label]
            ids_by_class.append(generator.choice(ids_of_class, size=share, replace=False))
        forget_ids = np.concatenate(ids_by_class)
    emptied_classes = set(labels.tolist()) - set(labels[~np.isin(ids, forget_ids)].tolist())
    if emptied_classes:
        raise ValueError(
            f"{rate} of the samples leaves none of class {sorted(emptied_classes)} to retain: lower {KNOBS}"
        )
    return np.sort(forget_ids)


class Groups(NamedTuple):
    """Samples and their groups.

    Attributes
    ----------
    ids
        (N,) ascending.
    names
        (N,) of the groups, '' if none.
    """

    ids: np.ndarray
    names: np.ndarray


def group_samples(dataset: Dataset, sampling: str, split: str = "train") -> Groups:
    """Group the samples of a split by class or unit.

    Raises ValueError if the data set has no units.
    """
    ids = dataset.ids_of(split)
    rows = dataset.rows(ids)
    if sampling == "class":
        return Groups(ids, np.array(dataset.classes, dtype=object)[dataset.labels[rows]])
    if dataset.units is None:
        raise ValueError(
            "forget.sampling = unit: this data set has no units; a CSV file may have a column `unit`, folders a pattern"
            " in source.units, an NPZ file the array train_units (docs/data.md)"
        )
    return Groups(ids, np.array([dataset.units[row] or "" for row in rows], dtype=object))


def clusters(ids: np.ndarray, keys: np.ndarray, size: int, stage: Stage) -> Groups:
    """Group samples by k-means on their keys (N, d), with about `size` samples in a cluster."""
    from sklearn.cluster import MiniBatchKMeans

    count = max(len(ids) // size, 2)
    seed = int(stage.numpy_generator().integers(2**31))
    k_means = MiniBatchKMeans(count, batch_size=4096, n_init=3, random_state=seed)
    return Groups(ids, np.array([f"{label}" for label in k_means.fit_predict(keys)], dtype=object))


def check_group_names(groups: Groups, names: Sequence[str]) -> list[str]:
    """Check that groups of these names exist. Returns the names of all groups, sorted.

    Raises ValueError for an unknown name; the message lists the known ones.
    """
    group_names = sorted(set(groups.names) - {""})
    for name in names:
        if name in group_names:
            continue
        examples = ", ".join(map(repr, group_names[:20]))
        if len(group_names) > 20:
            examples += f" and {len(group_names) - 20} more"
        raise ValueError(
            f"forget.names: no sample is of {name!r}{did_you_mean(name, group_names)} There are {examples}"
        )
    return group_names


def draw_groups(
    groups: Groups,
    labels: np.ndarray,
    rate: float,
    names: Sequence[str] | None,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draw whole groups to forget: the named ones, or random ones of about rate * N samples.

    Returns sorted ids.

    Named groups and drawn classes may leave a class empty. Raises ValueError for an unknown name,
    and if nothing or everything would be forgotten.

    Parameters
    ----------
    labels
        (N,) of the same samples.
    """
    group_names = check_group_names(groups, names or ())
    forget_names = list(names or ())
    if not names:
        forget_names = _random_groups(groups, group_names, rate * len(groups.ids), generator)
    is_forgotten = np.isin(groups.names, forget_names)
    if not is_forgotten.any() or len(set(labels[~is_forgotten].tolist())) < 2:
        raise ValueError(
            f"{KNOBS} or forget.names: forgetting {is_forgotten.sum()} of {len(groups.ids)} samples,"
            f" {len(forget_names)} of {len(group_names)} groups, leaves fewer than two classes, or"
            " forgets none; some must stay"
        )
    return np.asarray(groups.ids[is_forgotten])


def _random_groups(
    groups: Groups, group_names: Sequence[str], target: float, generator: np.random.Generator
) -> list[str]:
    """Draw groups at random.

    Each is taken if it brings the number of samples closer to the target.
    """
    names: list[str] = []
    count = 0
    for name in generator.permutation(np.array(group_names, dtype=object)):
        size = int((groups.names == name).sum())
        if count == 0 or abs(count + size - target) < abs(count - target):
            names.append(name)
            count += size
    return names


def lowest_ids(groups: Groups, ids: np.ndarray) -> np.ndarray:
    """Return the lowest id of each group, sorted.

    Parameters
    ----------
    ids
        Samples that form whole groups.
    """
    is_given = np.isin(groups.ids, ids)
    _, first_positions = np.unique(groups.names[is_given].astype(str), return_index=True)
    return np.sort(groups.ids[is_given][first_positions])


def draw_share(
    groups: Groups, names: Sequence[str], share: float, generator: np.random.Generator
) -> np.ndarray:
    """Draw a share of the samples of these groups. Returns their sorted ids.

    Raises ValueError if the share is less than one sample, or for an unknown group.
    """
    check_group_names(groups, names)
    candidate_ids = groups.ids[np.isin(groups.names, list(names))]
    count = round(share * len(candidate_ids))
    if count == 0:
        raise ValueError(
            f"forget.rates: {share} of {len(candidate_ids)} samples of {', '.join(names)} is none"
        )
    return np.sort(generator.choice(candidate_ids, size=count, replace=False))


class Members(NamedTuple):
    """The training samples.

    Attributes
    ----------
    ids
        (N,) ascending.
    labels
        (N,).
    """

    ids: np.ndarray
    labels: np.ndarray


def vote_shares(members: Members, neighbors: np.ndarray) -> np.ndarray:
    """Return the share of each sample's neighbors that have its label: (N,); 0 for one without neighbors.

    Parameters
    ----------
    neighbors
        (N, K) ids of other training samples, or NOBODY.
    """
    is_neighbor = neighbors != NOBODY
    neighbor_labels = np.full(neighbors.shape, -1)
    neighbor_rows = rows_of(members.ids, neighbors[is_neighbor])
    neighbor_labels[is_neighbor] = members.labels[neighbor_rows]
    agreements = (neighbor_labels == members.labels[:, None]).sum(axis=1)
    return np.asarray(agreements / is_neighbor.sum(axis=1).clip(min=1))


def draw_by_difficulty(
    ids: np.ndarray, votes: np.ndarray, rate: float, sampling: str, generator: np.random.Generator
) -> np.ndarray:
    """Select the round(rate * N) hardest, easiest, or medium samples. Returns their sorted ids.

    Raises ValueError as `draw`.

    Parameters
    ----------
    sampling
        `hard`, `easy`, or `medium`, those around the median.
    votes
        (N,), the share of a sample's neighbors that have its class; ties are broken at random.
    """
    count = round(rate * len(ids))
    if not 0 < count < len(ids):
        raise ValueError(
            f"{rate} of {len(ids)} training samples is {count}: change {KNOBS} or add data"
        )
    order = ids[np.lexsort((generator.random(len(votes)), votes))]
    start = {"hard": 0, "medium": (len(ids) - count) // 2, "easy": len(ids) - count}[sampling]
    return np.sort(order[start : start + count])


def halves(
    ids: np.ndarray, labels: np.ndarray, share: float, pool: Stage, pair: Stage
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a pool, a share of the training samples stratified by class, and divide it in halves.

    The halves are random, sorted, and equal in size. The pool is the same for every pair.

    Raises ValueError as `draw`.

    Parameters
    ----------
    ids, labels
        (N,) of the training samples.
    pool, pair
        The random sources of pool and halves.
    """
    pool_ids = draw(ids, labels, share, "stratified", pool.numpy_generator())
    first, second = np.split(pair.numpy_generator().permutation(drop_odd_one(pool_ids, pool)), 2)
    return np.sort(first), np.sort(second)


def group_halves(
    groups: Groups, labels: np.ndarray, share: float, pool: Stage, pair: Stage
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a pool of whole groups, about `share` of the samples, and divide it in halves.

    The pool is the same for every pair.

    Half of the groups, by number and at random, are in each half; its ids are sorted. Raises
    ValueError as `draw_groups`, and for fewer than four groups.

    Parameters
    ----------
    labels
        (N,).
    """
    pool_ids = draw_groups(groups, labels, share, None, pool.numpy_generator())
    pool_groups = np.array(sorted(set(groups.names[np.isin(groups.ids, pool_ids)])), dtype=object)
    if len(pool_groups) < LEAST_GROUPS:
        group_count = len(set(groups.names) - {""})
        raise ValueError(
            f"audit.pool = {share}: {len(pool_groups)} of {group_count} groups in training;"
            f" an audit needs {LEAST_GROUPS}: raise it"
        )
    first, second = np.array_split(pair.numpy_generator().permutation(pool_groups), 2)
    return groups.ids[np.isin(groups.names, first)], groups.ids[np.isin(groups.names, second)]


def drop_odd_one(ids: np.ndarray, pool: Stage) -> np.ndarray:
    """Drop a random id of a pool of odd size, so that all pairs divide the same samples."""
    if len(ids) % 2:
        return np.delete(ids, (pool / "odd").numpy_generator().integers(len(ids)))
    return ids


def list_file(settings: ForgetSettings) -> str | None:
    """Return the file that lists the forget set; None if `sampling` does not read it."""
    return settings.file if settings.sampling == "listed" else None


def list_path(file: str, seed: int) -> Path:
    """Return the path of the list of a seed."""
    return Path(file.replace(SEED, str(seed)))


def read_list(path: Path) -> list[int] | list[str]:
    """Read a list of ids or file names: an .npy array, a column of a CSV file, or one a line.

    Raises ValueError if the file cannot be read, is empty, or repeats an entry.
    """
    if path.suffix == ".npy":
        entries = _read_npy(path)
    elif path.suffix == ".csv":
        entries = _read_column(path)
    else:
        entries = [line.strip() for line in _read_text(path).splitlines() if line.strip()]
    if not entries:
        raise ValueError(f"{path}: lists nothing")
    duplicates = sorted(entry for entry, count in Counter(entries).items() if count > 1)
    if duplicates:
        raise ValueError(
            f"{path}: lists {len(duplicates)} entries twice, e.g. {duplicates[0]}; list each once"
        )
    if all(entry.isdecimal() for entry in entries):
        return [int(entry) for entry in entries]
    return entries


def find_listed_ids(
    entries: list[int] | list[str], samples: Iterable[Mapping[str, str]], path: Path
) -> np.ndarray:
    """Find the samples that a list names, all of which must be in training. Returns sorted ids.

    An entry may omit the first folders of a path if only one file ends in the rest. Raises
    ValueError that names the unknown and ambiguous entries.

    Parameters
    ----------
    entries
        As `read_list` returns them.
    samples
        Lines of samples.csv: id, split and, for picture files, name.
    """
    lines = list(samples)
    splits = {int(line["id"]): line["split"] for line in lines}
    if isinstance(entries[0], int):
        ids = [int(entry) for entry in entries]
        _require_none(
            path, "ids that no sample has", [entry for entry in ids if entry not in splits]
        )
    else:
        ids = _find_ids_of_files([str(entry) for entry in entries], lines, path)
    not_in_training = []
    for entry, sample_id in zip(entries, ids, strict=True):
        if splits[sample_id] != "train":
            not_in_training.append(entry)
    _require_none(
        path, "samples that are not in training, so that no model learns them", not_in_training
    )
    return np.sort(np.array(ids, dtype=np.int64))


def require_listed_share(path: Path, count: int, train_count: int, rate: float) -> None:
    """Raise ValueError if the list's share of the training set is not the rate that tables name."""
    share = count / train_count
    if abs(share - rate) > MOST_APART:
        raise ValueError(
            f"{path}: lists {count:,} of {train_count:,} training samples, but forget.rates = [{rate:g}], under which"
            f" tables show it; write forget.rates: [{share:.4g}]"
        )


def _find_ids_of_files(files: list[str], samples: list[Mapping[str, str]], path: Path) -> list[int]:
    if "name" not in samples[0]:
        raise ValueError(
            f"{path}: lists names of files, but the samples of this data set are no files; list ids"
        )
    by_end: dict[str, list[int]] = {}
    for line in samples:
        parts = Path(line["name"]).parts
        for start in range(len(parts)):
            by_end.setdefault("/".join(parts[start:]), []).append(int(line["id"]))
    unknown = []
    ambiguous = []
    first_ids = {}
    for file in files:
        ids = by_end.get("/".join(Path(file).parts), [])
        if not ids:
            unknown.append(file)
            continue
        if len(ids) > 1:
            ambiguous.append(file)
        first_ids[file] = ids[0]
    _require_none(path, "files that no sample is", unknown)
    _require_none(path, "names that several files have (write more of the path)", ambiguous)
    return list(first_ids.values())


def _require_none(path: Path, what: str, entries: Sequence[object]) -> None:
    if entries:
        examples = ", ".join(map(repr, entries[:SHOWN]))
        raise ValueError(
            f"{path}: lists {len(entries):,} {what}, e.g. {examples}; correct the list"
        )


def _read_text(path: Path) -> str:
    try:
        return read_user_text(path)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def _read_column(path: Path) -> list[str]:
    table = parse_table(path, _read_text(path))
    for name in COLUMNS:
        if name in table.names:
            position = table.names.index(name)
            return [cells[position] for _, cells in table.lines]
    raise ValueError(f"{path}: has no column `id` or `file`; name one so")


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

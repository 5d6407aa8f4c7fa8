"""Draw forget sets (sec. 4), once per data set, seed and rate, or take them from lists.

`forget_sets` reads them, so that a change here does not, for example, extract keys again.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import read_user_text
from munkey.core.ids import NO_NEIGHBOR, find_rows
from munkey.core.randomness import Stage
from munkey.data.intake.csv_tables import parse_table
from munkey.data.intake.unit_names import (
    find_class,
    find_unit,
    normalize_path,
    parse_id,
    suggest_names,
)
from munkey.data.prepared import Dataset
from munkey.data.splits import apportion
from munkey.settings import ForgetSettings

CLUSTER_SIZE = 20  # approximate number of samples in a cluster
MIN_GROUPS = 4  # in a pool; four groups can be split into halves in three ways
SEED = "{seed}"  # placeholder in the path of a list, if each seed has its own list
COLUMNS = ("id", "file")  # columns of a CSV file: ids or file names
MAX_LISTED = 3  # entries listed in a message
# What files with these endings are, which are no lists.
OTHER_LISTS = {
    ".json": "JSON",
    ".npz": "an archive of arrays",
    ".pkl": "a pickle",
    ".pt": "a file of PyTorch",
    ".pth": "a file of PyTorch",
}
MAX_NAMES_LISTED = 20  # names of groups listed in a message
MAX_RATE_DIFFERENCE = 0.005  # between a list's share and the rate in tables
RATE_SETTING = "forget.rates (for an audit's pool, audit.pool)"


def draw(
    ids: np.ndarray, labels: np.ndarray, rate: float, sampling: str, generator: np.random.Generator
) -> np.ndarray:
    """Draw round(rate * N) samples to forget, uniformly or stratified by class. Returns sorted ids.

    Strata are proportional by largest remainder; ties go to the lower class index. Raises
    ValueError if the forget set would be empty or contain a whole class.
    """
    count = _count_to_forget(len(ids), rate)
    if sampling == "uniform":
        forget_ids = generator.choice(ids, size=count, replace=False)
    else:
        classes, sizes = np.unique(labels, return_counts=True)
        ids_by_class = []
        for label, share in zip(classes, apportion(sizes, count), strict=True):
            ids_of_class = ids[labels == label]
            ids_by_class.append(generator.choice(ids_of_class, size=share, replace=False))
        forget_ids = np.concatenate(ids_by_class)
    retained_labels = labels[~np.isin(ids, forget_ids)]
    emptied_classes = np.setdiff1d(labels, retained_labels)
    if len(emptied_classes):
        raise ValueError(
            f"{rate} of the samples leaves none of class {emptied_classes.tolist()} to retain: lower {RATE_SETTING}"
        )
    return np.sort(forget_ids)


def _count_to_forget(train_count: int, rate: float) -> int:
    """Return round(rate * train_count). Raises ValueError if that is none or all of the samples."""
    count = round(rate * train_count)
    if not 0 < count < train_count:
        raise ValueError(
            f"{rate} of {train_count} training samples is {count}: change {RATE_SETTING} or add data"
        )
    return count


class Groups(NamedTuple):
    """Sample ids (N,), ascending, and the name of each sample's group (N,), '' for none."""

    ids: np.ndarray
    names: np.ndarray
    are_classes: bool = False

    def list_names(self) -> list[str]:
        """Return the names of all groups, sorted."""
        return sorted(set(self.names) - {""})


def group_samples(dataset: Dataset, sampling: str, split: str = "train") -> Groups:
    """Group the samples of a split by class if `sampling` is `class`, and by unit otherwise.

    Raises ValueError if the data set has no units.
    """
    ids = dataset.get_ids(split)
    rows = dataset.rows(ids)
    if sampling == "class":
        class_names = np.array(dataset.classes, dtype=object)
        return Groups(ids, class_names[dataset.labels[rows]], are_classes=True)
    if dataset.units is None:
        raise ValueError(
            "forget.sampling = unit: this data set has no units; a CSV file may have a column `unit`, folders a pattern"
            " in source.units, an NPZ file the array train_units (docs/data.md)"
        )
    unit_names = [dataset.units[row] or "" for row in rows]
    return Groups(ids, np.array(unit_names, dtype=object))


def cluster_samples(ids: np.ndarray, keys: np.ndarray, size: int, stage: Stage) -> Groups:
    """Group samples by k-means on their keys (N, d), with about `size` samples per cluster.

    There are at least two clusters.
    """
    from sklearn.cluster import MiniBatchKMeans

    n_clusters = max(len(ids) // size, 2)  # a single cluster would leave nothing to retain
    seed = int(stage.numpy_generator().integers(2**31))  # scikit-learn takes at most 32 bits
    k_means = MiniBatchKMeans(n_clusters, batch_size=4096, n_init=3, random_state=seed)
    names = [str(label) for label in k_means.fit_predict(keys)]
    return Groups(ids, np.array(names, dtype=object))


def group_training_samples(
    dataset: Dataset, sampling: str, stage: Stage, keys: np.ndarray | None = None
) -> Groups:
    """Group the training samples by class, by cluster of their keys, or else by unit.

    Parameters
    ----------
    keys
        The keys (N, d) of the training samples, for clusters.
    """
    if sampling != "cluster":
        return group_samples(dataset, sampling)
    assert keys is not None
    return cluster_samples(dataset.get_ids("train"), keys, CLUSTER_SIZE, stage)


def check_group_names(groups: Groups, names: Sequence[str]) -> list[str]:
    """Return the names of groups as the data set spells them.

    Raises ValueError, which lists known names, for an unknown name.
    """
    group_names = groups.list_names()
    find = find_class if groups.are_classes else find_unit
    spellings = []
    for name in names:
        spelling = find(name, group_names)
        if spelling is not None:
            spellings.append(spelling)
            continue
        examples = ", ".join(map(repr, group_names[:MAX_NAMES_LISTED]))
        if len(group_names) > MAX_NAMES_LISTED:
            examples += f" and {len(group_names) - MAX_NAMES_LISTED} more"
        raise ValueError(
            f"forget.names: no sample belongs to {name!r}{suggest_names(name, group_names)} The groups are {examples}"
        )
    return spellings


def draw_groups(
    groups: Groups,
    labels: np.ndarray,
    rate: float,
    names: Sequence[str] | None,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draw whole groups to forget: those in `names`, or random ones with about rate * N samples.

    Returns the sorted ids of their samples, with `labels` (N,). Raises ValueError for an unknown
    name, and if no sample would be forgotten or fewer than two classes would remain.
    """
    group_names = groups.list_names()
    if names:
        forget_names = check_group_names(groups, names)
    else:
        forget_names = _draw_group_names(groups, group_names, rate * len(groups.ids), generator)
    is_forgotten = np.isin(groups.names, forget_names)
    if not is_forgotten.any() or len(set(labels[~is_forgotten].tolist())) < 2:
        raise ValueError(
            f"{RATE_SETTING} or forget.names: forgetting {is_forgotten.sum()} of {len(groups.ids)} samples,"
            f" {len(forget_names)} of {len(group_names)} groups, would forget nothing or leave fewer"
            " than two classes"
        )
    return np.asarray(groups.ids[is_forgotten])


def _draw_group_names(
    groups: Groups, group_names: Sequence[str], target: float, generator: np.random.Generator
) -> list[str]:
    """Take the first random group, then each that brings the count of samples closer to `target`."""
    names: list[str] = []
    count = 0
    for name in generator.permutation(np.array(group_names, dtype=object)):
        size = int((groups.names == name).sum())
        if count == 0 or abs(count + size - target) < abs(count - target):
            names.append(name)
            count += size
    return names


def find_lowest_ids(groups: Groups, ids: np.ndarray) -> np.ndarray:
    """Return the lowest id of each group, sorted.

    Parameters
    ----------
    ids
        Ids of samples that make up whole groups.
    """
    is_selected = np.isin(groups.ids, ids)
    selected_ids = groups.ids[is_selected]
    # The ids are ascending, so a name first occurs at its lowest id.
    _, first_positions = np.unique(groups.names[is_selected].astype(str), return_index=True)
    return np.sort(selected_ids[first_positions])


def draw_share(
    groups: Groups, names: Sequence[str], share: float, generator: np.random.Generator
) -> np.ndarray:
    """Draw a share of the samples in the named groups. Returns their sorted ids.

    Raises ValueError if that rounds to no samples, or for an unknown group.
    """
    candidate_ids = groups.ids[np.isin(groups.names, check_group_names(groups, names))]
    count = round(share * len(candidate_ids))
    if count == 0:
        raise ValueError(
            f"forget.rates: {share} of the {len(candidate_ids)} samples of {', '.join(names)} is"
            " less than one"
        )
    return np.sort(generator.choice(candidate_ids, size=count, replace=False))


class Members(NamedTuple):
    """The training samples.

    Attributes
    ----------
    ids
        Sample ids (N,), ascending.
    labels
        Class indices (N,).
    """

    ids: np.ndarray
    labels: np.ndarray


def compute_vote_shares(members: Members, neighbors: np.ndarray) -> np.ndarray:
    """Compute the share of each sample's neighbors (N, K) that have its label: (N,); 0 without any."""
    is_neighbor = neighbors != NO_NEIGHBOR
    neighbor_labels = np.full(neighbors.shape, -1)
    neighbor_rows = find_rows(members.ids, neighbors[is_neighbor])
    neighbor_labels[is_neighbor] = members.labels[neighbor_rows]
    agreements = (neighbor_labels == members.labels[:, None]).sum(axis=1)
    return np.asarray(agreements / is_neighbor.sum(axis=1).clip(min=1))


def draw_by_difficulty(
    ids: np.ndarray, votes: np.ndarray, rate: float, sampling: str, generator: np.random.Generator
) -> np.ndarray:
    """Select the round(rate * N) `hard`, `easy` or `medium` samples. Returns their sorted ids.

    Hard samples have a low share of `votes` (N,) for their class, medium ones are around the
    median. Ties are broken at random. Raises ValueError for none or all of the samples.
    """
    count = _count_to_forget(len(ids), rate)
    # Hardest first. lexsort sorts by its last key, and breaks ties by the previous key.
    order = np.lexsort((generator.random(len(votes)), votes))
    if sampling == "hard":
        start = 0
    elif sampling == "medium":
        start = (len(ids) - count) // 2
    elif sampling == "easy":
        start = len(ids) - count
    else:
        raise ValueError(f"sampling = {sampling!r} must be hard, medium or easy")
    return np.sort(ids[order[start : start + count]])


def draw_halves(
    ids: np.ndarray, labels: np.ndarray, share: float, pool_stage: Stage, pair_stage: Stage
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a class-stratified pool, a `share` of the samples, and split it into random halves.

    The pool is the same for all pairs, and each pair has its own split. Returns the sorted ids of
    both halves. Raises ValueError if `draw` cannot draw the pool.
    """
    pool_ids = draw(ids, labels, share, "stratified", pool_stage.numpy_generator())
    shuffled_ids = pair_stage.numpy_generator().permutation(drop_odd_one(pool_ids, pool_stage))
    first, second = np.split(shuffled_ids, 2)
    return np.sort(first), np.sort(second)


def draw_group_halves(
    groups: Groups, labels: np.ndarray, share: float, pool_stage: Stage, pair_stage: Stage
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a pool of whole groups, about `share` of the samples, and split the groups into halves.

    Returns the sorted ids of both halves. Stages are as for `draw_halves`. Raises ValueError if the
    pool cannot be drawn or has fewer than four groups.
    """
    pool_ids = draw_groups(groups, labels, share, None, pool_stage.numpy_generator())
    names_in_pool = groups.names[np.isin(groups.ids, pool_ids)]
    pool_groups = np.array(sorted(set(names_in_pool)), dtype=object)
    if len(pool_groups) < MIN_GROUPS:
        group_count = len(set(groups.names) - {""})
        raise ValueError(
            f"audit.pool = {share}: {len(pool_groups)} of {group_count} groups in training;"
            f" an audit needs {MIN_GROUPS}: raise it"
        )
    shuffled_groups = pair_stage.numpy_generator().permutation(pool_groups)
    first, second = np.array_split(shuffled_groups, 2)
    return groups.ids[np.isin(groups.names, first)], groups.ids[np.isin(groups.names, second)]


def drop_odd_one(ids: np.ndarray, pool_stage: Stage) -> np.ndarray:
    """Drop an id from a pool of odd size, the same one for all pairs."""
    if len(ids) % 2:
        return np.delete(ids, (pool_stage / "odd").numpy_generator().integers(len(ids)))
    return ids


def get_list_file(settings: ForgetSettings) -> str | None:
    """Return the file that lists the forget set; None if `sampling` is not `listed`."""
    return settings.file if settings.sampling == "listed" else None


def get_list_path(file: str, seed: int) -> Path:
    """Return the path of a seed's list."""
    return Path(file.replace(SEED, str(seed)))


def read_list(path: Path) -> list[int] | list[str]:
    """Read ids, or file names, from an .npy array, a CSV column, or a text file's lines.

    Raises ValueError if the file cannot be read, is empty, or repeats an entry.
    """
    kind = _find_other_kind(path)
    if kind:
        raise ValueError(
            f"{path}: is {kind}, not a list; save the ids as an .npy array or as text, one a line"
        )
    ending = path.suffix.lower()
    if ending == ".npy":
        entries = _read_npy(path)
    elif ending == ".csv":
        entries = _read_column(path)
    else:
        entries = []
        for line in _read_text(path).splitlines():
            if line.strip():
                entries.append(line.strip())
    if not entries:
        raise ValueError(f"{path}: contains no entries")
    duplicates = []
    for entry, count in Counter(entries).items():
        if count > 1:
            duplicates.append(entry)
    duplicates.sort()
    if duplicates and set(entries) <= {"0", "1"}:
        raise ValueError(
            f"{path}: is a mask of zeros and ones, not a list; save its ids, np.flatnonzero(mask)"
        )
    if duplicates:
        raise ValueError(
            f"{path}: repeats {len(duplicates)} of its entries, e.g. {duplicates[0]}; list each once"
        )
    parsed_ids = [parse_id(entry) for entry in entries]
    ids = [sample_id for sample_id in parsed_ids if sample_id is not None]
    return ids if len(ids) == len(entries) else entries


def _find_other_kind(path: Path) -> str | None:
    """Return what a file is that is not a list, or None. A text may be JSON, too."""
    kind = OTHER_LISTS.get(path.suffix.lower())
    if path.suffix == ".txt" and _read_text(path).lstrip().startswith(("[", "{")):
        # Or the name of a file begins with a bracket.
        with suppress(ValueError):
            json.loads(_read_text(path))
            kind = OTHER_LISTS[".json"]
    return kind


def find_listed_ids(
    entries: list[int] | list[str], samples: Iterable[Mapping[str, str]], path: Path
) -> np.ndarray:
    """Return the sorted ids of a list's entries among `samples`, the rows of samples.csv.

    An entry may omit the first folders of a path. Raises ValueError if entries are unknown,
    ambiguous, or not in training.
    """
    rows = list(samples)
    splits = {int(row["id"]): row["split"] for row in rows}
    if isinstance(entries[0], int):
        ids = [int(entry) for entry in entries]
        unknown_ids = [sample_id for sample_id in ids if sample_id not in splits]
        _refuse_entries(path, "unknown ids", unknown_ids)
    else:
        ids = _find_ids_of_files([str(entry) for entry in entries], rows, path)
    first_entry: dict[int, object] = {}
    repeated = []
    for entry, sample_id in zip(entries, ids, strict=True):
        if sample_id in first_entry:
            repeated.append(f"{entry} (the same as {first_entry[sample_id]})")
        else:
            first_entry[sample_id] = entry
    _refuse_entries(path, "samples that it lists twice", repeated)
    not_in_training = []
    for entry, sample_id in zip(entries, ids, strict=True):
        if splits[sample_id] != "train":
            not_in_training.append(entry)
    _refuse_entries(
        path, "samples that are not in training, so no model learns them", not_in_training
    )
    return np.sort(np.array(ids, dtype=np.int64))


def require_listed_share(path: Path, count: int, train_count: int, rate: float) -> None:
    """Raise ValueError if the list's share of the training set differs from the rate in tables."""
    share = count / train_count
    if abs(share - rate) > MAX_RATE_DIFFERENCE:
        raise ValueError(
            f"{path}: lists {count:,} of {train_count:,} training samples, but forget.rates = [{rate:g}], which"
            f" tables would show; write forget.rates: [{share:.4g}]"
        )


def _find_ids_of_files(files: list[str], samples: list[Mapping[str, str]], path: Path) -> list[int]:
    """Return the ids of files, whose paths may omit the first folders. Raises ValueError."""
    if "name" not in samples[0]:
        raise ValueError(
            f"{path}: lists file names, but this data set's samples are not files; list ids"
        )
    # a/b/c.png can be found as a/b/c.png, b/c.png or c.png, and in another Unicode form.
    ids_by_ending: dict[str, list[int]] = {}
    ids_by_normalized_ending: dict[str, list[int]] = {}
    for row in samples:
        parts = Path(row["name"]).parts
        for start in range(len(parts)):
            ending = "/".join(parts[start:])
            sample_id = int(row["id"])
            ids_by_ending.setdefault(ending, []).append(sample_id)
            ids_by_normalized_ending.setdefault(normalize_path(ending), []).append(sample_id)
    unknown = []
    ambiguous = []
    id_by_file = {}
    for file in files:
        name = "/".join(Path(file).parts)
        ids = ids_by_ending.get(name) or ids_by_normalized_ending.get(normalize_path(name), [])
        if not ids:
            unknown.append(file)
            continue
        if len(ids) > 1:
            ambiguous.append(file)
        id_by_file[file] = ids[0]
    description = "unknown files"
    if any("\\" in file for file in unknown):
        description += " (write / for \\)"
    _refuse_entries(path, description, unknown)
    _refuse_entries(path, "ambiguous names (write more of the path)", ambiguous)
    return list(id_by_file.values())


def _refuse_entries(path: Path, description: str, entries: Sequence[object]) -> None:
    """Raise ValueError if there are faulty entries, which `description` names."""
    if entries:
        examples = ", ".join(map(repr, entries[:MAX_LISTED]))
        raise ValueError(
            f"{path}: lists {len(entries):,} {description}, e.g. {examples}; correct the list"
        )


def _read_text(path: Path) -> str:
    """Read a list's text. Raises ValueError if the file cannot be read."""
    try:
        return read_user_text(path)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def _read_column(path: Path) -> list[str]:
    """Read the column `id`, or else `file`, from a CSV file. Raises ValueError."""
    table = parse_table(path, _read_text(path))
    for name in COLUMNS:
        if name in table.names:
            position = table.names.index(name)
            return [cells[position] for _, cells in table.lines]
    raise ValueError(f"{path}: has no column `id` or `file`; rename one")


def _read_npy(path: Path) -> list[str]:
    """Read ids or file names, as text, from an .npy file. Raises ValueError."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, EOFError):  # EOFError: the file is empty
        raise ValueError(f"{path}: is not a NumPy array of integers or names") from None
    if isinstance(array, np.ndarray) and array.dtype == bool:
        raise ValueError(f"{path}: is a mask, not a list; save its ids, np.flatnonzero(mask)")
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(f"{path}: must be a one-dimensional array of integers or names")
    return [str(entry) for entry in array.tolist()]

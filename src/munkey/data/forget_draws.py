"""Draws of forget sets (sec. 4), once per data set, seed and rate, and forget sets by list.

Reading them is another module, `forget_sets`, so that a change here redraws forget sets but does
not, say, extract keys again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from munkey.core.files import given_text
from munkey.core.ids import NOBODY, rows_of
from munkey.core.randomness import Stage
from munkey.core.registry import meant
from munkey.data.intake.csv_tables import table_of
from munkey.data.prepared import Dataset
from munkey.data.splits import apportion
from munkey.settings import ForgetSettings

LEAST_GROUPS = 4  # so that pairs can cut a pool of them in three ways
SEED = "{seed}"  # in the path of a list: a list for each seed
COLUMNS = ("id", "file")  # of a CSV file: ids, or names of files
SHOWN = 3  # entries that a message names
MOST_APART = 0.005  # by which the share of a list may differ from the rate that tables name
KNOBS = "forget.rates (of an audit's pool, audit.pool)"


def draw(
    ids: np.ndarray, labels: np.ndarray, rate: float, sampling: str, generator: np.random.Generator
) -> np.ndarray:
    """Sorted ids of round(rate * N) samples to forget. ids, labels: (N,).

    sampling: `uniform`, or `stratified` by class (proportional, largest remainder; ties go to the
    lower class). Raises ValueError if the forget set would be empty, a whole class, or the whole
    set.
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
    emptied = set(labels.tolist()) - set(labels[~np.isin(ids, forget_ids)].tolist())
    if emptied:
        raise ValueError(
            f"{rate} of the samples leaves none of class {sorted(emptied)} to retain: lower {KNOBS}"
        )
    return np.sort(forget_ids)


class Groups(NamedTuple):
    """Training samples and their groups. ids: (N,) ascending; of: (N,) group names, '' if none."""

    ids: np.ndarray
    of: np.ndarray


def groups_of(dataset: Dataset, sampling: str, split: str = "train") -> Groups:
    """A split's samples by class or unit, by name.

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
    """Training samples by k-means on their keys (N, d), about `size` of them in a cluster."""
    from sklearn.cluster import MiniBatchKMeans

    number = max(len(ids) // size, 2)
    seed = int(stage.numpy_generator().integers(2**31))
    means = MiniBatchKMeans(number, batch_size=4096, n_init=3, random_state=seed)
    return Groups(ids, np.array([f"{label}" for label in means.fit_predict(keys)], dtype=object))


def existing(groups: Groups, names: Sequence[str]) -> list[str]:
    """All groups, sorted.

    Raises ValueError for an unknown name; the message lists the known ones.
    """
    group_names = sorted(set(groups.of) - {""})
    for name in names:
        if name in group_names:
            continue
        listed = ", ".join(map(repr, group_names[:20]))
        if len(group_names) > 20:
            listed += f" and {len(group_names) - 20} more"
        raise ValueError(
            f"forget.names: no sample is of {name!r}{meant(name, group_names)} There are {listed}"
        )
    return group_names


def draw_groups(
    groups: Groups,
    labels: np.ndarray,
    rate: float,
    names: Sequence[str] | None,
    generator: np.random.Generator,
) -> np.ndarray:
    """Sorted ids of whole groups: the named ones, or random ones of about rate * N samples.

    labels: (N,) of the same samples. Named groups and drawn classes may leave a class empty. Raises
    ValueError for an unknown name, and if nothing or everything would be forgotten.
    """
    group_names = existing(groups, names or ())
    forget_names = list(names or ())
    if not names:
        forget_names = _random_groups(groups, group_names, rate * len(groups.ids), generator)
    forgotten = np.isin(groups.of, forget_names)
    if not forgotten.any() or len(set(labels[~forgotten].tolist())) < 2:
        raise ValueError(
            f"{KNOBS} or forget.names: forgetting {forgotten.sum()} of {len(groups.ids)} samples,"
            f" {len(forget_names)} of {len(group_names)} groups, leaves fewer than two classes, or"
            " forgets none; some must stay"
        )
    return np.asarray(groups.ids[forgotten])


def _random_groups(
    groups: Groups, group_names: Sequence[str], target: float, generator: np.random.Generator
) -> list[str]:
    """Random groups. Each is taken if it brings the number of samples closer to the target."""
    names: list[str] = []
    count = 0
    for name in generator.permutation(np.array(group_names, dtype=object)):
        size = int((groups.of == name).sum())
        if count == 0 or abs(count + size - target) < abs(count - target):
            names.append(name)
            count += size
    return names


def first_of_each(groups: Groups, ids: np.ndarray) -> np.ndarray:
    """The lowest id of each group, sorted. ids: samples that form whole groups."""
    inside = np.isin(groups.ids, ids)
    _, first_positions = np.unique(groups.of[inside].astype(str), return_index=True)
    return np.sort(groups.ids[inside][first_positions])


def known_share(
    groups: Groups, names: Sequence[str], share: float, generator: np.random.Generator
) -> np.ndarray:
    """Sorted ids of a random share of the samples of these groups.

    Raises ValueError for none, or an unknown group.
    """
    existing(groups, names)
    candidate_ids = groups.ids[np.isin(groups.of, list(names))]
    count = round(share * len(candidate_ids))
    if count == 0:
        raise ValueError(
            f"forget.rates: {share} of {len(candidate_ids)} samples of {', '.join(names)} is none"
        )
    return np.sort(generator.choice(candidate_ids, size=count, replace=False))


class Members(NamedTuple):
    """The training samples. ids: (N,) ascending; labels: (N,)."""

    ids: np.ndarray
    labels: np.ndarray


def vote_shares(members: Members, neighbors: np.ndarray) -> np.ndarray:
    """(N,): the share of each sample's neighbors that have its label; 0 where it has none.

    neighbors: (N, K) ids of other training samples, or NOBODY.
    """
    present = neighbors != NOBODY
    voted = np.full(neighbors.shape, -1)
    voted[present] = members.labels[rows_of(members.ids, neighbors[present])]
    return np.asarray(
        (voted == members.labels[:, None]).sum(axis=1) / present.sum(axis=1).clip(min=1)
    )


def ranked(
    ids: np.ndarray, votes: np.ndarray, rate: float, sampling: str, generator: np.random.Generator
) -> np.ndarray:
    """Sorted ids of the round(rate * N) samples that are `hard`, `easy`, or `medium`.

    `medium` lies around the median. votes: (N,), the share of a sample's nearest keys that have its
    class; ties are drawn. Raises ValueError as `draw`.
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
    """The two halves of a pool: a share of the training samples, stratified by class.

    The pool is the same for every pair. ids, labels: (N,) of the training samples; pool, pair:
    where the pool and its division are drawn from. The halves are sorted, equal in size, and drawn
    from the pool at random. Raises ValueError as `draw`.
    """
    pool_ids = draw(ids, labels, share, "stratified", pool.numpy_generator())
    first, second = np.split(pair.numpy_generator().permutation(even(pool_ids, pool)), 2)
    return np.sort(first), np.sort(second)


def group_halves(
    groups: Groups, labels: np.ndarray, share: float, pool: Stage, pair: Stage
) -> tuple[np.ndarray, np.ndarray]:
    """The two halves of a pool of whole groups: about `share` of the samples.

    The pool is the same for every pair. labels: (N,). Half of the groups, by number and at random,
    are in each half; its ids are sorted. Raises ValueError as `draw_groups`, and for fewer than
    four groups.
    """
    pool_ids = draw_groups(groups, labels, share, None, pool.numpy_generator())
    pool_groups = np.array(sorted(set(groups.of[np.isin(groups.ids, pool_ids)])), dtype=object)
    if len(pool_groups) < LEAST_GROUPS:
        group_count = len(set(groups.of) - {""})
        raise ValueError(
            f"audit.pool = {share}: {len(pool_groups)} of {group_count} groups in training;"
            f" an audit needs {LEAST_GROUPS}: raise it"
        )
    first, second = np.array_split(pair.numpy_generator().permutation(pool_groups), 2)
    return groups.ids[np.isin(groups.of, first)], groups.ids[np.isin(groups.of, second)]


def even(ids: np.ndarray, pool: Stage) -> np.ndarray:
    """A pool's ids, one dropped at random if odd, so that all pairs divide the same samples."""
    if len(ids) % 2:
        return np.delete(ids, (pool / "odd").numpy_generator().integers(len(ids)))
    return ids


def list_file(settings: ForgetSettings) -> str | None:
    """The file that lists the forget set; None if `sampling` does not read it."""
    return settings.file if settings.sampling == "listed" else None


def list_of_seed(file: str, seed: int) -> Path:
    """The list of a seed."""
    return Path(file.replace(SEED, str(seed)))


def read_list(path: Path) -> list[int] | list[str]:
    """The ids or file names in a list: an .npy array, a column of a CSV file, or one a line.

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
    repeated = sorted(entry for entry, count in Counter(entries).items() if count > 1)
    if repeated:
        raise ValueError(
            f"{path}: lists {len(repeated)} entries twice, e.g. {repeated[0]}; list each once"
        )
    if all(entry.isdecimal() for entry in entries):
        return [int(entry) for entry in entries]
    return entries


def listed_ids(
    listed: list[int] | list[str], samples: Iterable[Mapping[str, str]], path: Path
) -> np.ndarray:
    """Sorted ids of the listed samples, all of which must be in training.

    samples: lines of samples.csv: id, split and, for picture files, name. A listed file may omit
    the first folders of its path if only one sample ends in the rest. Raises ValueError that names
    the unknown and ambiguous entries.
    """
    lines = list(samples)
    splits = {int(line["id"]): line["split"] for line in lines}
    if isinstance(listed[0], int):
        ids = [int(entry) for entry in listed]
        _require_none(
            path, "ids that no sample has", [entry for entry in ids if entry not in splits]
        )
    else:
        ids = _ids_of_files([str(entry) for entry in listed], lines, path)
    not_in_training = []
    for entry, sample_id in zip(listed, ids, strict=True):
        if splits[sample_id] != "train":
            not_in_training.append(entry)
    _require_none(
        path, "samples that are not in training, so that no model learns them", not_in_training
    )
    return np.sort(np.array(ids, dtype=np.int64))


def require_listed_share(path: Path, count: int, training: int, rate: float) -> None:
    """Raise ValueError if the list's share of the training set is not the rate that tables name."""
    share = count / training
    if abs(share - rate) > MOST_APART:
        raise ValueError(
            f"{path}: lists {count:,} of {training:,} training samples, but forget.rates = [{rate:g}], under which"
            f" tables show it; write forget.rates: [{share:.4g}]"
        )


def _ids_of_files(files: list[str], samples: list[Mapping[str, str]], path: Path) -> list[int]:
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
        return given_text(path)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def _read_column(path: Path) -> list[str]:
    table = table_of(path, _read_text(path))
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

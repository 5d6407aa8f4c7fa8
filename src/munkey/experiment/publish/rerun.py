"""Training a seed of a published run again on this machine, and comparing the numbers."""

import csv
import io
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel

from munkey.core.files import (
    checksum_path,
    hash_file,
    read_bytes,
    read_csv,
    read_npz,
    write_text,
)
from munkey.core.paths import Layout
from munkey.experiment.publish.check import find_repeatable, repeat
from munkey.experiment.publish.contents import is_result
from munkey.experiment.publish.published_run import PublishedRun
from munkey.experiment.publish.workflow import run_snakemake
from munkey.experiment.publish.workspace import (
    make_workspace_with_data,
    make_workspace_without_data,
    unpack_results,
)

EQUAL = "equal"
ROUNDING = "within rounding"
DIFFERENT = "different"
# Of the largest value. A float32 has 7 digits; numbers added in another order may change the last two.
TOLERANCE = 1e-5
DRAWN = "drawn-seeds.json"
MEASURED = re.compile(r"[a-z_]+_s")  # metrics that are times: they are never equal


class DrawnSeeds(BaseModel):
    """The seeds that were drawn, and the SHA-256 of the published file."""

    sha256: str
    seeds: list[int]


class OtherDataError(Exception):
    """The data here is not the published data."""


@dataclass(frozen=True)
class Comparison:
    """How something computed here compares with what was published.

    Attributes
    ----------
    kind
        "forget sets", "logits", or "metrics".
    name
        The file, or the row of the metrics.
    result
        EQUAL, ROUNDING or DIFFERENT.
    size
        The difference; 0 if equal.
    detail
        The difference in words; empty if equal.
    """

    kind: str
    name: str
    result: str
    size: float = 0.0
    detail: str = ""


def draw_seeds(run: PublishedRun, count: int, folder: Path) -> list[int]:
    """Draw seeds of a run with the operating system's random numbers, once in a folder.

    The same command in the same folder takes the same seeds, so it continues what was interrupted.
    """
    seeds = list(run.facts.seeds)
    if count > len(seeds):
        raise ValueError(f"--draw {count}: the run has only the seeds {seeds}")
    file = folder / DRAWN
    if file.exists():
        drawn = DrawnSeeds.model_validate_json(read_bytes(file))
        if (drawn.sha256, len(drawn.seeds)) != (run.sha256, count):
            raise FileExistsError(f"{folder}: has seeds of another draw; choose an empty folder")
        return drawn.seeds
    drawn = DrawnSeeds(sha256=run.sha256, seeds=sorted(secrets.SystemRandom().sample(seeds, count)))
    write_text(file, drawn.model_dump_json() + "\n")
    return drawn.seeds


def prepare_data(run: PublishedRun, folder: Path, cores: int) -> None:
    """Prepare the data sets in a folder.

    Raises OtherDataError if they differ from the published ones.
    """
    make_workspace_with_data(run, folder)
    layout = Layout(run.facts.name)
    prepared = []
    for pattern in (layout.images, layout.samples, layout.classes):
        prepared += _find_files(run, pattern)
    _make(prepared, folder, cores)
    for path in prepared:
        digest = hash_file(folder / path)
        if digest != run.files[path].sha256:
            raise OtherDataError(
                "the data here is not the published data, so nothing was trained:"
                f" {path} has the SHA-256 {digest}, published {run.files[path].sha256}"
            )


def _find_files(run: PublishedRun, pattern: str, **expressions: str) -> list[str]:
    """Return the files of a pattern of the layout, whose other wildcards match one part of a path."""
    expression = ""
    for position, part in enumerate(re.split(r"\{(\w+)\}", pattern)):
        is_wildcard = position % 2 == 1
        expression += expressions.get(part, "[^/]+") if is_wildcard else re.escape(part)
    return [path for path in run.files if re.fullmatch(expression, path)]


def _make(targets: Sequence[str], folder: Path, cores: int) -> None:
    """Run the workflow in a folder, and show its progress."""
    arguments = ["--cores", str(cores), "--resources", "gpu=1", "--", *targets]
    run_snakemake(arguments, folder, show=True)


def train_again(
    run: PublishedRun, seeds: Sequence[int], folder: Path, cores: int
) -> list[Comparison]:
    """Train seeds of the main run again in a folder with prepared data, and compare them."""
    numbers = "|".join(map(str, seeds))
    layout = Layout(run.facts.name)
    targets = []
    for pattern in (layout.forget, layout.logits):
        targets += _find_files(run, pattern, seed=f"({numbers})")
    if not targets:
        raise ValueError(f"{run.path}: has no logits of the main run for the seeds {seeds}")
    _make(targets, folder, cores)
    comparisons = []
    for path in targets:
        if path.endswith(".npz"):
            with np.load(io.BytesIO(run.read(path)), allow_pickle=False) as archive:
                published = dict(archive)
            comparisons.append(compare_logits(path, published, read_npz(folder / path)))
        elif run.read(path) == (folder / path).read_bytes():
            comparisons.append(Comparison("forget sets", path, EQUAL))
        else:
            detail = "other samples"
            comparisons.append(Comparison("forget sets", path, DIFFERENT, np.inf, detail))
    comparisons += _compare_metrics(run, seeds, folder, cores)
    return comparisons


def compare_logits(
    path: str, published: Mapping[str, np.ndarray], computed: Mapping[str, np.ndarray]
) -> Comparison:
    """Compare the arrays of a file of logits."""
    largest = 0.0  # difference, as a share of the array's largest value
    for name in {**published, **computed}:
        old = published.get(name)
        new = computed.get(name)
        if old is None or new is None or old.shape != new.shape or old.dtype != new.dtype:
            return Comparison("logits", path, DIFFERENT, np.inf, f"other array {name}")
        if old.tobytes() == new.tobytes():
            continue
        if old.dtype.kind != "f" or not (np.isfinite(old) == np.isfinite(new)).all():
            return Comparison("logits", path, DIFFERENT, np.inf, f"other values in {name}")
        finite = np.isfinite(old)
        scale = float(np.abs(old[finite]).max())
        difference = float(np.abs(old[finite] - new[finite]).max())
        largest = max(largest, difference / scale if scale else difference)
    if largest == 0:
        return Comparison("logits", path, EQUAL)
    changed = int((published["logits"].argmax(1) != computed["logits"].argmax(1)).sum())
    detail = (
        f"at most {largest:.1e} of the largest value; {changed} of {len(published['logits'])}"
        " predictions changed"
    )
    return Comparison("logits", path, _judge(largest), largest, detail)


def _judge(difference: float) -> str:
    """Return the result for a relative difference."""
    if difference == 0:
        return EQUAL
    return ROUNDING if difference <= TOLERANCE else DIFFERENT


def _compare_metrics(
    run: PublishedRun, seeds: Sequence[int], folder: Path, cores: int
) -> Iterator[Comparison]:
    """Compute the metrics of the main run from the new logits, and compare those of the seeds."""
    metrics = set(_find_files(run, Layout(run.facts.name).metrics))
    jobs = [job for job in find_repeatable(run) if metrics & set(job.outputs)]
    targets = sorted(path for job in jobs for path in job.outputs if path in metrics)
    with tempfile.TemporaryDirectory(prefix="munkey-") as name:
        # What was made here, and for all other seeds, what was published.
        mixed = Path(name)
        make_workspace_without_data(run, mixed)
        made = [path for path in run.files if is_result(path) and (folder / path).exists()]
        for path in made:
            (mixed / path).parent.mkdir(parents=True, exist_ok=True)
            for file in (Path(path), checksum_path(path)):
                shutil.copy(folder / file, mixed / file)
        unpack_results(run, mixed)
        repeat([job.rule for job in jobs], targets, mixed, cores)
        tables = {path: read_csv(mixed / path) for path in targets}
    for path, rows in tables.items():
        published = _read_values(csv.DictReader(io.StringIO(run.read(path).decode())))
        computed = _read_values(rows)
        for row in published.keys() | computed.keys():
            if int(row[2]) in seeds and not MEASURED.fullmatch(row[-1]):
                yield _compare_values(row, published.get(row, ""), computed.get(row, ""))


def _read_values(
    rows: "csv.DictReader[str] | list[dict[str, str]]",
) -> dict[tuple[str, ...], str]:
    """Return the values of a table of metrics by data set, rate, seed, method and metric."""
    names = ("dataset", "rate", "seed", "method", "metric")
    return {tuple(row[name] for name in names): row["value"] for row in rows}


def _compare_values(row: tuple[str, ...], old: str, new: str) -> Comparison:
    """Compare a metric. It may be empty, e.g. of a system that diverged."""
    dataset, rate, seed, method, metric = row
    name = f"{metric} of {method}, {dataset}, rate {rate}, seed {seed}"
    if old == new:
        return Comparison("metrics", name, EQUAL)
    detail = f"published {old or 'none'}, here {new or 'none'}"
    try:
        difference = abs(float(old) - float(new))
        scale = max(abs(float(old)), abs(float(new)))
    except ValueError:
        return Comparison("metrics", name, DIFFERENT, np.inf, detail)
    size = difference / scale if scale else 0.0  # 0.0 and -0.0
    return Comparison("metrics", name, _judge(size), size, detail)

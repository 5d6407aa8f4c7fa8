"""The commands `munkey publish`, `munkey check-run` and `munkey rerun`."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from munkey.cli import output
from munkey.cli.experiment import OVERLAYS, load_plan
from munkey.core.console import escape_to_one_line, pluralize

if TYPE_CHECKING:
    from munkey.experiment.publish.check import CheckResult
    from munkey.experiment.publish.published_run import PublishedRun
    from munkey.experiment.publish.rerun import Comparison

SHOWN = 10  # differences
File = Annotated[Path, typer.Argument(metavar="FILE", help="A published run.", show_default=False)]
Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="An empty folder for what is computed, which stays. Default: a temporary one.",
    ),
]
Cores = Annotated[int, typer.Option(min=1, help="How many CPU cores to use.")]


def publish(
    overlays: Annotated[list[Path] | None, OVERLAYS] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="A target whose results are published, e.g. audits. [default: all]"),
    ] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", help="Also publish these: pictures, keys, models."),
    ] = None,
    folder: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("results"),
) -> None:
    """Write a run to one file that others can check: FOLDER/NAME-CHECKSUM.zip.

    \b
    munkey publish
    munkey publish workflow/presets/ten-seeds.yaml --target all --target audits

    `make publish` first makes what is missing. The file contains parameters, versions, forget sets, logits, metrics,
    tables, figures, and the origin of each. It contains no pictures, keys or models unless --with asks for them.
    See docs/publishing.md.
    """
    from munkey.experiment.params.load import read_params
    from munkey.experiment.publish.contents import KINDS
    from munkey.experiment.publish.crate import write_crate
    from munkey.experiment.publish.workflow import list_jobs

    added = with_ or []
    unknown = sorted(set(added) - set(KINDS))
    if unknown:
        raise ValueError(f"--with {unknown[0]}: choose from {', '.join(KINDS)}")
    paths = overlays or []
    plan = load_plan(paths)
    with output.show_spinner("reading results"):
        jobs = list_jobs(target or ["all"], paths)
        path, digest = write_crate(folder, read_params(paths), plan.params, jobs, added)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB, {len(jobs)} jobs)")
    print(f"SHA-256 {digest}")


def check_run(file: File, folder: Folder = None, cores: Cores = 2) -> None:
    """Compute the metrics, tables and figures of a published run again, and compare them byte by byte.

    \b
    munkey check-run default-1f2e3d4c5b6a7988.zip

    Nothing is trained, and no code of the file is run. Run this command in a clone, at best of the run's commit, with
    munkey[experiment] installed; elsewhere, it only compares checksums. It exits with 1 if the file was altered, or if
    a result differs. docs/publishing.md
    """
    from munkey.experiment.publish.check import check_run as check

    run = _open(file)
    with _workspace(folder) as workspace:
        result = check(run, workspace, cores)
    _print_check(run, result)
    if result.different:
        count = pluralize(len(result.different), "result")
        raise output.NotVerifiedError(f"{file}: {count} not as published")


def rerun(
    file: File,
    draw: Annotated[int, typer.Option(min=1, help="How many seeds to draw.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Train this seed instead.")] = None,
    folder: Folder = None,
    cores: Cores = 2,
) -> None:
    """Train a drawn seed of a published run again, and compare forget sets, logits and metrics.

    \b
    munkey rerun default-1f2e3d4c5b6a7988.zip --draw 1

    It needs the data, and stops before it trains if the data here is not the published data. Run this command in a
    clone, at best of the run's commit, with munkey[experiment] installed; for a long run with --folder: after an
    interruption, it continues there. It exits with 1 if a number differs by more than rounding. docs/publishing.md
    """
    from munkey.experiment.publish import rerun as reruns
    from munkey.experiment.publish.check import find_other_code
    from munkey.experiment.publish.machine import describe_machine, list_differences

    run = _open(file)
    if seed is not None and seed not in run.facts.seeds:
        raise ValueError(f"--seed {seed}: the run has the seeds {run.facts.seeds}")
    with _workspace(folder) as workspace:
        if seed is None:
            seeds = reruns.draw_seeds(run, draw, workspace)
            how = "drawn with the operating system's random numbers"
        else:
            seeds = [seed]
            how = "as asked for"
        print(f"seeds {seeds} of {run.facts.seeds}, {how}", flush=True)
        try:
            reruns.prepare_data(run, workspace, cores)
        except reruns.OtherDataError as error:
            raise output.NotVerifiedError(str(error)) from error
        comparisons = reruns.train_again(run, seeds, workspace, cores)
        other_code = find_other_code(run, workspace)
    _print_comparisons(comparisons)
    differences = list_differences(run.facts.machine, describe_machine())
    if other_code:
        differences.append(f"code of the rules {', '.join(other_code)}")
    print("\nWhat differs from the publisher's machine:")
    for difference in differences or ["nothing"]:
        print(escape_to_one_line(difference))
    count = sum(comparison.result == reruns.DIFFERENT for comparison in comparisons)
    if count:
        raise output.NotVerifiedError(f"{count} of {len(comparisons)} differ by more than rounding")


def _open(file: Path) -> "PublishedRun":
    """Read a published run, in a clone. Raises NotVerifiedError with all files that were altered."""
    from munkey.experiment.publish.published_run import AlteredRunError, open_run
    from munkey.experiment.publish.workflow import require_clone

    try:
        run = open_run(file)
    except AlteredRunError as error:
        raise output.NotVerifiedError(str(error)) from error
    count = sum(not facts.withheld for facts in run.files.values())
    print(f"{file}: SHA-256 {run.sha256}; {count} checksums agree", flush=True)
    commit = run.facts.machine.get("commit")
    require_clone(
        "to compute the results of this run again, run this command in a clone, at best of its commit"
        f" {commit}, with munkey[experiment] installed; docs/publishing.md"
    )
    return run


@contextmanager
def _workspace(folder: Path | None) -> Iterator[Path]:
    """Yield the folder to compute in."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="munkey-") as name:
        yield Path(name)


def _print_check(run: "PublishedRun", result: "CheckResult") -> None:
    """Print which results are equal, which differ, and which were not computed again.

    Of the last, tables and figures are named and all are counted by folder.
    """
    from munkey.experiment.publish.contents import TABLES_AND_FIGURES

    total = len(result.equal) + len(result.different)
    print(f"{len(result.equal)} of {total} computed results are equal, byte by byte")
    for reason, paths in result.not_repeated.items():
        counts = Counter(path.split("/")[2] for path in paths)
        listed = ", ".join(f"{folder}: {count}" for folder, count in sorted(counts.items()))
        print(escape_to_one_line(f"not computed again, because {reason}: {listed}"))
        for path in paths:
            if path.endswith(TABLES_AND_FIGURES):
                print(escape_to_one_line(f"  {path}"))
    if result.other_code:
        print(f"other code than the published one: {', '.join(result.other_code)}")
        print(escape_to_one_line(f"commit of the run: {run.facts.machine.get('commit')}"))
    for path, difference in result.different.items():
        print(escape_to_one_line(f"DIFFERENT {path}: {difference}"))


def _print_comparisons(comparisons: "list[Comparison]") -> None:
    """Print how many numbers are equal, within rounding, or different, and the largest differences."""
    from munkey.experiment.publish.rerun import DIFFERENT, EQUAL, ROUNDING, TOLERANCE

    rows: list[list[object]] = [["", EQUAL, ROUNDING, DIFFERENT]]
    for kind in dict.fromkeys(comparison.kind for comparison in comparisons):
        results = [comparison.result for comparison in comparisons if comparison.kind == kind]
        rows.append([kind, *(results.count(result) for result in (EQUAL, ROUNDING, DIFFERENT))])
    print("", output.format_table(rows), sep="\n")
    print(f"within rounding: at most {TOLERANCE:g} of the largest value; times are not compared")
    unequal = [comparison for comparison in comparisons if comparison.result != EQUAL]
    unequal.sort(key=lambda comparison: -comparison.size)
    for comparison in unequal[:SHOWN]:
        print(escape_to_one_line(f"{comparison.result} {comparison.name}: {comparison.detail}"))
    if len(unequal) > SHOWN:
        print(f"and {len(unequal) - SHOWN} smaller differences")

"""The command `munkey find`, which finds the samples nearest to a picture or a row of numbers."""

import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from munkey.cli.arguments import (
    AsJson,
    Directory,
    OnBadPictures,
    Pictures,
    open_model,
)
from munkey.cli.output import format_table, print_result, show_spinner

if TYPE_CHECKING:
    from munkey.deploy.model.find import NearSample

HEADER = ("cosine", "id", "class", "unit", "file", "")


def find(
    directory: Directory,
    pictures: Pictures,
    count: Annotated[
        int, typer.Option(min=1, max=1000, help="How many samples to list for each picture.")
    ] = 10,
    above: Annotated[
        float,
        typer.Option(
            min=-1,
            max=1,
            metavar="COSINE",
            help="List only samples whose keys have at least this cosine similarity.",
        ),
    ] = -1,
    on_bad: OnBadPictures = "raise",
    as_json: AsJson = False,
) -> None:
    """Find the samples nearest to a picture or a row of numbers, with their class, unit and file.

    \b
    munkey find model picture.png
    munkey find model folder-of-pictures --above 0.95
    munkey find model rows.csv --count 3 --json

    Exact copies are listed first: samples with the same pixels at the size that the model stores,
    or the same row of numbers.
    """
    from munkey.deploy import json_format

    with (
        open_model(directory) as predictor,
        show_spinner("looking up"),
        redirect_stdout(sys.stderr),
    ):
        # Print warnings about skipped pictures as messages of the command.
        with warnings.catch_warnings(record=True) as skip_warnings:
            warnings.simplefilter("always", UserWarning)
            nearest = predictor.find(pictures, count=count, above=above, on_bad=on_bad)
        for warning in skip_warnings:
            print(f"munkey: {warning.message}", file=sys.stderr)
    parts = []
    row_number_in_file: Counter[str | None] = Counter()
    for file, samples in zip(nearest.files, nearest.samples, strict=True):
        name = str(file)
        if predictor.manifest.stored is None:  # rows of numbers, and a file may contain several
            row_number_in_file[file] += 1
            name += f", row {row_number_in_file[file]}"
        parts.append(f"{name}:\n{_format_samples(samples)}")
    result = {"pictures": json_format.format_near_samples(nearest)}
    print_result("\n\n".join(parts), result, as_json)


def _format_samples(samples: Sequence["NearSample"]) -> str:
    """Format the samples near one picture as a table."""
    if not samples:
        return "no sample is that similar"
    table: list[tuple[object, ...]] = [HEADER]
    for sample in samples:
        remark = "exact copy" if sample.copy else ""
        cosine = f"{sample.cosine:.3f}"
        table.append((cosine, sample.id, sample.label, sample.unit, sample.file, remark))
    return format_table(table)

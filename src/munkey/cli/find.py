"""The command `munkey find`: looks up samples by a picture or a row of numbers."""

import sys
import warnings
from collections import Counter
from contextlib import redirect_stdout
from typing import Annotated

import typer

from munkey.cli.arguments import (
    AsJson,
    Directory,
    OnBadPictures,
    Page,
    Pictures,
    model,
    require_page,
)
from munkey.cli.output import say, spinner, table

HEADER = ("cosine", "id", "class", "unit", "file", "")


def find(
    directory: Directory,
    pictures: Pictures,
    count: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of samples to list for each picture.")
    ] = 10,
    above: Annotated[
        float, typer.Option(min=-1, max=1, metavar="COSINE", help="Minimum cosine.")
    ] = -1,
    html: Page = None,
    on_bad: OnBadPictures = "raise",
    as_json: AsJson = False,
) -> None:
    """Look up samples by a picture or a row of numbers: the nearest ones, with class, person and file.

    \b
    munkey find model picture.png
    munkey find model folder-of-pictures --above 0.95 --html nearest.html
    munkey find model rows.csv --count 3 --json

    An exact copy has the same pixels at the size that the model stores, or is the same row. It is listed first.
    """
    from munkey.core.files import atomic
    from munkey.deploy import json_answers
    from munkey.deploy.model.explain import near_page

    require_page(directory, html)
    with model(directory) as predictor, spinner("looking up"), redirect_stdout(sys.stderr):
        with warnings.catch_warnings(record=True) as skipped:
            warnings.simplefilter("always", UserWarning)
            nearest = predictor.find(pictures, count=count, above=above, on_bad=on_bad)
        for warning in skipped:
            print(f"munkey: {warning.message}", file=sys.stderr)
        if html:
            with atomic(html) as temporary:
                temporary.write_text(near_page(nearest), encoding="utf-8")
    parts = []
    rows_of_file: Counter[str | None] = Counter()
    for file, samples in zip(nearest.files, nearest.samples, strict=True):
        name = f"{file}"
        if nearest.pictures is None:  # rows of numbers: a file may have several
            rows_of_file[file] += 1
            name += f", row {rows_of_file[file]}"
        lines: list[tuple[object, ...]] = [HEADER]
        for sample in samples:
            remark = "exact copy" if sample.copy else ""
            cosine = f"{sample.cosine:.3f}"
            lines.append((cosine, sample.id, sample.label, sample.unit, sample.file, remark))
        listing = table(lines) if samples else "no sample is as near as that"
        parts.append(f"{name}:\n{listing}")
    say("\n\n".join(parts), {"pictures": json_answers.near_samples(nearest)}, as_json)

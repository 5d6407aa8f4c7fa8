"""`munkey explore`: a page on which the samples of a saved model are looked at."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from munkey.cli.arguments import AsJson, Directory, model, require_outside
from munkey.cli.output import say, spinner
from munkey.core.console import pluralize, warn

if TYPE_CHECKING:
    import numpy as np

GENERATOR = b'content="munkey explore"'  # by which a page is known as one of ours


def explore(
    directory: Directory,
    html: Annotated[
        Path, typer.Option("--html", metavar="FILE", help="Where to write the page.")
    ] = Path("explore.html"),
    samples: Annotated[
        int, typer.Option(min=10, max=20_000, help="How many samples to show at most.")
    ] = 3000,
    neighbors: Annotated[
        int, typer.Option(min=1, max=100, help="How many neighbors to show of each.")
    ] = 8,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Show pictures, read from their source files.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a page that shows what a model holds: a map of its samples, and the neighbors of each.

    \b
    munkey explore model --html explore.html
    munkey explore model --pictures

    The page is a file apart from the model: what is forgotten later stays on it. Delete it then.
    """
    import numpy as np

    from munkey.core.files import atomic
    from munkey.explore.page import render_page
    from munkey.explore.saved_model import MemoryRows, choose_page_rows, gather_contents

    require_page_of_ours(directory, html)
    with model(directory) as predictor, spinner("looking up"), redirect_stdout(sys.stderr):
        ids, keys = predictor.keys()
        records = {record.id: record for record in predictor.rows()}
        still_there = np.isin(ids, list(records))  # one may have been deleted between both looks
        ids = ids[still_there]
        keys = keys[still_there]
    if not len(ids):
        raise ValueError(f"{directory}: holds no sample, so there is nothing to show")
    classes = []
    names = []
    for one in ids.tolist():
        record = records[one]
        classes.append(record.label or "no class")
        name = f"#{one}"
        if record.file is not None:
            name = f"{name} {Path(record.file).name}"
        names.append(name)
    read = None
    if pictures:
        files = {one: records[one].file for one in choose_page_rows(ids, samples).tolist()}
        read = pictures_in(files)
    rows = MemoryRows(ids, keys, classes, names)
    text = render_page(gather_contents(directory.resolve().name, rows, samples, neighbors, read))
    with atomic(html) as temporary:
        temporary.write_text(text, encoding="utf-8")
    say(
        f"{html}: {pluralize(min(len(ids), samples), 'sample')} of {len(ids)}",
        {"page": str(html), "samples": min(len(ids), samples), "held": len(ids)},
        as_json,
    )


def require_page_of_ours(directory: Path, file: Path) -> None:
    """Raises ValueError where the page cannot be written: only one of ours is overwritten."""
    require_outside(directory, file)
    if not file.exists():
        return
    is_ours = False
    if file.is_file():
        with file.open("rb") as opened:
            is_ours = GENERATOR in opened.read(1000)
    if not is_ours:
        raise ValueError(
            f"{file}: exists and was not made by this command, so it is left as it is; choose a new"
            " name with --html"
        )


def pictures_in(files: dict[int, str | None]) -> "dict[int, np.ndarray]":
    """The pictures by id that can be read; a warning says how many cannot."""
    from munkey.deploy.errors import PictureError
    from munkey.deploy.model.images import read_picture

    pictures = {}
    for one, file in files.items():
        if file is None:
            continue
        try:
            pictures[one] = read_picture(Path(file))
        except (PictureError, OSError):
            continue
    if len(pictures) < len(files):
        missing = pluralize(len(files) - len(pictures), "picture")
        warn(f"{missing} not shown: the source file is not known or cannot be read")
    return pictures

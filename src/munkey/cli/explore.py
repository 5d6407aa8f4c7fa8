"""The command `munkey explore`, which writes a page that shows a model's samples."""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from munkey.cli.arguments import AsJson, Directory, open_model, require_outside_model
from munkey.cli.output import print_result, show_spinner
from munkey.core.console import pluralize, warn

if TYPE_CHECKING:
    import numpy as np

GENERATOR = b'content="munkey explore"'  # identifies the pages that this command wrote


def explore(
    directory: Directory,
    html: Annotated[
        Path, typer.Option("--html", metavar="FILE", help="Where to write the page.")
    ] = Path("explore.html"),
    samples: Annotated[
        int, typer.Option(min=10, max=20_000, help="Show at most this many samples.")
    ] = 3000,
    neighbors: Annotated[
        int, typer.Option(min=1, max=100, help="Show this many neighbors of each sample.")
    ] = 8,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Show pictures, read from their source files.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a web page with a map of the model's samples and the neighbors of each sample.

    \b
    munkey explore model --html explore.html
    munkey explore model --pictures

    The page is separate from the model: samples that you forget later remain on the page. Delete
    the page then.
    """
    import numpy as np

    from munkey.core.files import atomic
    from munkey.explore.page import render_page
    from munkey.explore.saved_model import MemoryRows, choose_page_rows, gather_contents

    require_explore_page(directory, html)
    with (
        open_model(directory) as predictor,
        show_spinner("looking up"),
        redirect_stdout(sys.stderr),
    ):
        ids, keys = predictor.keys()
        row_by_id = {row.id: row for row in predictor.rows()}
        # Another process may have deleted samples between the two calls.
        is_present = np.isin(ids, list(row_by_id))
        ids = ids[is_present]
        keys = keys[is_present]
    if not len(ids):
        raise ValueError(f"{directory}: the model has no samples, so there is nothing to show")
    classes = []
    names = []
    for sample_id in ids.tolist():
        row = row_by_id[sample_id]
        classes.append(row.label or "no class")
        name = f"#{sample_id}"
        if row.file is not None:
            name = f"{name} {Path(row.file).name}"
        names.append(name)
    images = None
    if pictures:
        shown_ids = choose_page_rows(ids, samples).tolist()
        file_by_id = {sample_id: row_by_id[sample_id].file for sample_id in shown_ids}
        images = read_source_pictures(file_by_id)
    rows = MemoryRows(ids, keys, classes, names)
    title = directory.resolve().name
    text = render_page(gather_contents(title, rows, samples, neighbors, images))
    with atomic(html) as temporary:
        temporary.write_text(text, encoding="utf-8")
    shown_count = min(len(ids), samples)
    print_result(
        f"{html}: {pluralize(shown_count, 'sample')} of {len(ids)}",
        {"page": str(html), "samples": shown_count, "held": len(ids)},
        as_json,
    )


def require_explore_page(directory: Path, file: Path) -> None:
    """Raise ValueError if `file` is inside the model, or exists and this command did not write it."""
    require_outside_model(directory, file)
    if not file.exists():
        return
    is_explore_page = False
    if file.is_file():
        with file.open("rb") as page_file:
            is_explore_page = GENERATOR in page_file.read(1000)
    if not is_explore_page:
        raise ValueError(
            f"{file}: exists, but this command did not write it, so it is not overwritten; choose a"
            " new name with --html"
        )


def read_source_pictures(files: dict[int, str | None]) -> "dict[int, np.ndarray]":
    """Read the source pictures of samples, by id. Warns about those that cannot be read."""
    from munkey.deploy.errors import PictureError
    from munkey.deploy.model.images import read_picture

    pictures = {}
    for sample_id, file in files.items():
        if file is None:
            continue
        try:
            pictures[sample_id] = read_picture(Path(file))
        except (PictureError, OSError):
            continue
    if len(pictures) < len(files):
        missing_pictures = pluralize(len(files) - len(pictures), "picture")
        warn(f"{missing_pictures} not shown because the source file is unknown or cannot be read")
    return pictures

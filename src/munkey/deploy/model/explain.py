"""Explanations of predictions, and lists of near samples, as tables and HTML pages."""

import base64
import io
from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.ids import NO_NEIGHBOR
from munkey.core.templates import render_template
from munkey.deploy.errors import PictureError
from munkey.deploy.model.find import NearSample, NearSamples
from munkey.deploy.model.images import read_picture
from munkey.deploy.model.prediction import ExplanationRow, Prediction

MAX_SIDE = 128  # longest side of a picture on a page [px]
TITLE = "munkey: explained predictions"
NEAR_TITLE = "munkey: the nearest samples"
PAGE = Path(__file__).parents[1] / "explain.html.j2"
NO_NEIGHBORS = "No neighbors: the memory is empty, so the model used only the picture."
HEADERS = (
    "picture",
    "answer",
    "probability",
    "neighbor",
    "id",
    "label",
    "weight",
    "cosine",
    "source file",
)
# Columns of names, never to be formatted as numbers: a class may be called 1.50.
NAME_COLUMNS = [HEADERS.index(header) for header in ("answer", "label", "source file")]


def table(prediction: Prediction) -> str:
    """Format a table with one row for each neighbor that the predictions are based on.

    If there are no neighbors, return the sentence that describes how the model predicts.
    """
    from tabulate import tabulate

    table_rows = []
    for row in prediction.explanation():
        table_row = (
            row.picture,
            row.answer,
            row.probability,
            row.rank,
            row.id,
            row.label or "?",
            row.weight,
            row.cosine,
            row.file,
        )
        table_rows.append(table_row)
    if not table_rows:
        return prediction.basis
    return tabulate(
        table_rows, HEADERS, floatfmt=".3f", missingval="unknown", disable_numparse=NAME_COLUMNS
    )


def page(prediction: Prediction, images: np.ndarray | None = None) -> str:
    """Render an HTML page that explains predictions, with each picture next to its neighbors.

    The picture of a neighbor is read from its source file. images: the images of the data set
    (N, H, W, 3), for neighbors whose source file is missing; row i belongs to sample i. For a run,
    this is results/NAME/data/DATASET/images.npy.
    """
    neighbors_of_picture: list[list[dict[str, object]]] = [[] for _ in prediction.classes]
    for row in prediction.explanation():
        entry: dict[str, object] = {
            "row": row,
            "picture": None,
            "weight": row.weight,
            "unit": None,
            "is_copy": False,
        }
        if prediction.pictures is not None:
            entry["picture"] = _load_picture(row, images)
        neighbors_of_picture[row.picture].append(entry)
    queries = []
    for index, class_name in enumerate(prediction.classes):
        query = {
            "name": class_name,
            "probability": float(prediction.probabilities[index].max()),
            "picture": None,
            "file": prediction.files[index],
            "neighbors": neighbors_of_picture[index],
        }
        if prediction.pictures is not None:
            query["picture"] = encode_picture(prediction.pictures[index])
        queries.append(query)
    if prediction.neighbors.ids.shape[1] > 0:
        without_neighbors = NO_NEIGHBORS
    else:
        without_neighbors = "All samples contribute to this prediction, not single neighbors."
    return render_template(
        PAGE,
        {
            "title": TITLE,
            "heading": "Predictions and their neighbors",
            "lines": [prediction.basis],
            "queries": queries,
            "no_neighbor": without_neighbors,
        },
    )


def render_near_page(near_samples: NearSamples, images: np.ndarray | None = None) -> str:
    """Render an HTML page with each picture next to its nearest samples. images: as for `page`."""
    queries = []
    for index, samples in enumerate(near_samples.samples):
        neighbors = []
        for sample in samples:
            entry = {
                "row": sample,
                "picture": None,
                "weight": None,
                "unit": sample.unit,
                "is_copy": sample.copy,
            }
            if near_samples.pictures is not None:
                entry["picture"] = _load_picture(sample, images)
            neighbors.append(entry)
        query = {
            "name": None,
            "picture": None,
            "file": near_samples.files[index],
            "neighbors": neighbors,
        }
        if near_samples.pictures is not None:
            query["picture"] = encode_picture(near_samples.pictures[index])
        queries.append(query)
    return render_template(
        PAGE,
        {
            "title": NEAR_TITLE,
            "heading": "The samples nearest to each picture",
            "lines": [
                "Left: the picture or row that you looked up. Right: the nearest samples in the model,"
                " by cosine of keys."
            ],
            "queries": queries,
            "no_neighbor": "The model has no sample near this one.",
        },
    )


def is_explanation_page(path: Path) -> bool:
    """Return whether `page` or `render_near_page` made the page in a file, judging by its title."""
    with path.open("rb") as file:
        start = file.read(1000)
    return any(f"<title>{title}</title>".encode() in start for title in (TITLE, NEAR_TITLE))


def _load_picture(row: ExplanationRow | NearSample, images: np.ndarray | None) -> str | None:
    """Load the picture of a neighbor as a data URL; None if it has no readable source.

    images: as for `page`. Warns if a source file cannot be read.
    """
    if row.file is not None:
        try:
            return encode_picture(read_picture(Path(row.file)))
        except (PictureError, OSError) as error:
            warn(str(error))
    if images is not None and NO_NEIGHBOR < row.id < len(images):
        return encode_picture(np.asarray(images[row.id]))
    return None


def encode_picture(image: np.ndarray) -> str:
    """Encode a picture (H, W, 3) uint8 as a PNG data URL, with sides of at most MAX_SIDE pixels."""
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(image))
    file = io.BytesIO()
    picture.thumbnail((MAX_SIDE, MAX_SIDE))
    picture.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"

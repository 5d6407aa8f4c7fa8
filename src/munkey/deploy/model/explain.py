"""Explanations of answers, and samples near a picture, as tables and as pages with pictures."""

import base64
import io
from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.ids import NOBODY
from munkey.core.templates import render_template
from munkey.deploy.errors import PictureError
from munkey.deploy.model.find import NearSample, NearSamples
from munkey.deploy.model.images import read_picture
from munkey.deploy.model.prediction import ExplanationRow, Prediction

SIDE = 128  # longest side of a picture on the page [px]
TITLE = "munkey: what the answers rest on"
NEAR_TITLE = "munkey: the nearest samples"
PAGE = Path(__file__).parents[1] / "explain.html.j2"
NO_NEIGHBOR = "No neighbor: no trained sample is left, so the picture alone was read."
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
    """A line for each neighbor that the answers rest on; without any, how the model answers."""
    from tabulate import tabulate

    lines = [
        (
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
        for row in prediction.explanation()
    ]
    if not lines:
        return prediction.basis
    return tabulate(
        lines, HEADERS, floatfmt=".3f", missingval="unknown", disable_numparse=NAME_COLUMNS
    )


def page(prediction: Prediction, images: np.ndarray | None = None) -> str:
    """One HTML file that says how the model answers, with each picture beside its neighbors.

    A neighbor's picture is read from its source file. images: of the data set, row i of sample i,
    for samples without a source file (of a run: results/NAME/data/DATASET/images.npy). Without
    either, the page says so.
    """
    neighbors: list[list[dict[str, object]]] = [[] for _ in prediction.classes]
    for row in prediction.explanation():
        entry: dict[str, object] = {
            "row": row,
            "picture": None if prediction.pictures is None else _picture_of(row, images),
            "weight": row.weight,
            "unit": None,
            "is_copy": False,
        }
        neighbors[row.picture].append(entry)
    answers = []
    for number, name in enumerate(prediction.classes):
        answer = {
            "name": name,
            "probability": float(prediction.probabilities[number].max()),
            "picture": None,
            "file": prediction.files[number],
            "neighbors": neighbors[number],
        }
        if prediction.pictures is not None:
            answer["picture"] = data_url(prediction.pictures[number])
        answers.append(answer)
    without_neighbors = "No single sample decided: all of them together did."
    if prediction.neighbors.ids.shape[1] > 0:
        without_neighbors = NO_NEIGHBOR
    return render_template(
        PAGE,
        {
            "title": TITLE,
            "heading": "What the answers rest on",
            "lines": [prediction.basis],
            "answers": answers,
            "nobody": without_neighbors,
        },
    )


def near_page(near: NearSamples, images: np.ndarray | None = None) -> str:
    """One HTML file with each picture beside the samples near it. images: as for `page`."""
    answers = []
    for number, samples in enumerate(near.samples):
        neighbors = []
        for sample in samples:
            entry = {
                "row": sample,
                "picture": None if near.pictures is None else _picture_of(sample, images),
                "weight": None,
                "unit": sample.unit,
                "is_copy": sample.copy,
            }
            neighbors.append(entry)
        query = None if near.pictures is None else data_url(near.pictures[number])
        answers.append(
            {"name": None, "picture": query, "file": near.files[number], "neighbors": neighbors}
        )
    return render_template(
        PAGE,
        {
            "title": NEAR_TITLE,
            "heading": "The samples nearest to each picture",
            "lines": [
                "Left: what was asked about. Right: the nearest samples that the model holds, by"
                " cosine of keys."
            ],
            "answers": answers,
            "nobody": "The model holds no sample that is as near as that.",
        },
    )


def is_page(path: Path) -> bool:
    """Whether `page` or `near_page` made a file, by its title."""
    with path.open("rb") as file:
        start = file.read(1000)
    return any(f"<title>{title}</title>".encode() in start for title in (TITLE, NEAR_TITLE))


def _picture_of(row: ExplanationRow | NearSample, images: np.ndarray | None) -> str | None:
    """A neighbor's picture as a data URL; None if its source is unknown or cannot be read."""
    if row.file is not None:
        try:
            return data_url(read_picture(Path(row.file)))
        except (PictureError, OSError) as error:
            warn(str(error))
    if images is not None and NOBODY < row.id < len(images):
        return data_url(np.asarray(images[row.id]))
    return None


def data_url(image: np.ndarray) -> str:
    """A picture (H, W, 3) uint8 as a PNG, at most SIDE pixels wide and high."""
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(image))
    file = io.BytesIO()
    picture.thumbnail((SIDE, SIDE))
    picture.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"

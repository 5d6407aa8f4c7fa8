"""What an answer rests on, and what is near to a picture, as tables for the terminal and as pages with pictures."""

import base64
import io
from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.ids import NOBODY
from munkey.core.templates import rendered
from munkey.deploy.errors import PictureError
from munkey.deploy.model.find import NearSample, NearSamples
from munkey.deploy.model.images import read_picture
from munkey.deploy.model.prediction import ExplanationRow, Prediction

SIDE = 128  # longest side of a picture on the page [px]
TITLE = "munkey: what the answers rest on"  # of the page
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
# a class may be called 1.50
NAMES = [HEADERS.index(header) for header in ("answer", "label", "source file")]


def table(prediction: Prediction) -> str:
    """How the model answers, and a line for each neighbor that the answers rest on."""
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
    return tabulate(lines, HEADERS, floatfmt=".3f", missingval="unknown", disable_numparse=NAMES)


def page(prediction: Prediction, images: np.ndarray | None = None) -> str:
    """One HTML file that says how the model answers, and shows each picture beside the neighbors that decided.

    A neighbor's picture is read from its source file. images: of the data set, row i of sample i, for samples without a
    source file (of a run: results/NAME/data/DATASET/images.npy). Without either, the page says that there is none.
    """
    near: list[list[dict[str, object]]] = [[] for _ in prediction.classes]
    for row in prediction.explanation():
        picture = None if prediction.pictures is None else _picture(row, images)
        near[row.picture].append(
            {"row": row, "picture": picture, "weight": row.weight, "unit": None, "is_copy": False}
        )
    answers = [
        {
            "name": name,
            "probability": float(prediction.probabilities[number].max()),
            "picture": None
            if prediction.pictures is None
            else data_url(prediction.pictures[number]),
            "file": prediction.files[number],
            "neighbors": near[number],
        }
        for number, name in enumerate(prediction.classes)
    ]
    asks_neighbors = prediction.neighbors.ids.shape[1] > 0
    nobody = (
        NO_NEIGHBOR if asks_neighbors else "No single sample decided: all of them together did."
    )
    heading = "What the answers rest on"
    lines = [prediction.basis]
    return rendered(
        PAGE,
        {"title": TITLE, "heading": heading, "lines": lines, "answers": answers, "nobody": nobody},
    )


def near_page(found: NearSamples, images: np.ndarray | None = None) -> str:
    """One HTML file that shows each picture beside the samples that are near to it. images: as for `page`."""
    answers = []
    for number, samples in enumerate(found.samples):
        near = []
        for sample in samples:
            picture = None if found.pictures is None else _picture(sample, images)
            near.append(
                {
                    "row": sample,
                    "picture": picture,
                    "weight": None,
                    "unit": sample.unit,
                    "is_copy": sample.copy,
                }
            )
        asked = None if found.pictures is None else data_url(found.pictures[number])
        answers.append(
            {"name": None, "picture": asked, "file": found.files[number], "neighbors": near}
        )
    return rendered(
        PAGE,
        {
            "title": NEAR_TITLE,
            "heading": "The samples nearest to each picture",
            "lines": [
                "Left: what was asked about. Right: the nearest samples that the model holds, by cosine of keys."
            ],
            "answers": answers,
            "nobody": "The model holds no sample that is as near as that.",
        },
    )


def is_page(path: Path) -> bool:
    """Whether a file is a page that `page` or `near_page` made, by its title."""
    with path.open("rb") as file:
        start = file.read(1000)
    return any(f"<title>{title}</title>".encode() in start for title in (TITLE, NEAR_TITLE))


def _picture(row: ExplanationRow | NearSample, images: np.ndarray | None) -> str | None:
    """A neighbor's picture as a data URL; None where its source is not known or cannot be read."""
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

    picture, file = Image.fromarray(np.ascontiguousarray(image)), io.BytesIO()
    picture.thumbnail((SIDE, SIDE))
    picture.save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"

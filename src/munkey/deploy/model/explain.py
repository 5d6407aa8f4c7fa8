"""What an answer rests on, as a table for the terminal and as a page with pictures."""

import base64
import io
from pathlib import Path

import numpy as np

from munkey.core.console import warn
from munkey.core.ids import NOBODY
from munkey.deploy.errors import PictureError
from munkey.deploy.model.images import read_picture
from munkey.deploy.model.prediction import ExplanationRow, Prediction

SIDE = 128  # longest side of a picture on the page [px]
TITLE = "munkey: what the answers rest on"  # of the page
HEADERS = ("picture", "answer", "probability", "neighbor", "id", "label", "weight", "cosine", "source file")
NAMES = [HEADERS.index(header) for header in ("answer", "label", "source file")]  # a class may be called 1.50


def table(prediction: Prediction) -> str:
    """A line for each neighbor that the answers rest on."""
    from tabulate import tabulate

    lines = [
        (row.picture, row.answer, row.probability, row.rank, row.id, row.label or "?", row.weight, row.cosine, row.file)
        for row in prediction.explained()
    ]
    return tabulate(lines, HEADERS, floatfmt=".3f", missingval="unknown", disable_numparse=NAMES)


def page(prediction: Prediction, images: np.ndarray | None = None) -> str:
    """One HTML file that shows each picture beside the neighbors that its answer rests on.

    A neighbor's picture is read from its source file. images: of the data set, row i of sample i, for samples without a
    source file (of a run: results/NAME/data/DATASET/images.npy). Without either, the page says that there is none.
    """
    near: list[list[dict[str, object]]] = [[] for _ in prediction.classes]
    for row in prediction.explained():
        near[row.picture].append({"row": row, "picture": _picture(row, images)})
    answers = [
        {
            "name": name,
            "probability": float(prediction.probabilities[number].max()),
            "picture": data_url(prediction.pictures[number]),
            "file": prediction.files[number],
            "neighbors": near[number],
        }
        for number, name in enumerate(prediction.classes)
    ]
    return rendered("explain.html.j2", title=TITLE, answers=answers)


def rendered(template: str, **values: object) -> str:
    """A template of this package, filled in; HTML is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    loader, escape = PackageLoader("munkey.deploy", "."), select_autoescape(["html.j2"])
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, autoescape=escape)
    environment.loader, environment.keep_trailing_newline = loader, True
    return environment.get_template(template).render(values)


def is_page(path: Path) -> bool:
    """Whether a file is a page that `page` made, by its title."""
    with path.open("rb") as file:
        return f"<title>{TITLE}</title>".encode() in file.read(1000)


def _picture(row: ExplanationRow, images: np.ndarray | None) -> str | None:
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

"""The contents of the page of a data set or a model, and the list of its views."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

FULL = "full"  # the memory before any request


class View(NamedTuple):
    """A view of the page.

    name: its entry in VIEWS of page.js, which draws it. title: its heading. looks_at: the sentence
    above it, which says what to look for. of_model: that sentence on the page of a saved model,
    which has only keys; None for a view that such a page does not have.
    """

    name: str
    title: str
    looks_at: str
    of_model: str | None = None


# A sixth view is a line here, and an entry of VIEWS of this name in page.js.
VIEWS = (
    View(
        "designs",
        "Which design?",
        "The best designs (a model with its unlearning method) are at the lower right: they answer most"
        " test pictures correctly, and nearly as if they had never seen the forgotten ones.",
    ),
    View(
        "samples",
        "Sample by sample",
        "Each column is one forgotten picture: the farther A's disk lies above the dash of its oracle, a"
        " model that never saw the picture, the more of it A still remembers.",
    ),
    View(
        "map",
        "Map",
        "Each mark is a picture, and similar pictures lie close together: look for forgotten ones"
        " (ringed) that lie among another class.",
        of_model="Samples with similar keys lie close together: one that lies among another class may"
        " have a wrong label.",
    ),
    View(
        "neighbors",
        "Neighbors",
        "Look for pictures that are very similar to a forgotten one: they remain in the memory, some move"
        " up (▲, double frame), and a model may answer from them.",
        of_model="Look for samples that are very similar to the chosen one: if it is forgotten, they"
        " remain, and a person may want them forgotten, too.",
    ),
    View(
        "requests",
        "Over requests",
        "See whether a model stays useful as people withdraw pictures again and again: its numbers should"
        " stay near its oracle's, whatever is forgotten.",
    ),
)


@dataclass(frozen=True)
class PageSamples:
    """The samples of the page, in the order of every other array. N of them.

    names: file names or other labels to show; x, y: their keys in the plane.
    """

    ids: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    x: np.ndarray
    y: np.ndarray
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class Thumbnails:
    """Small pictures in one image, row by row. uri: the image as a data URI; side: of one [px]."""

    uri: str
    side: int
    columns: int


@dataclass(frozen=True)
class NearRows:
    """The nearest rows of a memory to each sample: ids (N x depth) and cosines, row by row."""

    ids: np.ndarray
    cosines: np.ndarray
    depth: int


@dataclass(frozen=True)
class SystemAnswers:
    """Answers of a system. top: predicted classes; p_true: probability of the true class, in 1/65535.

    diverged: the reason why it has no answers, if it has none.
    """

    top: np.ndarray
    p_true: np.ndarray
    diverged: str | None = None


@dataclass(frozen=True)
class Contents:
    """The contents of a page.

    advice: which design to deploy, in a sentence, commands between backticks. words: the meaning of the page's terms.

    A request is `rate0.1`, or of a scenario `scenario/class/rate0.1`. near: by `full` or
    SEED/REQUEST, the memory that is searched. forgotten: positions of samples by SEED/REQUEST.
    answers: by SEED/REQUEST/SYSTEM, of originals SEED/full/SYSTEM. counts, correct: of the whole
    data set, samples and correct answers by part (test, retain, forget) and class, complete where
    the page shows a part of the samples; by SEED/REQUEST, and SEED/REQUEST/SYSTEM.
    """

    title: str
    subtitle: str
    scope: str
    classes: Sequence[str]
    samples: PageSamples
    projection: str
    is_experiment: bool
    advice: str = ""
    pictures: Thumbnails | None = None
    requests: Sequence[Mapping[str, Any]] = ()
    seeds: Sequence[int] = ()
    systems: Sequence[Mapping[str, Any]] = ()
    answers: Mapping[str, SystemAnswers] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    correct: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    forgotten: Mapping[str, np.ndarray] = field(default_factory=dict)
    near: Mapping[str, NearRows] = field(default_factory=dict)
    designs: Sequence[Mapping[str, Any]] = ()
    streams: Sequence[Mapping[str, Any]] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def views(self) -> list[View]:
        """The views of this page, each with the sentence that fits."""
        if self.is_experiment:
            return list(VIEWS)
        views = []
        for view in VIEWS:
            if view.of_model is not None:
                views.append(view._replace(looks_at=view.of_model))
        return views


def encode_json(value: Any) -> Any:
    """Convert a value that `json` cannot encode: a numeric array to its type and base64 bytes."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        little_endian = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        text = base64.b64encode(little_endian.tobytes()).decode()
        return {"type": value.dtype.name, "base64": text}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise TypeError(f"{type(value).__name__} cannot stand on a page")

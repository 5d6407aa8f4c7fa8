"""The contents of the page of a data set or of a saved model, and its views."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

FULL = "full"  # the memory before any request


class View(NamedTuple):
    """A view of the page.

    Attributes
    ----------
    name
        Its key in VIEWS of page.js, which draws it.
    title
        Its heading.
    guide
        The sentence below the heading, which tells a reader what to look for.
    model_guide
        The same sentence on the page of a saved model, which has only keys; None for a view that
        such a page does not have.
    """

    name: str
    title: str
    guide: str
    model_guide: str | None = None


# To add a view, add it here, and an entry of the same name to VIEWS in page.js.
VIEWS = (
    View(
        "designs",
        "Which design?",
        "The best designs (a model with its unlearning method) are at the lower right: they classify most"
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
        model_guide="Samples with similar keys lie close together: one that lies among another class may"
        " have a wrong label.",
    ),
    View(
        "neighbors",
        "Neighbors",
        "Look for pictures that are very similar to a forgotten one: they remain in the memory, some move"
        " up (▲, double frame), and a model may base its predictions on them.",
        model_guide="Look for samples that are very similar to the chosen one: if it is forgotten, they"
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
    """The samples of the page; all other arrays are in the same order.

    Attributes
    ----------
    ids, labels, splits
        Of each sample, (N,).
    x, y
        The keys in the plane, (N,) each.
    names
        The names to show, e.g. file names; None to show ids.
    """

    ids: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    x: np.ndarray
    y: np.ndarray
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class Thumbnails:
    """Small square pictures in one image, row by row.

    Attributes
    ----------
    uri
        The image as a data URI.
    side
        The side of a picture [px].
    columns
        The number of pictures in a row.
    """

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
class SystemPredictions:
    """The predictions of a system.

    Attributes
    ----------
    top
        The predicted classes.
    p_true
        The probabilities of the true classes, in units of 1/65535.
    diverged
        The reason why the system has no predictions; None if it has some.
    """

    top: np.ndarray
    p_true: np.ndarray
    diverged: str | None = None


@dataclass(frozen=True)
class Contents:
    """The contents of a page.

    REQUEST stands for the name of a request, e.g. `rate0.1`, or `scenario/class/rate0.1` in a
    scenario.

    Attributes
    ----------
    advice
        A sentence on which design to deploy, with commands in backticks.
    answers
        The predictions by SEED/REQUEST/SYSTEM; those of originals by SEED/full/SYSTEM.
    counts
        The numbers of samples by SEED/REQUEST, part (test, retain, forget) and class. They are those
        of the whole data set, even if the page shows only some of its samples.
    correct
        The numbers of correct predictions, by SEED/REQUEST/SYSTEM, part and class.
    forgotten
        The positions of the forgotten samples on the page, by SEED/REQUEST.
    near
        The neighbors by the memory that was searched: `full`, or SEED/REQUEST.
    glossary
        The meanings of the page's terms.
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
    answers: Mapping[str, SystemPredictions] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    correct: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    forgotten: Mapping[str, np.ndarray] = field(default_factory=dict)
    near: Mapping[str, NearRows] = field(default_factory=dict)
    designs: Sequence[Mapping[str, Any]] = ()
    streams: Sequence[Mapping[str, Any]] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    glossary: Mapping[str, str] = field(default_factory=dict)

    @property
    def views(self) -> list[View]:
        """The views of this page, each with the guide for this kind of page."""
        if self.is_experiment:
            return list(VIEWS)
        views = []
        for view in VIEWS:
            if view.model_guide is not None:
                views.append(view._replace(guide=view.model_guide))
        return views


def encode_json(value: Any) -> Any:
    """Convert a value that `json` cannot encode; a numeric array becomes its type and base64 bytes."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        little_endian = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        text = base64.b64encode(little_endian.tobytes()).decode()
        return {"type": value.dtype.name, "base64": text}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")

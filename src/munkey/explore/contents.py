"""The contents of the page of a data set or a saved model, and the list of its views."""

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
        The name of the entry in VIEWS of page.js that draws the view.
    title
        The heading.
    looks_at
        The sentence below the heading, which tells the reader what to look for.
    model_looks_at
        The same sentence for the page of a saved model; None if that page lacks the view.
    """

    name: str
    title: str
    looks_at: str
    model_looks_at: str | None = None


# To add a view, add an entry here and an entry of the same name to VIEWS in page.js.
VIEWS = (
    View(
        "designs",
        "Which design?",
        "The best designs (a model with its unlearning method) are at the lower right: they classify most"
        " test pictures correctly and behave almost as if they had never seen the forgotten ones.",
    ),
    View(
        "samples",
        "Sample by sample",
        "Each column is one forgotten picture. The dash shows its oracle, a model that never saw the"
        " picture. The higher A's disk is above the dash, the more A still remembers of the picture.",
    ),
    View(
        "changes",
        "Changed predictions",
        "Look for pictures that A classifies differently than before forgetting. The new prediction should be"
        " that of A's oracle, and few test pictures should be listed.",
    ),
    View(
        "map",
        "Map",
        "Each mark is a picture, and similar pictures are close together. Look for forgotten pictures"
        " (ringed) in the middle of another class.",
        model_looks_at="Samples with similar keys are close together. A sample in the middle of another"
        " class may have a wrong label.",
    ),
    View(
        "neighbors",
        "Neighbors",
        "Look for pictures that are very similar to a forgotten one. They remain in the memory, some of"
        " them move up (▲, double frame), and a model may base its predictions on them.",
        model_looks_at="Look for samples that are very similar to the chosen one. If it is forgotten, they"
        " remain, but a person may want them to be forgotten, too.",
    ),
    View(
        "requests",
        "Over requests",
        "See whether a model remains useful as people withdraw pictures again and again. Its numbers"
        " should stay close to its oracle's, no matter what is forgotten.",
    ),
)


@dataclass(frozen=True)
class PageSamples:
    """The N samples on the page. All other arrays have the same order.

    Attributes
    ----------
    x, y
        The coordinates of the samples' keys on the map.
    names
        File names or other labels to show.
    """

    ids: np.ndarray
    labels: np.ndarray
    splits: np.ndarray
    x: np.ndarray
    y: np.ndarray
    names: Sequence[str] | None = None


@dataclass(frozen=True)
class Thumbnails:
    """Small pictures, arranged row by row in a single image.

    Attributes
    ----------
    uri
        The image as a data URI.
    side
        The width and height of a thumbnail in pixels.
    columns
        The number of thumbnails in a row.
    """

    uri: str
    side: int
    columns: int


@dataclass(frozen=True)
class NearRows:
    """The `depth` nearest rows of a memory to each of N samples.

    Attributes
    ----------
    ids, cosines
        Flattened arrays (N * depth,), sample by sample.
    """

    ids: np.ndarray
    cosines: np.ndarray
    depth: int


@dataclass(frozen=True)
class SystemPredictions:
    """A system's predictions for the samples on the page.

    Attributes
    ----------
    top
        The predicted classes (N,).
    p_true
        The probabilities (N,) of the true class, in units of 1/65535.
    diverged
        Why the system diverged, in which case the page shows no predictions; None if it did not.
    """

    top: np.ndarray
    p_true: np.ndarray
    diverged: str | None = None


@dataclass(frozen=True)
class Contents:
    """The contents of a page.

    The key of a request is `rate0.1` or, in a scenario, `scenario/class/rate0.1`.

    Attributes
    ----------
    subtitle
        The line below the title. Code is between backticks.
    scope
        Sentences that state which samples the page shows.
    projection
        A sentence that explains the map.
    is_experiment
        Whether the page is about an experiment. Otherwise, it is about a saved model, and the
        fields from `requests` on are empty, except for `near`.
    advice
        A sentence that recommends a design. Commands are between backticks.
    requests, systems, designs, streams
        The results of the functions `list_...` in munkey.studies.explore.results.
    predictions
        By SEED/REQUEST/SYSTEM, or by SEED/full/SYSTEM for originals.
    counts
        The number of samples in the whole data set by SEED/REQUEST, then by part (test, retain,
        forget); one number per class.
    correct
        The number of correctly classified samples by SEED/REQUEST/SYSTEM, otherwise like `counts`.
    forgotten
        The positions of the forgotten samples in `samples`, by SEED/REQUEST.
    near
        The neighbors of the samples, by the memory that was searched: `full` or SEED/REQUEST.
    commands
        The commands that produce optional results, by the part of the page that needs them.
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
    predictions: Mapping[str, SystemPredictions] = field(default_factory=dict)
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
        """The views of this page, with the sentences for an experiment or for a saved model."""
        if self.is_experiment:
            return list(VIEWS)
        views = []
        for view in VIEWS:
            if view.model_looks_at is not None:
                views.append(view._replace(looks_at=view.model_looks_at))
        return views


def encode_json(value: Any) -> Any:
    """Convert a value that `json` cannot encode by itself.

    A numeric array becomes its type and its base64-encoded bytes; other arrays become lists, and
    dataclasses become dictionaries. Raises TypeError for any other value.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        little_endian = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        text = base64.b64encode(little_endian.tobytes()).decode()
        return {"type": value.dtype.name, "base64": text}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    raise TypeError(f"a page cannot contain a {type(value).__name__}")

"""The section `explore` of params.yaml."""

from typing import Annotated

from pydantic import Field

from munkey.settings import Section


class ExploreSettings(Section):
    """The web page that shows single samples and their neighbors.

    Attributes
    ----------
    samples
        The maximum number of samples to show.
    neighbors
        The number of neighbors to show for each sample.
    pictures
        Whether to show pictures; if false, only ids are shown.
    """

    samples: Annotated[int, Field(ge=10, le=20_000)]
    neighbors: Annotated[int, Field(ge=1, le=100)]
    pictures: bool

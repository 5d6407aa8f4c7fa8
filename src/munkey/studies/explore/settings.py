"""The section `explore` of params.yaml."""

from typing import Annotated

from pydantic import Field

from munkey.settings import Section


class ExploreSettings(Section):
    """The section `explore`: the page that shows single samples and their neighbors."""

    samples: Annotated[int, Field(ge=10, le=20_000)]
    neighbors: Annotated[int, Field(ge=1, le=100)]
    pictures: bool

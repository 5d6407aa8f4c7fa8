"""The section `selection` of params.yaml."""

from typing import Annotated

from pydantic import Field

from munkey.settings import NonNegative, Positive, Probability, Section


class SelectionSettings(Section):
    """The section `selection`: which (p_image, p_token) to choose from (sec. 3.2, app. E)."""

    p_image: Annotated[list[Probability], Field(min_length=1, max_length=20)]
    p_token: Annotated[list[Probability], Field(min_length=1, max_length=20)]
    threshold: Positive
    comparable: NonNegative

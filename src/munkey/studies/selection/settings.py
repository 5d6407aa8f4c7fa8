"""The section `selection` of params.yaml."""

from typing import Annotated

from pydantic import Field

from munkey.settings import NonNegative, Positive, Probability, Section


class SelectionSettings(Section):
    """The grid of (p_image, p_token), and how to choose from it (the paper's sec. 3.2 and app. E).

    Attributes
    ----------
    p_image, p_token
        The probabilities to try of dropping the image and the token in training.
    threshold
        Pairs whose pathway sensitivity P_s is not below this threshold are dropped.
    comparable
        Pairs whose gaps are within this many points of the smallest gap count as equally good; of
        these, the pair with the smallest P_s is chosen.
    """

    p_image: Annotated[list[Probability], Field(min_length=1, max_length=20)]
    p_token: Annotated[list[Probability], Field(min_length=1, max_length=20)]
    threshold: Positive
    comparable: NonNegative

"""The section `stream` of params.yaml."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from munkey.settings import Section


class StreamSettings(Section):
    """A stream of deletion requests for the samples of an audit's pool.

    Attributes
    ----------
    pairs
        The number of pairs of models.
    requests
        The number of requests that half of a pool is divided into.
    additions
        The requests, numbered from 1, after which new samples are added.
    """

    pairs: Annotated[int, Field(ge=2, le=64)]
    requests: Annotated[int, Field(ge=2, le=1000)]
    additions: list[Annotated[int, Field(ge=1)]]

    @model_validator(mode="after")
    def _check_additions(self) -> Self:
        if max(self.additions, default=0) > self.requests:
            raise ValueError(
                f"additions = {self.additions}: there are only {self.requests} requests"
            )
        return self

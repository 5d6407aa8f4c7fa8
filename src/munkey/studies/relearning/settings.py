"""The section `audit.relearn` of params.yaml."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from munkey.settings import Positive, Section


class RelearnSettings(Section):
    """Further training on the retain set only, to see whether the system relearns deleted samples.

    Attributes
    ----------
    steps
        The numbers of steps after which to measure.
    lr_factor
        The constant learning rate divided by train.lr.
    """

    steps: Annotated[
        list[Annotated[int, Field(ge=0, le=1_000_000)]], Field(min_length=2, max_length=100)
    ]
    lr_factor: Positive

    @model_validator(mode="after")
    def _check_steps(self) -> Self:
        if self.steps[0] or sorted(set(self.steps)) != self.steps:
            raise ValueError(f"steps = {self.steps} must start with 0 and ascend")
        return self

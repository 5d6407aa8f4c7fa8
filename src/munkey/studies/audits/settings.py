"""The section `audit` of params.yaml."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from munkey.settings import Count, FurtherPath, Section

# A second pool must not overlap the first, and both together must leave some training samples.
MAX_REDRAWN_POOL = 0.4


class AuditSettings(Section):
    """The section `audit`: how many pairs of models swap the halves of which pool."""

    pairs: Annotated[int, Field(ge=2, le=64)]
    pool: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    pool_of: Literal["random", "hardest", "mislabeled", "class", "unit", "cluster"]
    oracles: Annotated[int, Field(ge=2, le=64)]
    control_pairs: Annotated[int, Field(ge=0, le=64)]
    control: dict[str, object]
    k: Count
    paths: list[FurtherPath]
    grid_pairs: Annotated[int, Field(ge=2, le=64)]
    grid: Annotated[
        list[dict[str, Annotated[list[object], Field(min_length=1)]]],
        Field(min_length=1, max_length=100),
    ]
    draw: Annotated[int, Field(ge=0)]
    in_paper: bool

    @model_validator(mode="after")
    def _check_draw(self) -> Self:
        if self.draw and (self.pool_of != "random" or self.pool > MAX_REDRAWN_POOL):
            raise ValueError(
                f"draw = {self.draw} must be 0, except for random pools of at most"
                f" {MAX_REDRAWN_POOL}"
            )
        return self

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        if "probe" in self.paths and self.pool_of == "class":
            raise ValueError(
                "paths: probe needs training samples of all classes outside the pool, but pool_of is"
                " class"
            )
        return self

    @model_validator(mode="after")
    def _check_control_pairs(self) -> Self:
        if self.control_pairs == 1:
            raise ValueError(
                "control_pairs = 1: an interval needs at least 2 pairs; 0 runs no control"
            )
        return self

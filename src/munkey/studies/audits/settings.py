"""The section `audit` of params.yaml."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from munkey.settings import Count, Section

# A second pool must not overlap the first, and both together must leave some training samples.
MAX_REDRAWN_POOL = 0.4


class AuditSettings(Section):
    """An audit: how many pairs of models swap the halves of which pool.

    Attributes
    ----------
    pairs
        The number of pairs for each system.
    pool
        The pool's share of the training set. A model trains on half of the pool and forgets it.
    pool_of
        The samples in the pool: `random`, `hardest` (most often misclassified by their nearest
        keys), `mislabeled` (random, trained with a wrong label), or whole groups (`class`, `unit`,
        `cluster`), each of which belongs to one half.
    oracles
        The number of pairs of models that never see the pool.
    control_pairs
        The number of pairs of a control that is known to retain deleted samples; 0 for no control.
    control
        The settings that differ for this control, by knob.
    k
        The number of neighbors to average when a memory is queried a second time; at most
        `keys.depth`.
    grid
        Blocks of knobs with the values to try. An audit is run for each combination in a block.
    grid_pairs
        The number of pairs for each combination.
    in_paper
        Whether the target `paper` and its report include the audit.
    draw
        0 for the first random pool; n for the n-th further pool, which does not overlap the first.
    """

    pairs: Annotated[int, Field(ge=2, le=64)]
    pool: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
    pool_of: Literal["random", "hardest", "mislabeled", "class", "unit", "cluster"]
    oracles: Annotated[int, Field(ge=2, le=64)]
    control_pairs: Annotated[int, Field(ge=0, le=64)]
    control: dict[str, object]
    k: Count
    grid_pairs: Annotated[int, Field(ge=2, le=64)]
    grid: Annotated[
        list[dict[str, Annotated[list[object], Field(min_length=1)]]], Field(max_length=100)
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
    def _check_control_pairs(self) -> Self:
        if self.control_pairs == 1:
            raise ValueError(
                "control_pairs = 1: an interval needs at least 2 pairs; 0 runs no control"
            )
        return self

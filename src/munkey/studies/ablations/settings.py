"""The section `ablations` of params.yaml."""

from typing import Annotated

from pydantic import ConfigDict, Field, RootModel


class Ablations(
    RootModel[
        Annotated[dict[str, Annotated[list[object], Field(max_length=100)]], Field(max_length=50)]
    ]
):
    """The values to try, by knob or by the name of an ablation."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

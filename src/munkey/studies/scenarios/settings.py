"""The section `scenarios` of params.yaml."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, RootModel


def _drop_null(scenarios: object) -> object:
    """Drop the scenarios that are switched off by null."""
    if not isinstance(scenarios, Mapping):
        return scenarios
    return {name: changes for name, changes in scenarios.items() if changes is not None}


def _allow_null(schema: dict[str, Any]) -> None:
    """Let editors accept null, which switches a scenario off."""
    scenario = schema["additionalProperties"]
    schema["additionalProperties"] = {"anyOf": [scenario, {"type": "null"}]}


class Scenarios(
    RootModel[
        Annotated[dict[str, dict[str, object]], Field(max_length=100), BeforeValidator(_drop_null)]
    ]
):
    """The keys of the section `forget` that differ, by the name of a scenario."""

    model_config = ConfigDict(
        strict=True, frozen=True, allow_inf_nan=False, json_schema_extra=_allow_null
    )

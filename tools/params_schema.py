"""The JSON schema of params.yaml, with which editors check and complete it: `python -m tools.params_schema` writes it.

It is made from the typed model, `munkey.experiment.params.schema`. An overlay names some keys only: none is required.
"""

import json
from pathlib import Path

from munkey.experiment.params.schema import get_models

FILE = Path("workflow/params.schema.json")


def schema() -> str:
    """The schema as JSON."""
    whole = get_models().whole.model_json_schema()
    case = whole["properties"]["scenarios"]["additionalProperties"]
    # switched off
    whole["properties"]["scenarios"]["additionalProperties"] = {"anyOf": [case, {"type": "null"}]}
    sections = {name: whole["properties"][name] for name in get_models().dataset.model_fields}
    of_one = {"type": "object", "properties": sections, "additionalProperties": False}
    whole["properties"]["overrides"]["additionalProperties"] = of_one
    return json.dumps(_without_required(whole), indent=1) + "\n"


def _without_required(node: object) -> object:
    """A schema without what it requires, and without titles, which repeat the keys."""
    if isinstance(node, dict):
        left_out = ("required", "title")
        return {
            key: _without_required(each)
            for key, each in node.items()
            if key not in left_out or isinstance(each, dict)
        }
    return [_without_required(each) for each in node] if isinstance(node, list) else node


if __name__ == "__main__":
    FILE.write_text(schema())

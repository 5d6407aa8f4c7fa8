"""Write the JSON schema of params.yaml, which editors use for checks and completion.

`python -m tools.params_schema` makes it from the typed model in `munkey.experiment.params.schema`.
No key is required, because an overlay sets only some of them.
"""

import json
from pathlib import Path

from munkey.experiment.params.schema import get_settings_schemas

FILE = Path("workflow/params.schema.json")


def schema() -> str:
    """Return the schema of params.yaml, including overrides, as JSON."""
    whole = get_settings_schemas().whole.model_json_schema()
    sections = {
        name: whole["properties"][name] for name in get_settings_schemas().dataset.model_fields
    }
    override = {"type": "object", "properties": sections, "additionalProperties": False}
    whole["properties"]["overrides"]["additionalProperties"] = override
    return json.dumps(_without_required(whole), indent=1) + "\n"


def _without_required(node: object) -> object:
    """Return a schema without required keys and titles. Titles only repeat the keys.

    Settings that are themselves named `required` or `title` are kept: their value is a dictionary.
    """
    if isinstance(node, dict):
        return {
            key: _without_required(value)
            for key, value in node.items()
            if key not in ("required", "title") or isinstance(value, dict)
        }
    if isinstance(node, list):
        return [_without_required(value) for value in node]
    return node


if __name__ == "__main__":
    FILE.write_text(schema())

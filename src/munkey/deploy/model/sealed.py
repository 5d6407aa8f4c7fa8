"""Files that carry the SHA-256 of their own content: a change that was not meant, or not hidden, is found."""

import hashlib
import json

from pydantic import BaseModel


def digest(model: BaseModel) -> str:
    """SHA-256 of a model's canonical form: JSON in UTF-8, keys sorted, no spaces, without `sha256` itself."""
    value = model.model_dump(mode="json", exclude={"sha256"})
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()

"""Which checkout this is, in a store that it shares with others."""

import json
import uuid
from pathlib import Path
from typing import NamedTuple

from munkey.core.files import atomic

FILE = ".munkey.json"  # neither git nor DVC carries it, so that a clone is a checkout of its own
LOCAL = "local"


class Identity(NamedTuple):
    """A checkout: its id, and the folder in which it was last seen, empty if in none yet."""

    project: str
    folder: str = ""


def project(database: Path | None) -> str:
    """The id of the checkout in this folder. database: the SQLite file of the store; None for any other store.

    It is `local` where that file lies in this folder: the two belong together, also when both are copied. Else it is
    random, made once and kept. A checkout that was moved keeps its id; a copy of one that is still there gets its own.
    """
    here = Path.cwd().resolve()
    if database and database.resolve().is_relative_to(here):
        return LOCAL
    known = _identity(here)
    if known is None or _copied(known, here):
        known = Identity(uuid.uuid4().hex[:16])
    if known.folder != str(here):
        with atomic(FILE) as temporary:  # no checksum beside it: its owner may write an id into it
            temporary.write_text(json.dumps(Identity(known.project, str(here))._asdict()) + "\n")
    return known.project


def _identity(folder: Path) -> Identity | None:
    path = folder / FILE
    return Identity(**json.loads(path.read_text())) if path.exists() else None


def _copied(known: Identity, here: Path) -> bool:
    """Whether another checkout that goes by this id is still where it was last seen."""
    there = _identity(Path(known.folder)) if known.folder not in ("", str(here)) else None
    return there is not None and there.project == known.project

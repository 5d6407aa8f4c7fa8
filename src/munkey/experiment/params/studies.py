"""The studies in `munkey.studies`. The experiment loops over them and names none.

Of each study, only `study.py` is imported here, so that no job depends on a study's tables.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from munkey.settings import Section


@dataclass(frozen=True)
class Study:
    """A study, as its `study.py` declares it: `STUDY = Study(...)`.

    Its rules are in `workflow/rules/NAME.smk`, where NAME is the name of its folder.

    Attributes
    ----------
    sections
        The types of its sections of `params.yaml` by name, e.g. `stream`, or `audit.relearn` for a
        section within another one.
    """

    sections: Mapping[str, type[Section]]


@cache
def load_studies() -> dict[str, Study]:
    """Load all studies, by name."""
    studies = {}
    # Named by a string: nothing of the experiment imports a study.
    package = importlib.import_module("munkey.studies")
    for folder in pkgutil.iter_modules(package.__path__):
        declaration = importlib.import_module(f"munkey.studies.{folder.name}.study")
        studies[folder.name] = declaration.STUDY
    return studies


def collect_sections() -> dict[str, type[Section]]:
    """Return the types of the sections of all studies, by name."""
    sections: dict[str, type[Section]] = {}
    for study in load_studies().values():
        sections |= study.sections
    return sections

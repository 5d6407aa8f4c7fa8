"""The studies in `munkey.studies`. The experiment loops over them and names none.

Of each study, only `study.py` and what it imports are loaded here, so that no job depends on a
study's tables.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from pydantic import BaseModel

from munkey.settings import FurtherPath, Section

if TYPE_CHECKING:
    from munkey.evaluation.records import Evaluation
    from munkey.experiment.params.schema import Params
    from munkey.experiment.plan.plan import Plan


@dataclass(frozen=True)
class Case:
    """A case: what differs from the experiment on its data set.

    Attributes
    ----------
    changes
        The sections that differ.
    setting
        Where `params.yaml` sets them, for messages.
    forget
        The path of its forget sets within the results, with wildcards. If it is empty, they are
        those of the data set.
    scope
        The folder of the neighbors in memories without its forget sets.
    in_pairs
        Whether its models are trained in pairs. The models of seeds 2p and 2p + 1 never see each
        other's forget set, and only these two sets are evaluated of the training samples.
    prepared
        The folder of its own copy of the data set within the results; may be empty.
    queries
        Further sections on how a family with pathways is queried.
    paths
        Further paths on which all families that have them are queried.
    """

    changes: Mapping[str, object] = field(default_factory=dict)
    setting: str = ""
    forget: str = ""
    scope: str = ""
    in_pairs: bool = False
    prepared: str = ""
    queries: Mapping[str, Section] = field(default_factory=dict)
    paths: Sequence[FurtherPath] = ()


def _list_no_cases(params: "Params", dataset: str) -> Mapping[str, Case]:
    return {}


def _find_no_faults(params: "Params", dataset: str) -> list[str]:
    return []


def _list_no_runs(plan: "Plan", target: str) -> "Iterable[Evaluation]":
    return ()


@dataclass(frozen=True)
class Study:
    """A study, as its `study.py` declares it: `STUDY = Study(...)`.

    Its rules are in `workflow/rules/NAME.smk`, where NAME is the name of its folder.

    Attributes
    ----------
    sections
        The types of its sections of `params.yaml` by name, or by OUTER.NAME for a section within
        another one.
    dataset_sections
        The types of its sections that `overrides` may change for a data set.
    list_cases
        A function that returns the cases that it adds to a data set, by name: FOLDER/NAME.
    find_faults
        A function that returns messages about what a data set's sections must not contain. They
        are checked before the parameters of the cases are.
    list_runs
        A function that returns the evaluations that a target needs in addition to the main run's,
        for `munkey plan`.
    needs
        The studies that it builds on.
    """

    sections: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    dataset_sections: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    list_cases: Callable[["Params", str], Mapping[str, Case]] = _list_no_cases
    find_faults: Callable[["Params", str], list[str]] = _find_no_faults
    list_runs: "Callable[[Plan, str], Iterable[Evaluation]]" = _list_no_runs
    needs: tuple[str, ...] = ()


@cache
def load_studies() -> dict[str, Study]:
    """Load all studies, by name. A study follows those that it needs."""
    # Named by a string: nothing of the experiment imports a study.
    package = importlib.import_module("munkey.studies")
    found = {}
    for folder in pkgutil.iter_modules(package.__path__):
        declaration = importlib.import_module(f"munkey.studies.{folder.name}.study")
        found[folder.name] = declaration.STUDY
    studies: dict[str, Study] = {}

    def add(name: str) -> None:
        for needed in found[name].needs:
            if needed not in found:
                raise ImportError(
                    f"the study {name} needs {needed}, which is not in munkey/studies: put it back,"
                    f" or remove {name}, too"
                )
            add(needed)
        studies.setdefault(name, found[name])

    for name in found:
        add(name)
    return studies


def collect_sections() -> dict[str, type[BaseModel]]:
    """Return the types of the sections of all studies, by name."""
    sections: dict[str, type[BaseModel]] = {}
    for study in load_studies().values():
        sections |= study.sections
        sections |= study.dataset_sections
    return sections


def collect_dataset_sections() -> dict[str, type[BaseModel]]:
    """Return the types of the sections that may differ between data sets, by name."""
    sections: dict[str, type[BaseModel]] = {}
    for study in load_studies().values():
        sections |= study.dataset_sections
    return sections

"""300 damaged configurations: each is accepted and can be planned, or refused in words that name a key.

They are params.yaml with one to three values replaced, removed or added.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from munkey.experiment.params.load import Params, ParamsError, load
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.studies.ablations.plan import list_ablation_runs
from munkey.studies.paper.plan import PaperPlan
from munkey.studies.selection.plan import list_selection_runs
from tests.conftest import ROOT

FILES = 300
BASE = yaml.load((ROOT / "params.yaml").read_text(), Loader=yaml.CSafeLoader)
NUMBERS = [
    float("nan"),
    float("inf"),
    -1,
    0,
    1,
    2,
    0.5,
    1e-300,
    1e300,
    -1e300,
    10**6,
    10**18,
    -(10**30),
    2**32,
    True,
]
TEXTS = [
    "",
    " ",
    "a",
    "1e-3",
    "a/b",
    "../x",
    "timm:x",
    "/",
    "~",
    "\\0",
    "ü",
    "x" * 5000,
    "digits",
    "knn",
    "%s{}",
    "a.b",
]
OTHERS = [
    None,
    [],
    {},
    [[]],
    [{}],
    {"a": 1},
    {"a.b": 1},
    [None],
    [1, 1],
    [1, "1"],
    {"": 0},
    {1: 2},
    list(range(200)),
]
NASTY = [*NUMBERS, *TEXTS, *OTHERS]
SECTIONS = [
    "source",
    "keys",
    "train",
    "munkey",
    "forget",
    "unlearn",
    "ablations",
    "seeds",
    "nosuch",
    "inference",
]


def places(values: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The paths of all values below a value."""
    if isinstance(values, dict):
        items = values.items()
    elif isinstance(values, list):
        items = enumerate(values)
    else:
        return
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


PLACES = list(places(BASE))


def mutated(draw: random.Random) -> dict[str, Any]:
    """The parameters with one to three values replaced, removed or added."""
    config = copy.deepcopy(BASE)
    if draw.random() < 0.3:
        part = {draw.choice(SECTIONS): copy.deepcopy(BASE.get(draw.choice(SECTIONS)))}
        config["overrides"] = {
            draw.choice(["digits", "cifar10", "imagefolder", "nosuch", "a b"]): part
        }
    overridden = [("overrides", *path) for path in places(config["overrides"])]
    for path in draw.choices([*PLACES, *overridden * 30], k=draw.randint(1, 3)):
        if draw.random() < 0.5:
            change(config, path, draw)
    return config


def change(config: dict[str, Any], path: tuple[Any, ...], draw: random.Random) -> None:
    """Damage the value at a path, where an earlier change has left one."""
    section: Any = config
    for key in path[:-1]:
        try:
            section = section[key]
        except (KeyError, IndexError, TypeError):
            return
    if not isinstance(section, dict | list) or not section:
        return
    kind = draw.random()
    if isinstance(section, dict) and kind < 0.15:
        section[draw.choice(["nosuch", "lr", "a.b", "knn", 7, "", None])] = draw.choice(NASTY)
    elif isinstance(section, dict) and kind < 0.3:
        section.pop(path[-1], None)
    elif isinstance(section, dict) or path[-1] in range(len(section)):
        section[path[-1]] = copy.deepcopy(draw.choice(NASTY))


def count_evaluations(params: Params) -> int:
    """The evaluations, rows and figures of a plan: everything that a dry run asks for."""
    plan = Plan(params)
    exhibits = Exhibits(plan)
    total = len(plan.main) + len(exhibits.rows) + len(exhibits.figures)
    total += len(PaperPlan(plan).compared)
    for dataset in params.datasets:
        total += len(list_ablation_runs(plan, dataset))
        total += len(list_selection_runs(plan, dataset))
    return total


@pytest.mark.parametrize("part", range(2))
def test_every_damaged_file_is_planned_or_refused_by_key(part: int) -> None:
    draw = random.Random(part)
    refusals = 0
    for number in range(FILES // 2):
        config = mutated(draw)
        message = ""
        try:
            assert count_evaluations(load(config)) > 0
        except ParamsError as error:
            refusals += 1
            message = str(error)
        except Exception as error:
            raise AssertionError(f"part {part}, number {number}: {config}") from error
        assert not message or names_a_key(message, config), message
    assert 0 < refusals < FILES // 2


def names_a_key(message: str, config: dict[str, Any]) -> bool:
    """Whether a message holds a key of the top level, of the project's parameters or of the damaged ones."""
    return any((str(key) or "''") in message for key in (*BASE, *config))

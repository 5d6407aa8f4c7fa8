"""500 damaged files of parameters: each is accepted and can be planned, or refused in words that name a key.

Half of them are params.yaml or an overlay with values that were replaced, removed or added; half with damaged text.
"""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from munkey.experiment.params.load import Params, ParamsError, load, read_file
from munkey.experiment.params.overlays import merge
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from tests.conftest import ROOT

FILES, PARTS = 500, 2
TEXT = (ROOT / "params.yaml").read_text()
BASE = yaml.load(TEXT, Loader=yaml.CSafeLoader)
NUMBERS = [float("nan"), float("inf"), -1, 0, 1, 2, 0.5, 1e-300, 1e300, -1e300, 10**6, 10**18, -(10**30), 2**32, True]
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
OTHERS = [None, [], {}, [[]], [{}], {"a": 1}, {"a.b": 1}, [None], [1, 1], [1, "1"], {"": 0}, {1: 2}, list(range(200))]
NASTY = [*NUMBERS, *TEXTS, *OTHERS]
SECTIONS = ["source", "keys", "train", "munkey", "forget", "unlearn", "ablations", "seeds", "nosuch", "inference"]
JUNK = ["\t", ": ", "- ", "&a ", "*a", "<<: *a", "{", "]", "\x00", "\ufffe", "!!float x", "? ", "|", "# ", "'", "--- "]


def places(values: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """The paths of all values below a value."""
    items = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


PLACES = list(places(BASE))


def mutated(draw: random.Random) -> dict[str, Any]:
    """The parameters with one to three values replaced, removed or added."""
    config = copy.deepcopy(BASE)
    if draw.random() < 0.3:
        part = {draw.choice(SECTIONS): copy.deepcopy(BASE.get(draw.choice(SECTIONS)))}
        config["overrides"] = {draw.choice(["digits", "cifar10", "imagefolder", "nosuch", "a b"]): part}
    for path in draw.choices([*PLACES, *[("overrides", *path) for path in places(config["overrides"])] * 30], k=3):
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


def damaged(text: str, draw: random.Random) -> bytes:
    """The text with one or two lines doubled, cut, moved or written over."""
    lines = text.splitlines()
    for _ in range(draw.choice([1, 1, 2])):
        at, kind = draw.randrange(len(lines)), draw.randrange(6)
        if kind == 0:
            lines.insert(at, lines[at])
        elif kind == 1:
            del lines[at]
        elif kind == 2:
            lines[at] = " " * draw.randrange(6) + lines[at].strip()
        elif kind == 3:
            lines[at] = lines[at][: draw.randrange(len(lines[at]) + 1)] + draw.choice(JUNK)
        elif kind == 4:
            lines[at] = lines[at].partition(":")[0] + ": " + str(draw.choice(NASTY))
        else:
            return "\n".join(lines).encode()[: draw.randrange(20_000)] + draw.randbytes(draw.randrange(3))
    return "\n".join(lines).encode()


def enumerated(params: Params) -> int:
    """How many evaluations a plan consists of, after everything has been asked for that a dry run asks for."""
    plan = Plan(params)
    shown = Exhibits(plan)
    counted = len(plan.main) + len(shown.rows) + len(shown.figures) + len(shown.compared)
    for dataset in params.datasets:
        counted += len(plan.ablations_of(dataset)) + len(plan.selection_of(dataset))
    return counted


@pytest.mark.parametrize("part", range(PARTS))
def test_every_damaged_file_is_planned_or_refused_by_key(part: int, tmp_path: Path) -> None:
    draw, file, refused = random.Random(part), tmp_path / "params.yaml", 0
    for number in range(FILES // PARTS):
        is_text = bool(number % 2)
        content = (
            damaged(TEXT, draw)
            if is_text
            else yaml.dump(mutated(draw), Dumper=yaml.CSafeDumper, sort_keys=False).encode()
        )
        file.write_bytes(content)
        try:
            config = read_file(file)
            assert enumerated(load(merge(BASE, config) if draw.random() < 0.2 else config)) > 0
        except ParamsError as error:
            refused += 1
            said = str(error)
            assert str(file) in said or any((str(key) or "''") in said for key in (*BASE, *config)), said
        except Exception as error:
            raise AssertionError(f"part {part}, file {number}:\n{content.decode(errors='replace')}") from error
    assert 0.1 < refused / (FILES // PARTS) < 0.9

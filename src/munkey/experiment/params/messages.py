"""What is wrong with parameters, in words: key, value, what is allowed."""

import difflib
import math
import reprlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from munkey.core.registry import Registry

Model = TypeVar("Model", bound=BaseModel)
Entry = TypeVar("Entry")
MOST = 2**63 - 1
MOST_VALUES, MOST_LEVELS = 100_000, 20
BRIEF = reprlib.Repr()
BRIEF.maxlevel, BRIEF.maxlist, BRIEF.maxdict, BRIEF.maxstring, BRIEF.maxother = 4, 10, 10, 120, 120


class Place(NamedTuple):
    """A value of a configuration. where: its dotted key; level: how many levels down it lies."""

    where: str
    value: object
    level: int


class ParamsError(ValueError):
    """The parameters are not valid; the message names each key, its value and what is allowed."""


def shortened(value: object) -> str:
    """A value as it stands in a message, however large it is."""
    return BRIEF.repr(value)


def tree_faults(config: Mapping[str, object]) -> list[str]:
    """What may stand nowhere: a number that is not finite or beyond 64 bits, a key that is not text, endless lists."""
    faults, count, left = [], 0, [Place("", config, 0)]
    while left:
        where, value, level = left.pop()
        count += 1
        if count > MOST_VALUES or level > MOST_LEVELS:
            key = where.partition(".")[0]
            return [f"{key}: more than {MOST_VALUES:,} values or {MOST_LEVELS} levels; do aliases (*NAME) repeat it?"]
        if isinstance(value, float) and not math.isfinite(value):
            faults.append(f"{where} = {value}: must be a finite number")
        elif isinstance(value, int) and abs(value) > MOST:
            faults.append(f"{where}: must be between -{MOST} and {MOST}")
        elif isinstance(value, Mapping):
            below = {
                key: f"{where}{'.' * bool(where)}{key if key and type(key) is str else repr(key)}" for key in value
            }
            faults += [f"{below[key]}: the key must be text" for key in value if type(key) is not str or not key]
            left += [Place(below[key], each, level + 1) for key, each in value.items()]
        elif isinstance(value, list):
            left += [Place(f"{where}.{index}", each, level + 1) for index, each in enumerate(value)]
    return faults


def validated(model: type[Model], values: Mapping[str, object], prefix: str, faults: list[str]) -> Model | None:
    """The checked values; or None, and what is wrong with them is added to `faults`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults.extend(_explain(model, dict(fault), prefix) for fault in error.errors())
        return None


def _explain(model: type[BaseModel], fault: Mapping[str, object], prefix: str) -> str:
    """One pydantic error in words: key, value, what is allowed."""
    loc, kind, value = fault["loc"], fault["type"], fault["input"]
    assert isinstance(loc, tuple)
    where = prefix + ".".join(str(part) for part in loc)
    if kind == "extra_forbidden":
        return unknown(where, value, str(loc[-1]), _fields_at(model, loc[:-1]))
    if kind == "missing":
        return f"{where}: missing; params.yaml of the project shows it with its unit and reason"
    message = str(fault["msg"]).removeprefix("Value error, ").replace("Input should", "must")
    if kind == "value_error":
        return f"{where}: {message}" if loc else f"{prefix}{message}"
    hint = " (YAML reads 1e-3 as text: write 1.0e-3)" if isinstance(value, str) and "number" in message else ""
    return f"{where} = {shortened(value)}: {message}{hint}"


def _fields_at(model: type[BaseModel], loc: Sequence[object]) -> list[str]:
    for part in loc:
        field = model.model_fields.get(str(part))
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


def unknown(where: str, value: object, name: str, allowed: Collection[str]) -> str:
    """What to say of an unknown key."""
    close = difflib.get_close_matches(name, list(allowed), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"{where} = {shortened(value)}: unknown key{hint} Allowed here: {', '.join(allowed) or 'nothing'}"


def require_known(key: str, kind: str, name: str, known: Collection[str]) -> None:
    """Raise ValueError that lists the valid names."""
    if name not in known:
        raise ValueError(f"{key}: unknown {kind} {name!r}; there are: {', '.join(known)}")


def require_registered(key: str, name: str, registry: Registry[Entry]) -> Entry:
    """The entry of a name. Raises ValueError that lists the valid names, or says why the name's file was refused."""
    if name in registry.refused:
        raise ValueError(f"{key}: the {registry.kind} {name!r} cannot be used: {registry.refused[name]}")
    if name not in registry:
        raise ValueError(f"{key}: {registry.unknown(name)}")
    return registry[name]


def require_unique(key: str, values: Sequence[object]) -> None:
    """Raise ValueError for what is listed twice."""
    if len(set(values)) != len(values):
        raise ValueError(f"{key} = {shortened(values)}: each may be listed only once")

"""Messages on invalid parameters: the key, its value, and the allowed values."""

import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from munkey.core.registry import Registry, did_you_mean

QUOTES = (
    "YAML reads yes, no, on and off without quotes as True and False: write 'yes' in quotes, or"
    " !!str yes for `dvc exp run -S`, which drops quotes"
)
EntryT = TypeVar("EntryT")
BRIEF = reprlib.Repr()
BRIEF.maxlevel = 4
BRIEF.maxlist = 10
BRIEF.maxdict = 10
BRIEF.maxstring = 120
BRIEF.maxother = 120


class ParamsError(ValueError):
    """The parameters are invalid. The message lists each key, its value and the allowed values."""


def shorten(value: object) -> str:
    """Return a value as text for a message, shortened if it is large."""
    return BRIEF.repr(value)


@contextmanager
def collect_faults(faults: list[str], model: type[BaseModel], prefix: str = "") -> Iterator[None]:
    """Append a message to `faults` for each validation error in the block, and suppress the errors.

    Parameters
    ----------
    model
        The model that the block validates.
    prefix
        The place of the model in the parameters. Messages begin with it.
    """
    try:
        yield
    except ValidationError as error:
        for fault in error.errors():
            faults.append(_explain(model, dict(fault), prefix))


def _explain(  # noqa: PLR0911  # a return for each kind of error
    model: type[BaseModel], fault: Mapping[str, object], prefix: str
) -> str:
    """Explain one of pydantic's errors: the key, its value, and the allowed values."""
    loc = fault["loc"]
    kind = fault["type"]
    value = fault["input"]
    assert isinstance(loc, tuple)
    where = prefix + ".".join(map(str, loc))
    if kind == "extra_forbidden":
        allowed_keys = _get_keys_at(model, loc[:-1])
        return unknown_key_message(where, value, str(loc[-1]), allowed_keys)
    if kind == "missing":
        return f"{where}: missing; the project's params.yaml shows it with its unit and reason"
    message = str(fault["msg"]).removeprefix("Value error, ").replace("Input should", "must")
    if kind == "value_error":
        if not loc:  # an error of the whole model, whose message contains the keys
            return f"{prefix}{message}"
        return f"{where}: {message}"
    if kind in ("model_type", "dict_type"):
        return f"{where} = {shorten(value)}: must be a section (write {{KEY: VALUE}})"
    if kind == "list_type" and isinstance(value, str):
        return f"{where} = {shorten(value)}: {message} (write [{value}])"
    hint = ""
    if isinstance(value, str) and "number" in message:
        hint = " (YAML reads 1e-3 as text: write 1.0e-3)"
    elif isinstance(value, bool) and "valid string" in message:
        hint = f" ({QUOTES})"
    return f"{where} = {shorten(value)}: {message}{hint}"


def _get_keys(section: object) -> Mapping[str, object]:
    """Return the keys of a section, which is a model or a TypedDict."""
    return getattr(section, "model_fields", None) or getattr(section, "__annotations__", {})


def _get_keys_at(model: object, loc: Sequence[object]) -> Mapping[str, object]:
    """Return the keys of the section at a place within a model."""
    for part in loc:
        field = _get_keys(model).get(str(part))
        model = getattr(field, "annotation", field)
    return _get_keys(model)


def unknown_key_message(where: str, value: object, name: str, allowed: Collection[str]) -> str:
    """Return a message about an unknown key, with the allowed keys."""
    listed = ", ".join(allowed) or "nothing"
    return f"{where} = {shorten(value)}: unknown key{did_you_mean(name, allowed)} Allowed: {listed}"


def require_registered(key: str, name: str, registry: Registry[EntryT]) -> EntryT:
    """Return a registered entry.

    Raises ValueError if the name is unknown, or if the entry's file cannot be imported.
    """
    if name in registry.refusals:
        raise ValueError(
            f"{key}: the {registry.kind} {name!r} cannot be used: {registry.refusals[name]}"
        )
    if name not in registry:
        raise ValueError(f"{key}: {registry.unknown_message(name)}")
    return registry[name]


def require_unique(key: str, values: Sequence[object]) -> None:
    """Raise ValueError if a value is listed more than once."""
    if len(set(values)) != len(values):
        raise ValueError(f"{key} = {shorten(values)}: each may be listed only once")

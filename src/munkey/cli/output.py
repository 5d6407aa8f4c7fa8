"""What the command says and how it ends: text or JSON on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from munkey.core.console import printable

T = TypeVar("T")

FAILED, BAD_INPUT, LOCKED, MACHINE = 1, 2, 3, 4  # exit codes, see `munkey --help`


class NotVerifiedError(Exception):
    """A check was made, and what it found is not as it must be. The message says what."""


def say(text: str, value: Mapping[str, object], as_json: bool) -> None:
    """Print the text, or the value as JSON."""
    print(printable(json.dumps(value, indent=2, ensure_ascii=False) if as_json else text), flush=True)


def code_of(error: BaseException) -> int | None:
    """The exit code of an error that a person can do something about; None for any other."""
    from munkey.deploy.errors import UnknownNamesError
    from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError

    codes: Sequence[tuple[tuple[type[BaseException], ...], int]] = (
        ((NotVerifiedError,), FAILED),
        ((LockedMemoryError,), LOCKED),
        ((ValueError, UnknownIdsError, UnknownNamesError, FileNotFoundError, FileExistsError), BAD_INPUT),
        ((OSError, ClosedMemoryError), MACHINE),
    )
    return next((code for kinds, code in codes if isinstance(error, kinds)), None)


def refused(error: BaseException, as_json: bool) -> None:
    """Say in a sentence what went wrong."""
    print(printable(f"munkey: {error}"), file=sys.stderr)
    if as_json:
        say("", {"error": str(error), "code": code_of(error)}, True)


def working(what: str) -> AbstractContextManager[object]:
    """A line that moves while something of unknown length is done, where a person watches."""
    from rich.console import Console

    return Console(stderr=True).status(what) if sys.stderr.isatty() else nullcontext()


def tracked(items: Sequence[T], what: str) -> Iterable[T]:
    """The items, with a bar of how many are done, where a person watches."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, console=Console(stderr=True))

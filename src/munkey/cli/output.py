"""What the command says and how it ends: text or JSON on standard output, everything else on standard error."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from munkey.core.console import one_line, printable

# exit codes, see `munkey --help`
FAILED, BAD_INPUT, LOCKED, MACHINE, FOUND_NOTHING, INTERRUPTED = 1, 2, 3, 4, 5, 130


class NotVerifiedError(Exception):
    """A check was made, and what it found is not as it must be. The message says what."""


class AfterDeletionError(Exception):
    """Samples are forgotten, and what was to follow failed. deletions: those that are on the disk, as JSON."""

    def __init__(
        self, error: BaseException, text: str, deletions: Sequence[Mapping[str, Any]]
    ) -> None:
        why = (
            "interrupted"
            if isinstance(error, KeyboardInterrupt)
            else str(error) or type(error).__name__
        )
        super().__init__(f"{why}. But this is done, and on the disk:\n{text}")
        self.deletions = deletions


def say(text: str, value: Mapping[str, object], as_json: bool) -> None:
    """Print the text, or the value as JSON; characters that standard output cannot encode are escaped."""
    try:
        said, encoding = (
            printable(json.dumps(value, indent=2) if as_json else text),
            sys.stdout.encoding,
        )
        print(said.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError:  # a full disk, or nobody who reads: Python would try again at its end
        with suppress(OSError):  # where standard output is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def table(lines: Sequence[Sequence[object]]) -> str:
    """Columns of text below the first line, a line each, whatever stands in a name."""
    from tabulate import tabulate

    cells = [["" if cell is None else one_line(str(cell)) for cell in line] for line in lines]
    return tabulate(cells, "firstrow", "plain", disable_numparse=True)


def code_of(error: BaseException) -> int | None:
    """The exit code of an error that a person can do something about; None for any other."""
    from munkey.deploy.errors import UnknownNamesError
    from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError

    codes: Sequence[tuple[tuple[type[BaseException], ...], int]] = (
        ((KeyboardInterrupt,), INTERRUPTED),
        ((NotVerifiedError,), FAILED),
        ((LockedMemoryError,), LOCKED),
        (
            (ValueError, UnknownIdsError, UnknownNamesError, FileNotFoundError, FileExistsError),
            BAD_INPUT,
        ),
        ((OSError, ClosedMemoryError, AfterDeletionError), MACHINE),
    )
    cause = error.__cause__ if isinstance(error, AfterDeletionError) else None
    known = cause if isinstance(cause, KeyboardInterrupt) else error
    return next((code for kinds, code in codes if isinstance(known, kinds)), None)


def refused(error: BaseException, as_json: bool) -> None:
    """Say in a sentence what went wrong."""
    print(printable(f"munkey: {error}"), file=sys.stderr)
    if as_json:
        value: dict[str, object] = {"error": str(error), "code": code_of(error)}
        if isinstance(error, AfterDeletionError):
            value["deletions"] = error.deletions
        with suppress(OSError):  # said above
            say("", value, True)


def working(what: str) -> AbstractContextManager[object]:
    """A line that moves while something of unknown length is done, where a person watches."""
    from rich.console import Console

    return Console(stderr=True).status(what) if sys.stderr.isatty() else nullcontext()

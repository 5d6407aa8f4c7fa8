"""Output and exit codes. Results go to standard output, everything else to standard error."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from munkey.core.console import escape_to_one_line, escape_unprintable

# Exit codes; `munkey --help` explains them.
FAILED = 1
BAD_INPUT = 2
LOCKED = 3
SYSTEM_ERROR = 4
FOUND_NOTHING = 5
INTERRUPTED = 130


class NotVerifiedError(Exception):
    """A check failed. The message gives the reason."""


class AfterDeletionError(Exception):
    """Samples were forgotten, but then `error` occurred.

    `text` and `deletions` (as JSON) describe the deletions on disk.
    """

    def __init__(
        self, error: BaseException, text: str, deletions: Sequence[Mapping[str, Any]]
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            reason = "interrupted"
        else:
            reason = str(error) or type(error).__name__
        super().__init__(f"{reason}. However, the following is already done and on disk:\n{text}")
        self.deletions = deletions


def print_result(text: str, value: Mapping[str, object], as_json: bool) -> None:
    """Print the text, or if `as_json`, the value as JSON.

    Characters that the encoding of standard output does not support are escaped.
    """
    if as_json:
        text = json.dumps(value, indent=2)
    encoding = sys.stdout.encoding
    try:
        encoded_text = escape_unprintable(text).encode(encoding, "backslashreplace")
        print(encoded_text.decode(encoding), flush=True)
    except OSError:
        # The disk is full or the pipe is closed. Python flushes standard output again at exit,
        # which would fail again, so redirect it to the null device.
        with suppress(OSError):  # raised by fileno() if standard output is not a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def format_table(rows: Sequence[Sequence[object]]) -> str:
    """Format rows, the header first, as an aligned table with one line for each row."""
    from tabulate import tabulate

    cells = []
    for row in rows:
        cells.append(["" if value is None else escape_to_one_line(str(value)) for value in row])
    return tabulate(cells, "firstrow", "plain", disable_numparse=True)


def get_exit_code(error: BaseException) -> int | None:
    """Return the exit code of an error that the user can fix, or None for any other error."""
    from munkey.deploy.errors import UnknownNamesError
    from munkey.memory.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError

    bad_input_errors = (
        ValueError,
        UnknownIdsError,
        UnknownNamesError,
        FileNotFoundError,
        FileExistsError,
    )
    # Ctrl-C after a deletion has the same exit code as before it.
    cause = error.__cause__ if isinstance(error, AfterDeletionError) else error
    if isinstance(cause, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, NotVerifiedError):
        return FAILED
    # The order matters, because some of these errors are also OSErrors.
    if isinstance(error, LockedMemoryError):
        return LOCKED
    if isinstance(error, bad_input_errors):
        return BAD_INPUT
    if isinstance(error, (OSError, ClosedMemoryError, AfterDeletionError)):
        return SYSTEM_ERROR
    return None


def print_error(error: BaseException, *, as_json: bool) -> None:
    """Print an error to standard error and, if `as_json`, also as JSON to standard output."""
    print(escape_unprintable(f"munkey: {error}"), file=sys.stderr)
    if as_json:
        value: dict[str, object] = {"error": str(error), "code": get_exit_code(error)}
        if isinstance(error, AfterDeletionError):
            value["deletions"] = error.deletions
        with suppress(OSError):  # the message has already been printed to standard error
            print_result("", value, True)


def show_spinner(message: str) -> AbstractContextManager[object]:
    """Return a context manager that shows a spinner on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(message)

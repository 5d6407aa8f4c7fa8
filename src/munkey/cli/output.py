"""Output and exit codes. Results go to standard output, everything else to standard error."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from munkey.core.console import escape_to_one_line, escape_unprintable

# exit codes, see `munkey --help`
FAILED, BAD_INPUT, LOCKED, MACHINE, FOUND_NOTHING, INTERRUPTED = 1, 2, 3, 4, 5, 130


class NotVerifiedError(Exception):
    """A check failed. The message says why."""


class AfterDeletionError(Exception):
    """Samples are forgotten, but a later step failed. deletions: those on disk, as JSON."""

    def __init__(
        self, error: BaseException, text: str, deletions: Sequence[Mapping[str, Any]]
    ) -> None:
        reason = str(error) or type(error).__name__
        if isinstance(error, KeyboardInterrupt):
            reason = "interrupted"
        super().__init__(f"{reason}. But this is done, and on disk:\n{text}")
        self.deletions = deletions


def print_result(text: str, value: Mapping[str, object], as_json: bool) -> None:
    """Print the text, or the value as JSON.

    Characters that standard output cannot encode are escaped.
    """
    if as_json:
        text = json.dumps(value, indent=2)
    encoding = sys.stdout.encoding
    try:
        encoded_text = escape_unprintable(text).encode(encoding, "backslashreplace")
        print(encoded_text.decode(encoding), flush=True)
    except OSError:  # a full disk or a closed pipe: Python would try to write again at exit
        with suppress(OSError):  # if standard output is not a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def format_table(lines: Sequence[Sequence[object]]) -> str:
    """Align columns under a header. A row takes one line, even if a name has line breaks."""
    from tabulate import tabulate

    cells = []
    for line in lines:
        cells.append(["" if value is None else escape_to_one_line(str(value)) for value in line])
    return tabulate(cells, "firstrow", "plain", disable_numparse=True)


def get_exit_code(error: BaseException) -> int | None:
    """Return the exit code of an error that the user can act on; None for any other."""
    from munkey.deploy.errors import UnknownNamesError
    from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError

    bad_input_errors = (
        ValueError,
        UnknownIdsError,
        UnknownNamesError,
        FileNotFoundError,
        FileExistsError,
    )
    if isinstance(error, AfterDeletionError) and isinstance(error.__cause__, KeyboardInterrupt):
        return INTERRUPTED
    # The first that fits, from special to general: a LockedMemoryError is an OSError, too.
    code_of_errors: dict[tuple[type[BaseException], ...], int] = {
        (KeyboardInterrupt,): INTERRUPTED,
        (NotVerifiedError,): FAILED,
        (LockedMemoryError,): LOCKED,
        bad_input_errors: BAD_INPUT,
        (OSError, ClosedMemoryError, AfterDeletionError): MACHINE,
    }
    for errors, code in code_of_errors.items():
        if isinstance(error, errors):
            return code
    return None


def print_error(error: BaseException, *, as_json: bool) -> None:
    """Print an error to stderr and, if `as_json`, also as JSON to stdout."""
    print(escape_unprintable(f"munkey: {error}"), file=sys.stderr)
    if as_json:
        value: dict[str, object] = {"error": str(error), "code": get_exit_code(error)}
        if isinstance(error, AfterDeletionError):
            value["deletions"] = error.deletions
        with suppress(OSError):  # the message is on standard error already
            print_result("", value, True)


def show_spinner(message: str) -> AbstractContextManager[object]:
    """Show a spinner in a terminal while the block runs."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(message)

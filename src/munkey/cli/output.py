"""Output and exit codes. Results go to standard output, everything else to standard error."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from munkey.core.console import escape_unprintable, one_line

# Exit codes (see `munkey --help`).
FAILED = 1
BAD_INPUT = 2
LOCKED = 3
MACHINE = 4
FOUND_NOTHING = 5
INTERRUPTED = 130


class NotVerifiedError(Exception):
    """A check failed. The message says why."""


class AfterDeletionError(Exception):
    """Samples were forgotten, but a later step failed.

    Attributes
    ----------
    deletions
        The deletions on disk, as JSON.
    """

    def __init__(
        self, error: BaseException, text: str, deletions: Sequence[Mapping[str, Any]]
    ) -> None:
        reason = str(error) or type(error).__name__
        if isinstance(error, KeyboardInterrupt):
            reason = "interrupted"
        super().__init__(f"{reason}. But this is done, and on disk:\n{text}")
        self.deletions = deletions


def print_result(text: str, value: Mapping[str, object], as_json: bool) -> None:
    """Print a result, as text or as JSON. Characters that cannot be encoded are escaped."""
    if as_json:
        text = json.dumps(value, indent=2)
    encoding = sys.stdout.encoding
    try:
        encoded_text = escape_unprintable(text).encode(encoding, "backslashreplace")
        print(encoded_text.decode(encoding), flush=True)
    except (
        OSError
    ):  # a full disk or a closed pipe, to which Python would try to write again at exit
        with suppress(OSError):  # standard output may not be a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def format_table(rows: Sequence[Sequence[object]]) -> str:
    """Align columns under a header, the first row. Line breaks in names are removed."""
    from tabulate import tabulate

    cells = []
    for row in rows:
        cells.append(["" if value is None else one_line(str(value)) for value in row])
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
    # The first match counts, so special errors come first: a LockedMemoryError is also an OSError.
    code_by_errors: dict[tuple[type[BaseException], ...], int] = {
        (KeyboardInterrupt,): INTERRUPTED,
        (NotVerifiedError,): FAILED,
        (LockedMemoryError,): LOCKED,
        bad_input_errors: BAD_INPUT,
        (OSError, ClosedMemoryError, AfterDeletionError): MACHINE,
    }
    for errors, code in code_by_errors.items():
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

"""Messages of jobs and commands. Nothing here affects a result."""

import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")
Report = Callable[[str], None]
# Warnings point to a line of the user's code, not to one in these packages.
LIBRARIES = ("munkey", "sklearn", "joblib")
# Control characters except tab and line feed, marks of text direction, and lone surrogates.
UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_unprintable(text: str) -> str:
    """Escape control characters and marks of text direction as \\uXXXX.

    Names of files and classes may come from strangers, who could control the terminal with them.
    Line breaks and tabs stay. JSON keeps its meaning.
    """
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    """Escape as `escape_unprintable` does, and line breaks and tabs too."""
    return escape_unprintable(text).replace("\n", "\\n").replace("\t", "\\t")


def warn(message: str) -> None:
    """Print to the job's log, and to the terminal: nobody reads logs of successful jobs."""
    message = escape_unprintable(message)
    print(message)
    print(message, file=sys.__stderr__, flush=True)


def warn_user(message: str) -> None:
    """Issue a Python warning at the innermost line of the stack that is not in a library."""
    depth = 1
    frame = sys._getframe()
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in LIBRARIES:
            break
        frame = frame.f_back
        depth += 1
    warnings.warn(escape_unprintable(message), UserWarning, stacklevel=depth)


def pluralize(count: int, noun: str) -> str:
    """Format a number with its noun: 1 sample, 1,200 samples."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def format_duration(seconds: float) -> str:
    """Format a duration: 0.4 s, 12 s, 4 min, 2 h 5 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def progress(
    items: Iterable[T], what: str, unit: str, every_s: float = 2.0, units_per_item: int = 1
) -> Iterator[T]:
    """Yield the items, and print the rate and the remaining time.

    Parameters
    ----------
    what
        The name of the loop.
    unit
        What the rate counts, in the plural.
    every_s
        The time between two messages in seconds. The last one comes at the end.
    units_per_item
        How many units an item counts as.
    """
    total = len(items) if isinstance(items, Sized) else 0
    start = time.monotonic()
    last_print = start
    for count, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last_print >= every_s or count == total:
            last_print = now
            rate = count / max(now - start, 1e-9)
            if total:
                seconds_left = (total - count) / rate
                print(
                    f"{what} {count}/{total}: {rate * units_per_item:.2f} {unit}/s,"
                    f" {seconds_left:.0f} s left"
                )
            else:
                print(f"{what} {count}/?: {rate * units_per_item:.2f} {unit}/s")

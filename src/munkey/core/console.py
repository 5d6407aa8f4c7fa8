"""Console output of jobs and commands."""

import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TypeVar

T = TypeVar("T")
Report = Callable[[str], None]
# Warnings skip the stack frames of these packages, so that they point to the user's code.
LIBRARIES = ("munkey", "sklearn", "joblib")
# Control characters except tab and line feed, text-direction marks, and lone surrogates.
UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_unprintable(text: str) -> str:
    """Escape control characters and text-direction marks, but not line breaks and tabs.

    Names of files may come from strangers, and these characters change what a terminal shows.
    """
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escape_to_one_line(text: str) -> str:
    """Escape line breaks and tabs as well, for a name within a line."""
    return escape_unprintable(text).replace("\n", "\\n").replace("\t", "\\t")


def format_first_ten(values: Sequence[object]) -> str:
    """Format the first ten values, separated by commas, and their number if there are more."""
    text = ", ".join(escape_to_one_line(str(value)) for value in values[:10])
    if len(values) > 10:
        text += f", … ({len(values):,} in all)"
    return text


def warn(message: str) -> None:
    """Print a message to the job's log and to the terminal: logs of good jobs are rarely read."""
    message = escape_unprintable(message)
    print(message)
    print(message, file=sys.__stderr__, flush=True)


def warn_user(message: str) -> None:
    """Issue a Python warning that points to the innermost caller outside LIBRARIES."""
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
    """Format a count with its noun: 1 sample, 1,200 samples."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"


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
    """Yield the items, and print the rate and, if their number is known, the remaining time.

    Prints nothing if the environment variable MUNKEY_PROGRESS is 0.

    Parameters
    ----------
    what
        The noun at the start of each line, such as "batch" in "batch 3/8".
    unit, units_per_item
        What the rate counts, such as "images", and their number in an item.
    every_s
        The minimum number of seconds between two lines.
    """
    if os.environ.get("MUNKEY_PROGRESS") == "0":
        yield from items
        return
    total = len(items) if isinstance(items, Sized) else None
    start = time.monotonic()
    last_print = start
    for count, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - last_print < every_s and count != total:
            continue
        last_print = now
        items_per_second = count / max(now - start, 1e-9)  # a coarse clock may not have advanced
        rate = f"{items_per_second * units_per_item:.2f} {unit}/s"
        if total is None:
            print(f"{what} {count}/?: {rate}")
        else:
            seconds_left = (total - count) / items_per_second
            print(f"{what} {count}/{total}: {rate}, {seconds_left:.0f} s left")

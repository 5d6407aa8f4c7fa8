"""The chain of deletions, which the old store shares with `munkey.memory.memory_file`."""

from munkey.memory.chain import (
    ChainLink,
    Receipt,
    compute_first_head,
    compute_next_head,
    compute_next_mark,
    to_bytes,
    to_datetime,
)

__all__ = [
    "ChainLink",
    "Receipt",
    "compute_first_head",
    "compute_next_head",
    "compute_next_mark",
    "to_bytes",
    "to_datetime",
]

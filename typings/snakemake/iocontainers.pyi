"""The object `snakemake` that every script is given: what its rule says of the job.

In Snakemake's own iocontainers.py it is a name without a value, to be imported for type checkers only.
"""

from collections.abc import Iterator
from typing import Any

class Namedlist:
    """Entries by name or by position. Of what type they are is the rule's affair."""

    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, position: int) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def get(self, key: str, default_value: object = None) -> Any: ...

class Wildcards(Namedlist):
    def __getattr__(self, name: str) -> str: ...

class Snakemake:
    input: Namedlist
    output: Namedlist
    params: Namedlist
    wildcards: Wildcards
    threads: int
    resources: Namedlist
    log: Namedlist
    config: dict[str, Any]
    rule: str

snakemake: Snakemake

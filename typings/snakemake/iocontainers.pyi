"""The object `snakemake` that every script is given: what its rule says of the job.

In Snakemake's own iocontainers.py it is a name without a value, to be imported for type checkers only.
"""

from collections.abc import Iterable
from typing import Any

class Namedlist:
    """Entries by name or by position. Of what type they are is the rule's affair."""

    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, position: int) -> Any: ...
    def get(self, key: str, default_value: object = None) -> Any: ...
    def items(self) -> Iterable[tuple[str, Any]]: ...

class Snakemake:
    input: Namedlist
    output: Namedlist
    params: Namedlist
    wildcards: Namedlist
    threads: int
    resources: Namedlist
    log: Namedlist
    config: dict[str, Any]
    rule: str

snakemake: Snakemake

"""What can go wrong with a memory on disk, in words that a person can act on."""

from pathlib import Path


class UnreadableMemoryError(ValueError):
    """The folder is not a memory that this version can read; nothing in it was changed."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}. Nothing was changed; put an undamaged copy of the memory there")


class LockedMemoryError(BlockingIOError):
    """Another process has the memory open for writing, or keeps it busy."""


class ClosedMemoryError(RuntimeError):
    """The memory was closed, by its user or by a failure, or is open for reading only."""


class UnknownIdsError(KeyError):
    """Ids that the memory does not hold. ids: all of them, ascending."""

    def __init__(self, ids: list[int]) -> None:
        super().__init__(ids)
        self.ids = ids

    def __str__(self) -> str:
        return f"{len(self.ids)} ids are not in the memory, so nothing was deleted: {', '.join(map(str, self.ids))}"

"""Where the memories of these tests lie."""

from pathlib import Path

import pytest


@pytest.fixture
def path(folder: Path) -> Path:
    """Where a memory can be created, alone in its folder."""
    folder.mkdir()
    return folder / "memory.db"

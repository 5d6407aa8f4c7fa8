"""A folder in memory, where there is one: what is synced there costs nothing."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else tmp_path) as name:
        yield Path(name) / "memory"

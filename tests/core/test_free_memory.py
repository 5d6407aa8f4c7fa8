"""Free memory, within the limits of a container."""

import os

import pytest

from munkey.core import free_memory
from munkey.core.free_memory import measure_free_memory

MEMINFO = "MemTotal: 2000 kB\nMemAvailable:    1000 kB\n"


def test_free_memory_is_less_than_the_machine_has():
    free_bytes = measure_free_memory()
    assert 0 < free_bytes < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("groups", "folder", "limit", "expected"),
    [
        ("0::/job", "job", "600000", 600_000 - 500_000 + 100_000),
        ("0::/of/the/host", "", "600000", 600_000 - 500_000 + 100_000),
        ("0::/job", "job", "max", 1_024_000),
        ("0::/job", "job", "400000", 0),
        ("0::/job", "job", "9000000000", 1_024_000),
    ],
)
def test_free_memory_is_limited_by_the_group_of_the_process(
    groups, folder, limit, expected, tmp_path, monkeypatch
):
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "groups").write_text(groups + "\n")
    group = tmp_path / "fs" / folder
    group.mkdir(parents=True)
    (group / "memory.max").write_text(limit + "\n")
    (group / "memory.current").write_text("500000\n")
    (group / "memory.stat").write_text("anon 1\ninactive_file 100000\n")
    monkeypatch.setattr(free_memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(free_memory, "OWN_GROUPS", tmp_path / "groups")
    files = (("", tmp_path / "fs", "memory.max", "memory.current"),)
    monkeypatch.setattr(free_memory, "GROUP_FILES", files)
    assert measure_free_memory() == expected


def test_free_memory_is_unknown_on_another_system(tmp_path, monkeypatch):
    monkeypatch.setattr(free_memory, "MEMINFO", tmp_path / "missing")
    assert measure_free_memory() is None

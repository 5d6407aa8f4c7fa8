"""How much memory is free."""

import re
from pathlib import Path

MEMINFO = Path("/proc/meminfo")
OWN_GROUPS = Path("/proc/self/cgroup")
# For both versions of control groups: the controller in /proc/self/cgroup, its folder, and the files
# with the limit and the use.
GROUP_FILES = (
    ("", Path("/sys/fs/cgroup"), "memory.max", "memory.current"),
    ("memory", Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def measure_free_memory() -> int | None:
    """Return the free bytes, caches included, within the limits of a container or batch job.

    None on systems other than Linux.
    """
    try:
        free_bytes = 1024 * _read_number(MEMINFO, "MemAvailable:")
        groups = [line.split(":", 2) for line in OWN_GROUPS.read_text().splitlines()]
    except (OSError, ValueError):
        return None
    for controller, root, limit_name, use_name in GROUP_FILES:
        for _, controllers, path in groups:
            if controller not in controllers.split(","):
                continue
            # In a container, the path may be that of the host; the root is then its own group.
            for folder in (root / path.lstrip("/"), root):
                try:
                    limit = int((folder / limit_name).read_text())
                    used = int((folder / use_name).read_text())
                    cached = _read_number(folder / "memory.stat", "inactive_file")
                except (OSError, ValueError):  # no such group, or no limit ("max")
                    continue
                free_bytes = min(free_bytes, limit - used + cached)
    return max(free_bytes, 0)


def _read_number(file: Path, name: str) -> int:
    """Read the number after a name. Raises ValueError if it is not in the file."""
    match = re.search(rf"^{name}\s+(\d+)", file.read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{file} has no {name}")
    return int(match[1])

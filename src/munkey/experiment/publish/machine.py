"""What may change the last digits of a result: the machine, and the versions of the libraries."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from munkey.core.device import has_gpu
from munkey.experiment.run.provenance import provenance

LOCK = Path("requirements.lock")


def describe_machine() -> dict[str, str]:
    """Describe this machine, its versions of the libraries, and the commit of the code."""
    import torch

    origin = provenance({}, "cuda" if has_gpu() else "cpu")
    return {
        "device": origin["device"],
        "processor instructions": torch.backends.cpu.get_cpu_capability(),
        "processor cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "commit": origin["commit"],
        "python": platform.python_version(),
        **dict(_list_versions()),
    }


def _list_versions() -> Iterator[tuple[str, str]]:
    """Yield the installed version of each package in the lock file."""
    installed = {}
    for distribution in importlib.metadata.distributions():
        installed[_normalize(distribution.name)] = distribution.version
    for line in LOCK.read_text(encoding="utf-8").splitlines():
        match = re.match(r"([\w.-]+)==", line)
        if match:
            yield match[1], installed.get(_normalize(match[1]), "not installed")


def _normalize(package: str) -> str:
    """Return the name of a package with its case and separators normalized."""
    return re.sub(r"[-_.]+", "-", package).lower()


def list_differences(published: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """List what differs between the publisher's machine and this one."""
    differences = []
    for name in dict.fromkeys([*published, *here]):
        there = published.get(name, "not stated")
        now = here.get(name, "not stated")
        if there != now:
            differences.append(f"{name}: published {there}, here {now}")
    return differences

"""Where a result comes from: commit, parameters, library versions, device."""

import hashlib
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from munkey.core.plugins import plugin_packages

LIBRARIES = ("torch", "timm", "faiss-cpu", "numpy", "pandas", "scikit-learn", "snakemake")


class Provenance(TypedDict):
    """As it stands in a record.

    Attributes
    ----------
    commit
        Ends in "+changes" if the code differs from the commit (`_has_changes`).
    """

    commit: str
    params_digest: str
    versions: dict[str, str]
    device: str


def provenance(params: Mapping[str, object], device: str) -> Provenance:
    """Return the origin of a result that depends on these parameters and was computed on this device (cpu or cuda)."""
    if device == "cuda":
        from munkey.core import gpu

        name = gpu.name()
    else:
        name = _cpu_name()
    commit = _git("rev-parse", "HEAD") or "not a git checkout"
    if _has_changes():
        commit += "+changes"
    versions = {"python": platform.python_version()}
    for library in LIBRARIES:
        versions[library] = _version(library)
    return {
        "commit": commit,
        "params_digest": params_digest(params),
        "versions": versions,
        "device": name,
    }


def _has_changes() -> bool:
    """Return whether a tracked file was modified, or a file of code or of a plug-in is neither tracked nor ignored.

    The version of a plug-in that was copied into site-packages stands for its code.
    """
    if _git("status", "--porcelain", "--untracked-files=no"):
        return True
    code: list[tuple[str, ...]] = [(".", "src", "workflow")]
    for package in plugin_packages().values():
        if "site-packages" not in package.place.parts:
            code.append((str(package.place.parent), package.place.name))
    return any(
        _git("-C", folder, "status", "--porcelain", "--untracked-files=normal", *names)
        for folder, *names in code
    )


def params_digest(params: Mapping[str, object]) -> str:
    """Return a hash of these parameters."""
    return hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:16]


def _git(*args: str) -> str:
    """Return the output of git; empty if it fails, e.g. outside of a checkout, or is not installed."""
    try:
        return subprocess.run(
            ["git", *args], capture_output=True, text=True, check=False
        ).stdout.strip()
    except FileNotFoundError:
        return ""


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()}, CPU"
    return f"{platform.processor() or platform.machine()}, CPU"

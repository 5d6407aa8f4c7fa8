"""The provenance of a result: commit, parameters, library versions and device."""

import hashlib
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from munkey.core.plugins import find_plugin_packages

LIBRARIES = ("torch", "timm", "faiss-cpu", "numpy", "pandas", "scikit-learn", "snakemake")


class Provenance(TypedDict):
    """The provenance of a result, as a record stores it.

    Attributes
    ----------
    commit
        The commit of the code, followed by "+changes" if the code differs from it.
    """

    commit: str
    params_digest: str
    versions: dict[str, str]
    device: str


def provenance(params: Mapping[str, object], device: str) -> Provenance:
    """Return the provenance of a result computed with these parameters on "cpu" or "cuda"."""
    if device == "cuda":
        from munkey.core import gpu

        name = gpu.get_name()
    else:
        name = _cpu_name()
    commit = _git("rev-parse", "HEAD") or "not a git checkout"
    if _has_changes():
        commit += "+changes"
    versions = {"python": platform.python_version()}
    for library in LIBRARIES:
        versions[library] = _find_version(library)
    return {
        "commit": commit,
        "params_digest": params_digest(params),
        "versions": versions,
        "device": name,
    }


def _has_changes() -> bool:
    """Return whether the code differs from the commit.

    It does if a tracked file was modified, or if a file of the code or of a plug-in is neither
    tracked nor ignored. Plug-ins in site-packages are not checked, because their version identifies
    their code.
    """
    if _git("status", "--porcelain", "--untracked-files=no"):
        return True
    status = ("status", "--porcelain", "--untracked-files=normal")
    if _git(*status, "src", "workflow"):
        return True
    for package in find_plugin_packages().values():
        path = package.path
        if "site-packages" in path.parts:
            continue
        if _git("-C", str(path.parent), *status, path.name):
            return True
    return False


def params_digest(params: Mapping[str, object]) -> str:
    """Return a hash of these parameters."""
    return hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:16]


def _git(*args: str) -> str:
    """Return git's output; empty if git fails, e.g. outside a checkout, or is not installed."""
    try:
        process = subprocess.run(["git", *args], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return process.stdout.strip()


def _find_version(library: str) -> str:
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

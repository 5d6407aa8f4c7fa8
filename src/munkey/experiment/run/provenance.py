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
    """As it stands in a record. commit: ends in "+changes" where the code is not what is committed (`_changed`)."""

    commit: str
    params_digest: str
    versions: dict[str, str]
    device: str


def provenance(params: Mapping[str, object], device: str) -> Provenance:
    """The origin of a result that depends on these parameters and was computed on this device (cpu or cuda)."""
    if device == "cuda":
        from munkey.core import gpu

        name = gpu.name()
    else:
        name = _cpu_name()
    commit = _git("rev-parse", "HEAD") or "not a git checkout"
    return {
        "commit": commit + "+changes" * _changed(),
        "params_digest": params_digest(params),
        "versions": {"python": platform.python_version()}
        | {name: _version(name) for name in LIBRARIES},
        "device": name,
    }


def _changed() -> bool:
    """Whether a tracked file was modified, or one of code is neither tracked nor ignored; of plug-ins, too.

    Of a plug-in that was copied into site-packages, its version stands for its code.
    """
    places = [
        package.place
        for package in plugin_packages().values()
        if "site-packages" not in package.place.parts
    ]
    code = [(".", "src", "workflow"), *((str(place.parent), place.name) for place in places)]
    changes = [
        _git("-C", folder, "status", "--porcelain", "--untracked-files=normal", *names)
        for folder, *names in code
    ]
    return any([_git("status", "--porcelain", "--untracked-files=no"), *changes])


def params_digest(params: Mapping[str, object]) -> str:
    """What tells these parameters from others."""
    return hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:16]


def _git(*args: str) -> str:
    """What git prints; nothing where it fails, e.g. outside of a checkout, or is not installed."""
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
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, CPU"

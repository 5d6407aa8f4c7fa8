"""Reading a published run. Everything in the file may come from a stranger: no code in it is run.

Names, sizes and checksums are checked before a file is used.
"""

import hashlib
import json
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from munkey.core.files import atomic_with_checksum
from munkey.experiment.publish.contents import is_result
from munkey.experiment.publish.crate import (
    CHECKSUM_DIGITS,
    DESCRIPTION,
    FACTS,
    PARAMS,
    WITHHELD,
    FileFacts,
    RunFacts,
    is_inside,
)
from munkey.experiment.publish.machine import LOCK
from munkey.experiment.publish.workflow import SNAKEFILE, RecordedJob

MAX_DESCRIPTION = 500 * 2**20  # bytes; about 100,000 jobs
BLOCK = 2**20  # bytes
FIXED = (PARAMS, FACTS, str(LOCK), str(SNAKEFILE))  # files of each run


class NotAPublishedRunError(ValueError):
    """A file is not a published run, or is unsafe to unpack."""


class AlteredRunError(Exception):
    """A published run is not as it was written. The message lists what was altered."""

    def __init__(self, path: Path, digest: str, faults: list[str]) -> None:
        heading = f"{path}: is not as it was written (its SHA-256 is {digest}):"
        super().__init__("\n  ".join([heading, *faults]))


@dataclass(frozen=True)
class PublishedRun:
    """A published run.

    Attributes
    ----------
    files
        All files of the run, also those that were left out, by their paths.
    """

    path: Path
    sha256: str
    files: Mapping[str, FileFacts]
    jobs: list[RecordedJob]
    facts: RunFacts

    def read(self, name: str) -> bytes:
        """Return the content of a file of the run."""
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(name)

    def unpack(self, names: Sequence[str], folder: Path) -> None:
        """Write files of the run below a folder, with their checksums.

        Raises NotAPublishedRunError if they do not fit onto the disk.
        """
        size = sum(self.files[name].size for name in names)
        if size > shutil.disk_usage(folder).free:
            raise NotAPublishedRunError(
                f"{self.path}: refused, since it unpacks to {size:,} bytes, more than the disk of"
                f" {folder} has free"
            )
        with zipfile.ZipFile(self.path) as archive:
            for name in names:
                with (
                    atomic_with_checksum(folder / name) as temporary,
                    archive.open(name) as source,
                    temporary.open("wb") as target,
                ):
                    shutil.copyfileobj(source, target)


def open_run(path: Path) -> PublishedRun:
    """Read a published run, and check names, sizes and checksums of all files.

    Raises
    ------
    AlteredRunError
        If the file, or a file in it, does not match its checksum.
    NotAPublishedRunError
        If it is not a published run, or has paths or sizes that are unsafe to unpack.
    """
    if path.is_dir():
        raise NotAPublishedRunError(f"{path}: is a folder; give the zip file itself")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    faults = []
    named = re.search(rf"-([0-9a-f]{{{CHECKSUM_DIGITS}}})\.zip$", path.name)
    if named and named[1] != digest[:CHECKSUM_DIGITS]:
        faults.append(f"the name states the SHA-256 {named[1]}…, but the file has {digest}")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _check_entries(path, archive)
            description = _read_entry(archive, entries, DESCRIPTION, path)
            files, jobs = _read_description(json.loads(description))
            faults += _find_damage(archive, entries, files)
            if faults:
                raise AlteredRunError(path, digest, faults)
            facts = RunFacts.model_validate_json(archive.read(FACTS))
    except (AlteredRunError, NotAPublishedRunError):
        raise
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError) as error:
        if faults:  # the name's checksum already shows that the file was altered
            raise AlteredRunError(path, digest, [*faults, str(error)]) from None
        message = f"{path}: is not a published run, or is damaged, e.g. not downloaded to the end ({error})"
        raise NotAPublishedRunError(message) from None
    for name in (*files, *facts.sources):
        if not is_inside(name):
            raise NotAPublishedRunError(f"{path}: refused, since {name} leads out of the folder")
    for name in files:
        is_known = is_result(name) or name in FIXED or name in facts.find_own_files()
        if not is_known:
            raise NotAPublishedRunError(f"{path}: refused, since no run has the file {name}")
    for name in facts.find_own_files():
        if name not in files:
            raise NotAPublishedRunError(f"{path}: refused, since it does not have {name}")
    return PublishedRun(path, digest, files, jobs, facts)


def _check_entries(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the entries of a zip file by name.

    Raises NotAPublishedRunError for a name that leads out of the folder or is there twice, and for a
    link.
    """
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        mode = entry.external_attr >> 16
        if not is_inside(entry.filename) or entry.filename in entries:
            reason = "which leads out of the folder, or is there twice"
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            reason = "which is a link or a folder"
        elif entry.flag_bits & 1:
            reason = "which is encrypted"
        else:
            entries[entry.filename] = entry
            continue
        raise NotAPublishedRunError(
            f"{path}: refused, since it contains {entry.filename}, {reason}"
        )
    return entries


def _read_entry(
    archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], name: str, path: Path
) -> bytes:
    """Read the description, whose size nothing else states."""
    if name not in entries:
        raise NotAPublishedRunError(f"{path}: is not a published run; it has no {name}")
    if entries[name].file_size > MAX_DESCRIPTION:
        raise NotAPublishedRunError(f"{path}: {name} has more than {MAX_DESCRIPTION:,} bytes")
    return archive.read(name)


def _read_description(
    description: Mapping[str, Any],
) -> tuple[dict[str, FileFacts], list[RecordedJob]]:
    """Return the files and the jobs of a description. Raises KeyError if a part is missing."""
    entities = {entity["@id"]: entity for entity in description["@graph"]}
    files: dict[str, FileFacts] = {}
    for identifier, entity in entities.items():
        if "sha256" in entity:
            withheld = ""
            if identifier.startswith(WITHHELD):
                withheld = entity["description"].removeprefix("left out: ")
            facts = FileFacts(int(entity["contentSize"]), entity["sha256"], withheld)
            files[_get_path(identifier)] = facts
    jobs = []
    for identifier, entity in entities.items():
        if entity["@type"] != "CreateAction" or identifier == "#run":
            continue
        application = entities[entity["instrument"]["@id"]]
        if not application["name"].isidentifier():  # it becomes an argument of Snakemake
            raise ValueError(f"{application['name']} is not the name of a rule")
        jobs.append(
            RecordedJob(
                application["name"],
                application["description"].split()[3],
                application["softwareVersion"],
                identifier.removeprefix("#"),
                datetime.fromisoformat(entity["startTime"]).timestamp(),
                datetime.fromisoformat(entity["endTime"]).timestamp(),
                tuple(_list_paths(entity.get("object", []))),
                _list_paths(entity["result"]),
            )
        )
    return files, jobs


def _get_path(identifier: str) -> str:
    return unquote(identifier.removeprefix(WITHHELD))


def _list_paths(references: Any) -> list[str]:
    """Return the paths of one or several references of JSON-LD."""
    if isinstance(references, dict):
        references = [references]
    return [_get_path(reference["@id"]) for reference in references]


def _find_damage(
    archive: zipfile.ZipFile,
    entries: Mapping[str, zipfile.ZipInfo],
    files: Mapping[str, FileFacts],
) -> list[str]:
    """List the files that are missing, not described, or do not match their size and checksum."""
    published = {name for name, facts in files.items() if not facts.withheld}
    faults = []
    undescribed = {*FIXED, *entries} - published - {DESCRIPTION}
    for name in sorted(undescribed):
        faults.append(f"{name}: is not described")
    for name in sorted(published):
        fault = _find_fault(archive, entries.get(name), files[name])
        if fault:
            faults.append(f"{name}: {fault}")
    return faults


def _find_fault(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo | None, facts: FileFacts
) -> str | None:
    """Return what is wrong with a file, or None."""
    if entry is None:
        return "is missing"
    if entry.file_size != facts.size:
        return f"has {entry.file_size:,} bytes instead of {facts.size:,}"
    digest = hashlib.sha256()
    try:
        with archive.open(entry) as source:
            while block := source.read(BLOCK):
                digest.update(block)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        return f"was altered or damaged ({error})"
    if digest.hexdigest() != facts.sha256:
        return f"was altered: its SHA-256 is {digest.hexdigest()} instead of {facts.sha256}"
    return None

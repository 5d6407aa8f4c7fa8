"""Data sets, decoded once into arrays that all later jobs map into memory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from munkey.core.console import warn
from munkey.core.randomness import Stage
from munkey.data.prepared import prepare
from munkey.data.registry import find_reader
from munkey.data.source_settings import alter_samples, apply_source_settings
from munkey.experiment.params.load import load
from munkey.settings import SourceSettings


def data(images: Path, dataset: str, source: SourceSettings, config: Mapping[str, Any]) -> None:
    """Decode a data set.

    Parameters
    ----------
    images
        The output. The other files of the data set are written to the same folder.
    config
        All parameters. They are not params of the rule, so the data set is not prepared again when
        a depth or a rate changes.
    """
    params = load(config)
    loaded = find_reader(dataset, source).load(source)
    loaded = apply_source_settings(loaded, source)
    if source.alter:
        loaded = alter_samples(loaded, source.alter, Stage(dataset, "altered"))
    prepare(
        loaded.with_progress(),
        images.parent,
        report=warn,
        min_train=params.for_case(dataset).least_samples,
        max_train=params.list_most_samples(dataset),
    )
    print(f"{len(loaded.labels)} images, {len(loaded.classes)} classes -> {images.parent}")

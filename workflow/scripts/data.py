"""Decode a data set once, into arrays that every later job maps into memory."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from munkey import data, runtime

with runtime.job(snakemake.log[0], snakemake.threads):
    folder = Path(snakemake.output.images).parent
    settings = SimpleNamespace(**snakemake.params.source)
    source = data.DATASETS[snakemake.wildcards.dataset].load(settings)
    if not isinstance(source.images, np.ndarray):
        source = replace(source, images=runtime.progress(source.images, "block", "blocks"))
    data.prepare(source, folder, report=runtime.warn)
    print(f"{len(source.labels)} images, {len(source.classes)} classes -> {folder}")

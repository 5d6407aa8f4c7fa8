"""Decode a data set once, into arrays that every later job maps into memory."""

from munkey import warm

warm.start()

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from munkey import data, params, runtime
from munkey.data.shaping import shaped

with runtime.job(snakemake.log[0], snakemake.threads):
    folder = Path(snakemake.output.images).parent
    settings = SimpleNamespace(**snakemake.params.source)
    source = shaped(data.DATASETS[snakemake.wildcards.dataset].load(settings), settings)
    if not isinstance(source.images, np.ndarray):
        source = replace(source, images=runtime.progress(source.images, "block", "blocks"))
    # Not among this rule's params: another depth or rate only looks up neighbours anew, it does not prepare anew.
    wanted = params.load(snakemake.config).of(snakemake.wildcards.dataset)
    least = math.ceil(wanted.keys.depth / (1 - max(wanted.forget.rates)))
    data.prepare(source, folder, report=runtime.warn, least=least)
    print(f"{len(source.labels)} images, {len(source.classes)} classes -> {folder}")

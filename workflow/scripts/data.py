"""Decode a data set once, into arrays that every later job maps into memory."""

from pathlib import Path

from munkey import data, runtime

with runtime.job(snakemake.log[0], snakemake.threads):
    folder = Path(snakemake.output.images).parent
    source = data.DATASETS[snakemake.wildcards.dataset].load()
    data.prepare(source, folder)
    print(f"{len(source.images)} images of {source.images.shape[1:3]} px, {len(source.classes)} classes -> {folder}")

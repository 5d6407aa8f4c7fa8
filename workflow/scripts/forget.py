"""Draw the forget set of a data set, seed and rate."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.randomness import Stage
from munkey.data.forget_sets import draw, write
from munkey.data.prepared import load
from munkey.experiment.run.job import job

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    dataset, names, sampling = load(Path(snakemake.input.images).parent), snakemake.wildcards, snakemake.params.sampling
    members = dataset.ids_of("train")
    labels = dataset.labels[dataset.rows(members)]
    generator = Stage(names.seed, names.dataset, "forget", names.rate).numpy_generator()
    chosen = draw(members, labels, float(names.rate), sampling, generator)
    write(snakemake.output.forget, chosen)
    print(f"{len(chosen)} of {len(members)} training samples to forget, {sampling}")

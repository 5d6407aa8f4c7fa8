"""Draw the half of an audit's pool that the models of a seed are trained on and then forget."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.audits.pools import require_fitting
from munkey.core.randomness import Stage
from munkey.data.forget_sets import halves, write
from munkey.data.prepared import load
from munkey.experiment.run.job import job

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    dataset, names = load(Path(snakemake.input.images).parent), snakemake.wildcards
    members, stage, pair = dataset.ids_of("train"), Stage(names.dataset, "audit"), int(names.seed) // 2
    labels = dataset.labels[dataset.rows(members)]
    both = first, second = halves(members, labels, snakemake.params.pool, stage / "pool", stage / "pair" / pair)
    require_fitting(len(first) + len(second), dataset, snakemake.params.depth)
    write(snakemake.output.half, both[int(names.seed) % 2])

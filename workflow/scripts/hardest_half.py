"""Draw the half of an audit's pool that the models of a seed forget, where the pool holds the hardest samples."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.audits import pools
from munkey.core.randomness import Stage
from munkey.data.forget_sets import write
from munkey.data.prepared import load
from munkey.experiment.run.job import job
from munkey.memory.neighbors import read_others

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, names, params = snakemake.input, snakemake.wildcards, snakemake.params
    dataset, stage = load(Path(files.images).parent), Stage(names.dataset, "audit")
    ids = dataset.ids_of("train")
    members = pools.Members(ids, dataset.labels[dataset.rows(ids)])
    votes = pools.vote_shares(members, read_others(files.neighbors, ids, params.voters).ids)
    pool = pools.hardest(members, votes, params.pool, stage / "hardest")
    pools.require_fitting(len(pool), dataset, params.voters + 1)
    pair, number = divmod(int(names.seed), 2)
    write(snakemake.output.half, pools.half_of(pool, number, stage / "hardest pair" / pair))
    print(f"{len(pool)} samples; their label has {votes[ids.searchsorted(pool)].mean():.0%} of their neighbors' votes")

"""Look up the nearest neighbors of every sample in a memory: of all training samples, or of the retain set."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.ids import rows_of
from munkey.data import forget_sets, prepared
from munkey.data.source import SourceError
from munkey.encoders import keys
from munkey.encoders.keys import Keys
from munkey.experiment.run.job import job
from munkey.memory import neighbors

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    dataset, depth = prepared.load(Path(snakemake.input.images).parent), snakemake.params.depth
    members = forget_sets.split(dataset, snakemake.input.get("forget"), snakemake.input.get("absent")).retain
    if len(members) < depth:
        raise SourceError("too little data", [f"{len(members)} samples to retain; keys.depth wants {depth}"])
    queries = keys.read(snakemake.input.keyfile)
    memory = Keys(members, queries.keys[rows_of(queries.ids, members)])
    neighbors.write(snakemake.output.neighbors, queries.ids, neighbors.nearest(queries, memory, depth))
    print(f"{depth} nearest of {len(members)} members for {len(queries.ids)} samples")

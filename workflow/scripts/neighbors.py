"""Look up the nearest neighbours of every sample in a memory: all training samples, or those left to retain."""

from munkey import warm

warm.start()

from munkey import data, forget, keys, neighbors, runtime

with runtime.job(snakemake.log[0], snakemake.threads):
    dataset = data.load(snakemake.params.folder)
    members, _ = forget.split(dataset, snakemake.input.get("forget"))
    depth = snakemake.params.depth
    if len(members) < depth:
        raise data.SourceError("too little data", [f"{len(members)} samples to retain; keys.depth wants {depth}"])
    ids, queries = keys.read(snakemake.input.keyfile)
    held = queries[data.rows_of(ids, members)]
    found = neighbors.nearest(queries, ids, held, members, depth)
    neighbors.write(snakemake.output.neighbors, ids, *found)
    print(f"{snakemake.params.depth} nearest of {len(members)} members for {len(ids)} samples")

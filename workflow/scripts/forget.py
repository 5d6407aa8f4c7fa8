"""Draw the forget set of a data set, seed and rate."""

from munkey import warm

warm.start()

from munkey import data, forget, runtime
from munkey.randomness import numpy_generator

with runtime.job(snakemake.log[0], snakemake.threads):
    wildcards, rate = snakemake.wildcards, float(snakemake.wildcards.rate)
    dataset = data.load(snakemake.params.folder)
    members = dataset.ids_of("train")
    generator = numpy_generator(wildcards.seed, wildcards.dataset, "forget", wildcards.rate)
    labels = dataset.labels[dataset.rows(members)]
    chosen = forget.draw(members, labels, rate, snakemake.params.sampling, generator)
    forget.write(snakemake.output.forget, chosen)
    print(f"{len(chosen)} of {len(members)} training samples to forget, {snakemake.params.sampling}")

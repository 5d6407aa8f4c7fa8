"""Write the prepared data set once more for an audit, with a wrong label for every sample of its pool."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.audits import pools
from munkey.core.files import read_csv, write_csv, write_json, write_npy
from munkey.core.randomness import Stage
from munkey.data import forget_sets
from munkey.data.prepared import load
from munkey.experiment.run.job import job

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, output, stage = (
        snakemake.input,
        snakemake.output,
        Stage(snakemake.wildcards.dataset, "audit", "wrong labels"),
    )
    dataset, rows = load(Path(files.images).parent), read_csv(files.samples)
    pool = dataset.rows(np.concatenate([forget_sets.read(half) for half in files.pool]))
    labels = pools.mislabeled(dataset.labels, np.sort(pool), len(dataset.classes), stage.numpy_generator())
    write_npy(output.images, dataset.images)
    write_csv(output.samples, [row | {"label": label} for row, label in zip(rows, labels.tolist(), strict=True)])
    write_json(output.classes, dataset.classes)

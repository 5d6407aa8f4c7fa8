"""Draw which neighbors a test sample and a forget sample retrieve, before and after deletion."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.files import read_npz
from munkey.data import forget_sets, prepared
from munkey.experiment.run.job import job
from munkey.memory import neighbors
from munkey.report.figures import theme
from munkey.report.figures.examples import Deletion, Snapshot, examples
from munkey.report.figures.retrieval import retrieval_plot
from munkey.settings import InferenceSettings

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    inputs = snakemake.input
    dataset, settings = prepared.load(Path(inputs.images).parent), InferenceSettings(**snakemake.params.inference)
    before, after = (
        Snapshot(neighbors.read(near, dataset.ids), read_npz(logits, "logits")["logits"])
        for near, logits in ((inputs.full, inputs.before), (inputs.left, inputs.after))
    )
    deletion = Deletion(dataset, forget_sets.read(inputs.forget), before, after)
    theme.save(retrieval_plot(examples(deletion, settings)), Path(snakemake.output.svg).with_suffix(""))

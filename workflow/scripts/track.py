"""Mirror all results and tables in MLflow."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.core.files import write_json
from munkey.core.paths import Layout
from munkey.evaluation.records import Evaluation
from munkey.experiment.run.job import job
from munkey.experiment.tracking.mirror import record
from munkey.experiment.tracking.runs import Model, Results, runs_of

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    params = snakemake.params
    results = Results(
        Layout(params.name),
        [Evaluation(**run) for run in params.runs],
        {path: Evaluation(**run) for path, run in params.searches.items()},
        params.titles,
        params.asked,
        [Model(path, Evaluation(**model["run"]), model["sections"]) for path, model in params.models.items()],
    )
    write_json(snakemake.output.mirrored, record(params.uri, params.name, runs_of(results), params.attempt))

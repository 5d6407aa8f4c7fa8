"""Mirror all results and tables in MLflow."""

from munkey.pipeline import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.core.files import write_json
from munkey.evaluation.records import Evaluation
from munkey.pipeline import mirror, tracking
from munkey.pipeline.job import job
from munkey.pipeline.layout import Layout

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    params = snakemake.params
    evaluations = [Evaluation(**run) for run in params.runs]
    searches = {path: Evaluation(**run) for path, run in params.searches.items()}
    titles = {row["name"]: row["title"] for row in params.rows}
    models = [
        tracking.Model(path, Evaluation(**model["run"]), model["sections"]) for path, model in params.models.items()
    ]
    runs = tracking.runs_of(evaluations, searches, titles, Layout(params.name), models)
    write_json(snakemake.output.mirrored, mirror.record(params.uri, params.name, runs, params.attempt))

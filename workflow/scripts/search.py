"""Choose among the candidates of a method on validation and forget set. The chosen one becomes the method's result."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.device import Stopwatch, device_of
from munkey.core.files import read_bytes, read_json, sealed, write_json
from munkey.data import prepared
from munkey.evaluation import score_candidates, search
from munkey.experiment.run.job import job
from munkey.settings import DataSettings

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, output, device = snakemake.input, snakemake.output, device_of(snakemake.resources.gpu)
    dataset, records = prepared.load(Path(files.images).parent), [read_json(path) for path in files.records]
    judge = score_candidates.judge(dataset, files.forget, DataSettings(**snakemake.params.data), device)
    with Stopwatch(device) as watch:
        candidates = score_candidates.all_of(judge, files.systems)
    before = judge(files.original).val_accuracy
    chosen = search.choose(candidates, before, snakemake.params.drop)
    found = score_candidates.found(candidates, records, chosen, before, watch.seconds)
    write_json(output.found, found)
    with sealed(output.system) as temporary:
        temporary.write_bytes(read_bytes(files.systems[chosen]))
    write_json(output.record, records[chosen] | {"search_s": found["search_s"]})

"""Apply an unlearning method to an original. Only the call of the method itself is timed."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.device import Stopwatch, device_of
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.experiment.run.job import JobRecord, job, now, record
from munkey.models import system
from munkey.unlearn import prepare
from munkey.unlearn.contract import METHODS, Request

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, wildcards, params = snakemake.input, snakemake.wildcards, snakemake.params
    method, device, started = METHODS[wildcards.method], device_of(snakemake.resources.gpu), now()
    dataset = prepared.load(Path(files.images).parent)
    split = forget_sets.split(dataset, files.forget, files.get("absent"))
    recipe = prepare.recipe(method, params.settings, wildcards.seed, params.dataset)
    original = prepare.original(method, recipe, dataset, split, files.get("original") or files.keyfile, device)
    data = prepare.parts(method, dataset, split, device, snakemake.config["resident_share"])
    stage = Stage(wildcards.seed, params.dataset, "unlearn", wildcards.rate, method.name)
    tuning = prepare.tuning(recipe, params.settings)
    request = Request(split.forget, stage.torch_generator(), device, print, method.needs, data, recipe, tuning)
    settings = method.settings.model_validate(params.settings["method"])
    with Stopwatch(device) as watch:
        unlearned = method.run(original, request, settings)
    system.save(snakemake.output.system, unlearned)
    facts = {"unlearn_s": watch.seconds, "facts": request.facts}
    record(snakemake.output.record, JobRecord(params.settings, device, started, request.history, facts))

"""Train an original on all samples, or an oracle on the retain set: the same code from the same fresh start."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.device import device_of
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set, resident
from munkey.experiment.run.job import JobRecord, job, now, record
from munkey.models import system, training_inputs
from munkey.models.family import FAMILIES, Training
from munkey.training.checkpoint import CheckpointFile

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, wildcards, params = snakemake.input, snakemake.wildcards, snakemake.params
    family, device, started = FAMILIES[params.family], device_of(snakemake.resources.gpu), now()
    dataset = prepared.load(Path(files.images).parent)
    settings = training_inputs.with_selected(params.settings, family, files.get("selected"))
    recipe = family.recipe(settings, family.stage(wildcards.seed, params.dataset, wildcards.subset))
    samples = image_set(dataset, forget_sets.split(dataset, files.get("forget"), files.get("absent")).retain)
    samples = resident(samples, device, snakemake.config["resident_share"])
    members = training_inputs.member_keys(family, recipe, samples.ids, files)
    identity = [params, recipe.stage, device, *snakemake.output]
    checkpoint = CheckpointFile.of(identity, files, snakemake.config["checkpoint_s"])
    training = Training(samples, len(dataset.classes), recipe, device, members=members, checkpoint=checkpoint)
    trained = family.train(training)
    system.save(snakemake.output.system, trained.system)
    facts = training_inputs.selected(files.get("selected")) | {
        "train_epoch_s": family.epoch_seconds(trained.history, recipe)
    }
    record(snakemake.output.record, JobRecord(params.settings, device, started, trained.history, facts))
    checkpoint.remove()

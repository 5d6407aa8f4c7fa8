"""Train once more, watched: P_s after every epoch, tokens and [CLS] features at start, middle and end."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.device import device_of
from munkey.core.files import write_npz
from munkey.data import prepared
from munkey.data.image_set import image_set, resident
from munkey.evaluation.trace import Trace
from munkey.experiment.run.job import job
from munkey.models import training_inputs
from munkey.models.family import FAMILIES, Training

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, params, device = snakemake.input, snakemake.params, device_of(snakemake.resources.gpu)
    dataset, family = prepared.load(Path(files.images).parent), FAMILIES[params.family]
    samples = resident(image_set(dataset, dataset.ids_of("train")), device, snakemake.config["resident_share"])
    settings = training_inputs.with_selected(params.settings, family, files.get("selected"))
    # The stage is the original's: the same training to the bit.
    recipe = family.recipe(settings, family.stage(snakemake.wildcards.seed, params.dataset, "full"))
    members = training_inputs.member_keys(family, recipe, samples.ids, files)
    trace = Trace(samples, recipe, device)
    family.train(Training(samples, len(dataset.classes), recipe, device, members=members, watch=trace.watch))
    write_npz(snakemake.output.trace, trace.arrays())

"""Train a system further on the retain set alone, and note what it answers about the forget set on the way."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from munkey.audits.further_training import Questions, trained_further
from munkey.core.device import device_of
from munkey.core.files import write_csv
from munkey.core.randomness import Stage
from munkey.data import forget_sets, prepared
from munkey.data.image_set import image_set, resident
from munkey.experiment.run.job import job
from munkey.memory import neighbors
from munkey.models import system, training_inputs
from munkey.models.family import FAMILIES, Training
from munkey.settings import RelearnSettings

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, names, device = snakemake.input, snakemake.wildcards, device_of(snakemake.resources.gpu)
    dataset, loaded = prepared.load(Path(files.images).parent), system.load(files.system, device=device)
    family, split = FAMILIES[loaded.family], forget_sets.split(dataset, files.forget)
    settings = training_inputs.with_selected(snakemake.params.settings, family, files.get("selected"))
    recipe = family.recipe(settings, Stage(names.seed, names.dataset, "relearn", family.name))
    samples = resident(image_set(dataset, split.retain), device, snakemake.config["resident_share"])
    members = training_inputs.member_keys(family, recipe, samples.ids, files)
    asked_of = image_set(dataset, np.union1d(split.forget, dataset.ids_of("test")))
    retrieval = None
    if family.has_memory:
        retrieval = family.retrieval(neighbors.read(files.retrieved, asked_of.ids), settings["inference"])
    questions = Questions(asked_of, np.isin(asked_of.ids, split.forget), recipe.data, device, retrieval)
    training = Training(samples, len(dataset.classes), recipe, device, members=members)
    lines = trained_further(loaded, training, RelearnSettings.model_validate(settings["relearn"]), questions)
    write_csv(snakemake.output.curve, lines)

"""Logits of a system on every sample of every split; where it has pathways, also with either of them cut."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.device import device_of
from munkey.core.files import write_npz
from munkey.data import prepared
from munkey.evaluation.predict import predictions
from munkey.experiment.run.job import job
from munkey.memory import neighbors
from munkey.models import system
from munkey.models.family import FAMILIES
from munkey.settings import DataSettings

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    files, settings, device = snakemake.input, snakemake.params.settings, device_of(snakemake.resources.gpu)
    dataset, loaded = prepared.load(Path(files.images).parent), system.load(files.system, device=device)
    retrieval = other = None
    if loaded.memory is not None:
        near = neighbors.read(files.neighbors, dataset.ids)
        retrieval = FAMILIES[loaded.family].retrieval(near, settings["inference"])
        if asked := settings.get("audit"):
            other = FAMILIES[loaded.family].retrieval(near, settings["inference"] | asked)
    arrays = predictions(loaded, dataset, DataSettings(**settings["data"]), device, retrieval, other)
    write_npz(snakemake.output.logits, arrays)

"""Extract the key of every sample with the frozen encoder."""

from munkey.experiment.run import fork_server

fork_server.start()

import hashlib
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch  # noqa: F401 (imported before the job starts, so that the job can limit its threads)

from munkey.core.console import progress
from munkey.core.device import device_of
from munkey.data.prepared import load
from munkey.encoders.keys import extract, write
from munkey.encoders.registry import find
from munkey.experiment.run.job import job
from munkey.settings import EncoderSettings

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    settings, device = EncoderSettings(**snakemake.params.settings), device_of(snakemake.resources.gpu)
    dataset, size = load(Path(snakemake.input.images).parent), settings.batch_size
    encode = find(settings.encoder).build(settings, device)
    show_progress = partial(progress, what="batch", unit="images", each=size)
    stamp = Path(snakemake.input.images).stat().st_mtime_ns
    identity = hashlib.sha256(f"{snakemake.params} {snakemake.output} {stamp} {device}".encode()).hexdigest()[:16]
    blocks = Path("cache") / "keys" / identity
    keys = extract(encode, dataset.images, size, device, show_progress, blocks)
    write(snakemake.output.keyfile, dataset.ids, keys)
    shutil.rmtree(blocks)

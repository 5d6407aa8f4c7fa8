"""Extract the key of every sample with the frozen encoder."""

from munkey import warm

warm.start()

import hashlib
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch  # noqa: F401 (loaded first, so that the job can limit its threads)

from munkey import data, keys, runtime
from munkey.encoders import find

with runtime.job(snakemake.log[0], snakemake.threads):
    settings, device = SimpleNamespace(**snakemake.params.settings), runtime.device(snakemake.resources.gpu)
    dataset = data.load(snakemake.params.folder)
    encode = find(settings.encoder).build(settings, device)
    size = settings.batch_size
    report = partial(runtime.progress, what="batch", unit="images", each=size)
    stamp = Path(snakemake.input.images).stat().st_mtime_ns
    identity = hashlib.sha256(f"{snakemake.params} {stamp} {device}".encode()).hexdigest()[:16]
    blocks = Path("cache") / "keys" / identity
    found = keys.extract(encode, dataset.images, size, device, report, blocks)
    keys.write(snakemake.output.keyfile, dataset.ids, found)
    shutil.rmtree(blocks)

"""Extract the key of every sample with the frozen encoder."""

from functools import partial

import torch  # noqa: F401 (loaded first, so that the job can limit its threads)

from munkey import data, keys, runtime
from munkey.encoders import ENCODERS

with runtime.job(snakemake.log[0], snakemake.threads):
    settings, device = snakemake.params.settings, runtime.device(snakemake.resources.gpu)
    dataset = data.load(snakemake.params.folder)
    encode = ENCODERS[settings["encoder"]].build(settings["image_size"], device)
    report = partial(runtime.progress, what="batch", unit="batches")
    found = keys.extract(encode, dataset.images, settings["batch_size"], device, report)
    keys.write(snakemake.output.keyfile, dataset.ids, found)

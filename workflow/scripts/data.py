"""Decode a data set once, into arrays that every later job maps into memory."""

from munkey.experiment.run import fork_server

fork_server.start()

from pathlib import Path
from typing import TYPE_CHECKING

from munkey.core.console import warn
from munkey.data.prepared import prepare
from munkey.data.registry import reader_of
from munkey.data.source_settings import shaped
from munkey.experiment.params.load import least_samples
from munkey.experiment.run.job import job
from munkey.settings import SourceSettings

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

with job(snakemake.log[0], snakemake.threads):
    name, folder = snakemake.wildcards.dataset, Path(snakemake.output.images).parent
    settings = SourceSettings(**snakemake.params.source)
    source = shaped(reader_of(name, settings).load(settings), settings)
    # Not from snakemake.params: another depth or rate needs only other neighbors, not another preparation.
    prepare(source.with_progress(), folder, report=warn, least=least_samples(snakemake.config, name))
    print(f"{len(source.labels)} images, {len(source.classes)} classes -> {folder}")

"""The one script of all rules: runs the function of munkey.jobs that the rule's `code` names."""

from munkey.experiment.run import fork_server

fork_server.start()

from typing import TYPE_CHECKING

from munkey.experiment.run import dispatch

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

names = (
    dict(part.items())
    for part in (snakemake.wildcards, snakemake.input, snakemake.output, snakemake.params)
)
task = dispatch.Task(snakemake.rule, *names)
dispatch.run(
    task, snakemake.log[0], snakemake.threads, snakemake.resources.get("gpu", 0), snakemake.config
)

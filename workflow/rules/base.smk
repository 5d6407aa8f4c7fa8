# What all rules stand on: the parameters, checked before anything else, the plan made from them, and what rules inherit.
import getpass
import os
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from munkey.core.device import has_gpu
from munkey.core.files import CONFIGFILES
from munkey.core.paths import choose_configuration_name
from munkey.experiment.params.load import ParamsError, from_command_line, load, read_file, refusals
from munkey.experiment.params.load import select_ablations
from munkey.experiment.params.studies import load_studies
from munkey.experiment.plan import exhibits, plan
from munkey.experiment.run.dispatch import dump_settings

# Snakemake hands Python's path to a shell, without quotes: relative, a space in the project's own path does not matter.
if sys.executable != shlex.quote(sys.executable):
    sys.executable = os.path.relpath(sys.executable)
    if sys.executable != shlex.quote(sys.executable):
        raise WorkflowError(f"Snakemake cannot start {sys.executable}: install munkey where no space is in the path")
if set("{}") & set(str(Path.cwd())):
    raise WorkflowError(f"{Path.cwd()} has braces, which Snakemake takes for wildcards: rename or move the folder")
# The user of a container may have no name, which Snakemake asks for.
try:
    getpass.getuser()
except (KeyError, OSError):
    os.environ.update(USER=str(os.getuid()))
# Where a key stands twice, Snakemake would silently take the last one: files are checked before it reads them.
try:
    contents = {}
    for path in filter(Path.is_file, map(Path, ["params.yaml", *workflow.config_settings.configfiles])):
        contents[path.absolute()] = read_file(path)
except ParamsError as error:
    raise WorkflowError(str(error)) from None


configfile: "params.yaml"


for refusal in refusals():
    logger.warning(f"skipping what cannot be used: {refusal}")
# An overlay has results of its own, so that it does not replace those of the default.
config["name"] = choose_configuration_name(
    config.get("name", ""), workflow.config_settings.configfiles, Path("params.yaml").absolute()
)
try:
    arguments = workflow.config_settings.config_args or []
    config.update(from_command_line(config, arguments))
    contents.pop(Path("params.yaml").absolute(), None)
    config.update(select_ablations(config, contents.values(), arguments))
    PARAMS = load(config)
except ParamsError as error:
    raise WorkflowError(str(error)) from None

PLAN = plan.Plan(PARAMS)
LAYOUT = PLAN.layout
EXHIBITS = exhibits.Exhibits(PLAN)
# GPUs of a job that can use one. `cuda` also plans on a host without a GPU, for nodes that have one.
GPUS = {"cuda": 1, "cpu": 0, "auto": int(has_gpu())}[PARAMS.device]
# Jobs inherit it: the command that makes a damaged file anew names them.
os.environ[CONFIGFILES] = shlex.join(str(path) for path in workflow.config_settings.configfiles)


# What all rules inherit: `use rule job as X with:`. The script runs the function of munkey.jobs that params.code names.
rule job:
    log:
        LAYOUT.log("job"),
    conda:
        "../envs/munkey.yaml"
    threads: 1
    params:
        code="",
    script:
        "../scripts/job.py"


# A job that computes with as many threads as `threads` in params.yaml says.
use rule job as cpu_job with:
    threads: PARAMS.threads


# The same on a GPU, if there is one.
use rule cpu_job as gpu_job with:
    resources:
        gpu=GPUS,

# Parameter files are checked before Snakemake reads them: where a key stands twice, it would silently take the last.
from snakemake.exceptions import WorkflowError

from munkey.experiment.params import yaml_files
from munkey.experiment.params.load import ParamsError

try:
    yaml_files.check(["params.yaml", *workflow.overwrite_configfiles])
except ParamsError as error:
    raise WorkflowError(str(error)) from None

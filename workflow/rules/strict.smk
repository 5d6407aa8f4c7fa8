# Parameter files are checked before Snakemake reads them: where a key stands twice, it would silently take the last.
from snakemake.exceptions import WorkflowError

from munkey.pipeline import yaml_files
from munkey.pipeline.params import ParamsError

try:
    yaml_files.check(["params.yaml", *workflow.overwrite_configfiles])
except ParamsError as error:
    raise WorkflowError(str(error)) from None

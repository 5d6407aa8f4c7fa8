# Parameter files are checked before Snakemake reads them: where a key stands twice, it would silently take the last.
from pathlib import Path

from snakemake.exceptions import WorkflowError

from munkey.experiment.params.load import ParamsError, read_file

try:
    for path in filter(Path.is_file, map(Path, ["params.yaml", *workflow.overwrite_configfiles])):
        read_file(path)
except ParamsError as error:
    raise WorkflowError(str(error)) from None

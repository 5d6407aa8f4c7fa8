"""What `dvc repro` asks before a run: has anything changed that lies outside of the project?

python -m munkey.experiment.run.external_state FILE
"""

import sys
from pathlib import Path

import yaml

from munkey.core.files import write_json
from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.plan import Plan


def write_state(path: str, params: str | Path = "params.yaml") -> None:
    """Write the state of the data sets' files and the encoders' weights that the parameters name, as JSON.

    Ends the process with a message where the parameters are not valid.
    """
    try:
        write_json(path, Plan(load(yaml.safe_load(Path(params).read_text()))).outside)
    except ParamsError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    write_state(*sys.argv[1:])

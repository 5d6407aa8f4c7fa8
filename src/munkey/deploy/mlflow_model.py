"""An exported model as MLflow's `python_function`, which `mlflow models serve` answers with over HTTP.

MLflow keeps the name of this module and the directory, no pickle. One column goes in: `image`, the bytes of picture
files, in base64 over HTTP. What is logged in MLflow answers and does not forget: docs/serving.md.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from munkey.deploy.errors import PictureError
from munkey.deploy.model.images import undecoded
from munkey.deploy.model.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "image"


class MlflowModel:
    """What MLflow calls."""

    def __init__(self, directory: Path) -> None:
        self.predictor = Predictor.load(directory)
        self.predictor.warm_up()  # a server of MLflow gives a request 60 s

    def predict(self, pictures: "pd.DataFrame", params: object = None) -> "pd.DataFrame":
        """For each picture its class, how probable that is, and the probabilities of all classes in their order.

        pictures: a column `image` of picture files as bytes. params: ignored. Raises MlflowException with
        INVALID_PARAMETER_VALUE for what is not a picture: MLflow's server answers any other error with a traceback.
        """
        import pandas as pd
        from mlflow.exceptions import MlflowException

        try:
            opened = (undecoded(io.BytesIO(content), f"row {row}") for row, content in enumerate(pictures[COLUMN]))
            answer = self.predictor.predict(opened)
        except PictureError as error:
            raise MlflowException.invalid_parameter_value(str(error)) from error
        return pd.DataFrame(
            {
                "class": answer.classes,
                "probability": answer.probabilities.max(axis=1).astype(float),
                "probabilities": answer.probabilities.astype(float).tolist(),
            }
        )


def _load_pyfunc(path: str) -> MlflowModel:
    """The name and signature are MLflow's."""
    return MlflowModel(Path(path))

"""MUNKEY: Machine UNlearning via KEY deletion, its baselines, oracles, metrics and tables."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from munkey.deploy.predictor import Predictor
    from munkey.estimators.errors import (
        InvalidRequestError,
        RequestError,
        UnknownRowsError,
        UsedIdError,
    )
    from munkey.estimators.exact import ForgettingKNN, ForgettingLDA, ForgettingNCM
    from munkey.estimators.munkey import MunkeyClassifier
    from munkey.estimators.pictures import PictureKeys, readable_pictures
    from munkey.estimators.ridge import ForgettingKRR, ForgettingRanPAC

# The module of each public name. It is imported when the name is first used: planning the DAG must not
# import numpy, nor an estimator of vectors torch.
MODULES = {
    "ForgettingKNN": "estimators.exact",
    "ForgettingKRR": "estimators.ridge",
    "ForgettingLDA": "estimators.exact",
    "ForgettingNCM": "estimators.exact",
    "ForgettingRanPAC": "estimators.ridge",
    "InvalidRequestError": "estimators.errors",
    "MunkeyClassifier": "estimators.munkey",
    "PictureKeys": "estimators.pictures",
    "Predictor": "deploy.predictor",
    "RequestError": "estimators.errors",
    "UnknownRowsError": "estimators.errors",
    "UsedIdError": "estimators.errors",
    "readable_pictures": "estimators.pictures",
}

__all__ = [
    "ForgettingKNN",
    "ForgettingKRR",
    "ForgettingLDA",
    "ForgettingNCM",
    "ForgettingRanPAC",
    "InvalidRequestError",
    "MunkeyClassifier",
    "PictureKeys",
    "Predictor",
    "RequestError",
    "UnknownRowsError",
    "UsedIdError",
    "readable_pictures",
]


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("munkey")
    if name not in MODULES:
        raise AttributeError(f"module 'munkey' has no attribute {name!r}")
    try:
        module = import_module(f"munkey.{MODULES[name]}")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"munkey.{name} needs {error.name}: pip install 'munkey[estimators]'"
        ) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    """List the public names, which are imported on first use."""
    return sorted({*globals(), *__all__, "__version__"})

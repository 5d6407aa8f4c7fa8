"""MUNKEY: Machine UNlearning via KEY deletion, its baselines, oracles, metrics and tables."""

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
    """Import a public name on first use, because planning the DAG must not import torch."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("munkey")
    if name == "Predictor":
        from munkey.deploy import predictor

        return predictor.Predictor
    if name not in __all__:
        raise AttributeError(f"module 'munkey' has no attribute {name!r}")
    try:
        from munkey.estimators import errors, exact, munkey, pictures, ridge
    except ModuleNotFoundError as error:
        raise ImportError(
            f"munkey.{name} needs {error.name}: pip install 'munkey[estimators]'"
        ) from error
    modules = {
        "ForgettingKNN": exact,
        "ForgettingKRR": ridge,
        "ForgettingLDA": exact,
        "ForgettingNCM": exact,
        "ForgettingRanPAC": ridge,
        "InvalidRequestError": errors,
        "MunkeyClassifier": munkey,
        "PictureKeys": pictures,
        "RequestError": errors,
        "UnknownRowsError": errors,
        "UsedIdError": errors,
        "readable_pictures": pictures,
    }
    return getattr(modules[name], name)


def __dir__() -> list[str]:
    """List the public names, which are imported on first use."""
    return sorted({*globals(), *__all__, "__version__"})

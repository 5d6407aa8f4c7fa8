"""MUNKEY: Machine UNlearning via KEY deletion, its baselines, oracles, metrics and tables."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from munkey.deploy.model.predictor import Predictor

__all__ = ["Predictor"]


def __getattr__(name: str) -> object:
    """`from munkey import Predictor`, which is imported only then: planning the DAG imports nothing heavy."""
    if name != "Predictor":
        raise AttributeError(f"module 'munkey' has no attribute {name!r}")
    from munkey.deploy.model.predictor import Predictor

    return Predictor

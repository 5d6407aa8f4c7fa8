"""The grid of the selection, and its figures."""

from munkey.experiment.params.overlays import make_name
from munkey.experiment.plan.plan import Plan

CAPTIONS = {
    "selection": "The grid of (p_image, p_token). The pair chosen by the selection is a star, and (0, 0) is a gray"
    " cross. The four panels in percent have the same scale.",
    "sensitivity": "Pathway sensitivity P_s and its three accuracies over the epochs of training.",
}


class SelectionPlan:
    """The selection of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.params = plan.params

    @property
    def pairs(self) -> dict[str, dict[str, float]]:
        """The grid: p_image and p_token by case."""
        return {f"p_drop/{make_name(pair)}": pair for pair in self.params.grid}

    @property
    def figures(self) -> dict[str, str]:
        """The captions of the figures, by name. Each data set has one of each kind."""
        captions = {}
        for kind, caption in CAPTIONS.items():
            for dataset in self.params.datasets:
                captions[f"{kind}-{dataset}"] = f"{caption} Data set: {dataset}."
        return captions

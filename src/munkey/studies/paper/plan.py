"""The parameters of a run that are compared with the paper's."""

from munkey.core.knobs import dump_sections
from munkey.encoders.published_name import find_published_name
from munkey.experiment.params.load import memory_family
from munkey.experiment.plan.plan import Plan
from munkey.studies.selection.settings import SelectionSettings


class PaperPlan:
    """The parameters of a plan, as the paper states them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params

    @property
    def compared(self) -> dict[str, dict[str, object]]:
        """The parameters that are compared with the paper's (`munkey.studies.paper.setting`)."""
        return {dataset: self._get_compared(dataset) for dataset in self.params.datasets}

    def _get_compared(self, dataset: str) -> dict[str, object]:
        """Return the compared parameters of a data set. `unlearn` lists all values that are tried.

        If the encoder is a copy of a published model, its name is that of the model.
        """
        names = ("source", "forget", "inference", "finetune", *memory_family().sections)
        keys = self.params.for_case(dataset).keys
        return {
            **dump_sections(self.plan.sections(dataset, *names)),
            "keys": keys.model_dump() | {"encoder": find_published_name(keys.encoder)},
            "search": self.params.search,
            "network": self.params.network,
            "selection": self.params.section(SelectionSettings).model_dump(),
            "unlearn": self.plan.list_tried_values(dataset),
        }

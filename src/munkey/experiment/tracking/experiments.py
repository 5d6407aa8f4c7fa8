"""The experiments of an MLflow store: one for each data set, with a note on how to read it and views of its runs."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from munkey.experiment.tracking.views import HOW_TO_READ, TAG, View, view_in

if TYPE_CHECKING:
    from mlflow.entities import Experiment
    from mlflow.store.entities import PagedList
    from mlflow.tracking import MlflowClient

Item = TypeVar("Item")

NOTE = "mlflow.note.content"
KIND, TRAINING = "mlflow.experimentKind", "custom_model_development"  # what MLflow's page of an experiment shows first


class Experiments:
    """Those of a store. folder: where new ones keep their artifacts; None leaves that to the server."""

    def __init__(self, client: "MlflowClient", folder: str | None) -> None:
        self.client, self.folder = client, folder

    def names(self) -> dict[str, str]:
        """The names of all that are not deleted, by id."""
        found = every(lambda token: self.client.search_experiments(page_token=token))
        return {experiment.experiment_id: experiment.name for experiment in found}

    def id_of(self, name: str) -> str:
        """The id of an experiment, which is made where it is missing. Raises MlflowException for a deleted one."""
        from mlflow.exceptions import MlflowException

        experiment = self.client.get_experiment_by_name(name) or self._new(name)
        if experiment.lifecycle_stage == "deleted":
            restore = f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
            raise MlflowException(
                f"its experiment {name} was deleted; `{restore}` brings it back, `mlflow gc` removes it"
            )
        return experiment.experiment_id

    def _new(self, name: str) -> "Experiment":
        from mlflow.exceptions import MlflowException

        location = f"{self.folder}/{name}" if self.folder else None
        try:
            return self.client.get_experiment(self.client.create_experiment(name, artifact_location=location))
        except MlflowException:
            made = self.client.get_experiment_by_name(name)  # by another mirror, just now
            if made is None:
                raise
            return made

    def describe(self, name: str) -> None:
        """Give an experiment its note and its kind, unless somebody gave it others."""
        tags = self.client.get_experiment(self.id_of(name)).tags
        for tag, value in {NOTE: HOW_TO_READ, KIND: TRAINING}.items():
            if tag not in tags:
                self.client.set_experiment_tag(self.id_of(name), tag, value)

    def views(self, prefix: str) -> list[View]:
        """The views whose keys begin with `prefix`."""
        start = f"{TAG}{prefix}"
        return [
            view_in(experiment.name, tag, experiment.tags[tag])
            for experiment in every(lambda token: self.client.search_experiments(page_token=token))
            for tag in sorted(experiment.tags)
            if tag.startswith(start)
        ]

    def show(self, views: Sequence[View], prefix: str) -> None:
        """Have the experiments hold exactly these views among those whose keys begin with `prefix`."""
        there = self.views(prefix)
        for view in there:
            if (view.experiment, view.key) not in {(each.experiment, each.key) for each in views}:
                self.client.delete_experiment_tag(self.id_of(view.experiment), f"{TAG}{view.key}")
        for view in views:
            if view not in there:
                self.client.set_experiment_tag(self.id_of(view.experiment), f"{TAG}{view.key}", view.content)


def every(search: "Callable[[str | None], PagedList[Item]]") -> Iterator[Item]:
    """Everything that a search finds, page after page."""
    token = None
    while True:
        page = search(token)
        yield from page
        token = page.token
        if not token:
            return

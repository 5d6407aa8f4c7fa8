"""Streams of requests (docs/scenarios.md): the systems, and the inputs and settings of each job.

They use the pool of an audit. Each model forgets its half of the pool in several requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from munkey.core.paths import fill
from munkey.experiment.plan.plan import Files, Plan
from munkey.settings import Sections
from munkey.studies.audits.cases import POOL
from munkey.studies.streams.settings import StreamSettings
from munkey.unlearn.contract import METHODS

if TYPE_CHECKING:  # planning a run loads no table
    from munkey.studies.streams.tables import StreamedSystem


class StreamPlan:
    """The streams of a plan.

    Attributes
    ----------
    logits, record
        The paths of a model's results.
    result
        The paths of tables and figures.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.params = plan.params
        self.settings = self.params.section(StreamSettings)
        result_path = plan.layout.result_path
        self.logits = result_path("streams/{dataset}/seed{seed}/{system}.npz")
        self.record = result_path("streams/{dataset}/seed{seed}/{system}.json")
        self.result = result_path("streams/{dataset}/{part}")

    def list_systems(self, dataset: str) -> list[StreamedSystem]:
        """List the oracle of each family, then the methods.

        Methods that can only forget whole classes are left out, and so are the oracles of exact
        families. Raises ValueError if no method remains.
        """
        methods = []
        for name in self.params.methods:
            method = self.params.method(name)
            if not method.whole_classes:
                methods.append(method)
        if not methods:
            names = ", ".join(self.params.methods)
            raise ValueError(
                f"no stream: all methods ({names}) can only forget whole classes; add others to"
                " `methods`"
            )
        oracle_by_family: dict[str, StreamedSystem] = {}
        systems = []
        for method in methods:
            family = method.original
            if not family.exact and family.name not in oracle_by_family:
                title = f"Retrain ({family.letter.upper()})"
                oracle = self._make_system(dataset, family.oracle, title, "training set")
                oracle_by_family[family.name] = oracle
            systems.append(self._make_system(dataset, method.name, method.title, method.storage))
        return [*oracle_by_family.values(), *systems]

    def _make_system(self, dataset: str, name: str, title: str, stored: str) -> StreamedSystem:
        seeds = range(2 * self.settings.pairs)
        logits_pattern = fill(self.logits, dataset=dataset, system=name)
        record_pattern = fill(self.record, dataset=dataset, system=name)
        return {
            "name": name,
            "title": title,
            "stored": stored,
            "logits": [fill(logits_pattern, seed=seed) for seed in seeds],
            "records": [fill(record_pattern, seed=seed) for seed in seeds],
        }

    def list_input_files(self, dataset: str, seed: str, system: str) -> Files:
        """List the files, other than the data set, that a stream reads.

        These are the halves of the pool, a method's original, an oracle's selected pair, and the keys
        if there is a memory.
        """
        case = f"{dataset}/{POOL}"
        family = self.plan.find_family(system)
        files = self.plan.forget_set(case, seed, "half")
        if system in METHODS:
            files |= self.plan.original(case, seed, system)
        elif family.has_pathways:
            files |= self.plan.selection_input(case)
        if family.has_memory:
            files["keyfile"] = self.plan.keys(case)
        return files

    def get_settings(self, dataset: str, system: str) -> Sections:
        """Return the sections that a system's training, unlearning and queries depend on."""
        case = f"{dataset}/{POOL}"
        if system in METHODS:
            sections = self.plan.unlearn_settings(case, system)
        else:
            letter = self.plan.find_family(system).letter
            sections = self.plan.train_settings(case, letter)
        return {**sections, **self.plan.evaluate_settings(case, system)}

"""The inputs of all jobs, and the evaluations, computed from the parameters alone."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product

from munkey.core.file_stamp import compute_stamp
from munkey.core.paths import fill
from munkey.data import forget_draws
from munkey.evaluation.records import Evaluation
from munkey.experiment.params.load import memory_family, rate_name
from munkey.experiment.plan.cases import (
    AUDIT,
    SCENARIO,
    Cases,
    forget_rates,
    get_dataset,
    is_audit,
    is_scenario,
)
from munkey.models.family import Family
from munkey.settings import AuditInference, InferenceSettings, Sections
from munkey.unlearn.contract import METHODS, Method

Files = dict[str, str]
# The number of neighbors (including the sample itself) that is looked up unless a job needs more.
MIN_DEPTH = 33
BY_NEIGHBORS = ("hard", "medium", "easy", "relied-on")


class Plan(Cases):
    """The inputs of jobs, and the evaluations behind the tables."""

    def prepared(self, case: str) -> Files:
        """Return the files of a prepared data set. An audit of wrong labels has its own copy."""
        dataset = get_dataset(case)
        if is_audit(case) and self.params.audit.pool_of == "mislabeled":
            folder = fill(self.layout.mislabeled, dataset=dataset)
            return {
                "images": fill(folder, part="images.npy"),
                "samples": fill(folder, part="samples.csv"),
                "classes": fill(folder, part="classes.json"),
            }
        return {
            "images": fill(self.layout.images, dataset=dataset),
            "samples": fill(self.layout.samples, dataset=dataset),
            "classes": fill(self.layout.classes, dataset=dataset),
        }

    def keys(self, case: str) -> str:
        return fill(
            self.layout.keys, dataset=get_dataset(case), encoder=self.get_encoder_name(case)
        )

    def forget_set(self, case: str, seed: str | int, subset: str) -> Files:
        """Return the files of the samples that a model or a memory must not contain.

        `forget` is the forget set, or in an audit one half of the pool; the subset `full` has none.
        In an audit, `absent` is the other half of the pool, which the seed's models never see.
        """
        if is_audit(case):
            dataset = get_dataset(case)
            partner = int(seed) ^ 1  # the other seed of the pair (0, 1), (2, 3), ...
            other_half = self.half(dataset, partner)
            if subset == "full":
                return {"absent": other_half}
            return {"forget": self.half(dataset, int(seed)), "absent": other_half}
        if subset == "full":
            return {}
        place = get_dataset(case)
        if is_scenario(case):
            place = case
        rate = subset.removeprefix("rate")
        return {"forget": fill(self.layout.forget, case=place, seed=seed, rate=rate)}

    def forget_set_sources(self, case: str, seed: int) -> Files:
        """Return the files, other than the data set, that a forget set is drawn from."""
        forget = self.params.for_case(case).forget
        sampling = forget.sampling
        list_file = forget_draws.get_list_file(forget)
        if list_file is not None:
            return {"listed": str(forget_draws.get_list_path(list_file, seed))}
        if sampling in BY_NEIGHBORS:
            return {"neighbors": self.neighbors(get_dataset(case), 0, "full")}
        if sampling == "cluster":
            return {"keyfile": self.keys(case)}
        return {}

    def owner(self, case: str, subset: str, *names: str) -> str:
        """Return the case whose systems or predictions a case shares.

        A scenario has its own forget set, so it shares only results from before forgetting.
        """
        if is_scenario(case) and subset != "full":
            return case
        return self.first_alike(case, *names)

    def get_forget_set_of_scope(self, dataset: str, scope: str) -> Files:
        """Return the files of samples that a memory lacks, given the scope of its neighbors."""
        scope = re.sub(r"^depth\d+/", "", scope)
        if scope.startswith(AUDIT):
            _, seed, subset = scope.split("/")
            return self.forget_set(f"{dataset}/{AUDIT}pool", seed.removeprefix("seed"), subset)
        case = dataset
        if scope.startswith(SCENARIO):
            _, name, scope = scope.split("/", maxsplit=2)
            case = f"{dataset}/{SCENARIO}{name}"
        seed, _, subset = scope.removeprefix("seed").partition("/")
        return self.forget_set(case, seed, subset or "full")

    def neighbors(self, case: str, seed: str | int, subset: str, count: int | None = None) -> str:
        """Return the file with all samples' neighbors in the memory of a model.

        Jobs that need more than MIN_DEPTH neighbors have another file, so that a larger keys.depth
        does not rerun the other jobs.

        Parameters
        ----------
        count
            How many neighbors the job reads; by default, keys.depth.
        """
        scope = f"seed{seed}/{subset}"
        if is_audit(case):
            scope = f"{AUDIT}{scope}"
        elif subset == "full":
            scope = "full"
        elif is_scenario(case):
            scope = f"{case.partition('/')[2]}/{scope}"
        depth = self._choose_depth(get_dataset(case), count)
        if depth > MIN_DEPTH:
            scope = f"depth{depth}/{scope}"
        return fill(
            self.layout.neighbors,
            dataset=get_dataset(case),
            encoder=self.get_encoder_name(case),
            scope=scope,
        )

    def _choose_depth(self, dataset: str, count: int | None) -> int:
        """Return the first of 33, 65, 129, ... that is at least `count`, but at most keys.depth."""
        max_depth = self.params.for_case(dataset).keys.depth
        if count is None:
            count = max_depth
        depth = MIN_DEPTH
        while depth < count:
            depth = 2 * (depth - 1) + 1  # double the neighbors, and add the sample itself
        return min(depth, max_depth)

    def get_depth(self, dataset: str, scope: str) -> int:
        """Return the depth of the search in a memory, by the scope in its neighbor file's path."""
        match = re.match(r"depth(\d+)/", scope)
        if match:
            return int(match[1])
        return self._choose_depth(dataset, 0)

    def _count_neighbors(self, case: str, family: Family) -> int | None:
        """Return how many neighbors a family needs, including the sample itself; None for none."""
        section = self.params.for_case(case).get_family_section(family)
        if not section:
            return None
        counts = family.count_neighbors(section).values()
        if not counts:
            return None
        return max(counts) + 1

    def selection_input(self, case: str) -> Files:
        """Return the file of the selected p_image and p_token, if the case uses them."""
        section = self.params.for_case(case).get_family_section(memory_family())
        if section.p_drop == "fixed":
            return {}
        return {"selected": fill(self.layout.selection_chosen, dataset=get_dataset(case))}

    def train_input(self, case: str, seed: str, subset: str, letter: str) -> Files:
        """Return the files, other than the data set, that a training job reads."""
        family = self.find_family_by_letter(letter)
        files = self.forget_set(case, seed, subset)
        if family.has_pathways:
            files |= self.selection_input(case)
        if family.has_memory:
            files["keyfile"] = self.keys(case)
        if family.has_memory and family.learns:
            count = self._count_neighbors(case, family)
            files["neighbors"] = self.neighbors(case, seed, subset, count)
        return files

    def original(self, case: str, seed: str, method: str) -> Files:
        """Return the file of the original that a method starts from."""
        system = self.params.method(method).original.original
        owner = self.owner(case, "full", *self.training_sections)
        path = fill(self.layout.system, case=owner, seed=seed, subset="full", system=system)
        return {"original": path}

    def unlearn_input(self, case: str, seed: str, rate: str, method: str) -> Files:
        """Return the inputs of a method: the data set, its original and the forget set."""
        forget = self.forget_set(case, seed, f"rate{rate}")
        return self.prepared(case) | self.original(case, seed, method) | forget

    def candidates(self, case: str, seed: str, rate: str, method: str) -> dict[str, list[str]]:
        """Return the systems and records of a method's candidates, in the order of the grid."""
        place: dict[str, object] = {"case": case, "seed": seed, "rate": rate, "method": method}
        systems = []
        records = []
        for number in range(self.params.candidate_count(case, method)):
            systems.append(fill(self.layout.candidate_system, **place, candidate=number))
            records.append(fill(self.layout.candidate_record, **place, candidate=number))
        return {"systems": systems, "records": records}

    def evaluate_input(self, case: str, seed: str, subset: str, system: str) -> Files:
        """Return the files of the system to evaluate, and of its keys and neighbors.

        Cases that differ only in inference share a system.
        """
        owner = self.owner(case, subset, *self.training_sections)
        path = fill(self.layout.system, case=owner, seed=seed, subset=subset, system=system)
        return {"system": path} | self.retrieval_files(case, seed, subset, system)

    def retrieval_files(self, case: str, seed: str, subset: str, system: str) -> Files:
        """Return the files of keys and neighbors for queries to a system with a memory."""
        family = self.find_family(system)
        section = self.params.for_case(case).get_family_section(family)
        files = {}
        if family.asks_keys or family.list_borrowed_sections(section):
            files["keyfile"] = self.keys(case)
        if not family.has_memory or family.asks_keys:
            return files
        counts = [self._count_neighbors(case, family) or 0]
        for inference in self.evaluate_settings(case, system).values():
            if isinstance(inference, InferenceSettings | AuditInference):
                counts.append(inference.k)
        files["neighbors"] = self.neighbors(case, seed, subset, max(counts) or None)
        return files

    def pool(self, case: str, seed: str) -> dict[str, list[str]]:
        """Return the two halves of the pool for a case of an audit; empty for other cases."""
        if not is_audit(case):
            return {}
        dataset = get_dataset(case)
        partner = int(seed) ^ 1  # the other seed of the pair
        return {"pool": [self.half(dataset, int(seed)), self.half(dataset, partner)]}

    def disk_state(self, dataset: str) -> str | None:
        """Return a fingerprint of a data set's files that have no published checksum.

        If it changes, the data set is prepared again. Returns None if there are no such files.
        """
        files = self.params.reader(dataset).files(self.params.for_case(dataset).source)
        if not files:
            return None
        return compute_stamp(*files)

    @property
    def external_state(self) -> dict[str, dict[str, object]]:
        """Fingerprints of all files and weights from outside the project, by data set."""
        states: dict[str, dict[str, object]] = {}
        for dataset, cases in self.cases.items():
            weights: dict[str, str | None] = {}
            for encoder in sorted(set(map(self.get_encoder_name, cases))):
                weights[encoder] = self.encoder_weights(dataset, encoder)
            for family in self.families:
                state = self.backbone_weights(dataset, family)
                if state:
                    weights[family.name] = state
            states[dataset] = {"files": self.disk_state(dataset), "weights": weights}
        return states

    def evaluations(
        self, case: str, systems: Iterable[str], rates: Sequence[str]
    ) -> list[Evaluation]:
        """List an evaluation for each rate, seed and system of a case."""
        dataset = get_dataset(case)
        change = case.partition("/")[2]
        original_case = self.first_alike(case, *self.training_sections)
        sampling = self.params.for_case(case).forget.sampling
        evaluations = []
        for rate, seed, system in product(rates, self.params.seeds, list(systems)):
            subset = self._subset(system, rate)
            family = self.find_family(system)
            # Cases may share a system, and even its logits.
            system_case = self.owner(case, subset, *self.training_sections)
            logits_case = self.owner(case, subset, *self.training_sections, "inference")
            place = {"seed": seed, "subset": subset, "system": system}
            record = fill(self.layout.record, case=system_case, **place)
            logits = fill(self.layout.logits, case=logits_case, **place)
            training = record
            if system in METHODS:
                training = fill(
                    self.layout.record,
                    case=original_case,
                    seed=seed,
                    subset="full",
                    system=family.original,
                )
            evaluations.append(
                Evaluation(
                    dataset=dataset,
                    case=change,
                    rate=rate,
                    seed=seed,
                    method=system,
                    logits=logits,
                    record=record,
                    training=training,
                    forget=self.forget_set(case, seed, f"rate{rate}")["forget"],
                    sampling=sampling,
                )
            )
        return evaluations

    def _subset(self, system: str, rate: str) -> str:
        """Return the subset in the paths of a system's files: `full` for an original."""
        if system in self.originals:
            return "full"
        return f"rate{rate}"

    @cached_property
    def main(self) -> list[Evaluation]:
        """The evaluations of the main tables."""
        runs: list[Evaluation] = []
        for dataset in self.params.datasets:
            runs += self.list_main_runs(dataset)
        return runs

    def query_settings(self, dataset: str) -> dict[str, Sections]:
        """Return the sections `keys` and `inference` by system; none without a memory."""
        sections: dict[str, Sections] = {}
        for run in self.list_main_runs(dataset):
            sections[run.method] = {}
            if self.find_family(run.method).has_memory:
                settings = self.evaluate_settings(dataset, run.method)
                sections[run.method] = {
                    "keys": self.params.for_case(dataset).keys,
                    "inference": settings["inference"],
                }
        return sections

    def list_main_runs(self, dataset: str) -> list[Evaluation]:
        """List the evaluations of a data set's main tables: all systems at all rates."""
        systems = [*self.originals, *self.oracles, *self.params.methods]
        return self.evaluations(dataset, systems, self.rates[dataset])

    def list_scenario_runs(self, dataset: str) -> list[Evaluation]:
        """List the evaluations of a data set's scenarios: all systems after each request."""
        systems = [*self.originals, *self.oracles, *self.params.methods]
        runs: list[Evaluation] = []
        for name in self.params.for_case(dataset).scenarios:
            case = f"{dataset}/{SCENARIO}{name}"
            rates = forget_rates(self.params.for_case(case).forget)
            rate_names = [rate_name(rate) for rate in rates]
            runs += self.evaluations(case, systems, rate_names)
        return runs

    def list_ablation_runs(self, dataset: str) -> list[Evaluation]:
        """List the evaluations of the ablated family and its oracle for all ablations."""
        family = memory_family()
        systems = [family.original, family.oracle, self.ablated_method.name]
        prefixes = tuple(f"{knob}/" for knob in self.params.for_case(dataset).ablations)
        return self._list_changed_runs(dataset, prefixes, systems)

    @property
    def ablated_datasets(self) -> list[str]:
        """The data sets that have ablations."""
        datasets = []
        for name in self.params.datasets:
            if any(self.params.for_case(name).ablations.values()):
                datasets.append(name)
        return datasets

    @property
    def scenario_datasets(self) -> list[str]:
        """The data sets that have scenarios."""
        return [name for name in self.params.datasets if self.params.for_case(name).scenarios]

    def list_selection_runs(self, dataset: str) -> list[Evaluation]:
        """List the evaluations of the ablated family for the selection, which needs no oracle."""
        systems = [memory_family().original, self.ablated_method.name]
        return self._list_changed_runs(dataset, ("p_drop/",), systems)

    def _list_changed_runs(
        self, dataset: str, prefixes: tuple[str, ...], systems: list[str]
    ) -> list[Evaluation]:
        """List the evaluations at the largest rate for the changes that start with a prefix."""
        rate = self.largest_rate(dataset)
        runs: list[Evaluation] = []
        for change in self.params.get_changes(dataset):
            if change.startswith(prefixes):
                runs += self.evaluations(f"{dataset}/{change}", systems, [rate])
        return runs

    @cached_property
    def ablated_method(self) -> Method:
        """The ablated family's method: the one with the family's name, or else its first one."""
        name = memory_family().name
        if name in METHODS:
            return METHODS[name]
        return next(method for method in METHODS.values() if method.family == name)

    def list_searches(self, runs: Iterable[Evaluation]) -> list[str]:
        """List the files of the searches that chose the settings of these systems."""
        files = []
        for run in runs:
            if run.method in self.searched:
                place = {"case": run.dataset, "seed": run.seed, "rate": run.rate}
                files.append(fill(self.layout.search, **place, method=run.method))
        return files

    def largest_rate(self, dataset: str) -> str:
        return max(self.rates[dataset], key=float)


def list_files(runs: Iterable[Evaluation]) -> list[str]:
    """List all files that the metrics of these evaluations are computed from."""
    files: set[str] = set()
    for run in runs:
        files.update((run.logits, run.record, run.training, run.forget))
    return sorted(files)


def wildcard_pattern(names: Iterable[str]) -> str:
    """Return a regular expression that matches only these names, or nothing if there are none."""
    return "|".join(names) or r"(?!)"

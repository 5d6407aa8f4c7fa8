"""The inputs of all jobs, and the evaluations, computed from the parameters alone."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import product

from munkey.core.file_stamp import compute_stamp
from munkey.core.paths import fill
from munkey.evaluation.records import Evaluation
from munkey.experiment.params.schema import memory_family
from munkey.experiment.plan.cases import (
    Cases,
    get_dataset,
)
from munkey.models.family import Family
from munkey.settings import RANDOM_SAMPLINGS, AuditInference, InferenceSettings, Sections
from munkey.unlearn.contract import METHODS, Method

Files = dict[str, str]
# The number of neighbors (including the sample itself) that is looked up unless a job needs more.
MIN_DEPTH = 33
# The scope of a memory without a forget set, and of the whole memory.
LACKING_SCOPE = re.compile(r"(depth\d+/)?((?P<scope>.+)/)?seed(?P<seed>\d+)/(?P<subset>[^/]+)")
FULL_SCOPE = re.compile(r"(depth\d+/)?full")


class Plan(Cases):
    """The inputs of jobs, and the evaluations behind the tables."""

    def prepared(self, case: str) -> Files:
        """Return the files of a prepared data set, or of a case's own copy of it."""
        dataset = get_dataset(case)
        copy = self.params.find_case(case).prepared
        if copy:
            folder = fill(self.layout.result_path(copy), dataset=dataset)
            return {
                "images": f"{folder}/images.npy",
                "samples": f"{folder}/samples.csv",
                "classes": f"{folder}/classes.json",
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

        `forget` is the forget set; the subset `full` has none. For a case in pairs, `absent` is the
        forget set of the other seed, which the seed's models never see.
        """
        in_pairs = self.params.find_case(case).in_pairs
        files = {}
        if subset != "full":
            files["forget"] = self.get_forget_file(case, seed, subset.removeprefix("rate"))
        if in_pairs:
            partner = int(seed) ^ 1  # the other seed of the pair (0, 1), (2, 3), ...
            files["absent"] = self.get_forget_file(case, partner, "")
        return files

    def get_forget_file(self, case: str, seed: str | int, rate: str) -> str:
        """Return the file of a forget set."""
        own = self.params.find_case(case).forget
        dataset = get_dataset(case)
        if own:
            pattern = fill(self.layout.result_path(own), case=case, dataset=dataset)
        else:
            pattern = fill(self.layout.forget, case=dataset)
        return fill(pattern, seed=seed, rate=rate)

    def list_forget_cases(self, random: bool) -> list[str]:
        """List the data sets and the cases whose forget sets are drawn at random, or the others."""
        cases = []
        for dataset in self.params.datasets:
            names = [dataset]
            for name, case in self.params.list_cases(dataset).items():
                if case.forget and not case.in_pairs:
                    names.append(f"{dataset}/{name}")
            for name in names:
                sampling = self.params.for_case(name).forget.sampling
                if (sampling in RANDOM_SAMPLINGS) == random:
                    cases.append(name)
        return cases

    @cached_property
    def paired_cases(self) -> list[str]:
        """The cases whose models are trained in pairs."""
        cases = []
        for dataset in self.params.datasets:
            for name, case in self.params.list_cases(dataset).items():
                if case.in_pairs:
                    cases.append(f"{dataset}/{name}")
        return cases

    def owner(self, case: str, subset: str, *names: str) -> str:
        """Return the case whose systems or predictions a case shares.

        A case with its own forget sets shares only results from before forgetting.
        """
        if self.params.find_case(case).forget and subset != "full":
            return case
        return self.first_alike(case, *names)

    def get_forget_set_of_scope(self, dataset: str, scope: str) -> Files:
        """Return the files of samples that a memory lacks, given the scope of its neighbors."""
        if FULL_SCOPE.fullmatch(scope):
            return {}
        match = LACKING_SCOPE.fullmatch(scope)
        assert match, f"a memory has no scope {scope}"
        case = dataset
        for name, other in self.params.list_cases(dataset).items():
            if match["scope"] and other.scope == match["scope"]:
                case = f"{dataset}/{name}"
                break
        return self.forget_set(case, match["seed"], match["subset"])

    def neighbors(self, case: str, seed: str | int, subset: str, count: int | None = None) -> str:
        """Return the file with all samples' neighbors in the memory of a model.

        Jobs that need more than MIN_DEPTH neighbors have another file, so that a larger keys.depth
        does not rerun the other jobs.

        Parameters
        ----------
        count
            How many neighbors the job reads; by default, keys.depth.
        """
        if subset == "full" and not self.params.find_case(case).in_pairs:
            scope = "full"
        else:
            own_scope = self.params.find_case(case).scope
            scope = f"{own_scope}/seed{seed}/{subset}".removeprefix("/")
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
        if family.has_memory and "perturbed" in self.list_further_paths(case, family):
            files["perturbed_keys"] = fill(
                self.layout.perturbed_keys,
                dataset=get_dataset(case),
                encoder=self.get_encoder_name(case),
            )
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
        """Return the forget sets of both seeds of a pair; empty for a case without pairs."""
        if not self.params.find_case(case).in_pairs:
            return {}
        files = self.forget_set(case, seed, "half")
        return {"pool": [files["forget"], files["absent"]]}

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

    def list_changed_runs(
        self, dataset: str, cases: Iterable[str], systems: list[str]
    ) -> list[Evaluation]:
        """List the evaluations of cases of a data set at its largest rate."""
        rate = self.largest_rate(dataset)
        runs: list[Evaluation] = []
        for case in cases:
            runs += self.evaluations(f"{dataset}/{case}", systems, [rate])
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


def get_title(family: Family, system: str) -> str:
    """Return the title of a system in tables and figures."""
    titles = {family.original: family.original_title, family.oracle: family.oracle_title}
    return titles.get(system) or METHODS[system].title


def list_files(runs: Iterable[Evaluation]) -> list[str]:
    """List all files that the metrics of these evaluations are computed from."""
    files: set[str] = set()
    for run in runs:
        files.update((run.logits, run.record, run.training, run.forget))
    return sorted(files)


def wildcard_pattern(names: Iterable[str]) -> str:
    """Return a regular expression that matches only these names, or nothing if there are none."""
    return "|".join(names) or r"(?!)"

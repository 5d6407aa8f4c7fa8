"""What the jobs of a configuration cost, each kind of job by its arithmetic: images, steps, operations, bytes."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from munkey.core.files import command_to_make, map_npy, read_csv, read_json
from munkey.data.sizes import SIZES, Size
from munkey.evaluation.records import Evaluation
from munkey.experiment.cost.flops import FLOAT, Network, answering_bytes, training_bytes
from munkey.experiment.params.load import ParamsError
from munkey.experiment.params.schema import DatasetParams
from munkey.experiment.plan.plan import Plan
from munkey.models.family import Family
from munkey.unlearn.contract import METHODS

KEY = 768  # numbers in a key, as most encoders have it
NEIGHBOR = 12  # bytes of an id and a cosine


@dataclass(frozen=True)
class Work:
    """Jobs that are alike. steps, operations: of all of them; memory: the peak of one in bytes, in float32 on a CPU, on
    top of what its process takes anyway; held: bytes of pictures that a GPU would keep.
    """

    step: str
    what: str
    dataset: str
    jobs: int
    steps: int
    operations: float
    memory: float
    network: Network
    batch: int
    held: float = 0.0


def size_of(plan: Plan, dataset: str) -> Size:
    """How large a data set is: as published, or as prepared. Raises ParamsError where nobody knows yet."""
    source = plan.params.for_case(dataset).source
    known = SIZES.get(source.reader or dataset)
    if known is None:
        return _prepared(plan, dataset)
    limit = source.limit_per_class * known.classes if source.limit_per_class else max(known)
    train, val, test = (min(split, limit) for split in (known.train, known.val, known.test))
    return Size(train, val, test, source.storage_size or known.side, known.classes)


def _prepared(plan: Plan, dataset: str) -> Size:
    files = plan.prepared(dataset)
    try:
        splits = [sample["split"] for sample in read_csv(files["samples"])]
    except FileNotFoundError:
        command = command_to_make(files["samples"])
        raise ParamsError(f"the size of {dataset} is not known yet; prepare it first: `{command}`") from None
    train, val, test = (splits.count(split) for split in ("train", "val", "test"))
    return Size(train, val, test, map_npy(files["images"]).shape[1], len(read_json(files["classes"])))


def network_of(params: DatasetParams, family: Family, classes: int) -> Network:
    """The ViT of a family, and what it reads beside the picture."""
    dim = int(getattr(params.of_family(family), "token_dim", 0))
    return Network(params.model, params.data.image_size, classes, extra=int(family.has_pathways), token_dim=dim)


def shards_of(params: DatasetParams, family: Family) -> int:
    return int(getattr(params.of_family(family), "shards", 1))


class Parts(NamedTuple):
    """How many images a method works on, and its settings."""

    retain: int
    forget: int
    val: int
    epochs: int
    settings: Mapping[str, object]

    def setting(self, name: str) -> float:
        return float(str(self.settings[name]))


# Forward passes of a method over its images, of which a backward pass counts two; at most, where it stops early.
PASSES: dict[str, Callable[[Parts], float]] = {
    "neggrad-plus": lambda p: p.epochs * p.retain * 6,
    "scrub": lambda p: (
        p.epochs * (4 * p.retain + p.val + p.forget) + 4 * p.forget * (min(p.epochs, p.setting("max_epochs")) - 1)
    ),
    "ssd": lambda p: 3 * (p.retain + 2 * p.forget),
    "salun": lambda p: 3 * (p.forget + p.epochs * (p.retain + p.forget)),
    "bad-teacher": lambda p: p.epochs * (p.setting("retain_share") * p.retain + p.forget) * 5,
    "amun": lambda p: 3 * (p.forget * (1 + p.setting("steps") * _radii(p)) + p.epochs * (p.retain + p.forget)),
}
GRAPHS = {"neggrad-plus": 2}  # forward passes whose activations are kept at once
MODELS = {"scrub": 3, "bad-teacher": 3, "ssd": 3, "salun": 3, "amun": 2}  # copies of the weights, or as large


def _radii(parts: Parts) -> int:
    return 1 + int(math.log2(parts.setting("epsilon_cap") / parts.setting("epsilon")) + 1e-9)


def passes_of(method: str, parts: Parts) -> float:
    """Forward passes; of a method that is not listed, those of fine-tuning on all that it needs."""
    if method in PASSES:
        return PASSES[method](parts)
    needs = METHODS[method].needs
    images = parts.retain * ("retain images" in needs) + parts.forget * ("forget images" in needs)
    return 3 * parts.epochs * images


class Workload:
    """The work of the evaluations in `runs`: what is trained, unlearned and evaluated for them, each once.

    size: of a data set.
    """

    def __init__(self, plan: Plan, runs: Iterable[Evaluation], size: Callable[[Plan, str], Size] = size_of) -> None:
        self.plan, self.runs = plan, list(runs)
        self.sizes = {dataset: size(plan, dataset) for dataset in plan.params.datasets}

    def all(self) -> list[Work]:
        """Every kind of job, in the order of the DAG."""
        made = {run.record: run for run in self.runs}.values()
        trained = [self._trained(run) for run in made if run.method not in METHODS]
        unlearned = [self._unlearned(run) for run in made if computes(run.method)]
        evaluated = [self._evaluated(run) for run in {run.logits: run for run in self.runs}.values()]
        return _together([*trained, *unlearned, *evaluated])

    def _params(self, run: Evaluation) -> DatasetParams:
        return self.plan.params.for_case(f"{run.dataset}/{run.case}" if run.case else run.dataset)

    def network(self, run: Evaluation) -> Network:
        """The network of a system."""
        return network_of(self._params(run), self.plan.family_of(run.method), self.sizes[run.dataset].classes)

    def _trained(self, run: Evaluation) -> Work:
        params, size, network = self._params(run), self.sizes[run.dataset], self.network(run)
        left_out = 0.0 if run.method in self.plan.originals else float(run.rate)
        images, train = round(size.train * (1 - left_out)), params.train
        family = self.plan.family_of(run.method)
        memory = training_bytes(network, min(train.batch_size, images), size.side)
        memory += FLOAT * network.weights * (shards_of(params, family) - 1)
        memory += 4 * FLOAT * images * network.token_dim + FLOAT * images * KEY * family.has_memory
        operations = train.epochs * images * network.step
        steps = train.epochs * math.ceil(images / train.batch_size)
        held = size.train * size.picture_bytes
        system = run.method, run.dataset
        return Work("train", *system, 1, steps, operations, memory, network, train.batch_size, held)

    def _unlearned(self, run: Evaluation) -> Work:
        params, size, network = self._params(run), self.sizes[run.dataset], self.network(run)
        forget, method = round(size.train * float(run.rate)), METHODS[run.method]
        tuning = params.finetune if method.finetunes else params.train
        parts = Parts(size.train - forget, forget, size.val, tuning.epochs, params.unlearn[method.name].model_dump())
        images, jobs = passes_of(method.name, parts) / 3, self.candidates(run) or 1
        steps = math.ceil(images / tuning.batch_size)
        return Work(
            step="unlearn",
            what=method.name,
            dataset=run.dataset,
            jobs=jobs,
            steps=jobs * steps,
            operations=jobs * images * network.step,
            memory=self._unlearning_bytes(run, forget, tuning.batch_size),
            network=network,
            batch=tuning.batch_size,
            held=size.train * size.picture_bytes,
        )

    def _unlearning_bytes(self, run: Evaluation, forget: int, batch: int) -> float:
        size, network = self.sizes[run.dataset], self.network(run)
        graphs, models = GRAPHS.get(run.method, 1), MODELS.get(run.method, 1)
        memory = training_bytes(network, batch, size.side, graphs=graphs, models=models)
        if run.method == "amun":  # its adversarial images, and in the attack some copies of a batch
            memory += FLOAT * size.picture_bytes * (forget + 6 * batch)
        return memory

    def candidates(self, run: Evaluation) -> int:
        """How many the search of a system tries; 0 where there is no search."""
        if run.method not in self.plan.searched:
            return 0
        return len(self.plan.params.candidates(run.dataset, run.method))

    def _evaluated(self, run: Evaluation) -> Work:
        params, size, network = self._params(run), self.sizes[run.dataset], self.network(run)
        family = self.plan.family_of(run.method)
        passes = params.inference.k if family.has_pathways and params.inference.fusion == "ensemble" else 1
        images = size.images * passes * shards_of(params, family) + 3 * size.train * family.has_pathways
        if family.letter is None:  # answered by its neighbors' labels alone
            images = 0
        memory = answering_bytes(network, size.side, passes)
        return Work("evaluate", "all systems", run.dataset, 1, 0, images * network.forward, memory, network, 0)


def computes(name: str) -> bool:
    """Whether this names a method that computes; one that needs no data only deletes."""
    return name in METHODS and bool(METHODS[name].needs)


def _together(works: Iterable[Work]) -> list[Work]:
    """Work of the same kind as one line: jobs, steps and operations summed, the largest memory."""
    lines: dict[tuple[str, str, str], Work] = {}
    for work in works:
        key = work.step, work.what, work.dataset
        lines[key] = _sum(lines[key], work) if key in lines else work
    return list(lines.values())


def _sum(one: Work, other: Work) -> Work:
    return replace(
        max(one, other, key=lambda work: work.memory),
        jobs=one.jobs + other.jobs,
        steps=one.steps + other.steps,
        operations=one.operations + other.operations,
        held=max(one.held, other.held),
    )


def disk_bytes(load: Workload) -> float:
    """What is kept: pictures, keys, neighbors, systems with their memories and candidates, and logits."""
    return sum(
        [
            *(_shared_bytes(load.plan, dataset, size) for dataset, size in load.sizes.items()),
            *(_system_bytes(load, run) for run in {run.record: run for run in load.runs}.values()),
            *(_logits_bytes(load, run) for run in {run.logits: run for run in load.runs}.values()),
        ]
    )


def _shared_bytes(plan: Plan, dataset: str, size: Size) -> float:
    """Pictures; keys and neighbors for every encoder."""
    encoders = {plan.encoder_of(case) for case in plan.cases[dataset]}
    scopes = 1 + len(plan.params.seeds) * len(plan.rates[dataset])
    near = NEIGHBOR * plan.params.for_case(dataset).keys.depth * scopes
    return size.images * (size.picture_bytes + len(encoders) * (FLOAT * KEY + near))


def _system_bytes(load: Workload, run: Evaluation) -> float:
    """A system and the candidates of its search."""
    family, params = load.plan.family_of(run.method), load.plan.params.for_case(run.dataset)
    networks = shards_of(params, family) * int(getattr(params.of_family(family), "slices", 1))
    network = load.network(run)
    rows = load.sizes[run.dataset].train * family.has_memory
    numbers = network.weights * networks * bool(family.letter) + rows * (KEY + network.token_dim + 2)
    return FLOAT * numbers * (1 + load.candidates(run))


def _logits_bytes(load: Workload, run: Evaluation) -> float:
    size, family = load.sizes[run.dataset], load.plan.family_of(run.method)
    return FLOAT * size.classes * (size.images + 3 * size.train * family.has_pathways)

"""What the jobs of a configuration cost, each kind of job by its arithmetic: images, steps, operations, bytes."""

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from munkey.core.files import command_to_make, map_npy, read_csv, read_json
from munkey.core.randomness import Stage
from munkey.data.sizes import SIZES, Size
from munkey.data.source import SPLITS
from munkey.data.source_settings import shaped
from munkey.evaluation.records import Evaluation
from munkey.experiment.cost.flops import FLOAT, Measured, Network, answering_bytes, measured, training_bytes
from munkey.experiment.params.load import ParamsError
from munkey.experiment.params.schema import DatasetParams
from munkey.experiment.plan.cases import AUDIT
from munkey.experiment.plan.plan import Plan
from munkey.models.family import Family
from munkey.unlearn.contract import METHODS, Images

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
    network: Network | Measured
    batch: int
    held: float = 0.0

    def with_(self, other: "Work") -> "Work":
        """Both as one: jobs, steps and operations summed, the largest memory."""
        return replace(
            max(other, self, key=lambda work: work.memory),
            jobs=self.jobs + other.jobs,
            steps=self.steps + other.steps,
            operations=self.operations + other.operations,
            held=max(self.held, other.held),
        )


def size_of(plan: Plan, dataset: str) -> Size:
    """How large a data set is: as published, or as prepared. Raises ParamsError where nobody knows yet."""
    source, files = plan.params.for_case(dataset).source, plan.prepared(dataset)
    known = SIZES.get(source.reader or dataset)
    if known is None:
        try:
            splits = [sample["split"] for sample in read_csv(files["samples"])]
        except FileNotFoundError:
            command = command_to_make(files["samples"])
            raise ParamsError(f"the size of {dataset} is not known yet; prepare it first: `{command}`") from None
        train, val, test = (splits.count(split) for split in ("train", "val", "test"))
        return Size(train, val, test, map_npy(files["images"]).shape[1], len(read_json(files["classes"])))
    classes = len(source.only or ()) or known.classes
    limit = source.limit_per_class * classes if source.limit_per_class else max(known)
    shares = (round(split * classes / known.classes) for split in (known.train, known.val, known.test))
    train, val, test = (min(split, limit) for split in shares)
    return Size(train, val, test, source.storage_size or known.side, classes)


def counted(plan: Plan, dataset: str) -> Size:
    """How large a data set is, also before it is prepared: its reader counts, and decodes a first block of pictures.

    Raises ParamsError with the reason where that cannot be known yet.
    """
    try:
        return size_of(plan, dataset)
    except ParamsError as unknown:
        reader, settings = plan.params.reader(dataset), plan.params.for_case(dataset).source
        try:
            if reader.archive and not reader.archive().is_here():
                raise FileNotFoundError("it would have to be downloaded")
            with contextlib.redirect_stdout(None):  # warnings are seen on standard error too
                source = shaped(reader.load(settings), settings)
                side = next(len(block[0]) for block in source.blocks() if len(block))
        except Exception as error:  # whatever a reader may raise
            raise ParamsError(f"{unknown}. Its reader says: {error}") from None
        train, val, test = (int((source.splits == split).sum()) for split in SPLITS)
        return Size(train, val, test, side, len(source.classes))


class RunSetting(NamedTuple):
    """What a system is made with. shards: models that its family trains."""

    params: DatasetParams
    family: Family
    size: Size
    network: Network | Measured
    shards: int


class Workload:
    """The work of the evaluations in `runs`: what is trained, unlearned and evaluated for them, each once.

    sizes: of their data sets.
    """

    def __init__(self, plan: Plan, runs: Iterable[Evaluation], sizes: Mapping[str, Size]) -> None:
        self.plan, self.sizes, runs = plan, sizes, list(runs)
        self.systems = list({run.record: run for run in runs}.values())
        self.evaluated = list({run.logits: run for run in runs}.values())

    def all(self) -> list[Work]:
        """Every kind of job, in the order of the DAG; of alike ones the sums, and the largest memory."""
        kinds: dict[tuple[str, str, str], Work] = {}
        for work in (
            *(self._trained(run) for run in self.systems if run.method not in METHODS and self._learns(run)),
            *(self._unlearned(run) for run in self.systems if run.method in METHODS and METHODS[run.method].needs),
            *(self._evaluated(run) for run in self.evaluated),
        ):
            key = work.step, work.what, work.dataset
            kinds[key] = work.with_(kinds[key]) if key in kinds else work
        return list(kinds.values())

    def setting(self, run: Evaluation) -> RunSetting:
        """What a system is made with."""
        params = self.plan.params.for_case(f"{run.dataset}/{run.case}" if run.case else run.dataset)
        family, size = self.plan.family_of(run.method), self.sizes[run.dataset]
        section = params.of_family(family)
        dim = int(getattr(section, "token_dim", 0))
        network: Network | Measured = Network(
            params.model, params.data.image_size, size.classes, int(family.has_pathways), dim
        )
        if family.learns and "model" not in family.sections:
            network = self.measured(run.dataset, family)
        return RunSetting(params, family, size, network, int(getattr(section, "shards", 1)))

    @cache  # noqa: B019  # as long as the workload
    def measured(self, dataset: str, family: Family) -> Measured:
        """A network that is no ViT of ours."""
        import torch

        recipe = family.recipe(self.plan.train_settings(dataset, family.letter), Stage("plan"))
        with torch.device("meta"):
            model = family.build(family.architecture(recipe, self.sizes[dataset].classes), None)
        return measured(model, recipe.data.image_size)

    def _learns(self, run: Evaluation) -> bool:
        return self.plan.family_of(run.method).learns

    def candidates(self, run: Evaluation) -> int:
        """How many the search of a system tries; 0 where there is no search."""
        searched = run.method in self.plan.searched
        return len(self.plan.params.candidates(run.dataset, run.method)) if searched else 0

    def _trained(self, run: Evaluation) -> Work:
        params, family, size, network, shards = self.setting(run)
        left_out = 0.0 if run.method in self.plan.originals else float(run.rate)
        images, train = round(size.train * (1 - left_out)), family.training(params.train, params.of_family(family))
        memory = training_bytes(network, min(train.batch_size, images), size.side)
        memory += FLOAT * (network.weights * (shards - 1) + images * (4 * network.token_dim + KEY * family.has_memory))
        operations = train.epochs * images * network.step
        steps, held = train.epochs * math.ceil(images / train.batch_size), size.train * size.picture_bytes
        return Work("train", run.method, run.dataset, 1, steps, operations, memory, network, train.batch_size, held)

    def _unlearned(self, run: Evaluation) -> Work:
        params, _, size, network, _ = self.setting(run)
        method, forget = METHODS[run.method], round(size.train * float(run.rate))
        tuning = params.finetune if method.finetunes else params.train
        images = Images(size.train - forget, forget, size.val, tuning.epochs, tuning.batch_size)
        seen, jobs = method.passes(images, params.unlearn[method.name]) / 3, self.candidates(run) or 1
        graphs, models = method.cost.graphs, method.cost.models
        memory = training_bytes(network, images.batch, size.side, graphs=graphs, models=models)
        memory += FLOAT * size.picture_bytes * (method.cost.pictures(images) if method.cost.pictures else 0)
        steps, operations = jobs * math.ceil(seen / images.batch), jobs * seen * network.step
        held = size.train * size.picture_bytes
        return Work("unlearn", method.name, run.dataset, jobs, steps, operations, memory, network, images.batch, held)

    def _evaluated(self, run: Evaluation) -> Work:
        params, family, size, network, shards = self.setting(run)
        passes = params.inference.k if family.has_pathways and params.inference.fusion == "ensemble" else 1
        ways = passes + 3 * family.has_pathways * _audits(run)
        images = self._asked(run) * ways * shards + 3 * size.train * family.has_pathways
        if not family.learns:  # it reads keys alone
            images = 0
        memory = answering_bytes(network, size.side, passes)
        return Work("evaluate", "all systems", run.dataset, 1, 0, images * network.forward, memory, network, 0)

    def _asked(self, run: Evaluation) -> int:
        """How many samples: all, but of the training set of an audit only its pool."""
        size = self.sizes[run.dataset]
        return size.images - round(size.train * (1 - 2 * float(run.rate))) * _audits(run)

    @property
    def disk(self) -> float:
        """Bytes that are kept: pictures, keys, neighbors, systems with their memories and candidates, and logits."""
        numbers: float = 0
        for run in self.systems:
            if _audits(run) and run.method in METHODS and run.method not in self.plan.searched:
                continue  # asked in the job that made it
            params, family, size, network, shards = self.setting(run)
            networks = shards * int(getattr(params.of_family(family), "slices", 1)) * family.learns
            rows = size.train * family.has_memory
            stored = network.weights * networks + rows * (KEY + network.token_dim + 2)
            numbers += stored * (1 + self.candidates(run))
        for run in self.evaluated:
            size = self.sizes[run.dataset]
            pathways = 3 * size.train * self.plan.family_of(run.method).has_pathways
            numbers += size.classes * (self._asked(run) + pathways)
        return FLOAT * numbers + sum(self._shared_bytes(dataset, size) for dataset, size in self.sizes.items())

    def _shared_bytes(self, dataset: str, size: Size) -> float:
        """Pictures; keys and neighbors for every encoder."""
        plan = self.plan
        encoders = {plan.encoder_of(case) for case in plan.cases[dataset]}
        scopes = 1 + len(plan.params.seeds) * len(plan.rates[dataset])
        near = NEIGHBOR * plan.params.for_case(dataset).keys.depth * scopes
        return size.images * (size.picture_bytes + len(encoders) * (FLOAT * KEY + near))


def _audits(run: Evaluation) -> bool:
    return run.case.startswith(AUDIT)

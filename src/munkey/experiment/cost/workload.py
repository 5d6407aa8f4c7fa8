"""The work of a configuration's jobs: images, steps, operations, and the bytes that they keep."""

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from munkey.core.files import command_to_make, map_npy, read_csv, read_json
from munkey.core.randomness import Stage
from munkey.data.sizes import SIZES, Size, get_class_limit
from munkey.data.source import SPLITS
from munkey.data.source_settings import apply_source_settings
from munkey.encoders.parts import cache_name, part_settings
from munkey.encoders.registry import find
from munkey.evaluation.records import Evaluation
from munkey.experiment.cost.flops import NetworkCost, count
from munkey.experiment.params.load import ParamsError
from munkey.experiment.params.schema import DatasetParams
from munkey.experiment.plan.cases import AUDIT
from munkey.experiment.plan.plan import Plan
from munkey.models.family import Architecture, Family
from munkey.settings import EncoderSettings
from munkey.unlearn.contract import METHODS, Images

FLOAT = 4  # bytes of a number
KEY = 768  # numbers in a key, as most encoders have it
NEIGHBOR = 12  # bytes of an id and a cosine


@dataclass(frozen=True)
class Work:
    """Jobs of one kind.

    Attributes
    ----------
    steps, operations
        Of all of them.
    network
        None if they run none.
    """

    step: str
    what: str
    dataset: str
    jobs: int
    steps: int
    operations: float
    network: NetworkCost | None

    def merge(self, other: "Work") -> "Work":
        """Return both kinds as one, with the larger network."""
        networks = [work.network for work in (self, other) if work.network]
        return replace(
            self,
            jobs=self.jobs + other.jobs,
            steps=self.steps + other.steps,
            operations=self.operations + other.operations,
            network=max(networks, key=lambda network: network.forward, default=None),
        )


def size_of(plan: Plan, dataset: str) -> Size:
    """Return the size of a data set, as published or as prepared.

    Raises ParamsError if neither is known.
    """
    source = plan.params.for_case(dataset).source
    files = plan.prepared(dataset)
    published = SIZES.get(source.reader or dataset)
    if published is None:
        try:
            samples = read_csv(files["samples"])
        except FileNotFoundError:
            command = command_to_make(files["samples"])
            raise ParamsError(
                f"the size of {dataset} is not known yet; prepare it first: `{command}`"
            ) from None
        counts = Counter(sample["split"] for sample in samples)
        side = map_npy(files["images"]).shape[1]
        classes = len(read_json(files["classes"]))
        return Size(counts["train"], counts["val"], counts["test"], side, classes)
    classes = len(source.only or ()) or published.classes
    sizes = {}
    for split, published_count in zip(
        SPLITS, (published.train, published.val, published.test), strict=True
    ):
        count = round(published_count * classes / published.classes)
        limit = get_class_limit(source, split)
        if limit is not None:
            count = min(count, limit * classes)
        sizes[split] = count
    train, val, test = sizes.values()
    if source.val_from == "train":
        test += val
        val = round(train * source.split[1] / (source.split[0] + source.split[1]))
        train -= val
    return Size(train, val, test, source.storage_size or published.side, classes)


def estimate_size(plan: Plan, dataset: str) -> Size:
    """Return how large a data set is, also before it is prepared: its reader counts, and decodes a first block of pictures.

    Raises ParamsError with the reason where that cannot be known yet.
    """
    try:
        return size_of(plan, dataset)
    except ParamsError as unknown:
        reader = plan.params.reader(dataset)
        settings = plan.params.for_case(dataset).source
        try:
            if reader.archive and not reader.archive().is_here():
                raise FileNotFoundError("it would have to be downloaded")
            with contextlib.redirect_stdout(None):  # warnings are seen on standard error too
                source = apply_source_settings(reader.load(settings), settings)
                side = next(len(block[0]) for block in source.blocks() if len(block))
        except Exception as error:  # whatever a reader may raise
            raise ParamsError(f"{unknown}. Its reader says: {error}") from None
        train, val, test = (int((source.splits == split).sum()) for split in SPLITS)
        return Size(train, val, test, side, len(source.classes))


_NETWORK_COSTS: dict[tuple[Family, str, int], NetworkCost] = {}


def network_cost(family: Family, architecture: Architecture, image_size: int) -> NetworkCost:
    """Return the cost of one image for a network of a family; counted once in a process."""
    import torch

    key = (family, str(architecture), image_size)
    if key not in _NETWORK_COSTS:
        with torch.device("meta"):
            network = family.build(architecture, None).to("meta")
        token_dim = getattr(architecture, "token_dim", None)
        _NETWORK_COSTS[key] = count(network, image_size, token_dim)
    return _NETWORK_COSTS[key]


class RunSetting(NamedTuple):
    """The parameters, family and network of a system, and the size of its data set.

    Attributes
    ----------
    network
        None for a family that learns no weights in epochs.
    models
        Networks that answer together, each trained on its share of the samples (SISA's shards).
    """

    params: DatasetParams
    family: Family
    size: Size
    network: NetworkCost | None
    token_dim: int
    models: int


class Workload:
    """The work of the evaluations in `runs`: each system is trained, unlearned and evaluated once.

    Parameters
    ----------
    sizes
        Of their data sets.
    """

    def __init__(self, plan: Plan, runs: Iterable[Evaluation], sizes: Mapping[str, Size]) -> None:
        self.plan = plan
        self.sizes = sizes
        by_record = {}
        by_logits = {}
        for run in runs:
            by_record[run.record] = run
            by_logits[run.logits] = run
        self.systems = list(by_record.values())
        self.evaluated = list(by_logits.values())
        self.settings: dict[tuple[str, str, str], RunSetting] = {}

    def all(self) -> list[Work]:
        """Return every kind of job, in the order of the DAG; jobs of one kind are added up."""
        works = [self._extraction_work(dataset, part) for dataset, part in self.counted_parts]
        for run in self.systems:
            if run.method not in METHODS and self.plan.family_of(run.method).learns:
                works.append(self._training_work(run))
        for run in self.systems:
            if run.method in METHODS and METHODS[run.method].needs:
                works.append(self._unlearning_work(run))
        for run in self.evaluated:
            works.append(self._evaluation_work(run))
        kinds: dict[tuple[str, str, str], Work] = {}
        for work in works:
            kind = (work.step, work.what, work.dataset)
            if kind in kinds:
                kinds[kind] = work.merge(kinds[kind])
            else:
                kinds[kind] = work
        return list(kinds.values())

    @cached_property
    def parts(self) -> list[tuple[str, EncoderSettings]]:
        """The encoders that keys are extracted with, by data set: each part of several once."""
        parts: dict[tuple[str, str], EncoderSettings] = {}
        for run in self.systems:
            encoder = self.plan.encoder_of(f"{run.dataset}/{run.case}".removesuffix("/"))
            for part in part_settings(self.plan.encoder_settings(run.dataset, encoder)):
                parts.setdefault((run.dataset, cache_name(part)), part)
        return [(dataset, part) for (dataset, _), part in parts.items()]

    @property
    def counted_parts(self) -> list[tuple[str, EncoderSettings]]:
        """Those whose operations are known."""
        return [(dataset, part) for dataset, part in self.parts if find(part.encoder).operations]

    @property
    def uncounted_keys(self) -> list[str]:
        """The others, in words."""
        lines = []
        for dataset, part in self.parts:
            if not find(part.encoder).operations:
                lines.append(f"the keys of {dataset} by {part.encoder}: its speed is not known")
        return lines

    def _extraction_work(self, dataset: str, part: EncoderSettings) -> Work:
        """Return the extraction of the keys of all samples by one encoder; a mirror image counts as a picture."""
        operations_of = find(part.encoder).operations
        assert operations_of is not None
        operations = operations_of(part)
        pictures = self.sizes[dataset].images * (2 if part.mirror else 1)
        steps = math.ceil(self.sizes[dataset].images / part.batch_size)
        # At a speed that is known for training steps: one forward pass of three.
        network = NetworkCost(0, int(operations), 3 * int(operations)) if operations else None
        name = cache_name(part)
        return Work("keys", name, dataset, 1, steps, pictures * operations, network)

    def setting(self, run: Evaluation) -> RunSetting:
        """Return the setting of a system, determined once."""
        family = self.plan.family_of(run.method)
        key = (run.dataset, run.case, family.name)
        if key not in self.settings:
            self.settings[key] = self._setting(run, family)
        return self.settings[key]

    def _setting(self, run: Evaluation, family: Family) -> RunSetting:
        case = f"{run.dataset}/{run.case}".removesuffix("/")
        params = self.plan.params.for_case(case)
        size = self.sizes[run.dataset]
        if not family.learns:
            return RunSetting(params, family, size, None, 0, 1)
        recipe = family.make_recipe(self.plan.sections(case, *family.sections), Stage("plan"))
        architecture = family.make_architecture(recipe, size.classes, KEY)
        cost = network_cost(family, architecture, recipe.data.image_size)
        token_dim = getattr(architecture, "token_dim", 0)
        models = getattr(architecture, "shards", 1)
        return RunSetting(params, family, size, cost, token_dim, models)

    def candidates(self, run: Evaluation) -> int:
        """Return how many settings the search of a system tries; 0 if they are not searched."""
        if run.method not in self.plan.searched:
            return 0
        return self.plan.params.candidate_count(run.dataset, run.method)

    def _training_work(self, run: Evaluation) -> Work:
        params, family, size, network, _, models = self.setting(run)
        assert network is not None
        removed_share = 0.0 if run.method in self.plan.originals else float(run.rate)
        images = round(size.train * (1 - removed_share))
        train = family.adapt_train_settings(params.train, params.of_family(family))
        steps = train.epochs * math.ceil(images / train.batch_size)
        operations = train.epochs * images * network.step / models
        return Work("train", run.method, run.dataset, 1, steps, operations, network)

    def _unlearning_work(self, run: Evaluation) -> Work:
        params, _, size, network, _, models = self.setting(run)
        method = METHODS[run.method]
        forget = round(size.train * float(run.rate))
        tuning = params.finetune if method.finetunes else params.train
        images = Images(size.train - forget, forget, size.val, tuning.epochs, tuning.batch_size)
        # A step counts as three passes: one forward and, as twice as much, one backward.
        step_images = method.passes(images, params.unlearn[method.name]) / 3
        jobs = self.candidates(run) or 1
        steps = jobs * math.ceil(step_images / images.batch)
        operations = 0.0
        if network:
            operations = jobs * step_images * network.step / models
        return Work("unlearn", method.name, run.dataset, jobs, steps, operations, network)

    def _evaluation_work(self, run: Evaluation) -> Work:
        params, family, size, network, _, _ = self.setting(run)
        operations = 0.0
        if network:
            ensemble = family.has_pathways and params.inference.fusion == "ensemble"
            passes = params.inference.k if ensemble else 1
            if family.has_pathways and _audits(run):
                passes += 3  # the three paths that an audit asks
            images = self._query_count(run) * passes
            if family.has_pathways:
                images += 3 * size.train  # P_s: image, token, both
            operations = images * network.forward
        return Work("evaluate", "all systems", run.dataset, 1, 0, operations, network)

    def _query_count(self, run: Evaluation) -> int:
        """Return how many samples are asked: all, but of an audit's training set only the pool."""
        size = self.sizes[run.dataset]
        if not _audits(run):
            return size.images
        return size.images - round(size.train * (1 - 2 * float(run.rate)))

    @property
    def disk(self) -> float:
        """Bytes that are kept: pictures, keys, neighbors, systems and candidates, and logits."""
        numbers = 0.0
        for run in self.systems:
            if _audits(run) and run.method in METHODS and run.method not in self.plan.searched:
                continue  # asked in the job that made it
            _, family, size, network, token_dim, _ = self.setting(run)
            stored = network.weights if network else 0
            if family.has_memory:
                stored += size.train * (KEY + token_dim + 2)
            numbers += stored * (1 + self.candidates(run))
        for run in self.evaluated:
            size = self.sizes[run.dataset]
            answers = self._query_count(run)
            if self.plan.family_of(run.method).has_pathways:
                answers += 3 * size.train
            numbers += size.classes * answers
        shared = sum(self._shared_bytes(dataset, size) for dataset, size in self.sizes.items())
        return FLOAT * numbers + shared

    def _shared_bytes(self, dataset: str, size: Size) -> float:
        """Pictures; keys and neighbors for every encoder."""
        plan = self.plan
        encoders = set(map(plan.encoder_of, plan.cases[dataset]))
        keys = 0  # of encoders, and of the parts of several
        for encoder in encoders:
            parts = plan.key_parts(dataset, encoder)
            keys += 1 + len(parts)
        scopes = 1 + len(plan.params.seeds) * len(plan.rates[dataset])
        neighbor_bytes = NEIGHBOR * plan.params.for_case(dataset).keys.depth * scopes
        key_bytes = FLOAT * KEY * keys + neighbor_bytes * len(encoders)
        return size.images * (size.picture_bytes + key_bytes)


def _audits(run: Evaluation) -> bool:
    return run.case.startswith(AUDIT)

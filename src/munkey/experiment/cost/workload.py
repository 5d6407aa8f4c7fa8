"""The work of a configuration's jobs: training steps, operations, and bytes on disk."""

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from munkey.core.files import format_make_command, map_npy, read_csv, read_json
from munkey.core.randomness import Stage
from munkey.data.sizes import SIZES, Size, get_class_limit
from munkey.data.source_settings import apply_source_settings
from munkey.encoders.parts import name_cache_folder, split_parts
from munkey.encoders.registry import find
from munkey.evaluation.records import Evaluation
from munkey.experiment.cost.flops import NetworkCost, count_operations
from munkey.experiment.params.load import ParamsError
from munkey.experiment.params.schema import DatasetParams
from munkey.experiment.plan.plan import Plan
from munkey.models.family import Architecture, Family
from munkey.settings import EncoderSettings
from munkey.unlearn.contract import METHODS, Images

FLOAT_BYTES = 4
KEY_LENGTH = 768  # assumed for all encoders, since most have it
NEIGHBOR_BYTES = 12  # an id and a cosine


@dataclass(frozen=True)
class Work:
    """The work of all jobs of one kind.

    Attributes
    ----------
    step
        "keys", "train", "unlearn" or "evaluate".
    what
        The name of the folder of keys, the system or the method; "all systems" for evaluations.
    steps, operations
        The training steps and floating-point operations of all jobs together.
    """

    step: str
    what: str
    dataset: str
    jobs: int
    steps: int
    operations: float
    network: NetworkCost | None

    def merge(self, other: "Work") -> "Work":
        """Return the work of these and other jobs together, with the larger of the two networks."""
        networks = [work.network for work in (self, other) if work.network]
        network = max(networks, key=lambda cost: cost.forward, default=None)
        return replace(
            self,
            jobs=self.jobs + other.jobs,
            steps=self.steps + other.steps,
            operations=self.operations + other.operations,
            network=network,
        )


def _merge_by_kind(works: Iterable[Work]) -> list[Work]:
    """Merge the works of jobs that do the same step with the same system or encoder on one data set."""
    work_by_kind: dict[tuple[str, str, str], Work] = {}
    for work in works:
        kind = (work.step, work.what, work.dataset)
        if kind in work_by_kind:
            work_by_kind[kind] = work.merge(work_by_kind[kind])
        else:
            work_by_kind[kind] = work
    return list(work_by_kind.values())


def look_up_size(plan: Plan, dataset: str) -> Size:
    """Return the published size of a data set, adjusted to its settings, or the prepared size.

    Raises ParamsError if the data set is neither published nor prepared.
    """
    source = plan.params.for_case(dataset).source
    published = SIZES.get(source.reader or dataset)
    if published is None:
        return _read_size(dataset, plan.prepared(dataset))
    classes = len(source.only or ()) or published.classes
    published_counts = {"train": published.train, "val": published.val, "test": published.test}
    counts = {}
    for split, published_count in published_counts.items():
        counts[split] = round(published_count * classes / published.classes)
        limit = get_class_limit(source, split)
        if limit is not None:
            counts[split] = min(counts[split], limit * classes)
    if source.val_from == "train":
        # The published validation samples become test samples, and a part of train becomes val.
        train_share, val_share, _ = source.split
        counts["test"] += counts["val"]
        counts["val"] = round(counts["train"] * val_share / (train_share + val_share))
        counts["train"] -= counts["val"]
    side = source.storage_size or published.side
    return Size(counts["train"], counts["val"], counts["test"], side, classes)


def _read_size(dataset: str, files: Mapping[str, str]) -> Size:
    """Read the size of a data set from its prepared files.

    Raises ParamsError if it is not prepared yet.
    """
    try:
        samples = read_csv(files["samples"])
    except FileNotFoundError:
        command = format_make_command(files["samples"])
        raise ParamsError(
            f"the size of {dataset} is not known yet; prepare it first: `{command}`"
        ) from None
    counts = Counter(sample["split"] for sample in samples)
    side = map_npy(files["images"]).shape[1]
    classes = len(read_json(files["classes"]))
    return Size(counts["train"], counts["val"], counts["test"], side, classes)


def estimate_size(plan: Plan, dataset: str) -> Size:
    """Return the size of a data set, even if it is neither published nor prepared.

    In that case, its reader counts the samples and decodes the first block of images. Raises
    ParamsError with the reason if the size cannot be known yet.
    """
    try:
        return look_up_size(plan, dataset)
    except ParamsError as size_error:
        reader = plan.params.reader(dataset)
        settings = plan.params.for_case(dataset).source
        try:
            if reader.archive and not reader.archive().is_here():
                raise FileNotFoundError("it would have to be downloaded")
            with contextlib.redirect_stdout(None):  # warnings also go to standard error
                source = apply_source_settings(reader.load(settings), settings)
                side = next(len(block[0]) for block in source.blocks() if len(block))
        except Exception as error:  # a reader may raise any exception
            raise ParamsError(f"{size_error}. Error of its reader: {error}") from None
        counts = Counter(source.splits.tolist())
        return Size(counts["train"], counts["val"], counts["test"], side, len(source.classes))


_NETWORK_COSTS: dict[tuple[Family, str, int], NetworkCost] = {}


def get_network_cost(family: Family, architecture: Architecture, image_size: int) -> NetworkCost:
    """Return the cost per image of a family's network. Costs are cached."""
    import torch

    key = (family, str(architecture), image_size)
    if key not in _NETWORK_COSTS:
        with torch.device("meta"):
            network = family.build(architecture, None).to("meta")
        token_dim = getattr(architecture, "token_dim", None)
        _NETWORK_COSTS[key] = count_operations(network, image_size, token_dim)
    return _NETWORK_COSTS[key]


class RunSetting(NamedTuple):
    """The parameters, family and network of a system, and the size of its data set.

    Attributes
    ----------
    network
        None for a family whose weights are not trained in epochs.
    token_dim
        The length of an exemplar token; 0 for a network that reads none.
    models
        The number of networks in an ensemble, each trained on its share of the samples (SISA).
    """

    params: DatasetParams
    family: Family
    size: Size
    network: NetworkCost | None
    token_dim: int
    models: int


class Workload:
    """The work that evaluations require. Each system is trained, unlearned and evaluated only once.

    Parameters
    ----------
    runs
        The evaluations.
    sizes
        The sizes of their data sets.
    """

    def __init__(self, plan: Plan, runs: Iterable[Evaluation], sizes: Mapping[str, Size]) -> None:
        self.plan = plan
        self.sizes = sizes
        # Several evaluations may share a system and its record, or even its logits.
        by_record = {}
        by_logits = {}
        for run in runs:
            by_record[run.record] = run
            by_logits[run.logits] = run
        self.systems = list(by_record.values())
        self.evaluated = list(by_logits.values())
        self.settings: dict[tuple[str, str, str], RunSetting] = {}

    def list_work(self) -> list[Work]:
        """List the work of each kind of job, in the order of the DAG."""
        works = [self._extraction_work(dataset, part) for dataset, part in self.counted_parts]
        for run in self.systems:
            if run.method not in METHODS and self.plan.find_family(run.method).learns:
                works.append(self._training_work(run))
        for run in self.systems:
            if run.method in METHODS and METHODS[run.method].needs:
                works.append(self._unlearning_work(run))
        for run in self.evaluated:
            works.append(self._evaluation_work(run))
        return _merge_by_kind(works)

    @cached_property
    def parts(self) -> list[tuple[str, EncoderSettings]]:
        """The data sets and encoders for which keys are extracted, each pair once."""
        parts: dict[tuple[str, str], EncoderSettings] = {}
        for run in self.systems:
            encoder = self.plan.get_encoder_name(f"{run.dataset}/{run.case}".removesuffix("/"))
            for part in split_parts(self.plan.encoder_settings(run.dataset, encoder)):
                parts.setdefault((run.dataset, name_cache_folder(part)), part)
        return [(dataset, part) for (dataset, _), part in parts.items()]

    @property
    def counted_parts(self) -> list[tuple[str, EncoderSettings]]:
        """The parts whose number of operations is known."""
        return [(dataset, part) for dataset, part in self.parts if find(part.encoder).operations]

    @property
    def uncounted_keys(self) -> list[str]:
        """A sentence for each part whose number of operations is unknown."""
        sentences = []
        for dataset, part in self.parts:
            if not find(part.encoder).operations:
                sentences.append(
                    f"the keys of {dataset} by {part.encoder}: number of operations unknown"
                )
        return sentences

    def _extraction_work(self, dataset: str, part: EncoderSettings) -> Work:
        """Return the work of extracting the keys of all samples with one encoder."""
        count_encoder_operations = find(part.encoder).operations
        assert count_encoder_operations is not None
        operations = count_encoder_operations(part)
        images = self.sizes[dataset].images
        steps = math.ceil(images / part.batch_size)
        network = None
        if operations:
            # Machines are timed on training steps, which take three forward passes.
            network = NetworkCost(0, forward=int(operations), step=3 * int(operations))
        if part.mirror:  # keys of mirror images are also extracted
            operations *= 2
        return Work(
            "keys", name_cache_folder(part), dataset, 1, steps, images * operations, network
        )

    def get_setting(self, run: Evaluation) -> RunSetting:
        """Return the setting of a system. Settings are cached."""
        family = self.plan.find_family(run.method)
        key = (run.dataset, run.case, family.name)
        if key not in self.settings:
            self.settings[key] = self._make_setting(run, family)
        return self.settings[key]

    def _make_setting(self, run: Evaluation, family: Family) -> RunSetting:
        case = f"{run.dataset}/{run.case}".removesuffix("/")
        params = self.plan.params.for_case(case)
        size = self.sizes[run.dataset]
        if not family.learns:
            return RunSetting(params, family, size, None, 0, 1)
        recipe = family.make_recipe(self.plan.sections(case, *family.sections), Stage("plan"))
        architecture = family.make_architecture(recipe, size.classes, KEY_LENGTH)
        cost = get_network_cost(family, architecture, recipe.data.image_size)
        token_dim = getattr(architecture, "token_dim", 0)
        models = getattr(architecture, "shards", 1)
        return RunSetting(params, family, size, cost, token_dim, models)

    def count_candidates(self, run: Evaluation) -> int:
        """Return how many settings the search of a method tries; 0 if it is not searched."""
        if run.method not in self.plan.searched:
            return 0
        return self.plan.params.candidate_count(run.dataset, run.method)

    def _training_work(self, run: Evaluation) -> Work:
        params, family, size, network, _, models = self.get_setting(run)
        assert network is not None
        removed_share = 0.0 if run.method in self.plan.originals else float(run.rate)
        images = round(size.train * (1 - removed_share))
        train = family.adapt_train_settings(params.train, params.get_family_section(family))
        steps = train.epochs * math.ceil(images / train.batch_size)
        operations = train.epochs * images * network.step / models
        return Work("train", run.method, run.dataset, 1, steps, operations, network)

    def _unlearning_work(self, run: Evaluation) -> Work:
        """Return the work of unlearning with all candidates of a search."""
        params, _, size, network, _, models = self.get_setting(run)
        method = METHODS[run.method]
        forget = round(size.train * float(run.rate))
        tuning = params.finetune if method.finetunes else params.train
        images = Images(size.train - forget, forget, size.val, tuning.epochs, tuning.batch_size)
        # A step counts as three passes, since a backward pass costs as much as two forward passes.
        step_images = method.count_passes(images, params.unlearn[method.name]) / 3
        jobs = self.count_candidates(run) or 1
        steps = jobs * math.ceil(step_images / images.batch)
        operations = 0.0
        if network:
            operations = jobs * step_images * network.step / models
        return Work("unlearn", method.name, run.dataset, jobs, steps, operations, network)

    def _evaluation_work(self, run: Evaluation) -> Work:
        """Return the work of predicting all samples that metrics and audits need."""
        params, family, size, network, _, _ = self.get_setting(run)
        operations = 0.0
        if network:
            passes = 1
            if family.has_pathways and params.inference.fusion == "ensemble":
                passes = params.inference.k
            if family.has_pathways and self._is_in_pairs(run):
                passes += 3  # the three further paths of an audit
            images = self._count_queries(run) * passes
            if family.has_pathways:
                images += 3 * size.train  # for P_s: image, token and both
            operations = images * network.forward
        return Work("evaluate", "all systems", run.dataset, 1, 0, operations, network)

    def _is_in_pairs(self, run: Evaluation) -> bool:
        return self.plan.params.find_case(f"{run.dataset}/{run.case}".removesuffix("/")).in_pairs

    def _count_queries(self, run: Evaluation) -> int:
        """Return how many samples are evaluated. Audits omit training samples outside the pool."""
        size = self.sizes[run.dataset]
        if not self._is_in_pairs(run):
            return size.images
        # The rate of an audit is the size of half the pool.
        samples_outside_pool = round(size.train * (1 - 2 * float(run.rate)))
        return size.images - samples_outside_pool

    @property
    def disk(self) -> float:
        """The bytes that are stored: images, keys, neighbors, systems, candidates and logits."""
        float_count = 0.0
        for run in self.systems:
            if (
                self._is_in_pairs(run)
                and run.method in METHODS
                and run.method not in self.plan.searched
            ):
                continue  # evaluated in the job that unlearns it, and not stored
            _, family, size, network, token_dim, _ = self.get_setting(run)
            system_floats = network.weights if network else 0
            if family.has_memory:
                system_floats += size.train * (KEY_LENGTH + token_dim + 2)
            float_count += system_floats * (1 + self.count_candidates(run))
        for run in self.evaluated:
            size = self.sizes[run.dataset]
            predictions = self._count_queries(run)
            if self.plan.find_family(run.method).has_pathways:
                predictions += 3 * size.train  # for P_s: image, token and both
            float_count += size.classes * predictions
        shared = sum(self._shared_bytes(dataset, size) for dataset, size in self.sizes.items())
        return FLOAT_BYTES * float_count + shared

    def _shared_bytes(self, dataset: str, size: Size) -> float:
        """Return the bytes of a data set's images, and of all encoders' keys and neighbors."""
        plan = self.plan
        encoders = set(map(plan.get_encoder_name, plan.cases[dataset]))
        key_files = 0
        for encoder in encoders:
            # If several encoders are joined, the keys of each one are also stored.
            key_files += 1 + len(plan.key_parts(dataset, encoder))
        memories = 1 + len(plan.params.seeds) * len(plan.rates[dataset])
        depth = plan.params.for_case(dataset).keys.depth
        key_bytes = FLOAT_BYTES * KEY_LENGTH * key_files
        neighbor_bytes = NEIGHBOR_BYTES * depth * memories * len(encoders)
        return size.images * (size.picture_bytes + key_bytes + neighbor_bytes)

"""The strict form of `params.yaml`: whatever is not described here or in a section is refused before any job starts.

Nothing has a default: every value stands in `params.yaml` or in an overlay given with `--configfile`. Families of
models that have settings add a section under their name; unlearning methods have theirs under `unlearn`.
"""

import itertools
import math
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, create_model, model_validator

from munkey.data.registry import DATASETS, DatasetEntry, reader_of
from munkey.encoders.registry import ENCODERS
from munkey.models.family import FAMILIES, Family
from munkey.pipeline.faults import require_known, require_registered, require_unique, unknown, validated
from munkey.pipeline.knobs import Values, knobs_of, merge, name_of, sections_of
from munkey.pipeline.outside import check_encoder, reader_faults, source_faults
from munkey.settings import (
    Count,
    DataSettings,
    FinetuneSettings,
    ForgetSettings,
    InferenceSettings,
    KeySettings,
    ModelSettings,
    NonNegative,
    Probability,
    Section,
    SelectionSettings,
    SourceSettings,
    TrackingSettings,
    TrainSettings,
)
from munkey.unlearn.contract import METHODS


class ParamsError(ValueError):
    """The parameters are not valid; the message names each key, its value and what is allowed."""


class DatasetParams(Section):
    """The sections that may differ between data sets, as they hold for one of them; and those of the families."""

    source: SourceSettings
    data: DataSettings
    keys: KeySettings
    model: ModelSettings
    train: TrainSettings
    forget: ForgetSettings
    inference: InferenceSettings
    finetune: FinetuneSettings
    unlearn: dict[str, dict[str, object]]
    ablations: dict[str, list[object]]

    def of_family(self, family: Family) -> Section | None:
        """The section of a family, if it has one."""
        return getattr(self, family.name) if family.settings else None

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        check_encoder(self.keys)
        if self.data.image_size % self.model.patch_size:
            raise ValueError(
                f"data.image_size = {self.data.image_size} must be a multiple of"
                f" model.patch_size = {self.model.patch_size}"
            )
        for name in self.unlearn:
            if name not in METHODS.refused:  # whose section can wait until its file is mended
                require_registered("unlearn", name, METHODS)
        for knob, values in self.ablations.items():
            require_unique(f"ablations.{knob}", [name_of(value) for value in values])
        depths = {"inference.k": self.inference.k}
        for family in FAMILIES.values():
            if section := self.of_family(family):
                depths |= family.neighbors_read(section)
        for key, value in depths.items():
            if value > self.keys.depth:
                raise ValueError(f"{key} = {value} must be at most keys.depth = {self.keys.depth}")
        return self


class Params(DatasetParams):
    """The whole of `params.yaml`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
    device: Literal["auto", "cpu", "cuda"]
    threads: Count
    checkpoint_s: NonNegative
    resident_share: Probability
    datasets: Annotated[list[str], Field(min_length=1)]
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    methods: Annotated[list[str], Field(min_length=1)]
    search: bool
    search_grid: dict[str, Annotated[list[object], Field(min_length=1)]]
    search_drop: NonNegative | None
    selection: SelectionSettings
    tracking: TrackingSettings
    overrides: dict[str, dict[str, object]]

    @model_validator(mode="after")
    def _names(self) -> Self:
        for key in ("datasets", "seeds", "methods"):
            require_unique(key, getattr(self, key))
        for key in self.search_grid:
            known = {"lr_factor"} | {f"{name}.{field}" for name, values in self.unlearn.items() for field in values}
            require_known("search_grid", "key", key, sorted(known))
        for name in self.methods:
            require_registered(f"the method {name}", require_registered("methods", name, METHODS).family, FAMILIES)
            if name not in self.unlearn:
                raise ValueError(f"method {name!r} is listed but has no section unlearn.{name}")
        return self

    def reader(self, dataset: str) -> DatasetEntry:
        """What reads a data set."""
        return reader_of(dataset, self.of(dataset).source)

    def candidates(self, dataset: str, method: str) -> list[dict[str, object]]:
        """The settings that the search tries for a method: those of its section where there is no grid for them."""
        settings = self.of(dataset).unlearn[method]
        keys = [key for key in settings if f"{method}.{key}" in self.search_grid or key in self.search_grid]
        values = [self.search_grid.get(f"{method}.{key}") or self.search_grid[key] for key in keys]
        return [settings | dict(zip(keys, chosen, strict=True)) for chosen in itertools.product(*values)]

    def of(self, case: str) -> DatasetParams:
        """The parameters as they hold for a data set, its overrides applied, or for one of its cases."""
        if case not in self._cases:
            dataset, _, change = case.partition("/")
            names = _models().dataset.model_fields
            sections = self.model_dump(include=set(names))
            changed = merge(sections, self.overrides.get(dataset, {}))
            self._cases[case] = _models().dataset.model_validate(
                merge(changed, self.changes_of(dataset)[change]) if change else changed
            )
        return self._cases[case]

    @cached_property
    def _cases(self) -> dict[str, DatasetParams]:
        return {}

    def changes_of(self, dataset: str) -> dict[str, dict[str, object]]:
        """What the ablations and the selection of a data set change, by the place below it: KNOB/VALUE."""
        changes: dict[str, dict[str, object]] = {}
        for knob, values in self.of(dataset).ablations.items():
            changes |= {f"{knob}/{name_of(value)}": sections_of(knob, value) for value in values}
        return changes | self.pairs

    @property
    def pairs(self) -> dict[str, dict[str, object]]:
        """What the selection changes on every data set, by the place below it: p_drop/PAIR."""
        name = ablated().name
        return {f"p_drop/{name_of(pair)}": {name: {"p_drop": "fixed"} | pair} for pair in self.grid}

    @property
    def grid(self) -> list[dict[str, float]]:
        """The pairs that the selection compares, and the corner (0, 0) that it shows for reference."""
        grid = itertools.product(self.selection.p_image, self.selection.p_token)
        return [{"p_image": image, "p_token": token} for image, token in dict.fromkeys([(0.0, 0.0), *grid])]


def ablated() -> Family:
    """The family that the ablations and the selection are about: the one whose pathways can be cut."""
    families = [family for family in FAMILIES.values() if family.has_pathways]
    if not families:
        raise ParamsError(f"no family of models can be ablated; refused: {'; '.join(FAMILIES.refused.values())}")
    return families[0]


def refused_files() -> list[str]:
    """The files of methods, families, data sets and encoders that cannot be imported, and why."""
    return [refusal for registry in (METHODS, FAMILIES, DATASETS, ENCODERS) for refusal in registry.refused.values()]


def load(config: Values) -> Params:
    """Check a configuration as read from YAML.

    Raises ParamsError that lists every fault at once: key, value, what is allowed.
    """
    faults: list[str] = []
    known = {key: value for key, value in config.items() if key not in FAMILIES.refused}
    params = validated(_models().whole, known, "", faults)
    if params is not None:
        faults += _override_faults(params)
        sections = {name: config[name] for name in _models().dataset.model_fields}
        others = [name for name in params.overrides if name not in DATASETS.refused]
        for dataset in dict.fromkeys([*params.datasets, *others]) if not faults else ():
            faults += _dataset_faults(params, sections, dataset)
    if faults or params is None:
        unique = dict.fromkeys(faults)
        raise ParamsError("the parameters are not valid:\n" + "\n".join(f"  - {fault}" for fault in unique))
    return params


def least_samples(config: Values, dataset: str) -> int:
    """Training samples that an experiment needs, so that enough neighbors are left after forgetting."""
    params = load(config).of(dataset)
    return math.ceil(params.keys.depth / (1 - max(params.forget.rates)))


class _Models(NamedTuple):
    dataset: type[DatasetParams]
    whole: type[Params]


@cache
def _models() -> _Models:
    """The models that check parameters, with the sections of all families."""
    sections = {family.name: (family.settings, ...) for family in FAMILIES.values() if family.settings}
    return _Models(
        create_model("DatasetParams", __base__=DatasetParams, **sections),  # type: ignore[call-overload]
        create_model("Params", __base__=Params, **sections),  # type: ignore[call-overload]
    )


def _override_faults(params: Params) -> list[str]:
    """Sections of `overrides` that a data set cannot override."""
    allowed = _models().dataset.model_fields
    return [
        unknown(f"overrides.{dataset}.{section}", value, section, allowed)
        for dataset in dict.fromkeys([*params.datasets, *params.overrides])
        for section, value in params.overrides.get(dataset, {}).items()
        if section not in allowed
    ]


def _dataset_faults(params: Params, sections: Values, dataset: str) -> list[str]:
    """What is wrong with the parameters as they hold for a data set, for its methods and for its ablations."""
    faults: list[str] = []
    override = params.overrides.get(dataset, {})
    prefix = f"overrides.{dataset}." if override else ""
    resolved = validated(_models().dataset, merge(sections, override), prefix, faults)
    if resolved is None:
        return faults
    listed = dataset in params.datasets
    faults += reader_faults(dataset, resolved.source if listed else _own_source(override, resolved.source), prefix)
    if listed and not faults:
        faults += source_faults(dataset, resolved.source, prefix)
    for method, settings in resolved.unlearn.items():
        if method not in METHODS.refused:
            validated(METHODS[method].settings, settings, f"{prefix}unlearn.{method}.", faults)
    if not faults:
        faults += _ablation_faults(params, dataset, merge(sections, override))
    for method in params.methods if not faults else ():
        faults += _search_faults(params, dataset, method)
    return faults


def _own_source(override: Values, source: SourceSettings) -> SourceSettings:
    """The source of a data set that is not listed, which must name its reader itself: it may be a misspelled name."""
    section = override.get("source")
    own = isinstance(section, Mapping) and section.get("reader") is not None
    return source if own else source.model_copy(update={"reader": None})


def _search_faults(params: Params, dataset: str, method: str) -> list[str]:
    """What is wrong with the candidates that the search would try for a method."""
    faults: list[str] = []
    candidates = params.candidates(dataset, method)
    if params.search and len(candidates) > 1 and METHODS[method].original.has_memory:
        faults.append(f"search_grid: {method}: only methods of a family without a memory can be searched")
    for candidate in candidates:
        validated(METHODS[method].settings, candidate, f"search_grid: {method}: ", faults)
    return faults


def _ablation_faults(params: Params, dataset: str, sections: Values) -> list[str]:
    """What is wrong with the values of a data set's ablations, each checked as if it stood in its section."""
    ablations = params.of(dataset).ablations
    allowed = ("data", "keys", "model", "train", ablated().name, "inference")
    faults = [
        f"ablations.{knob}: {key} is not a knob of {ablated().title}; ablations may change {', '.join(allowed)}"
        for knob, values in ablations.items()
        for key in dict.fromkeys(key for value in values for key in knobs_of(knob, value))
        if key.split(".", maxsplit=1)[0] not in allowed or key in ("keys.depth", f"{ablated().name}.p_drop")
    ]
    places = [f"{knob}/{name_of(value)}" for knob, values in ablations.items() for value in values]
    faults += [
        f"ablations: {place}: these are names of folders; write letters, digits, _ and ., but not p_drop"
        for place in places
        if not re.fullmatch(r"(?!p_drop/)[\w.]+/[\w.-]+", place)
    ]
    for place, change in params.changes_of(dataset).items() if not faults else ():
        validated(_models().dataset, merge(sections, change), f"ablations: {place}: ", faults)
    return faults


def rate_name(rate: float) -> str:
    """The rate as it stands in paths: 0.1 for 0.10. It names this rate and no other."""
    return repr(rate)

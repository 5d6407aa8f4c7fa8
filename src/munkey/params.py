"""The typed, strict form of `params.yaml`: what is not here is refused before any job starts.

Nothing has a default in this file: every value stands in `params.yaml` or in an overlay given with `--configfile`.
"""

import difflib
import itertools
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from munkey.data import DATASETS
from munkey.encoders import ENCODERS, find
from munkey.unlearn import METHODS

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Betas = Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)]
Range = Annotated[list[Positive], Field(min_length=2, max_length=2)]
CountRange = Annotated[list[Count], Field(min_length=2, max_length=2)]


class ParamsError(ValueError):
    """The parameters are not valid; the message names each key, its value and what is allowed."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class DataParams(Section):
    image_size: Count
    pixel_mean: float
    pixel_std: Positive


class SourceParams(Section):
    path: Annotated[str, Field(min_length=1)] | None
    storage_size: Count | None
    split: Annotated[list[Rate], Field(min_length=3, max_length=3)]
    limit_per_class: Count | None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if abs(sum(self.split) - 1) > 1e-9:
            raise ValueError(f"split = {self.split} must sum to 1: shares of train, val, test")
        return self


class KeyParams(Section):
    encoder: str
    revision: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None
    image_size: Count | None
    batch_size: Count
    depth: Count

    @model_validator(mode="after")
    def _known(self) -> Self:
        if not self.encoder.startswith("timm:"):
            if "/" not in self.encoder:
                _require_known("encoder", "encoder", self.encoder, ENCODERS)
            elif not Path(self.encoder).is_dir():
                raise ValueError(f"encoder = {self.encoder!r}: there is no such folder")
        entry = find(self.encoder)
        if (entry.size == "free") != (self.image_size is not None):
            allowed = "a number of pixels" if entry.size == "free" else "null: its own preprocessing fixes the size"
            raise ValueError(f"image_size = {self.image_size}: with encoder {self.encoder} it must be {allowed}")
        if (entry.revision is None) != (self.revision is None):
            allowed = f"a commit of its hub repository, e.g. {entry.revision}" if entry.revision else "null"
            raise ValueError(f"revision = {self.revision}: with encoder {self.encoder} it must be {allowed}")
        return self


class ModelParams(Section):
    patch_size: Count
    width: Count
    depth: Count
    heads: Count
    mlp_ratio: Positive

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width = {self.width} must be a multiple of heads = {self.heads}")
        return self


class TrainParams(Section):
    epochs: Count
    batch_size: Count
    lr: Positive
    warmup_epochs: NonNegative
    betas: Betas
    weight_decay: NonNegative
    crop_scale: Range
    crop_ratio: Range
    precision: Literal["auto", "float32", "bfloat16", "float16"]
    compile: bool

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.crop_scale[0] <= self.crop_scale[1] <= 1:
            raise ValueError(f"crop_scale = {self.crop_scale} must be [low, high] with 0 < low <= high <= 1")
        if self.crop_ratio[0] > self.crop_ratio[1]:
            raise ValueError(f"crop_ratio = {self.crop_ratio} must be [low, high] with low <= high")
        if self.warmup_epochs >= self.epochs:
            raise ValueError(f"warmup_epochs = {self.warmup_epochs} must be below epochs = {self.epochs}")
        return self


class MunkeyParams(Section):
    architecture: Literal["input-level", "deep-prompt", "cross-attention", "direct-key"]
    token_dim: Count
    token_std: Positive
    p_drop: Literal["fixed", "selected"]
    p_image: Probability
    p_token: Probability
    p_retrieve: Probability
    neighbors: CountRange
    temperature: Positive

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.p_image + self.p_token > 1:
            raise ValueError(
                f"p_image + p_token = {self.p_image} + {self.p_token} must be at most 1:"
                " image and token are never dropped together"
            )
        if self.neighbors[0] > self.neighbors[1]:
            raise ValueError(f"neighbors = {self.neighbors} must be [low, high] with low <= high")
        return self


class ForgetParams(Section):
    rates: Annotated[list[Rate], Field(min_length=1)]
    sampling: Literal["stratified", "uniform"]

    @model_validator(mode="after")
    def _unique(self) -> Self:
        _require_unique("rates", self.rates)
        return self


class InferenceParams(Section):
    k: Count
    fusion: Literal["ensemble", "softmax", "rank"]
    temperature: Positive


class FinetuneParams(Section):
    epochs: Count
    batch_size: Count
    betas: Betas
    weight_decay: NonNegative


class SelectionParams(Section):
    p_image: Annotated[list[Probability], Field(min_length=1)]
    p_token: Annotated[list[Probability], Field(min_length=1)]
    threshold: Positive
    comparable: NonNegative


class TrackingParams(Section):
    uri: Annotated[str, Field(min_length=1)]


class DatasetParams(Section):
    """The sections that may differ between data sets, as they hold for one of them."""

    source: SourceParams
    data: DataParams
    keys: KeyParams
    model: ModelParams
    train: TrainParams
    munkey: MunkeyParams
    forget: ForgetParams
    inference: InferenceParams
    finetune: FinetuneParams
    unlearn: dict[str, dict[str, Any]]

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.data.image_size % self.model.patch_size:
            raise ValueError(
                f"data.image_size = {self.data.image_size} must be a multiple of"
                f" model.patch_size = {self.model.patch_size}"
            )
        for name in self.unlearn:
            _require_known("unlearn", "method", name, METHODS)
        for key, value in {"inference.k": self.inference.k, "munkey.neighbors": self.munkey.neighbors[1]}.items():
            if value > self.keys.depth:
                raise ValueError(f"{key} = {value} must be at most keys.depth = {self.keys.depth}")
        return self


class Params(DatasetParams):
    """The whole of `params.yaml`."""

    device: Literal["auto", "cpu", "cuda"]
    threads: Count
    checkpoint_s: NonNegative
    resident_share: Probability
    datasets: Annotated[list[str], Field(min_length=1)]
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    methods: Annotated[list[str], Field(min_length=1)]
    search: bool
    search_grid: dict[str, Annotated[list[Positive], Field(min_length=1)]]
    search_drop: NonNegative | None
    selection: SelectionParams
    ablations: dict[str, Annotated[list[Any], Field(min_length=1)]]
    tracking: TrackingParams
    overrides: dict[str, dict[str, Any]]

    @model_validator(mode="after")
    def _names(self) -> Self:
        for key in ("datasets", "seeds", "methods"):
            _require_unique(key, getattr(self, key))
        for knob, values in self.ablations.items():
            _require_unique(f"ablations.{knob}", [_name(value) for value in values])
        for key, names in {"datasets": self.datasets, "overrides": self.overrides}.items():
            for name in names:
                _require_known(key, "data set", name, DATASETS)
        for key in self.search_grid:
            known = {"lr_factor"} | {f"{name}.{field}" for name, own in self.unlearn.items() for field in own}
            _require_known("search_grid", "key", key, known)
        for name in self.methods:
            _require_known("methods", "method", name, METHODS)
            if name not in self.unlearn:
                raise ValueError(f"method {name!r} is listed but has no section unlearn.{name}")
        return self

    def candidates(self, dataset: str, method: str) -> list[dict[str, Any]]:
        """The settings that the search tries for a method: its committed ones alone where there is no grid for them."""
        own = self.of(dataset).unlearn[method]
        keys = [key for key in own if f"{method}.{key}" in self.search_grid or key in self.search_grid]
        values = [self.search_grid.get(f"{method}.{key}") or self.search_grid[key] for key in keys]
        return [own | dict(zip(keys, chosen, strict=True)) for chosen in itertools.product(*values)]

    def of(self, case: str) -> DatasetParams:
        """The parameters as they hold for a data set, its overrides applied, or for one of its cases."""
        dataset, _, change = case.partition("/")
        sections = {name: getattr(self, name) for name in DatasetParams.model_fields}
        plain = {k: v.model_dump() if isinstance(v, BaseModel) else v for k, v in sections.items()}
        changed = _merge(plain, self.overrides.get(dataset, {}))
        return DatasetParams.model_validate(_merge(changed, self.changes[change]) if change else changed)

    @cached_property
    def changes(self) -> dict[str, dict[str, Any]]:
        """What an ablation or the selection changes, by its place below a data set: KNOB/VALUE."""
        found: dict[str, dict[str, Any]] = {}
        for knob, values in self.ablations.items():
            found |= {f"{knob}/{_name(value)}": _nested(knob, value) for value in values}
        return found | {f"p_drop/{_name(pair)}": {"munkey": {"p_drop": "fixed"} | pair} for pair in self.grid}

    @property
    def grid(self) -> list[dict[str, float]]:
        """The pairs that the selection compares, and the corner (0, 0) that it shows for reference."""
        pairs = [(0.0, 0.0), *itertools.product(self.selection.p_image, self.selection.p_token)]
        return [{"p_image": image, "p_token": token} for image, token in dict.fromkeys(pairs)]


def load(config: Mapping[str, Any]) -> Params:
    """Check a configuration as read from YAML.

    Raises ParamsError that lists every fault at once: key, value, what is allowed.
    """
    faults: list[str] = []
    params = _validated(Params, dict(config), "", faults)
    if params is not None:
        for dataset in dict.fromkeys([*params.datasets, *params.overrides]):
            for section, value in params.overrides.get(dataset, {}).items():
                if section not in DatasetParams.model_fields:
                    where = f"overrides.{dataset}.{section}"
                    faults.append(_unknown(where, value, section, DatasetParams.model_fields))
        merged = {name: config[name] for name in DatasetParams.model_fields}
        for dataset in dict.fromkeys([*params.datasets, *params.overrides]) if not faults else ():
            override = params.overrides.get(dataset, {})
            prefix = f"overrides.{dataset}." if override else ""
            resolved = _validated(DatasetParams, _merge(merged, override), prefix, faults)
            if resolved and dataset in params.datasets:
                faults.extend(_source_faults(dataset, resolved.source.path, prefix))
            for method, settings in (resolved.unlearn if resolved else {}).items():
                _validated(METHODS[method].settings, settings, f"{prefix}unlearn.{method}.", faults)
            faults.extend(_ablation_faults(params, merged, override) if resolved and not faults else ())
            for method in params.methods if resolved and not faults else ():
                for settings in params.candidates(dataset, method):
                    _validated(METHODS[method].settings, settings, f"search_grid: {method}: ", faults)
    if faults:
        unique = dict.fromkeys(faults)
        raise ParamsError("the parameters are not valid:\n" + "\n".join(f"  - {fault}" for fault in unique))
    assert params is not None
    return params


ABLATED = ("data", "keys", "model", "train", "munkey", "inference")


def _ablation_faults(params: Params, merged: Mapping[str, Any], override: Mapping[str, Any]) -> list[str]:
    """What is wrong with the values of the ablations, each checked as if it stood in its section."""
    faults: list[str] = []
    for knob in params.ablations:
        if knob.split(".", maxsplit=1)[0] not in ABLATED or knob in ("keys.depth", "munkey.p_drop"):
            faults.append(f"ablations.{knob}: not a knob of MUNKEY; ablations may change {', '.join(ABLATED)}")
    for place, change in params.changes.items() if not faults else ():
        _validated(DatasetParams, _merge(_merge(merged, override), change), f"ablations: {place}: ", faults)
    return faults


def _source_faults(dataset: str, path: str | None, prefix: str) -> list[str]:
    needed = DATASETS[dataset].needs_path
    if needed and path is None:
        return [f"{prefix}source.path = None: the data set {dataset} reads your own files, name their folder or file"]
    if needed and not Path(str(path)).exists():
        return [f"{prefix}source.path = {path!r}: there is no such folder or file"]
    return []


def _nested(knob: str, value: Any) -> dict[str, Any]:
    """inference.k, 8 -> {"inference": {"k": 8}}."""
    for name in reversed(knob.split(".")):
        value = {name: value}
    return value


def _name(value: Any) -> str:
    """A value as it stands in paths: 8, or 0.1_0.3 for {p_image: 0.1, p_token: 0.3}, without a mapping's nulls."""
    parts = [part for part in value.values() if part is not None] if isinstance(value, Mapping) else [value]
    return "_".join(re.sub(r"[^\w.-]+", "-", str(part)) for part in parts)


def rate_name(rate: float) -> str:
    """The rate as it stands in paths: 0.1 for 0.10. It names this rate and no other."""
    return repr(rate)


def _merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in override.items():
        both_maps = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both_maps else value
    return merged


def _validated(model: type[BaseModel], values: Mapping[str, Any], prefix: str, faults: list[str]) -> Any:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults.extend(_explain(model, dict(fault), prefix) for fault in error.errors())
        return None


def _explain(model: type[BaseModel], fault: dict[str, Any], prefix: str) -> str:
    """One pydantic error in words: key, value, what is allowed."""
    where = prefix + ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return _unknown(where, fault["input"], str(fault["loc"][-1]), _fields_at(model, fault["loc"][:-1]))
    if fault["type"] == "missing":
        return f"{where}: missing; params.yaml of the project shows it with its unit and reason"
    message = fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
    if fault["type"] == "value_error":
        return f"{where}: {message}" if fault["loc"] else f"{prefix}{message}"
    hint = ""
    if isinstance(fault["input"], str) and "number" in message:
        hint = " (YAML reads 1e-3 as text: write 1.0e-3)"
    return f"{where} = {fault['input']!r}: {message}{hint}"


def _fields_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    for part in loc:
        field = model.model_fields.get(part)
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


def _unknown(where: str, value: Any, name: str, allowed: Any) -> str:
    names = list(allowed)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"{where} = {value!r}: unknown key{hint} Allowed here: {', '.join(names) or 'nothing'}"


def _require_known(key: str, kind: str, name: str, registry: Any) -> None:
    if name not in registry:
        raise ValueError(f"{key}: unknown {kind} {name!r}; there are: {', '.join(registry)}")


def _require_unique(key: str, values: list[Any]) -> None:
    if len(set(values)) != len(values):
        raise ValueError(f"{key} = {values}: each may be listed once")

"""The schema of `params.yaml`. Unknown keys and invalid values are rejected before any job starts.

No setting has a default: its value is in `params.yaml` or in an overlay given with `--configfile`.
Families with settings add a section with their name; unlearning methods have theirs in `unlearn`, and
studies where their `study.py` says.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import product
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    create_model,
    model_validator,
    with_config,
)
from typing_extensions import TypedDict

from munkey.core.registry import did_you_mean
from munkey.data.registry import DatasetEntry, find_reader
from munkey.data.sizes import get_class_limit
from munkey.experiment.params.external import check_encoder, check_pretrained, check_uri
from munkey.experiment.params.messages import ParamsError, require_registered, require_unique
from munkey.experiment.params.overlays import (
    list_values_to_try,
    merge,
)
from munkey.experiment.params.studies import (
    Case,
    collect_dataset_sections,
    collect_sections,
    load_studies,
)
from munkey.models.family import FAMILIES, Family, FittedFamily, Settings
from munkey.settings import (
    DataSettings,
    FinetuneSettings,
    ForgetSettings,
    InferenceSettings,
    KeySettings,
    ModelSettings,
    NonNegative,
    Probability,
    Section,
    SmallCount,
    SourceSettings,
    TrackingSettings,
    TrainSettings,
)
from munkey.unlearn.contract import METHODS, Method

SectionT = TypeVar("SectionT", bound=BaseModel)


class DatasetParams(Section):
    """The sections for one data set, which may differ between data sets."""

    source: SourceSettings
    data: DataSettings
    keys: KeySettings
    model: ModelSettings
    train: TrainSettings
    forget: ForgetSettings
    inference: InferenceSettings
    finetune: FinetuneSettings
    unlearn: dict[str, Section]

    def get_family_section(self, family: Family[Settings]) -> Settings:
        """Return the section of a family; None if there is no such section."""
        section = None
        if family.settings:
            section = getattr(self, family.name)
        return cast("Settings", section)  # its field has the type `family.settings`

    def section(self, settings: type[SectionT]) -> SectionT:
        """Return the section of a study, by its type."""
        places = {kind: place for place, kind in collect_sections().items()}
        return cast("SectionT", attrgetter(places[settings])(self))

    @property
    def least_samples(self) -> int:
        """The minimum number of training samples.

        With fewer, the smallest rate would forget none, or too few neighbors would remain.
        """
        rates = self.forget.rates
        for_neighbors = math.ceil(self.keys.depth / (1 - max(rates)))
        for_smallest_rate = math.floor(0.5 / min(rates)) + 1  # so that round(rate * N) >= 1
        return max(for_neighbors, for_smallest_rate)

    @property
    def most_samples(self) -> dict[str, int]:
        """The largest numbers of training samples that heads can be fitted to, by what to say."""
        limits = {}
        for family in FAMILIES.values():
            section = self.get_family_section(family)
            if not section:
                continue
            for name in family.list_borrowed_sections(section):
                head = FAMILIES[name]
                if isinstance(head, FittedFamily) and head.max_rows is not None:
                    reason = (
                        f"{family.name}.head: {name} takes at most {head.max_rows:,}: set it to lda"
                    )
                    limits[reason] = head.max_rows
        return limits

    @model_validator(mode="after")
    def _check_across_sections(self) -> Self:
        """Raise ValueError for values that contradict those of other sections."""
        check_encoder(self.keys)
        if self.data.image_size % self.model.patch_size:
            raise ValueError(
                f"data.image_size = {self.data.image_size} must be a multiple of"
                f" model.patch_size = {self.model.patch_size}"
            )
        self._check_class_limit()
        depth = self.keys.depth
        if self.inference.k > depth:
            raise ValueError(
                f"inference.k = {self.inference.k} must be at most keys.depth = {depth}"
            )
        for family in FAMILIES.values():
            section = self.get_family_section(family)
            if not section:
                continue
            for key, value in family.count_neighbors(section).items():
                if value >= depth:  # the sample itself is one of the `depth` nearest
                    raise ValueError(f"{key} = {value} must be less than keys.depth = {depth}")
            for name in family.list_borrowed_sections(section):
                head = FAMILIES[name]
                if isinstance(head, FittedFamily):
                    head.require_fixed_shrinkage(self.get_family_section(head))
        return self

    def _check_class_limit(self) -> None:
        """Raise ValueError if forgetting could empty a class because of `source.limit_per_class`."""
        limit = get_class_limit(self.source, "train")
        if limit is None:
            return
        rate = max(self.forget.rates)
        # A stratified draw forgets this many samples of each class; a uniform one may forget any.
        forgotten_counts = {"stratified": math.ceil(rate * limit), "uniform": 1}
        if forgotten_counts.get(self.forget.sampling, 0) >= limit:
            raise ValueError(
                f"source.limit_per_class = {limit}: forgetting {rate} of the training samples would"
                " leave a class empty; raise it"
            )


class Params(DatasetParams):
    """The whole of `params.yaml`."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")]
    device: Literal["auto", "cpu", "cuda"]
    threads: SmallCount
    network: str
    checkpoint_s: NonNegative
    resident_share: Probability
    datasets: Annotated[list[str], Field(min_length=1, max_length=100)]
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1, max_length=1000)
    ]
    methods: Annotated[list[str], Field(min_length=1)]
    search: bool
    search_grid: dict[str, Annotated[list[object], Field(min_length=1)]]
    search_drop: NonNegative | None
    tried: dict[str, Annotated[str, Field(min_length=1, max_length=100)]]
    tracking: TrackingSettings
    overrides: dict[str, dict[str, object]]
    _resolved: dict[str, DatasetParams] = PrivateAttr(default_factory=dict)
    _cases_by_dataset: dict[str, dict[str, Case]] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Raise ValueError for names that are unknown, repeated or not allowed here."""
        check_uri(self.tracking.uri)
        if self.forget.names:
            raise ValueError(
                f"forget.names = {self.forget.names}: names can only be set in a case of `scenarios`"
            )
        if self.forget.file and self.forget.sampling != "listed":
            raise ValueError(
                f"forget.file = {self.forget.file!r}: it is only used with forget.sampling = listed"
            )
        networks = [family.name for family in FAMILIES.values() if family.is_network]
        if self.network not in networks:
            raise ValueError(f"network = {self.network!r}: must be one of {', '.join(networks)}")
        if self.network == "pretrained":
            check_pretrained(self.get_family_section(FAMILIES[self.network]).model)
        for key in ("datasets", "seeds", "methods"):
            require_unique(key, getattr(self, key))
        self._check_search_grid()
        self._check_methods()
        self._check_family_sections()
        return self

    def _check_methods(self) -> None:
        """Raise ValueError if a method is unknown, does not fit `network`, or has no section."""
        for name in self.methods:
            method = require_registered("methods", name, METHODS)
            require_registered(f"the method {name}", method.family, FAMILIES)
            if not method.for_network(self.network).is_defined:
                defined = " | ".join(sorted(method.networks or ()))
                raise ValueError(
                    f"methods: {name} is not defined for network = {self.network}, only for {defined}"
                )
            if name not in self.unlearn:
                raise ValueError(f"method {name!r} is listed but has no section unlearn.{name}")
        for name in self.tried:
            require_registered("tried", name, METHODS)

    def _check_family_sections(self) -> None:
        """Raise ValueError if a family that is used has no section."""
        used_families = {self.network}
        for name in self.methods:
            used_families.add(self.method(name).family)
        for family in FAMILIES.values():
            is_used = family.in_every_run or family.name in used_families
            if is_used and family.settings and not self.get_family_section(family):
                raise ValueError(
                    f"the family {family.name!r} is used but has no section {family.name}"
                )

    def _check_search_grid(self) -> None:
        """Raise ValueError for a key of the search grid that no method has."""
        known_keys: set[str] = set()
        for method in METHODS.values():
            known_keys.update(f"{method.name}.{key}" for key in method.settings.model_fields)
        unknown_keys = sorted(self.search_grid.keys() - known_keys - {"lr_factor"})
        if unknown_keys:
            hint = did_you_mean(unknown_keys[0], known_keys)
            listed = ", ".join(sorted(known_keys))
            raise ValueError(
                f"search_grid: unknown key {unknown_keys[0]!r}{hint} Allowed: lr_factor, {listed}"
            )

    def method(self, name: str) -> Method:
        """Return a registered method. Post-hoc methods start from `network`."""
        return METHODS[name].for_network(self.network)

    def list_most_samples(self, dataset: str) -> dict[str, int]:
        """Return the largest numbers of training samples of heads and methods, by what to say."""
        limits = self.for_case(dataset).most_samples
        for name in self.methods:
            family = self.method(name).original
            if isinstance(family, FittedFamily) and family.max_rows is not None:
                reason = f"{name} takes at most {family.max_rows:,}: remove it from `methods`"
                limits[reason] = family.max_rows
        return limits

    def reader(self, dataset: str) -> DatasetEntry:
        """Return the reader of a data set."""
        return find_reader(dataset, self.for_case(dataset).source)

    def candidate_count(self, dataset: str, method: str) -> int:
        """Count the candidates that the search tries for a method, without creating them."""
        settings = dict(self.for_case(dataset).unlearn[method])
        values_by_key = list_values_to_try(settings, self.search_grid, method)
        return math.prod(len(values) for values in values_by_key.values())

    def is_searched(self, dataset: str, method: str) -> bool:
        """Return whether the settings of a method are searched, if only among one candidate."""
        settings = dict(self.for_case(dataset).unlearn[method])
        return self.search and bool(list_values_to_try(settings, self.search_grid, method))

    def candidate_values(self, dataset: str, method: str) -> list[dict[str, object]]:
        """List the settings of each candidate in the hyperparameter search of a method.

        Keys that are not in the grid keep the values of the method's section.
        """
        settings = dict(self.for_case(dataset).unlearn[method])
        values_by_key = list_values_to_try(settings, self.search_grid, method)
        candidates = []
        for combination in product(*values_by_key.values()):
            candidates.append(settings | dict(zip(values_by_key, combination, strict=True)))
        return candidates

    def candidates(self, dataset: str, method: str) -> list[Section]:
        """List the candidates that the search tries for a method, as validated settings."""
        settings_class = METHODS[method].settings
        candidates = self.candidate_values(dataset, method)
        return [settings_class.model_validate(values) for values in candidates]

    def for_case(self, case: str) -> DatasetParams:
        """Return the parameters of a data set, with its overrides, or of one of its cases.

        Raises
        ------
        ValidationError
            If values contradict each other.
        KeyError
            If the data set has no such case.
        """
        if case not in self._resolved:
            dataset, _, name = case.partition("/")
            base: DatasetParams = self
            override: Mapping[str, object] = self.overrides.get(dataset, {})
            if name:
                base = self.for_case(dataset)
                override = self.find_case(case).changes
            schema = get_settings_schemas().dataset
            sections = {name: getattr(base, name) for name in schema.model_fields}
            # Only overridden sections are dumped and checked again.
            sections |= merge(base.model_dump(include=set(override)), override)
            self._resolved[case] = schema.model_validate(sections)
        return self._resolved[case]

    def list_cases(self, dataset: str) -> dict[str, Case]:
        """Return the cases that studies add to a data set, by name: FOLDER/NAME."""
        if dataset not in self._cases_by_dataset:
            cases: dict[str, Case] = {}
            for study in load_studies().values():
                cases |= study.list_cases(self, dataset)
            self._cases_by_dataset[dataset] = cases
        return self._cases_by_dataset[dataset]

    def find_case(self, case: str) -> Case:
        """Return a case, or that of a data set, in which nothing differs.

        Raises KeyError if the data set has no such case.
        """
        dataset, _, name = case.partition("/")
        if not name:
            return Case()
        return self.list_cases(dataset)[name]


def memory_family() -> Family:
    """Return the family with pathways, which the ablations and the selection change.

    Raises ParamsError if there is none.
    """
    families = [family for family in FAMILIES.values() if family.has_pathways]
    if not families:
        raise ParamsError(
            "no family of models can be ablated; cannot be imported:"
            f" {'; '.join(FAMILIES.refusals.values())}"
        )
    return families[0]


class SettingsSchemas(NamedTuple):
    """Pydantic models that check the settings of one data set, and all settings."""

    dataset: type[DatasetParams]
    whole: type[Params]


class FamilySection(NamedTuple):
    """The section of a family: its name, the type of its settings, and whether it can be absent."""

    name: str
    settings: type[Section]
    is_optional: bool


def get_settings_schemas() -> SettingsSchemas:
    """Return the schemas that check settings, with the sections of all families and methods.

    The sections of methods and of families from plug-ins are optional, since they may be unused;
    `Params` requires those that are used. Those that fail to import are not checked.
    """
    family_sections = []
    for family in FAMILIES.values():
        if family.settings:
            is_from_plugin = family.name in FAMILIES.origins
            section = FamilySection(family.name, family.settings, is_optional=is_from_plugin)
            family_sections.append(section)
    methods = [(method.name, method.settings) for method in METHODS.values()]
    return _make_settings_schemas(
        tuple(family_sections), tuple(methods), tuple(FAMILIES.refusals), tuple(METHODS.refusals)
    )


@cache
def _make_settings_schemas(
    family_sections: Iterable[FamilySection],
    methods: Iterable[tuple[str, type[Section]]],
    refused_families: Iterable[str],
    refused_methods: Iterable[str],
) -> SettingsSchemas:
    """Create the schemas that check settings. Equal arguments return the same schemas.

    refused_families, refused_methods: the names of those that fail to import.
    """
    # Pydantic's fields: a type and a default value, or ... if there is none.
    sections: dict[str, object] = dict.fromkeys(refused_families, (object, None))
    for section in family_sections:
        if section.is_optional:
            sections[section.name] = (section.settings | None, None)
        else:
            sections[section.name] = (section.settings, ...)
    types = dict.fromkeys(refused_methods, object) | dict(methods)
    forbid_others = with_config(ConfigDict(extra="forbid"))
    # With total=False, the section of each method is optional.
    unlearn = forbid_others(TypedDict("unlearn", types, total=False))  # type: ignore[operator]
    sections["unlearn"] = (unlearn, ...)
    dataset_fields = sections | {
        name: (settings, ...) for name, settings in collect_dataset_sections().items()
    }
    return SettingsSchemas(
        create_model("DatasetParams", __base__=DatasetParams, **dataset_fields),  # type: ignore[call-overload]
        create_model("Params", __base__=Params, **sections, **_make_study_fields()),  # type: ignore[call-overload]
    )


def _make_study_fields() -> dict[str, object]:
    """Return pydantic's fields for the sections of all studies.

    A section that has sections of other studies within it gets these as additional fields.
    """
    whole: dict[str, type[BaseModel]] = {}
    nested: dict[str, dict[str, object]] = {}
    for place, settings in collect_sections().items():
        section, _, name = place.partition(".")
        if name:
            nested.setdefault(section, {})[name] = (settings, ...)
        else:
            whole[section] = settings
    for section, inner_fields in nested.items():
        outer = whole.get(section, Section)
        whole[section] = create_model(outer.__name__, __base__=outer, **inner_fields)  # type: ignore[call-overload]
    return {section: (settings, ...) for section, settings in whole.items()}


def rate_name(rate: float) -> str:
    """Return the rate as it is written in paths, e.g. 0.1 for 0.10. Names of rates are unique."""
    return repr(rate)

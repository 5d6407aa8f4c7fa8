"""The cases of the experiment, with the families and the parameters of each.

A case is DATASET, or DATASET/FOLDER/NAME for the same experiment with changes that a study makes,
e.g. digits/inference.k/8.
"""

from functools import cache, cached_property

from munkey.core.paths import Layout, fill
from munkey.encoders.parts import (
    find_part_entries,
    fingerprint_weights,
    name_cache_folder,
    split_parts,
)
from munkey.encoders.registry import Builder
from munkey.experiment.params.load import Params, memory_family, rate_name
from munkey.models.family import FAMILIES, Family
from munkey.settings import (
    EncoderSettings,
    ForgetSettings,
    FurtherPath,
    FurtherPaths,
    NetworkName,
    Section,
    Sections,
    WeightsOrigin,
)

AS_NAMED = 0.0  # stands for the rate of a forget set of named classes or units, whatever its size


def forget_rates(forget: ForgetSettings) -> list[float]:
    """Return the rates at which forget sets are drawn; only AS_NAMED if names determine the set."""
    if forget.names and forget.sampling != "known":
        return [AS_NAMED]
    return forget.rates


def get_dataset(case: str) -> str:
    """Return the data set that a case belongs to."""
    return case.partition("/")[0]


class Cases:
    """The cases by data set, the families, and the sections of parameters that jobs depend on."""

    def __init__(self, params: Params) -> None:
        self.params = params
        self.layout = Layout(params.name)
        self.rates: dict[str, list[str]] = {}
        self.cases: dict[str, list[str]] = {}
        for dataset in params.datasets:
            rates = forget_rates(params.for_case(dataset).forget)
            self.rates[dataset] = [rate_name(rate) for rate in rates]
            self.cases[dataset] = [dataset]
            for name, case in params.list_cases(dataset).items():
                if not case.forget:  # otherwise, none of its results is that of another case
                    self.cases[dataset].append(f"{dataset}/{name}")
        # Snakemake requests the same sections many times, so results are cached.
        self.sections = cache(self._select_sections)
        self.first_alike = cache(self._find_first_alike)

    @cached_property
    def families(self) -> list[Family]:
        """The families that are trained, in every run or for the methods that need them."""
        used = {self.params.network}
        for name in self.params.methods:
            used.add(self.params.method(name).family)
        families = []
        for family in FAMILIES.values():
            if family.in_every_run or family.name in used:
                families.append(family)
        return sorted(families, key=lambda family: family.place)

    @cached_property
    def originals(self) -> dict[str, Family]:
        """Families by the names of their originals."""
        return {family.original: family for family in self.families}

    @cached_property
    def oracles(self) -> dict[str, Family]:
        """Families by the names of their oracles."""
        return {family.oracle: family for family in self.families}

    @cached_property
    def searched(self) -> list[str]:
        """The methods whose settings are searched. The others use the settings in their section."""
        params = self.params
        dataset = params.datasets[0]
        return [name for name in params.methods if params.is_searched(dataset, name)]

    def find_family(self, system: str) -> Family:
        """Return the family of an original, an oracle or an unlearned system."""
        if system in self.originals:
            return self.originals[system]
        if system in self.oracles:
            return self.oracles[system]
        return self.params.method(system).original

    def find_family_by_letter(self, letter: str) -> Family:
        return next(family for family in self.families if family.letter == letter)

    def _select_sections(self, case: str, *names: str) -> Sections:
        """Return the named sections of a case, and those that the named families borrow."""
        params = self.params.for_case(case)
        section_names = set(names)
        for family in FAMILIES.values():
            if family.name in names:
                section_names.update(
                    family.list_borrowed_sections(params.get_family_section(family))
                )
        sections = {}
        for name in type(params).model_fields:
            if name in section_names:
                sections[name] = getattr(params, name)
        return sections

    def _find_first_alike(self, case: str, *names: str) -> str:
        """Return the first case of the data set in which the named sections are the same.

        All such cases share its results. A case in pairs shares none and is returned itself.
        """
        if self.params.find_case(case).in_pairs:
            return case
        sections = self.sections(case, *names)
        cases = self.cases[get_dataset(case)]
        return next(other for other in cases if self.sections(other, *names) == sections)

    @cached_property
    def training_sections(self) -> list[str]:
        """The sections that the training of an ablated model depends on.

        Cases with equal sections share a model.
        """
        return ["source", "keys", *memory_family().sections]

    def train_settings(self, case: str, letter: str) -> Sections:
        """Return the sections that a family's training depends on.

        If training starts from existing weights, `weights` is their fingerprint.

        Parameters
        ----------
        letter
            The letter of the family in the paths of its systems.
        """
        family = self.find_family_by_letter(letter)
        weights = self.backbone_weights(case, family)
        sections = dict(self.sections(case, *family.sections))
        if weights:
            sections["weights"] = WeightsOrigin(of=weights)
        return sections

    def backbone_weights(self, case: str, family: Family) -> str | None:
        """Return a fingerprint of the weights that training starts from; None for random ones."""
        return family.identify_weights(self.params.for_case(case).get_family_section(family))

    def unlearn_settings(self, case: str, name: str, candidate: int | None = None) -> Sections:
        """Return the sections that unlearning depends on.

        Those of the original's training and of fine-tuning, `network` if the original is a network, and
        `method`: the method's section, or that of a `candidate` of its search.
        """
        method = self.params.method(name)
        names = list(method.original.sections)
        if method.finetunes:
            names.append("finetune")
        sections = dict(self.sections(case, *names))
        if method.original.is_network:
            sections["network"] = NetworkName(name=method.family)
        if candidate is None:
            sections["method"] = self.params.for_case(case).unlearn[name]
        else:
            sections["method"] = self.params.candidates(case, name)[candidate]
        return sections

    def list_tried_values(self, dataset: str) -> dict[str, dict[str, list[object]]]:
        """List the values that are tried for each setting of each method."""
        values_by_method: dict[str, dict[str, list[object]]] = {}
        for name in self.params.methods:
            candidates = [self.params.for_case(dataset).unlearn[name]]
            if name in self.searched:
                candidates = self.params.candidates(dataset, name)
            values_by_key: dict[str, list[object]] = {}
            for candidate in candidates:
                for key, value in candidate:
                    values = values_by_key.setdefault(key, [])
                    if value not in values:
                        values.append(value)
            values_by_method[name] = values_by_key
        return values_by_method

    def evaluate_settings(self, case: str, system: str) -> Sections:
        """Return the sections that a system's predictions depend on.

        `inference` is empty if the family does not use it. The further queries of a case are only
        there for a family with pathways.
        """
        params = self.params.for_case(case)
        family = self.find_family(system)
        sections: dict[str, Section] = {"data": params.data, "inference": Section()}
        if family.reads_inference:
            sections["inference"] = params.inference
        if family.has_pathways:
            sections |= self.params.find_case(case).queries
        paths = self.list_further_paths(case, family)
        if paths:
            sections["paths"] = FurtherPaths(names=paths)
        return sections

    def list_further_paths(self, case: str, family: Family) -> list[FurtherPath]:
        """List the paths of a case, beside those of the family, on which the family is queried."""
        is_useful: dict[FurtherPath, bool] = {
            "perturbed": not family.exact,  # an exact deletion gives the oracle, whatever the query
            "probe": family.has_features,
        }
        return [path for path in self.params.find_case(case).paths if is_useful[path]]

    def export_settings(self, case: str) -> Sections:
        """Return the sections that the training and the queries of an exported model depend on."""
        return self.sections(case, *self.training_sections, "inference")

    def encoder_settings(self, dataset: str, encoder: str) -> EncoderSettings:
        """Return the settings of the encoder, or the joined encoders, of a folder of keys.

        Raises KeyError if no case uses this encoder.

        Parameters
        ----------
        encoder
            The name of the folder.
        """
        for case in self.cases[dataset]:
            settings = self._get_encoder(case)
            for candidate in (settings, *split_parts(settings)):
                if name_cache_folder(candidate) == encoder:
                    return candidate
        raise KeyError(f"no case of {dataset} has keys of {encoder}")

    def _get_encoder(self, case: str) -> EncoderSettings:
        """Return a case's encoder settings: `keys` without `depth`, which only neighbors use."""
        keys = self.params.for_case(case).keys
        return EncoderSettings(**keys.model_dump(exclude={"depth"}))

    def key_parts(self, dataset: str, encoder: str) -> list[str]:
        """Return the key files of joined encoders; empty if there is only one encoder."""
        parts = split_parts(self.encoder_settings(dataset, encoder))
        if len(parts) == 1:
            return []
        pattern = fill(self.layout.keys, dataset=dataset)
        return [fill(pattern, encoder=name_cache_folder(part)) for part in parts]

    def encoder_builders(self, dataset: str, encoder: str) -> list[Builder]:
        """Return the functions that build the encoders of a folder of keys."""
        return [entry.build for entry in find_part_entries(self.encoder_settings(dataset, encoder))]

    def encoder_weights(self, dataset: str, encoder: str) -> str | None:
        """Return a fingerprint of the weights of a folder's encoders."""
        return fingerprint_weights(self.encoder_settings(dataset, encoder))

    def family_code(self, case: str, family: Family) -> list[object]:
        """Return the code that training and predictions find through registries.

        This is the family, and the families of its added heads.
        """
        section = self.params.for_case(case).get_family_section(family)
        if section is None:
            return [family]
        return [family, *(FAMILIES[name] for name in family.list_borrowed_sections(section))]

    def system_code(self, case: str, system: str) -> list[object]:
        """Return the code of an original, an oracle, or an unlearning method."""
        if system in self.params.methods:
            return self.method_code(case, system)
        return self.family_code(case, self.find_family(system))

    def method_code(self, case: str, name: str) -> list[object]:
        """Return the code that unlearning finds through registries: the method and its family."""
        method = self.params.method(name)
        return [method.run, method.settings, *self.family_code(case, method.original)]

    def get_encoder_name(self, case: str) -> str:
        """Return the name of the folder with a case's keys and neighbors.

        It contains the encoder, its revision, the image size, and whether images are mirrored.
        """
        return name_cache_folder(self.params.for_case(case).keys)

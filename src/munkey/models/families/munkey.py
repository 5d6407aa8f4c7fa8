"""MUNKEY (sec. 3.2): a ViT that reads an image and the tokens of its nearest neighbors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast

import numpy as np
from pydantic import model_validator

from munkey.core.device import to_device, to_host
from munkey.core.ids import NO_NEIGHBOR
from munkey.core.randomness import Stage
from munkey.models.families.vit import ViTFamily
from munkey.models.family import (
    FAMILIES,
    FittedArchitecture,
    FittedFamily,
    Learner,
    MemberKeys,
    Recipe,
    Retrieval,
    System,
    Training,
    TrainingResult,
    family,
    read_added_head,
)
from munkey.settings import (
    CountRange,
    DataSettings,
    Fusion,
    InferenceSettings,
    Positive,
    Probability,
    Section,
    Width,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.data.image_set import ImageSet
    from munkey.encoders.keys import Keys
    from munkey.models.families.krr import KrrFamily
    from munkey.models.families.lda import LdaFamily
    from munkey.models.forward import ImageBlock
    from munkey.models.networks.munkey import Munkey, MunkeyArchitecture, Pathway

# Values of `inference` to try. K is at most 16, as in training. `rank` reads no temperature.
SEARCHED_FUSIONS = (
    ("ensemble", 0.02),
    ("ensemble", 0.07),
    ("softmax", 0.02),
    ("softmax", 0.07),
    ("rank", 0.07),
)


class MunkeySettings(Section):
    """The section `munkey` of params.yaml: the exemplar memory in training (sec. 3.2)."""

    architecture: Literal["input-level", "deep-prompt", "cross-attention", "direct-key"]
    token_dim: Width
    token_std: Positive
    p_drop: Literal["fixed", "selected"]
    p_image: Probability
    p_token: Probability
    p_retrieve: Probability
    neighbors: CountRange
    aggregation: Fusion
    temperature: Positive
    head: Literal["none", "lda", "krr"]

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        if self.p_image + self.p_token > 1:
            raise ValueError(
                f"p_image + p_token = {self.p_image} + {self.p_token} must be at most 1,"
                " because image and token are never dropped together"
            )
        if self.neighbors[0] > self.neighbors[1]:
            raise ValueError(f"neighbors = {self.neighbors} must be [low, high] with low <= high")
        return self


@family
class MunkeyFamily(ViTFamily[MunkeySettings]):
    name = "munkey"
    title = "MUNKEY"
    letter = "m"
    settings = MunkeySettings
    has_memory = True
    has_pathways = True
    is_network = False
    in_every_run = True
    place = 1
    holds = "weights, keys, tokens"
    reads_inference = True
    keeps_weights = True
    search_settings = tuple(
        {"k": k, "fusion": fusion, "temperature": temperature}
        for k in (4, 8, 16)
        for fusion, temperature in SEARCHED_FUSIONS
    )

    def count_neighbors(self, settings: MunkeySettings) -> dict[str, int]:
        return {"munkey.neighbors": settings.neighbors[1]}

    def list_borrowed_sections(self, settings: MunkeySettings) -> Sequence[str]:
        if settings.head == "none":
            return ()
        return (settings.head,)

    def make_recipe(
        self,
        sections: Mapping[str, object],
        stage: Stage,
        selected: Mapping[str, float] | None = None,
    ) -> Recipe[MunkeySettings]:
        recipe = super().make_recipe(sections, stage, selected)
        if recipe.family.head == "none":
            return recipe
        return replace(recipe, head=_read_head_constants(recipe.family.head, sections))

    def get_architecture(self, system: System) -> MunkeyArchitecture:
        """Return a system's architecture as a MunkeyArchitecture."""
        return cast("MunkeyArchitecture", system.architecture)

    def has_added_head(self, system: System) -> bool:
        return self.get_architecture(system).head is not None

    def fit_added_head(self, system: System) -> nn.Module | None:
        """Fit the added head to the memory's rows, on the CPU; None without head or memory."""
        from munkey.memory.exemplars import ExemplarMemory

        constants = self.get_architecture(system).head
        memory = system.memory
        if constants is None or memory is None:
            return None
        assert memory.labels is not None, "an added head needs the labels of the memory's rows"
        rows = ExemplarMemory(memory.ids, to_host(memory.keys), memory.labels.float()[:, None])
        head_family, settings = read_added_head(constants)
        architecture = FittedArchitecture(system.architecture.classes, rows.keys.shape[1], settings)
        return head_family.fit_head(architecture, rows)

    def _add_head(self, system: System, keys: np.ndarray | None, logits: np.ndarray) -> np.ndarray:
        """Add the head's logits for keys (S, d), if there is a head, to logits (..., S, C)."""
        import torch

        head = self.fit_added_head(system)
        if head is None:
            return logits
        assert keys is not None, "no keys of the samples"
        head_logits: np.ndarray = head(torch.from_numpy(keys)).numpy()
        return logits + head_logits

    def get_network(self) -> tuple[type[MunkeyArchitecture], Callable[..., nn.Module]]:
        from munkey.models.networks.munkey import NETWORKS, MunkeyArchitecture

        def make_network(architecture: MunkeyArchitecture) -> nn.Module:
            # The class of the network depends on the architecture.
            network_class = NETWORKS[architecture.architecture]
            return network_class(architecture)

        return MunkeyArchitecture, make_network

    def make_architecture(
        self, recipe: Recipe[MunkeySettings], classes: int, key_dim: int | None = None
    ) -> MunkeyArchitecture:
        from munkey.models.networks.munkey import MunkeyArchitecture

        settings = recipe.family
        assert recipe.model is not None, "the recipe has no section `model`"
        token_dim: int | None = settings.token_dim
        if settings.architecture == "direct-key":
            token_dim = key_dim  # a key is its own token
        return MunkeyArchitecture(
            classes=classes,
            image_size=recipe.data.image_size,
            architecture=settings.architecture,
            token_dim=token_dim,
            **recipe.model.model_dump(),
        )

    def train(self, training: Training[MunkeySettings]) -> TrainingResult:
        from munkey.models.forward import compile_forward, supervise

        recipe = training.recipe
        members = training.members
        if members is None:
            raise ValueError(
                "MUNKEY needs the keys and neighbors of its training samples: set Training.members"
            )
        architecture = self.make_architecture(recipe, training.classes, members.keys.shape[1])
        if recipe.head is not None:
            head_family, _ = read_added_head(recipe.head)
            head_family.require_few_rows(len(training.samples.ids))
            _, temperature = _predict_leave_one_out(recipe.head, training)
            architecture = replace(architecture, head={**recipe.head, "temperature": temperature})
        model = self.build(architecture, (recipe.stage / "weights").torch_generator())
        model.to(training.device).train()
        system = System(self.name, architecture, model)
        learner = _make_learner(system, compile_forward(model, recipe.train), training)
        return supervise(learner, training)

    def resume(self, system: System, training: Training[MunkeySettings]) -> Learner:
        model = system.copy_model()
        learner = _make_learner(replace(system, model=model), model, training)
        # Replace the learner's initial tokens with those of the system.
        tokens = system.require_memory().find_tokens(training.samples.ids)
        learner.system.require_memory().tokens.data.copy_(tokens)
        return learner

    def add_samples(
        self,
        system: System,
        new_keys: Keys,
        labels: np.ndarray,
        inference: InferenceSettings | None,
    ) -> System:
        """Add samples to the memory, each with the average token of its nearest neighbors.

        In a direct-key memory, its token is its key instead.
        """
        import torch

        from munkey.encoders.keys import Keys
        from munkey.memory.exemplars import average_tokens
        from munkey.memory.neighbors import find_nearest

        assert inference is not None, "no inference settings"
        memory = system.require_memory()
        keys = torch.from_numpy(new_keys.keys)
        if self.get_architecture(system).architecture == "direct-key":
            tokens = keys
        else:
            memory_keys = Keys(memory.ids.numpy(), to_host(memory.keys).numpy())
            neighbors = find_nearest(new_keys, memory_keys, inference.k)
            is_present = torch.from_numpy(neighbors.ids != NO_NEIGHBOR)  # (S, K)
            cosines = torch.from_numpy(neighbors.cosines)
            neighbor_tokens = to_host(memory.tokens.detach())[memory.find_rows(neighbors.ids)]
            tokens = average_tokens(neighbor_tokens, cosines, is_present, inference)
        extended_memory = memory.add(new_keys.ids, keys, tokens, torch.from_numpy(labels))
        return replace(system, memory=extended_memory)

    def predict_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval | None,
    ) -> np.ndarray:
        """Return logits (S, C) from images and the tokens of the neighbors in `retrieval`.

        `retrieval` needs keys for an added head. Raises KeyError if a neighbor is not in the
        memory.
        """
        assert retrieval is not None, "no neighbors of the samples"
        return self._predict(system, samples, data, device, retrieval)

    def _predict(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval,
        dropped: Pathway | None = None,
    ) -> np.ndarray:
        """Return the logits (S, C) of samples, without the pathway `dropped`, if given."""
        import torch

        from munkey.memory.exemplars import count_passes
        from munkey.models.forward import iterate_blocks, predict_blocks
        from munkey.models.networks.munkey import Nearest, predict_queries

        assert retrieval.neighbors is not None, "no neighbors of the samples"
        assert retrieval.settings is not None, "no inference settings"
        memory = system.require_memory()
        settings = retrieval.settings
        model = cast("Munkey", system.require_model())
        neighbors = retrieval.neighbors.truncate(settings.k)
        rows = memory.find_rows(neighbors.ids)
        cosines = torch.from_numpy(neighbors.cosines).to(device)

        def predict_block(block: ImageBlock) -> Tensor:
            nearest = Nearest(rows[block.positions], cosines[block.positions])
            return predict_queries(model, block.images, memory, nearest, settings, dropped)

        blocks = iterate_blocks(samples, data, device, passes=count_passes(settings))
        logits = predict_blocks(blocks, predict_block)
        return self._add_head(system, retrieval.keys, logits)

    def predict_path_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval,
    ) -> dict[str, np.ndarray]:
        """Return logits (S, C) with both pathways, and with one of them dropped.

        On the path `softmax`, a single pass reads the image and the neighbors' average token. On
        `image`, the null token replaces the token; on `token`, the null image replaces the image.
        """
        # A path is named after the pathway that it keeps.
        return {
            "softmax": self._predict(system, samples, data, device, retrieval),
            "image": self._predict(system, samples, data, device, retrieval, dropped="token"),
            "token": self._predict(system, samples, data, device, retrieval, dropped="image"),
        }

    def predict_cut_logits(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> dict[str, np.ndarray]:
        """Return logits (N, C) of samples in the memory, for the pathway sensitivity P_s (eq. 3).

        The network reads a sample's image and the null token (`image`), the null image and the
        sample's own token (`token`), or both, and no neighbors.
        """
        import torch

        from munkey.models.forward import iterate_blocks, predict_blocks

        memory = system.require_memory()
        model = system.require_model()
        tokens = memory.find_tokens(samples.ids)
        keys = None
        if self.get_architecture(system).head:
            keys = to_host(memory.keys[memory.find_rows(samples.ids)]).numpy()

        def predict_block(block: ImageBlock) -> Tensor:
            """Return the logits (B, 3, C) from the image, from the token, and from both."""
            images = block.images
            own_tokens = tokens[block.positions]
            yes = torch.ones(len(images), dtype=torch.bool, device=device)
            no = torch.zeros(len(images), dtype=torch.bool, device=device)
            image_logits = model(images, own_tokens, image_dropped=no, token_dropped=yes)
            token_logits = model(images, own_tokens, image_dropped=yes, token_dropped=no)
            both_logits = model(images, own_tokens, image_dropped=no, token_dropped=no)
            return torch.stack([image_logits, token_logits, both_logits], dim=1)

        blocks = iterate_blocks(samples, data, device)
        network_logits = predict_blocks(blocks, predict_block)  # (N, 3, C)
        logits = self._add_head(system, keys, network_logits.swapaxes(0, 1))  # (3, N, C)
        logits = np.ascontiguousarray(logits)
        return {"image": logits[0], "token": logits[1], "both": logits[2]}

    def extract_features(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> np.ndarray:
        """Return the features (N, width) that the head reads of images and own tokens.

        Raises KeyError if a sample is not in the memory.
        """
        from munkey.models.forward import iterate_blocks, read_head_inputs

        tokens = system.require_memory().find_tokens(samples.ids)
        model = system.require_model()
        blocks = iterate_blocks(samples, data, device)
        return read_head_inputs(
            model, blocks, lambda block: model(block.images, tokens[block.positions])
        )

    def extract_image_features(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> np.ndarray:
        """Return the features (S, width) that the head reads of images and the null token."""
        import torch

        from munkey.models.forward import iterate_blocks, read_head_inputs

        model = system.require_model()
        token_dim = system.require_memory().tokens.shape[1]

        def predict_block(block: ImageBlock) -> Tensor:
            count = len(block.images)
            no_tokens = torch.zeros(count, token_dim, device=device)
            token_dropped = torch.ones(count, dtype=torch.bool, device=device)
            return model(block.images, no_tokens, token_dropped=token_dropped)

        return read_head_inputs(model, iterate_blocks(samples, data, device), predict_block)


def _make_learner(
    system: System, forward: Callable[..., Tensor], training: Training[MunkeySettings]
) -> Learner:
    """Return a learner with newly initialized tokens; `forward` is the model, possibly compiled."""
    import torch

    recipe = training.recipe
    members = training.members
    assert members is not None, "no keys of the training samples"
    exemplars = Exemplars(
        training.samples.ids, members, recipe.family, recipe.stage, training.device
    )
    constants = cast("MunkeyArchitecture", system.architecture).head
    if constants:
        labels = torch.from_numpy(training.samples.labels)
        exemplars.memory = replace(exemplars.memory, labels=labels)
        # A sample's head logits are from a fit to all other samples, because a query at test time
        # is not in the memory either.
        logits, _ = _predict_leave_one_out(constants, training)
        head_logits = (logits / float(constants["temperature"])).astype(np.float32)
        exemplars.head_logits = to_device(torch.from_numpy(head_logits), training.device)
    return Learner(
        system=replace(system, memory=exemplars.memory),
        predict=lambda images, index: exemplars.forward(forward, images, index),
        generators=[exemplars.generator],
    )


def _read_head_constants(name: str, sections: Mapping[str, object]) -> Mapping[str, float | str]:
    """Return a head's settings without the temperature, and its family (`read_added_head`)."""
    head_family = cast(FittedFamily, FAMILIES[name])
    settings = head_family.read_section(sections)
    head_family.require_fixed_shrinkage(settings)
    constants = settings.model_dump(exclude={"temperature"})
    if name == "lda":  # the default in `read_added_head`
        return constants
    return {"family": name, **constants}


def _predict_leave_one_out(
    constants: Mapping[str, float | str], training: Training
) -> tuple[np.ndarray, float]:
    """Return the head's leave-one-out logits (N, C) of training samples, and their temperature."""
    head_family, settings = read_added_head(constants)
    members = training.members
    assert members is not None, "no keys of the training samples"
    return cast("LdaFamily | KrrFamily", head_family).predict_leave_one_out(
        members.keys,
        training.samples.labels,
        training.classes,
        head_family.validate_section({"temperature": 1.0, **settings}),
    )


class Draw(NamedTuple):
    """The random draws for each sample of a batch. All tensors have the shape (B,).

    Attributes
    ----------
    image_dropped, token_dropped
        Whether the null image or the null token replaces the sample's image or token.
    retrieved
        Whether an aggregate of neighbors' tokens replaces the sample's own token.
    neighbors
        K', the number of neighbors to aggregate.
    quantile
        A number in [0, 1) that selects one neighbor, for the aggregation `ensemble`.
    """

    image_dropped: Tensor
    token_dropped: Tensor
    retrieved: Tensor
    neighbors: Tensor
    quantile: Tensor


class Exemplars:
    """An exemplar memory in training: its learnable tokens, and random draws from `stage`.

    `ids` (N,) are ascending; `members` are the samples' keys and neighbors.
    """

    def __init__(
        self,
        ids: np.ndarray,
        members: MemberKeys,
        settings: MunkeySettings,
        stage: Stage,
        device: str,
    ) -> None:
        import torch
        from torch import nn

        from munkey.memory.exemplars import ExemplarMemory

        keys = torch.from_numpy(members.keys).to(device)
        if settings.architecture == "direct-key":
            self.tokens = nn.Parameter(keys.clone(), requires_grad=False)
        else:
            tokens = torch.empty(len(ids), settings.token_dim)
            generator = (stage / "tokens").torch_generator()
            nn.init.normal_(tokens, std=settings.token_std, generator=generator)
            self.tokens = nn.Parameter(tokens.to(device))
        self.memory = ExemplarMemory(torch.from_numpy(ids), keys, self.tokens)
        self.neighbors = self.memory.find_rows(members.neighbors.ids)  # (N, K)
        self.cosines = torch.from_numpy(members.neighbors.cosines).to(device)  # (N, K)
        self.settings = settings
        self.head_logits: Tensor | None = None  # (N, C), added to the network's logits
        self.generator = (stage / "pathways").torch_generator()

    def forward(self, model: Callable[..., Tensor], images: Tensor, index: Tensor) -> Tensor:
        """Return the logits (B, C) of crops (B, 3, S, S), with pathways dropped (eq. 1)."""
        device = images.device.type
        # The draws are made on the host, so that they do not depend on the device.
        host_draw = self.draw(len(index))
        draw = Draw(*[to_device(values, device) for values in host_draw])
        index = to_device(index, device)
        tokens = self.choose_tokens(index, draw)
        logits = model(images, tokens, draw.image_dropped, draw.token_dropped)
        if self.head_logits is None:
            return logits
        return logits + self.head_logits[index]

    def draw(self, count: int) -> Draw:
        """Draw which pathways to drop and which neighbors to retrieve for `count` samples."""
        import torch

        settings = self.settings
        generator = self.generator
        # m ~ Cat(p_i, p_t, 1 - p_i - p_t, 0), r ~ Bern(p_r), K' ~ U{low, high} (alg. 1). m is
        # determined by a single uniform number, so image and token are never dropped together.
        mask = torch.rand(count, generator=generator)
        image_dropped = mask < settings.p_image
        token_dropped = ~image_dropped & (mask < settings.p_image + settings.p_token)
        retrieved = torch.rand(count, generator=generator) < settings.p_retrieve
        low, high = settings.neighbors
        neighbors = torch.randint(low, high + 1, (count,), generator=generator)
        if settings.aggregation == "ensemble":
            quantile = torch.rand(count, generator=generator)
        else:
            quantile = torch.zeros(count)
        return Draw(
            image_dropped=image_dropped,
            token_dropped=token_dropped,
            retrieved=retrieved,
            neighbors=neighbors,
            quantile=quantile,
        )

    def choose_tokens(self, index: Tensor, draw: Draw) -> Tensor:
        """Return the tokens (B, m) that the network reads: (1 - r) v_i + r v_n (eq. 1).

        r is `draw.retrieved` (0 or 1), v_i the sample's own token, and v_n the aggregate of the
        tokens of its first `draw.neighbors` neighbors, which receive no gradients.
        """
        # Imported here, so that planning the workflow does not import torch. Later calls only look
        # up the module.
        import torch

        from munkey.memory.exemplars import compute_fusion_weights, draw_weights

        settings = self.settings
        rows = self.neighbors[index]  # (B, K)
        is_drawn = torch.arange(rows.shape[1], device=rows.device) < draw.neighbors[:, None]
        is_present = is_drawn & (rows != NO_NEIGHBOR)
        cosines = self.cosines[index]  # (B, K)
        weights = compute_fusion_weights(
            cosines, is_present, settings.aggregation, settings.temperature
        )
        if settings.aggregation == "ensemble":
            weights = draw_weights(weights, draw.quantile)  # one-hot
        # (B, K, 1) * (B, K, m), summed over the neighbors: v_n (B, m). The weight of an absent
        # neighbor is 0, so the token in its place does not matter.
        neighbor_tokens = self.tokens.detach()[rows.clamp(min=0)]
        aggregates = (weights[:, :, None] * neighbor_tokens).sum(dim=1)
        own_tokens = self.tokens[index]  # v_i (B, m)
        return torch.where(draw.retrieved[:, None], aggregates, own_tokens)

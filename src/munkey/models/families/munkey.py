"""MUNKEY (sec. 3.2): a ViT that reads the image together with tokens of its nearest keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast

import numpy as np
from pydantic import model_validator

from munkey.core.device import to_device, to_host
from munkey.core.ids import NOBODY
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
    Trained,
    Training,
    family,
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
    from munkey.models.forward import ImageBlock
    from munkey.models.networks.munkey import Cut, Munkey, MunkeyArchitecture


class MunkeySettings(Section):
    """The exemplar memory in training (sec. 3.2).

    token_dim: m; p_*: probabilities; neighbors: range of K'; aggregation: Agg of eq. 1, of the tokens of K' neighbors;
    head: whose logits on the memory's keys are added to the network's.
    """

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
    head: Literal["none", "lda"]

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

    def neighbors_read(self, settings: MunkeySettings) -> dict[str, int]:
        return {"munkey.neighbors": settings.neighbors[1]}

    def borrows(self, settings: MunkeySettings) -> Sequence[str]:
        return ("lda",) if settings.head == "lda" else ()

    def recipe(
        self,
        sections: Mapping[str, object],
        stage: Stage,
        selected: Mapping[str, float] | None = None,
    ) -> Recipe[MunkeySettings]:
        recipe = super().recipe(sections, stage, selected)
        if recipe.family.head == "none":
            return recipe
        return replace(recipe, alpha=FAMILIES["lda"].section(sections).alpha)

    def shape(self, system: System) -> MunkeyArchitecture:
        """A system's architecture, which is always of this kind."""
        return cast("MunkeyArchitecture", system.architecture)

    def head(self, system: System) -> nn.Module | None:
        """LDA on the rows that are left in the memory, on the CPU; nothing else has a say in it but its constants."""
        from munkey.memory.exemplars import ExemplarMemory

        constants, memory = self.shape(system).head, system.memory
        if constants is None or memory is None:
            return None
        assert memory.labels is not None
        rows = ExemplarMemory(memory.ids, to_host(memory.keys), memory.labels.float()[:, None])
        architecture = FittedArchitecture(
            system.architecture.classes, rows.keys.shape[1], constants
        )
        return cast(FittedFamily, FAMILIES["lda"]).head(architecture, rows)

    def _with_head(self, system: System, keys: np.ndarray | None, logits: np.ndarray) -> np.ndarray:
        """The network's logits (..., S, C) of samples with these keys (S, d) and the head's, if there is one."""
        import torch

        if (head := self.head(system)) is None:
            return logits
        assert keys is not None
        return cast(np.ndarray, logits + head(torch.from_numpy(keys)).numpy())

    def network(self) -> tuple[type[MunkeyArchitecture], Callable[..., nn.Module]]:
        from munkey.models.networks.munkey import NETWORKS, MunkeyArchitecture

        return MunkeyArchitecture, lambda wanted: NETWORKS[wanted.architecture](wanted)

    def architecture(
        self, recipe: Recipe[MunkeySettings], classes: int, key_dim: int | None = None
    ) -> MunkeyArchitecture:
        from munkey.models.networks.munkey import MunkeyArchitecture

        settings = recipe.family
        assert recipe.model is not None
        return MunkeyArchitecture(
            classes=classes,
            image_size=recipe.data.image_size,
            architecture=settings.architecture,
            token_dim=key_dim if settings.architecture == "direct-key" else settings.token_dim,
            **recipe.model.model_dump(),
        )

    def train(self, training: Training[MunkeySettings]) -> Trained:
        from munkey.models.forward import compiled, supervise
        from munkey.models.networks.closed_form import best_temperature

        recipe, members = training.recipe, training.members
        if members is None:
            raise ValueError(
                "MUNKEY trains on the keys and neighbors of its samples: Training.members"
            )
        architecture = self.architecture(recipe, training.classes, members.keys.shape[1])
        if recipe.alpha is not None:
            temperature = best_temperature(_left_out(training), training.samples.labels)
            architecture = replace(
                architecture, head={"alpha": recipe.alpha, "temperature": temperature}
            )
        model = (
            self.build(architecture, (recipe.stage / "weights").torch_generator())
            .to(training.device)
            .train()
        )
        learner = _learner(
            System(self.name, architecture, model), compiled(model, recipe.train), training
        )
        return supervise(learner, training)

    def resumed(self, system: System, training: Training[MunkeySettings]) -> Learner:
        model = system.copy_of_model()
        learner = _learner(replace(system, model=model), model, training)
        learner.system.rows().tokens.data.copy_(system.rows().tokens_of(training.samples.ids))
        return learner

    def extended(
        self, system: System, added: Keys, labels: np.ndarray, inference: InferenceSettings | None
    ) -> System:
        """Their tokens are averages of those of their nearest neighbors in the memory; or their keys, where tokens are
        keys.
        """
        import torch

        from munkey.encoders.keys import Keys
        from munkey.memory.exemplars import fusion_weights
        from munkey.memory.neighbors import nearest

        assert inference is not None
        memory, keys = system.rows(), torch.from_numpy(added.keys)
        tokens = keys
        if self.shape(system).architecture != "direct-key":
            near = nearest(
                added, Keys(memory.ids.numpy(), to_host(memory.keys).numpy()), inference.k
            )
            present, lent = (
                torch.from_numpy(near.ids != NOBODY),
                to_host(memory.tokens.detach())[memory.rows(near.ids)],
            )
            cosines = torch.from_numpy(near.cosines)
            weights = fusion_weights(cosines, present, inference.fusion, inference.temperature)
            tokens = (weights[:, :, None] * lent).sum(dim=1)
        return replace(
            system, memory=memory.extended(added.ids, keys, tokens, torch.from_numpy(labels))
        )

    def logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval | None,
    ) -> np.ndarray:
        """Raises KeyError where a neighbor is not a row of the system's own memory: nothing deleted can answer."""
        assert retrieval is not None
        return self._asked(system, samples, data, device, retrieval)

    def _asked(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval,
        cut: Cut = None,
    ) -> np.ndarray:
        """Logits (S, C) of the samples; cut: as for `ask`."""
        import torch

        from munkey.memory.exemplars import passes
        from munkey.models.forward import answers, blocks
        from munkey.models.networks.munkey import Nearest, ask

        assert retrieval.neighbors is not None and retrieval.settings is not None
        memory, settings, model = (
            system.rows(),
            retrieval.settings,
            cast("Munkey", system.weights()),
        )
        neighbors = retrieval.neighbors.first(settings.k)
        rows, cosines = memory.rows(neighbors.ids), torch.from_numpy(neighbors.cosines).to(device)

        def answer(block: ImageBlock) -> Tensor:
            near = Nearest(rows[block.where], cosines[block.where])
            return ask(model, block.images, memory, near, settings, cut)

        logits = answers(blocks(samples, data, device, passes(settings)), answer)
        return self._with_head(system, retrieval.keys, logits)

    def path_logits(
        self,
        system: System,
        samples: ImageSet,
        data: DataSettings,
        device: str,
        retrieval: Retrieval,
    ) -> dict[str, np.ndarray]:
        """`softmax`: one pass with the neighbors' average token; `image`: own image, null token; `token`: null image
        and the neighbors' tokens. retrieval: its settings are those of `softmax`, and of `token` its K.
        """
        return {
            "softmax": self._asked(system, samples, data, device, retrieval),
            "image": self._asked(system, samples, data, device, retrieval, "token"),
            "token": self._asked(system, samples, data, device, retrieval, "image"),
        }

    def cut_logits(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> dict[str, np.ndarray]:
        """Of members of the memory (sec. 3.2, P_s). `image`: own image, null token; `token`: null image, own token;
        `both`: own image and own token. Nothing is retrieved.
        """
        import torch

        from munkey.models.forward import answers, blocks

        memory, model = system.rows(), system.weights()
        tokens = memory.tokens_of(samples.ids)
        own = memory.keys[memory.rows(samples.ids)]
        keys = to_host(own).numpy() if self.head(system) else None

        def cut(block: ImageBlock) -> Tensor:
            drop, keep = (
                torch.full((len(block.images),), value, device=device) for value in (True, False)
            )
            # of image and token, for image, token and both
            masks = ((keep, drop), (drop, keep), (keep, keep))
            return torch.stack(
                [model(block.images, tokens[block.where], *pair) for pair in masks], dim=1
            )

        # (3, N, C)
        logits = self._with_head(
            system, keys, answers(blocks(samples, data, device), cut).swapaxes(0, 1)
        )
        return dict(zip(("image", "token", "both"), np.ascontiguousarray(logits), strict=True))

    def features(
        self, system: System, samples: ImageSet, data: DataSettings, device: str
    ) -> np.ndarray:
        """[CLS] before the head, from own image and own token."""
        import torch

        from munkey.models.forward import answers, blocks

        tokens, model = system.rows().tokens_of(samples.ids), cast("Munkey", system.weights())
        inputs: list[Tensor] = []

        def read(block: ImageBlock) -> Tensor:
            model(block.images, tokens[block.where])
            return inputs.pop()

        hook = model.head.register_forward_pre_hook(
            lambda _, given: inputs.append(cast(torch.Tensor, given[0]))
        )
        read_features = answers(blocks(samples, data, device), read)
        hook.remove()
        return read_features


def _learner(
    system: System, forward: Callable[..., Tensor], training: Training[MunkeySettings]
) -> Learner:
    """The weights of a system with fresh exemplars. forward: its forward pass."""
    import torch

    recipe, members = training.recipe, training.members
    assert members is not None
    exemplars = Exemplars(
        training.samples.ids, members, recipe.family, recipe.stage, training.device
    )
    if constants := cast("MunkeyArchitecture", system.architecture).head:
        exemplars.memory = replace(
            exemplars.memory, labels=torch.from_numpy(training.samples.labels)
        )
        offsets = (_left_out(training) / constants["temperature"]).astype(np.float32)
        exemplars.offsets = to_device(torch.from_numpy(offsets), training.device)
    return Learner(
        replace(system, memory=exemplars.memory),
        lambda images, index: exemplars.forward(forward, images, index),
        [exemplars.generator],
    )


def _left_out(training: Training) -> np.ndarray:
    """Logits (N, C) of LDA on the training samples for each of them, from all others."""
    from munkey.models.networks.closed_form import leave_one_out

    members, alpha = training.members, training.recipe.alpha
    assert members is not None and alpha is not None
    return leave_one_out(members.keys, training.samples.labels, training.classes, alpha)


class Draw(NamedTuple):
    """What is drawn for each sample of a batch, (B,) each.

    neighbors: K', how many are aggregated where retrieved. quantile: in [0, 1), chooses one of them where they are not
    averaged; else 0.
    """

    image_dropped: Tensor
    token_dropped: Tensor
    retrieved: Tensor
    neighbors: Tensor
    quantile: Tensor


class Exemplars:
    """The memory in training, with its learnable tokens, and what is drawn for each sample.

    ids: (N,) of the training samples, ascending. All randomness is derived from `stage`.
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
            nn.init.normal_(
                tokens, std=settings.token_std, generator=(stage / "tokens").torch_generator()
            )
            self.tokens = nn.Parameter(tokens.to(device))
        self.memory = ExemplarMemory(torch.from_numpy(ids), keys, self.tokens)
        self.neighbors = self.memory.rows(members.neighbors.ids)
        self.cosines = torch.from_numpy(members.neighbors.cosines).to(device)
        self.settings = settings
        self.offsets: Tensor | None = None  # (N, C), what a head adds to the logits of each
        self.generator = (stage / "pathways").torch_generator()

    def forward(self, model: Callable[..., Tensor], images: Tensor, index: Tensor) -> Tensor:
        """Logits of a batch, pathways dropped at random and exemplar tokens looked up (eq. 1). index: (B,)."""
        device = images.device.type
        draw = Draw(*(to_device(drawn, device) for drawn in self.draw(len(index))))
        own = to_device(index, device)
        logits = model(
            images, self.training_tokens(own, draw), draw.image_dropped, draw.token_dropped
        )
        return logits if self.offsets is None else logits + self.offsets[own]

    def draw(self, count: int) -> Draw:
        """What to do with each sample of a batch of `count`, on the host."""
        import torch

        s = self.settings
        mask = torch.rand(count, generator=self.generator)
        retrieved = torch.rand(count, generator=self.generator) < s.p_retrieve
        neighbors = torch.randint(
            s.neighbors[0], s.neighbors[1] + 1, (count,), generator=self.generator
        )
        one_of_them = s.aggregation == "ensemble"
        quantile = (
            torch.rand(count, generator=self.generator) if one_of_them else torch.zeros(count)
        )
        image_dropped = mask < s.p_image
        return Draw(
            image_dropped,
            ~image_dropped & (mask < s.p_image + s.p_token),
            retrieved,
            neighbors,
            quantile,
        )

    def training_tokens(self, index: Tensor, draw: Draw) -> Tensor:
        """(1 - r) v_i + r v_n of a batch (eq. 1): (B, m). No gradient reaches the neighbors' tokens."""
        import torch

        from munkey.memory.exemplars import drawn_weights, fusion_weights

        settings, rows = self.settings, self.neighbors[index]  # (B, K)
        drawn = torch.arange(rows.shape[1], device=rows.device) < draw.neighbors[:, None]
        present = drawn & (rows != NOBODY)
        # (B, K)
        weights = fusion_weights(
            self.cosines[index], present, settings.aggregation, settings.temperature
        )
        if settings.aggregation == "ensemble":  # each of whose passes reads one neighbor
            weights = drawn_weights(weights, draw.quantile)
        # (B, m)
        aggregated = (weights[:, :, None] * self.tokens.detach()[rows.clamp(min=0)]).sum(dim=1)
        return torch.where(draw.retrieved[:, None], aggregated, self.tokens[index])

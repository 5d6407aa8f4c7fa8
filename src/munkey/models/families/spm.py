"""Deep semi-parametric models (Zheng, Tai & Yeh 2026): a network that reads the mean of each class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from munkey.core.device import to_device
from munkey.models.families.vit import ViTFamily
from munkey.models.family import Learner, System, Training, TrainingResult, family
from munkey.settings import Count, Section

if TYPE_CHECKING:
    import numpy as np
    from torch import Generator, Tensor, nn

    from munkey.memory.exemplars import ExemplarMemory
    from munkey.models.networks.spm import Spm, SpmArchitecture


class SpmSettings(Section):
    """The section `spm` of params.yaml."""

    support: Count


@family
class SpmFamily(ViTFamily[SpmSettings]):
    """Its memory has embeddings of the network as keys, and labels as tokens (N, 1)."""

    name = "spm"
    title = "SPM"
    letter = "b"
    settings = SpmSettings
    is_network = False
    place = 2
    holds = "weights, embeddings, labels"
    keeps_weights = True

    def get_network(self) -> tuple[type[SpmArchitecture], Callable[..., nn.Module]]:
        from munkey.models.networks.spm import Spm, SpmArchitecture

        return SpmArchitecture, Spm

    def train(self, training: Training[SpmSettings]) -> TrainingResult:
        result = super().train(training)
        return result._replace(system=self.refresh(result.system, training))

    def refresh(self, system: System, training: Training[SpmSettings]) -> System:
        """Return a system whose rows are the embeddings that its network now gives."""
        import torch

        from munkey.memory.exemplars import ExemplarMemory
        from munkey.models.forward import iterate_blocks

        samples = training.samples
        model = cast("Spm", system.model)
        blocks = iterate_blocks(samples, training.recipe.data, training.device)
        with torch.no_grad():
            embeddings = torch.cat([model.embed(block.images).float() for block in blocks])
        labels = torch.from_numpy(samples.labels).float()[:, None]
        memory = ExemplarMemory(
            torch.from_numpy(samples.ids),
            keys=embeddings,
            tokens=to_device(labels, training.device),
        )
        return self.replace_memory(system, memory)

    def replace_memory(self, system: System, memory: ExemplarMemory) -> System:
        """Return a copy of the system whose class means are those of the rows of `memory`."""
        model = cast("Spm", system.copy_model())
        model.set_rows(memory.keys, memory.tokens[:, 0].long())
        return replace(system, model=model, memory=memory)

    def make_learner(
        self, system: System, forward: Callable[..., Tensor], training: Training[SpmSettings]
    ) -> Learner:
        from munkey.data.augment import Augmentation

        recipe = training.recipe
        samples = training.samples
        augment = Augmentation.from_settings(recipe.data, recipe.train)
        generator = (recipe.stage / "support").torch_generator()

        def predict(images: Tensor, index: Tensor) -> Tensor:
            support = draw_support(samples.labels, index, recipe.family.support, generator)
            support_images, support_labels = samples.batch(support, training.device)
            return forward(images, augment(support_images, generator), support_labels)

        return Learner(system, predict, [generator])

    def resume(self, system: System, training: Training[SpmSettings]) -> Learner:
        # The labels in the memory are not trained.
        trained = replace(system, model=system.copy_model(), memory=None)
        return self.make_learner(trained, trained.require_model(), training)


def draw_support(labels: np.ndarray, batch: Tensor, count: int, generator: Generator) -> Tensor:
    """Draw support samples for a batch, evenly from its classes. Returns positions (at most `count`,).

    A class with too few other samples repeats some. A class without others has no support.

    Parameters
    ----------
    labels
        (N,): those of all training samples.
    batch
        Positions (B,) of the batch, which is not drawn from.
    """
    import torch

    all_labels = torch.from_numpy(labels)
    is_candidate = torch.ones(len(labels), dtype=torch.bool)
    is_candidate[batch] = False
    classes = all_labels[batch].unique()  # sorted
    share, remainder = divmod(count, len(classes))
    drawn = []
    for number, label in enumerate(classes):
        size = share + (number < remainder)
        candidates = torch.nonzero(is_candidate & (all_labels == label))[:, 0]
        if len(candidates) >= size:
            chosen = torch.randperm(len(candidates), generator=generator)[:size]
        elif len(candidates):
            chosen = torch.randint(len(candidates), (size,), generator=generator)
        else:
            continue
        drawn.append(candidates[chosen])
    return torch.cat(drawn) if drawn else torch.empty(0, dtype=torch.int64)

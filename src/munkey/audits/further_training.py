"""A system is trained further on the retain set alone, and asked about the forget set again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count, islice, pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from munkey.audits.margins import below, margins, normal_scores
from munkey.models.family import FAMILIES, Retrieval, System, Training
from munkey.settings import DataSettings, RelearnSettings

if TYPE_CHECKING:
    from torch import nn

    from munkey.data.image_set import ImageSet
    from munkey.data.loader import Batch
    from munkey.memory.exemplars import ExemplarMemory
    from munkey.training.loop import Outcome

Line = dict[str, float]


@dataclass(frozen=True, eq=False)
class Questions:
    """The samples that a system is asked about. forget: (S,) bool; the others are test samples."""

    samples: ImageSet
    forget: np.ndarray
    data: DataSettings
    device: str
    retrieval: Retrieval | None

    def measure(self, system: System) -> Line:
        """FA and TA in percent; margin: mean phi of the forget set in sd of test, as `munkey.audits.margins` has it."""
        from munkey.evaluation.metrics import accuracy

        logits = FAMILIES[system.family].logits(system, self.samples, self.data, self.device, self.retrieval)
        labels, forget = self.samples.labels, self.forget
        phi = normal_scores(below(margins(logits, labels)[None], ~forget), int((~forget).sum()))[0]
        accuracies = {name: accuracy(logits[of], labels[of]) for name, of in (("FA", forget), ("TA", ~forget))}
        return accuracies | {"margin": float(phi[forget].mean())}


def trained_further(system: System, training: Training, settings: RelearnSettings, questions: Questions) -> list[Line]:
    """A line for each of `settings.steps`: step, FA, TA, margin.

    training: the retain set. Every sample is cropped and every pathway dropped as in the system's own training, at a
    constant learning rate; batches and crops follow from `training.recipe.stage` alone. The system stays as it is.
    """
    from munkey.data.augment import Augmentation
    from munkey.data.loader import Loader
    from munkey.training.loop import Fit, adamw, classified, shuffled
    from munkey.training.precision import Precision

    resumed, recipe, samples = FAMILIES[system.family].resumed(system, training), training.recipe, training.samples
    model = cast("nn.Module", resumed.system.model)
    train, augment = recipe.train, Augmentation.of(recipe.data, recipe.train)
    order, crops = ((recipe.stage / name).torch_generator() for name in ("order", "crops"))
    batches = (index for _ in count() for index in shuffled(len(samples), train.batch_size, order))
    counts = [end - start for start, end in pairwise(settings.steps)]

    def step(batch: Batch) -> Outcome:
        return classified(resumed.answer(augment(batch.images, crops), batch.index), batch.labels)

    def measured(number: int) -> Line:
        model.eval()
        line = questions.measure(answering(resumed.system, system.memory))
        model.train()
        return {"step": settings.steps[number]} | line

    before = measured(0)
    history = Fit(
        epochs=len(counts),  # an epoch here is what lies between two measurements
        batches=lambda epoch: Loader(samples, list(islice(batches, counts[epoch - 1])), training.device),
        step=step,
        optimizer=adamw(resumed.parameters(), train.betas, train.weight_decay),
        rate=lambda _: settings.lr_factor * train.lr,
        report=training.report,
        precision=Precision(train.precision, training.device),
        after_epoch=measured,
    ).run()
    return [before, *({name: line[name] for name in before} for line in history)]


def answering(learning: System, held: ExemplarMemory | None) -> System:
    """The system as it is deployed: with what it has learned, and with the rows that its memory held besides."""
    if held is None or learning.memory is None:
        return learning
    tokens = held.tokens.detach().clone()
    tokens[held.rows(learning.memory.ids.cpu().numpy())] = learning.memory.tokens.detach()
    return replace(learning, memory=replace(held, tokens=tokens))

"""Relearning: train a system further on the retain set while measuring the forget set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, cast

import numpy as np

from munkey.audits.margins import compute_margins, compute_normal_scores, count_below
from munkey.models.family import FAMILIES, Retrieval, System, Training
from munkey.settings import DataSettings
from munkey.studies.relearning.settings import RelearnSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from munkey.data.image_set import ImageSet
    from munkey.data.loader import Batch
    from munkey.memory.exemplars import ExemplarMemory
    from munkey.training.loop import Outcome

Row = dict[str, float]


@dataclass(frozen=True, eq=False)
class EvaluationSamples:
    """The samples to measure, with the inputs that their predictions need.

    Attributes
    ----------
    is_forgotten
        Whether each sample is in the forget set, (S,) bool. The others are test samples.
    retrieval
        The samples' neighbors; None if the family has no memory.
    """

    samples: ImageSet
    is_forgotten: np.ndarray
    data: DataSettings
    device: str
    retrieval: Retrieval | None

    def measure(self, system: System) -> Row:
        """Measure the accuracies of a system, and its margins on the forget set.

        Returns the forget accuracy FA and the test accuracy TA in percent, and, as `margin`, the
        mean normal score of the forget set. A sample's normal score is the rank of its margin among
        the test samples' margins, as a quantile of the standard normal distribution.
        """
        from munkey.evaluation.metrics import compute_accuracy

        logits = FAMILIES[system.family].predict_logits(
            system, self.samples, self.data, self.device, self.retrieval
        )
        labels = self.samples.labels
        is_forgotten = self.is_forgotten
        is_test = ~is_forgotten
        margins = compute_margins(logits, labels)[None]  # (1, S) for one model
        counts_below = count_below(margins, is_test)  # test samples with a smaller margin
        scores = compute_normal_scores(counts_below, int(is_test.sum()))[0]
        return {
            "FA": compute_accuracy(logits[is_forgotten], labels[is_forgotten]),
            "TA": compute_accuracy(logits[is_test], labels[is_test]),
            "margin": float(scores[is_forgotten].mean()),
        }


def train_further(
    system: System, training: Training, settings: RelearnSettings, evaluation: EvaluationSamples
) -> list[Row]:
    """Train a copy of a system further, and measure it at each of `settings.steps`.

    Returns a row with step, FA, TA and margin (`EvaluationSamples.measure`) for each measurement.
    Batches and crops depend only on `training.recipe.stage`.

    Parameters
    ----------
    training
        How to train on the retain set: with the crops and pathway dropout of the original training,
        but with a constant learning rate.
    """
    from munkey.data.augment import Augmentation
    from munkey.data.loader import Loader
    from munkey.training.loop import TrainingLoop, adamw, classification_outcome, shuffled_batches
    from munkey.training.precision import Precision

    recipe = training.recipe
    samples = training.samples
    family = FAMILIES[system.family]
    learner = family.resume(system, training)
    model = cast("nn.Module", learner.system.model)
    train = recipe.train
    augment = Augmentation.from_settings(recipe.data, train)
    order = (recipe.stage / "order").torch_generator()
    crops = (recipe.stage / "crops").torch_generator()
    # Here, an epoch is the steps between two measurements, not a pass over the retain set.
    epoch_lengths = [end - start for start, end in pairwise(settings.steps)]

    def endless_batches() -> Iterator[Tensor]:
        while True:
            yield from shuffled_batches(len(samples), train.batch_size, order)

    all_batches = endless_batches()

    def batches(epoch: int) -> Loader:
        positions = list(islice(all_batches, epoch_lengths[epoch - 1]))
        return Loader(samples, positions, training.device)

    def step(batch: Batch) -> Outcome:
        logits = learner.predict(augment(batch.images, crops), batch.index)
        return classification_outcome(logits, batch.labels)

    def measure(number: int) -> Row:
        model.eval()
        restored = restore_memory(learner.system, system.memory)
        record = evaluation.measure(family.refresh(restored, training))
        model.train()
        return {"step": settings.steps[number]} | record

    before = measure(0)
    history = TrainingLoop(
        epochs=len(epoch_lengths),
        batches=batches,
        step=step,
        optimizer=adamw(learner.parameters(), train.betas, train.weight_decay),
        learning_rate=lambda _: settings.lr_factor * train.lr,
        report=training.report,
        precision=Precision(train.precision, training.device),
        after_epoch=measure,
    ).run()
    rows = [before]
    for record in history:
        rows.append({name: record[name] for name in before})  # without the loop's own columns
    return rows


def restore_memory(trained: System, memory: ExemplarMemory | None) -> System:
    """Return `trained` with the full `memory`, in which the rows it was trained on have new tokens.

    The new tokens are those of `trained`; all other rows keep the tokens of `memory`. If `memory`
    is None, or if `trained` has no memory, `trained` is returned unchanged.

    Parameters
    ----------
    trained
        A system whose memory has only the rows that it was trained on, with their trained tokens.
    memory
        The memory before the training, which also has these rows.
    """
    if memory is None or trained.memory is None:
        return trained
    tokens = memory.tokens.detach().clone()
    rows = memory.find_rows(trained.memory.ids.cpu().numpy())
    tokens[rows] = trained.memory.tokens.detach()
    return replace(trained, memory=replace(memory, tokens=tokens))

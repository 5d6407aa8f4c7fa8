"""SCRUB with rewinding (Kurmanji et al. 2023; app. B.2): imitate the original only on D_r."""

import math
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Count, Positive, Share
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from munkey.data.loader import Batch


class ScrubSettings(TuningSettings):
    """The section `unlearn.scrub` of params.yaml."""

    gamma: Positive
    alpha: Positive
    temperature: Positive
    max_epochs: Count
    forget_batch_size: Count
    decay_after: list[Count]
    decay: Share


def scrub_passes(images: Images, settings: ScrubSettings) -> int:
    """Count the passes on D_r, the max passes on D_f, and those for measuring accuracy."""
    max_passes = 4 * images.forget * (min(images.epochs, settings.max_epochs) - 1)
    return images.epochs * (4 * images.retain + images.val + images.forget) + max_passes


@method(
    "scrub",
    title="SCRUB",
    description=(
        "move toward the original's predictions on the retain set and away from them on the"
        " forget set; rewind to the best epoch"
    ),
    citation=(
        "M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou. *Towards Unbounded Machine "
        "Unlearning*. NeurIPS 2023"
    ),
    in_paper=True,
    family="vit",
    needs={
        "retain images",
        "retain labels",
        "forget images",
        "forget labels",
        "val images",
        "val labels",
    },
    settings=ScrubSettings,
    passes=scrub_passes,
)
def scrub(system: System, request: Request, settings: ScrubSettings) -> System:
    """Train a student to imitate the original on D_r and to differ from it on D_f, then rewind."""
    import copy

    import torch

    from munkey.data.image_set import JoinedSet
    from munkey.data.loader import Loader
    from munkey.training.loop import (
        Outcome,
        TrainingLoop,
        adamw,
        classification_outcome,
        shuffled_batches,
    )
    from munkey.training.precision import Precision
    from munkey.unlearn.finetune import distillation_loss, finish, measure_accuracy

    student = system.copy_model().train()
    teacher = system.copy_model().eval()
    retain = request.retain
    forget = request.forget
    val = request.val
    tuning = request.tuning
    training_set = JoinedSet((retain, forget))
    first_forget = len(retain)  # position of the first sample of D_f in the training set
    best_epoch = 0
    smallest_gap = math.inf  # |validation accuracy - forget accuracy| in percentage points
    best_weights: dict[str, torch.Tensor] = {}

    def batches(epoch: int) -> Loader:
        max_pass = shuffled_batches(len(forget), settings.forget_batch_size, request.generator)
        min_pass = shuffled_batches(len(retain), tuning.settings.batch_size, request.generator)
        positions = list(min_pass)
        # In epoch 1, the student still equals the teacher, so a max pass would have no gradient.
        if 1 < epoch <= settings.max_epochs:
            positions = [first_forget + index for index in max_pass] + positions
        return Loader(training_set, positions, request.device)

    def step(batch: "Batch") -> Outcome:
        images = tuning.augment(batch.images, request.generator)
        with torch.no_grad():
            teacher_logits = teacher(images)
        logits = student(images)
        divergence = distillation_loss(logits, teacher_logits, settings.temperature)
        loss, correct = classification_outcome(logits, batch.labels)
        if batch.index[0] >= first_forget:
            return Outcome(-divergence, correct)  # max step on D_f: minimize -KL_T
        # Min step on D_r: minimize gamma CE + alpha KL_T.
        return Outcome(settings.gamma * loss + settings.alpha * divergence, correct)

    def store_best_weights(epoch: int) -> dict[str, float]:
        nonlocal best_epoch, smallest_gap, best_weights
        student.eval()
        val_accuracy = measure_accuracy(student, val, request)
        forget_accuracy = measure_accuracy(student, forget, request)
        student.train()
        gap = abs(val_accuracy - forget_accuracy)
        if gap < smallest_gap:  # ties go to the earliest epoch
            best_epoch = epoch
            smallest_gap = gap
            best_weights = copy.deepcopy(student.state_dict())
        return {"val_accuracy": val_accuracy, "forget_accuracy": forget_accuracy}

    def learning_rate(progress: float) -> float:
        decay_count = sum(progress >= epoch for epoch in settings.decay_after)
        return settings.lr_factor * tuning.base_lr * settings.decay**decay_count

    request.history = TrainingLoop(
        epochs=tuning.settings.epochs,
        batches=batches,
        step=step,
        optimizer=adamw(student.parameters(), tuning.settings.betas, tuning.settings.weight_decay),
        learning_rate=learning_rate,
        report=request.report,
        precision=Precision(tuning.precision, request.device),
        after_epoch=store_best_weights,
    ).run()
    student.load_state_dict(best_weights)  # rewind
    request.facts = {"chosen_epoch": best_epoch, "validation_gap": smallest_gap}
    return finish(system, student)

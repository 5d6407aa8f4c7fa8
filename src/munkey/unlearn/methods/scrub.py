"""SCRUB with rewinding (Kurmanji et al. 2023; app. B.2): obey the original on D_r, defy it on D_f."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Count, Positive, Share
from munkey.unlearn.contract import Images, Request, Tuned, method

if TYPE_CHECKING:
    from munkey.data.loader import Batch


class ScrubSettings(Tuned):
    """gamma, alpha: weights of cross-entropy and KL on D_r. max_epochs: the last that opens with a max pass on D_f."""

    gamma: Positive
    alpha: Positive
    temperature: Positive
    max_epochs: Count
    forget_batch_size: Count
    decay_after: list[Count]
    decay: Share


def passes(images: Images, settings: ScrubSettings) -> int:
    """Forward passes: of teacher and student on D_r, measuring for the rewinding; max passes on D_f after the first."""
    max_passes = 4 * images.forget * (min(images.epochs, settings.max_epochs) - 1)
    return images.epochs * (4 * images.retain + images.val + images.forget) + max_passes


@method(
    "scrub",
    title="SCRUB",
    description="distill from the original on the retain set, away from it on the forget set; rewind to the best epoch",
    citation=(
        "M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou. *Towards Unbounded Machine "
        "Unlearning*. NeurIPS 2023"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels", "val images", "val labels"},
    settings=ScrubSettings,
    passes=passes,
)
def scrub(system: System, request: Request, settings: ScrubSettings) -> System:
    import copy

    import torch

    from munkey.data.image_set import Joined
    from munkey.data.loader import Loader
    from munkey.training.loop import Fit, Outcome, adamw, classified, shuffled
    from munkey.training.precision import Precision
    from munkey.unlearn.finetune import accuracy, distillation, finished

    student, teacher = system.copy_of_model().train(), system.copy_of_model().eval()
    retain, forget, val, tuning = request.retain, request.forget, request.val, request.tuning
    both, first_forget = Joined((retain, forget)), len(retain)
    best_epoch, least_gap = 0, float("inf")  # |validation - forget| accuracy, percentage points
    best_weights: dict[str, torch.Tensor] = {}

    def batches(epoch: int) -> Loader:
        defied = shuffled(len(forget), settings.forget_batch_size, request.generator)
        obeyed = shuffled(len(retain), tuning.settings.batch_size, request.generator)
        opens_with_max = 1 < epoch <= settings.max_epochs  # in epoch 1 the student still is its teacher: no gradient
        passes = [*(first_forget + index for index in defied if opens_with_max), *obeyed]
        return Loader(both, passes, request.device)

    def step(batch: "Batch") -> Outcome:
        images = tuning.augment(batch.images, request.generator)
        with torch.no_grad():
            taught = teacher(images)
        logits = student(images)
        divergence = distillation(logits, taught, settings.temperature)
        loss, correct = classified(logits, batch.labels)
        if batch.index[0] >= first_forget:
            return Outcome(-divergence, correct)
        return Outcome(settings.gamma * loss + settings.alpha * divergence, correct)

    def keep_best(epoch: int) -> dict[str, float]:
        nonlocal best_epoch, least_gap, best_weights
        student.eval()
        val_accuracy, forget_accuracy = accuracy(student, val, request), accuracy(student, forget, request)
        student.train()
        gap = abs(val_accuracy - forget_accuracy)
        if gap < least_gap:
            best_epoch, least_gap, best_weights = epoch, gap, copy.deepcopy(student.state_dict())
        return {"val_accuracy": val_accuracy, "forget_accuracy": forget_accuracy}

    def rate(done: float) -> float:
        falls = sum(done >= epoch for epoch in settings.decay_after)
        return settings.lr_factor * tuning.base_lr * settings.decay**falls

    request.history = Fit(
        epochs=tuning.settings.epochs,
        batches=batches,
        step=step,
        optimizer=adamw(student.parameters(), tuning.settings.betas, tuning.settings.weight_decay),
        rate=rate,
        report=request.report,
        precision=Precision(tuning.precision, request.device),
        after_epoch=keep_best,
    ).run()
    student.load_state_dict(best_weights)
    request.facts = {"chosen_epoch": best_epoch, "validation_gap": least_gap}
    return finished(system, student)

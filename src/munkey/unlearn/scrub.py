"""SCRUB with rewinding (Kurmanji et al. 2023; app. B.2): obey the original on D_r, defy it on D_f."""

from typing import TYPE_CHECKING, Any

from munkey.unlearn import Count, Positive, Request, Share, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor

    from munkey.images import Batch
    from munkey.system import System


class ScrubSettings(Tuned):
    """gamma, alpha: weights of cross-entropy and KL on D_r. max_epochs: how many epochs open with a max pass on D_f."""

    gamma: Positive
    alpha: Positive
    temperature: Positive
    max_epochs: Count
    forget_batch_size: Count
    decay_after: list[Count]
    decay: Share


@method(
    "scrub",
    title="SCRUB",
    description="distil from the original on the retain set, away from it on the forget set; rewind to the best epoch",
    citation="Kurmanji et al. 2023",
    base="vit",
    oracle="retrain-t",
    needs={"retain images", "retain labels", "forget images", "forget labels", "val images", "val labels"},
    settings=ScrubSettings,
)
def scrub(system: "System", request: Request, settings: ScrubSettings) -> "System":
    import copy

    import torch

    from munkey.finetune import accuracy, distillation, finished
    from munkey.images import Joined, Loader
    from munkey.precision import Precision
    from munkey.train import adamw, classified, fit, shuffled

    student, teacher = system.copy_of_model().train(), system.copy_of_model().eval()
    retain, forget, val, tuning = request.retain, request.forget, request.val, request.tuning
    both, first_forget = Joined((retain, forget)), len(retain)
    best: dict[str, Any] = {"gap": float("inf")}

    def batches(epoch: int) -> Loader:
        defied = shuffled(len(forget), settings.forget_batch_size, request.generator)
        obeyed = shuffled(len(retain), tuning.settings.batch_size, request.generator)
        passes = [*(first_forget + index for index in defied if epoch <= settings.max_epochs), *obeyed]
        return Loader(both, passes, request.device)

    def step(batch: "Batch") -> "tuple[Tensor, Tensor]":
        images = tuning.augment(batch.images, request.generator)
        with torch.no_grad():
            taught = teacher(images)
        logits = student(images)
        divergence = distillation(logits, taught, settings.temperature)
        loss, correct = classified(logits, batch.labels)
        if batch.index[0] >= first_forget:
            return -divergence, correct
        return settings.gamma * loss + settings.alpha * divergence, correct

    def keep_best(epoch: int) -> dict[str, float]:
        student.eval()
        found = {"val_accuracy": accuracy(student, val, request), "forget_accuracy": accuracy(student, forget, request)}
        student.train()
        gap = abs(found["val_accuracy"] - found["forget_accuracy"])
        if gap < best["gap"]:
            best.update(gap=gap, epoch=epoch, weights=copy.deepcopy(student.state_dict()))
        return found

    def rate(done: float) -> float:
        falls = sum(done >= epoch for epoch in settings.decay_after)
        return settings.lr_factor * tuning.base_lr * settings.decay**falls

    optimizer = adamw(student.parameters(), tuning.settings.betas, tuning.settings.weight_decay)
    precision = Precision(tuning.precision, request.device)
    request.history = fit(
        tuning.settings.epochs, batches, step, optimizer, rate, request.report, keep_best, precision=precision
    )
    student.load_state_dict(best["weights"])
    request.facts = {"chosen_epoch": best["epoch"], "validation_gap": best["gap"]}
    return finished(system, student)

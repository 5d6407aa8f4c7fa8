"""LoTUS (Spartalis et al. 2025; beyond the paper): answer the forget set as unsurely as new data."""

import math
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Positive, Share
from munkey.unlearn.contract import Images, Request, Tuned, method

if TYPE_CHECKING:
    from munkey.data.loader import Batch

SURE_ENOUGH = -0.01  # forget less validation accuracy, as shares, at which it stops (the original's value)


class LotusSettings(Tuned):
    """alpha: how fast answers blur with the excess of forget over validation accuracy. retain_share: of D_r, once."""

    alpha: Positive
    retain_share: Share


def lotus_passes(images: Images, settings: LotusSettings) -> float:
    """Forward passes of teacher and student, and those that measure the forget set each epoch."""
    used = settings.retain_share * images.retain + images.forget
    return images.val + images.epochs * (4 * used + images.forget)


@method(
    "lotus",
    title="LoTUS",
    description="distill from the original: blurred answers on the forget set, draws of its answers on the retain set",
    citation=("C. Spartalis et al. *LoTUS: Large-Scale Machine Unlearning with a Taste of Uncertainty*. CVPR 2025"),
    family="vit",
    needs={"forget images", "forget labels", "retain images", "val images", "val labels"},
    settings=LotusSettings,
    passes=lotus_passes,
)
def lotus(system: System, request: Request, settings: LotusSettings) -> System:
    import torch

    from munkey.core.device import to_device
    from munkey.data.image_set import Joined
    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import accuracy, finished, fitted, marked, optimizer_of

    student, teacher, tuning = system.copy_of_model(), system.copy_of_model().eval(), request.tuning
    retain, forget = request.retain, request.forget
    chosen = torch.randperm(len(retain), generator=request.generator)[: int(settings.retain_share * len(retain))]
    samples = Joined((marked(retain, chosen, False), marked(forget, torch.arange(len(forget)), True)))
    optimizer, new, blur = optimizer_of(student, request), accuracy(teacher, request.val, request), 1.0

    def step(batch: "Batch") -> Outcome:
        images = tuning.augment(batch.images, request.generator)
        with torch.no_grad():
            taught = teacher(images).float()
        uniform = torch.rand(taught.shape, generator=request.generator).clamp(min=1e-20)
        drawn = taught + to_device(-(-uniform.log()).log(), request.device)  # Gumbel: its argmax is a draw
        once = torch.nn.functional.one_hot(drawn.argmax(dim=1), taught.shape[1]).float()
        target = torch.where(batch.labels[:, None], (drawn / blur).softmax(dim=1), once)
        logits = student(images)
        loss = -(target * logits.log_softmax(dim=1)).sum(dim=1).mean()
        return Outcome(loss, (logits.detach().argmax(dim=1) == taught.argmax(dim=1)).sum())

    for epoch in range(1, tuning.settings.epochs + 1):
        excess = (accuracy(student.eval(), forget, request) - new) / 100
        if excess <= SURE_ENOUGH:
            break
        blur = math.exp(settings.alpha * excess)
        student.train()
        (entry,) = fitted(samples, step, optimizer, request, lambda _: settings.lr_factor * tuning.base_lr, epochs=1)
        request.history.append(entry | {"epoch": epoch, "temperature": blur})
    request.facts = {"epochs": len(request.history)}
    return finished(system, student)

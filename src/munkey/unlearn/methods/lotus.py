"""LoTUS (Spartalis et al. 2025; beyond the paper): predict as uncertainly as on unseen data."""

import math
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Positive, Share
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from munkey.data.loader import Batch

STOP_AT = -0.01  # forget minus validation accuracy, as shares; the value of the released code


class LotusSettings(TuningSettings):
    """The method's section of params.yaml.

    Attributes
    ----------
    alpha
        How strongly predictions are blurred as forget accuracy exceeds validation accuracy.
    retain_share
        The share of D_r to use, drawn once.
    """

    alpha: Positive
    retain_share: Share


def count_lotus_passes(images: Images, settings: LotusSettings) -> float:
    """Count the passes of teacher and student, and of measuring accuracy in each epoch."""
    training_images = settings.retain_share * images.retain + images.forget
    return images.val + images.epochs * (4 * training_images + images.forget)


@method(
    "lotus",
    title="LoTUS",
    description=(
        "distill from the original: smoothed predictions on the forget set, sampled ones on the "
        "retain set"
    ),
    citation=(
        "C. Spartalis et al. *LoTUS: Large-Scale Machine Unlearning with a Taste of"
        " Uncertainty*. CVPR 2025"
    ),
    family="vit",
    needs={"forget images", "forget labels", "retain images", "val images", "val labels"},
    settings=LotusSettings,
    passes=count_lotus_passes,
)
def lotus(system: System, request: Request, settings: LotusSettings) -> System:
    """Train a student on the original's predictions, blurred on D_f to the level of unseen data."""
    import torch

    from munkey.core.device import to_device
    from munkey.data.image_set import JoinedSet
    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import finish, fit, make_optimizer, mark_samples, measure_accuracy

    student = system.copy_model()
    teacher = system.copy_model().eval()
    retain = request.retain
    forget = request.forget
    tuning = request.tuning
    order = torch.randperm(len(retain), generator=request.generator)
    retain_sample = order[: int(settings.retain_share * len(retain))]
    # Labels are not needed, so they are replaced by whether a sample is from the forget set.
    from_retain = mark_samples(retain, retain_sample, False)
    from_forget = mark_samples(forget, torch.arange(len(forget)), True)
    samples = JoinedSet((from_retain, from_forget))
    optimizer = make_optimizer(student, request)
    rate = settings.lr_factor * tuning.base_lr
    unseen_accuracy = measure_accuracy(teacher, request.val, request)
    temperature = 1.0

    def step(batch: "Batch") -> Outcome:
        images = tuning.augment(batch.images, request.generator)
        is_forget = batch.labels[:, None]
        with torch.no_grad():
            teacher_logits = teacher(images).float()
        # With Gumbel noise on logits, their argmax is a draw from the softmax (Gumbel-max trick).
        uniform = torch.rand(teacher_logits.shape, generator=request.generator).clamp(min=1e-20)
        gumbel = -(-uniform.log()).log()
        noisy_logits = teacher_logits + to_device(gumbel, request.device)
        drawn_classes = noisy_logits.argmax(dim=1)
        one_hot = torch.nn.functional.one_hot(drawn_classes, noisy_logits.shape[1]).float()
        blurred = (noisy_logits / temperature).softmax(dim=1)
        targets = torch.where(is_forget, blurred, one_hot)
        logits = student(images)
        loss = -(targets * logits.log_softmax(dim=1)).sum(dim=1).mean()
        agreements = (logits.detach().argmax(dim=1) == teacher_logits.argmax(dim=1)).sum()
        return Outcome(loss, agreements)

    for epoch in range(1, tuning.settings.epochs + 1):
        excess = (measure_accuracy(student.eval(), forget, request) - unseen_accuracy) / 100
        if excess <= STOP_AT:
            break
        # tau = exp(alpha (acc_f - acc_val)) blurs while D_f is predicted better than unseen data.
        temperature = math.exp(settings.alpha * excess)
        student.train()
        (record,) = fit(samples, step, optimizer, request, lambda _: rate, epochs=1)
        request.history.append(record | {"epoch": epoch, "temperature": temperature})
    request.facts = {"epochs": len(request.history)}
    return finish(system, student)

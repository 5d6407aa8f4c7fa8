"""LoTUS (Spartalis et al. 2025; beyond the paper): be as uncertain on D_f as on unseen data."""

import math
from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Positive, Share
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from munkey.data.loader import Batch

# Training stops when forget accuracy minus validation accuracy, in [-1, 1], is at most this value,
# which is from the released code.
STOP_EXCESS = -0.01


class LotusSettings(TuningSettings):
    """The section `unlearn.lotus` of params.yaml."""

    alpha: Positive
    retain_share: Share


def lotus_passes(images: Images, settings: LotusSettings) -> float:
    """Count the passes of the teacher and the student, and those for measuring accuracy."""
    training_images = settings.retain_share * images.retain + images.forget
    return images.val + images.epochs * (4 * training_images + images.forget)


@method(
    "lotus",
    title="LoTUS",
    description=(
        "distill from the original: softened predictions on the forget set, sampled predictions"
        " on the retain set"
    ),
    citation=(
        "C. Spartalis et al. *LoTUS: Large-Scale Machine Unlearning with a Taste of"
        " Uncertainty*. CVPR 2025"
    ),
    family="vit",
    needs={"forget images", "forget labels", "retain images", "val images", "val labels"},
    settings=LotusSettings,
    passes=lotus_passes,
)
def lotus(system: System, request: Request, settings: LotusSettings) -> System:
    """Train a student on the original's predictions, softened on D_f."""
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
    retain_positions = order[: int(settings.retain_share * len(retain))]
    # The true labels are not needed. Instead, a sample's label says whether it is in D_f.
    retain_samples = mark_samples(retain, retain_positions, mark=False)
    forget_samples = mark_samples(forget, torch.arange(len(forget)), mark=True)
    samples = JoinedSet((retain_samples, forget_samples))
    optimizer = make_optimizer(student, request)
    lr = settings.lr_factor * tuning.base_lr
    unseen_accuracy = measure_accuracy(teacher, request.val, request)
    temperature = 1.0  # used by `step`, and updated before each epoch

    def step(batch: "Batch") -> Outcome:
        images = tuning.augment(batch.images, request.generator)
        is_forget = batch.labels[:, None]
        with torch.no_grad():
            teacher_logits = teacher(images).float()
        # The argmax of logits plus Gumbel noise is a sample from the softmax (Gumbel-max trick).
        uniform = torch.rand(teacher_logits.shape, generator=request.generator).clamp(min=1e-20)
        gumbel = -(-uniform.log()).log()
        noisy_logits = teacher_logits + to_device(gumbel, request.device)
        sampled_classes = noisy_logits.argmax(dim=1)
        sampled = torch.nn.functional.one_hot(sampled_classes, noisy_logits.shape[1]).float()
        softened = (noisy_logits / temperature).softmax(dim=1)
        targets = torch.where(is_forget, softened, sampled)
        logits = student(images)
        loss = -(targets * logits.log_softmax(dim=1)).sum(dim=1).mean()
        agreements = (logits.detach().argmax(dim=1) == teacher_logits.argmax(dim=1)).sum()
        return Outcome(loss, agreements)

    for epoch in range(1, tuning.settings.epochs + 1):
        excess = (measure_accuracy(student.eval(), forget, request) - unseen_accuracy) / 100
        if excess <= STOP_EXCESS:
            break
        # tau = exp(alpha (acc_f - acc_val)) is above 1, which softens the targets, as long as the
        # model is more accurate on D_f than on unseen data.
        temperature = math.exp(settings.alpha * excess)
        student.train()
        (record,) = fit(samples, step, optimizer, request, learning_rate=lambda _: lr, epochs=1)
        request.history.append(record | {"epoch": epoch, "temperature": temperature})
    request.facts = {"epochs": len(request.history)}
    return finish(system, student)

"""Bad-Teacher (Chundawat et al. 2023; beyond the paper): imitate an untrained model on D_f."""

from typing import TYPE_CHECKING

from munkey.models.family import FAMILIES, System
from munkey.settings import Positive, Share
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class BadTeacherSettings(TuningSettings):
    """The section `unlearn.bad-teacher` of params.yaml."""

    temperature: Positive
    retain_share: Share


def bad_teacher_passes(images: Images, settings: BadTeacherSettings) -> float:
    """Count the passes of two teachers and of the student, which also makes a backward pass."""
    per_epoch = settings.retain_share * images.retain + images.forget
    return 5 * images.epochs * per_epoch


@method(
    "bad-teacher",
    title="Bad-Teacher",
    description=(
        "distill from the original on the retain set and from an untrained model on the forget set"
    ),
    citation=(
        "V. S. Chundawat, A. K. Tarun, M. Mandal, M. Kankanhalli. *Can Bad Teaching Induce "
        "Forgetting? Unlearning in Deep Networks Using an Incompetent Teacher*. AAAI 2023"
    ),
    family="vit",
    needs={"retain images", "forget images"},
    settings=BadTeacherSettings,
    passes=bad_teacher_passes,
)
def bad_teacher(system: System, request: Request, settings: BadTeacherSettings) -> System:
    """Train a student that imitates the original on D_r and an untrained network on D_f."""
    import torch

    from munkey.data.image_set import JoinedSet
    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import distillation_loss, finetune, mark_samples

    competent_teacher = system.copy_model().eval()
    incompetent_teacher = FAMILIES[system.family].build(system.architecture, request.generator)
    incompetent_teacher.eval().to(request.device)
    retain = request.retain
    forget = request.forget
    order = torch.randperm(len(retain), generator=request.generator)
    retain_positions = order[: int(settings.retain_share * len(retain))]
    # The true labels are not needed. Instead, a sample's label says whether it is in D_f.
    retain_samples = mark_samples(retain, retain_positions, mark=False)
    forget_samples = mark_samples(forget, torch.arange(len(forget)), mark=True)

    def objective(student: "nn.Module", images: "Tensor", is_forget: "Tensor") -> "Outcome":
        # Minimize T^2 KL(softmax(t / T) || softmax(f / T)), where t are the logits of the untrained
        # teacher on D_f and of the original on D_r.
        with torch.no_grad():
            targets = torch.where(
                is_forget[:, None],
                incompetent_teacher(images),
                competent_teacher(images),
            )
        logits = student(images)
        agreements = (logits.detach().argmax(dim=1) == targets.argmax(dim=1)).sum()
        return Outcome(distillation_loss(logits, targets, settings.temperature), agreements)

    samples = JoinedSet((retain_samples, forget_samples))
    return finetune(system, request, settings.lr_factor, samples, objective=objective)

"""Bad-Teacher (Chundawat et al. 2023; beyond the paper): imitate an untrained model on D_f, the original on D_r.

The only method here that fine-tunes on images without their labels.
"""

from typing import TYPE_CHECKING

from munkey.models.family import FAMILIES, System
from munkey.settings import Positive, Share
from munkey.unlearn.contract import Request, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class BadTeacherSettings(Tuned):
    """temperature: of both teachers and the student. retain_share: share of D_r that is used, drawn once."""

    temperature: Positive
    retain_share: Share


@method(
    "bad-teacher",
    title="Bad-Teacher",
    description="distill from the original on the retain set, from an untrained model on the forget set",
    citation=(
        "V. S. Chundawat, A. K. Tarun, M. Mandal, M. Kankanhalli. *Can Bad Teaching Induce "
        "Forgetting? Unlearning in Deep Networks Using an Incompetent Teacher*. AAAI 2023"
    ),
    family="vit",
    needs={"retain images", "forget images"},
    settings=BadTeacherSettings,
    passes=lambda images, settings: images.epochs * (settings.retain_share * images.retain + images.forget) * 5,
)
def bad_teacher(system: System, request: Request, settings: BadTeacherSettings) -> System:
    import torch

    from munkey.data.image_set import Joined
    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import distillation, finetune, marked

    good = system.copy_of_model().eval()
    bad = FAMILIES[system.family].build(system.architecture, request.generator).eval().to(request.device)
    retain, forget = request.retain, request.forget
    order = torch.randperm(len(retain), generator=request.generator)
    chosen = order[: int(settings.retain_share * len(retain))]

    def objective(student: "nn.Module", images: "Tensor", is_forget: "Tensor") -> "Outcome":
        with torch.no_grad():
            taught = torch.where(is_forget[:, None], bad(images), good(images))
        logits = student(images)
        agrees = (logits.detach().argmax(dim=1) == taught.argmax(dim=1)).sum()
        return Outcome(distillation(logits, taught, settings.temperature), agrees)

    samples = Joined((marked(retain, chosen, False), marked(forget, torch.arange(len(forget)), True)))
    return finetune(system, request, settings.lr_factor, samples, objective)

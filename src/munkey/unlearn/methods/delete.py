"""DELETE (Zhou et al. 2025; beyond the paper): distill on D_f without the true class."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.unlearn.contract import Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome

EXCLUDED_LOGIT = -1e10  # the logit of an excluded class, as in the released code


@method(
    "delete",
    title="DELETE",
    description=(
        "distill, on the forget set only, from the original's predictions without the true class"
    ),
    citation="Y. Zhou et al. *Decoupled Distillation to Erase*. CVPR 2025",
    family="vit",
    needs={"forget images", "forget labels"},
    settings=TuningSettings,
    # The teacher makes a forward pass, the student a forward and a backward pass.
    passes=lambda images, _: 4 * images.epochs * images.forget,
)
def delete(system: System, request: Request, settings: TuningSettings) -> System:
    """Train on D_f to predict like the original, but with the true class excluded."""
    import torch

    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import distillation_loss, finetune

    teacher = system.copy_model().eval()

    def objective(student: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        # Minimize KL(p || softmax(f)), where p is the original's softmax without the true class.
        with torch.no_grad():
            targets = teacher(images).float().scatter(1, labels[:, None], EXCLUDED_LOGIT)
        logits = student(images)
        correct = (logits.detach().argmax(dim=1) == labels).sum()
        return Outcome(distillation_loss(logits, targets, temperature=1.0), correct)

    return finetune(system, request, settings.lr_factor, request.forget, objective=objective)

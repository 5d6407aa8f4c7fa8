"""Boundary Shrink (Chen et al. 2023; beyond the paper): move D_f across its nearest boundary."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Positive
from munkey.unlearn.contract import Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class BoundaryShrinkSettings(TuningSettings):
    """The section `unlearn.boundary-shrink` of params.yaml."""

    bound: Positive


@method(
    "boundary-shrink",
    title="Boundary Shrink",
    description=(
        "fine-tune on the forget set, with each image labeled as the class across its nearest"
        " decision boundary"
    ),
    citation="M. Chen, W. Gao, G. Liu, K. Peng, C. Wang. *Boundary Unlearning*. CVPR 2023",
    family="vit",
    needs={"forget images", "forget labels"},
    settings=BoundaryShrinkSettings,
    # The attack makes a forward and a backward pass, the labels a forward pass, the student both.
    passes=lambda images, _: 7 * images.epochs * images.forget,
)
def boundary_shrink(system: System, request: Request, settings: BoundaryShrinkSettings) -> System:
    """Fine-tune on D_f, labeled as the original predicts after an adversarial step."""
    import torch
    from torch.nn import functional as F

    from munkey.training.loop import classification_outcome
    from munkey.unlearn.finetune import finetune

    teacher = system.copy_model().eval()
    augment = request.tuning.augment

    def objective(student: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        # Make one FGSM step (Goodfellow et al. 2015) on pixels in [0, 1]. `images` are normalized.
        images.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(teacher(images), labels), images)
        images = images.detach()
        pixels = images * augment.std + augment.mean
        adversarial = (pixels + settings.bound * gradient.sign()).clamp(0, 1)
        adversarial = (adversarial * 255).round() / 255  # as in a stored 8-bit image
        with torch.no_grad():
            nearest_classes = teacher((adversarial - augment.mean) / augment.std).argmax(dim=1)
        return classification_outcome(student(images), nearest_classes)

    return finetune(system, request, settings.lr_factor, request.forget, objective=objective)

"""Boundary Shrink (Chen et al. 2023; beyond the paper): move the forget set across its nearest decision boundary."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Positive
from munkey.unlearn.contract import Request, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class BoundaryShrinkSettings(Tuned):
    """bound: size of the attack's one step, on pixels in [0, 1]."""

    bound: Positive


@method(
    "boundary-shrink",
    title="Boundary Shrink",
    description="label each picture of the forget set as the original labels its nearest neighbor across a boundary",
    citation="M. Chen, W. Gao, G. Liu, K. Peng, C. Wang. *Boundary Unlearning*. CVPR 2023",
    family="vit",
    needs={"forget images", "forget labels"},
    settings=BoundaryShrinkSettings,
    passes=lambda images, _: 7 * images.epochs * images.forget,
)
def boundary_shrink(system: System, request: Request, settings: BoundaryShrinkSettings) -> System:
    import torch
    from torch.nn import functional as F

    from munkey.training.loop import classified
    from munkey.unlearn.finetune import finetune

    teacher, augment = system.copy_of_model().eval(), request.tuning.augment

    def objective(student: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        images.requires_grad_()
        (uphill,) = torch.autograd.grad(F.cross_entropy(teacher(images), labels), images)
        images = images.detach()
        moved = (images * augment.std + augment.mean + settings.bound * uphill.sign()).clamp(0, 1)
        with torch.no_grad():
            nearest = teacher(((moved * 255).round() / 255 - augment.mean) / augment.std).argmax(dim=1)
        return classified(student(images), nearest)

    return finetune(system, request, settings.lr_factor, request.forget, objective)

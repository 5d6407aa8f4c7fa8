"""l1-sparse (Jia et al. 2023; app. B.2): fine-tune on the retain set with an l1 penalty on the backbone's weights."""

from typing import TYPE_CHECKING, Literal

from munkey.models.family import System
from munkey.settings import Positive
from munkey.unlearn.contract import Request, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class L1SparseSettings(Tuned):
    """lam: lambda, weight of the penalty. schedule: the same in all epochs, or falling to 0 in equal steps."""

    lam: Positive
    schedule: Literal["constant", "linear"]


PATCHES = "patch_embed.", "body.patch_embed."


@method(
    "l1-sparse",
    title="ℓ₁-sparse",
    description="fine-tune on the retain set with an l1 penalty on the backbone",
    citation=(
        "J. Jia, J. Liu, P. Ram, Y. Yao, G. Liu, Y. Liu, P. Sharma, S. Liu. *Model Sparsity "
        "Can Simplify Machine Unlearning*. NeurIPS 2023"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels"},
    settings=L1SparseSettings,
)
def l1_sparse(system: System, request: Request, settings: L1SparseSettings) -> System:
    from itertools import count

    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import cross_entropy, finetune

    tuning, steps = request.tuning.settings, count()
    steps_per_epoch = -(-len(request.retain) // tuning.batch_size)

    def objective(model: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        loss, correct = cross_entropy(model, images, labels)
        done = next(steps) // steps_per_epoch / tuning.epochs
        lam = settings.lam * (1 - done if settings.schedule == "linear" else 1)
        return Outcome(loss + lam * sum(weight.abs().sum() for weight in penalized(model).values()), correct)

    return finetune(system, request, settings.lr_factor, request.retain, objective)


def penalized(model: "nn.Module") -> "dict[str, nn.Parameter]":
    """Matrices and convolutions: no biases, norms, [CLS], positions, patch embedding or head, and nothing frozen."""
    inner = (pair for pair in model.named_parameters() if not pair[0].startswith(("head.", *PATCHES)))
    return {
        name: weight for name, weight in inner if weight.requires_grad and name.endswith("weight") and weight.ndim > 1
    }

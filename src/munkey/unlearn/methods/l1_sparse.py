"""l1-sparse (Jia et al. 2023; app. B.2): fine-tune on the retain set, with an l1 penalty."""

import math
from typing import TYPE_CHECKING, Literal

from munkey.models.family import System
from munkey.settings import Positive
from munkey.unlearn.contract import Request, TuningSettings, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class L1SparseSettings(TuningSettings):
    """The section `unlearn.l1-sparse` of params.yaml."""

    lam: Positive
    schedule: Literal["constant", "linear"]


# The penalty is on the backbone, so not on the head. The paper also excludes embeddings.
UNPENALIZED = ("head.", "patch_embed.", "body.patch_embed.")


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
    """Fine-tune on D_r with an l1 penalty on the weights of the backbone."""
    from itertools import count

    from munkey.training.loop import Outcome
    from munkey.unlearn.finetune import cross_entropy, finetune

    tuning = request.tuning.settings
    steps_per_epoch = math.ceil(len(request.retain) / tuning.batch_size)
    step_numbers = count()

    def objective(model: "nn.Module", images: "Tensor", labels: "Tensor") -> "Outcome":
        loss, correct = cross_entropy(model, images, labels)
        completed_epochs = next(step_numbers) // steps_per_epoch
        if settings.schedule == "linear":
            lam = settings.lam * (1 - completed_epochs / tuning.epochs)
        else:
            lam = settings.lam
        # L = cross-entropy + lam |w|_1
        penalty = sum(weight.abs().sum() for weight in penalized_weights(model).values())
        return Outcome(loss + lam * penalty, correct)

    return finetune(system, request, settings.lr_factor, request.retain, objective=objective)


def penalized_weights(model: "nn.Module") -> "dict[str, nn.Parameter]":
    """Return the trainable weights of linear layers and convolutions in the backbone, by name."""
    weights = {}
    for name, parameter in model.named_parameters():
        is_matrix = name.endswith("weight") and parameter.ndim > 1  # excludes norms and biases
        if is_matrix and parameter.requires_grad and not name.startswith(UNPENALIZED):
            weights[name] = parameter
    return weights

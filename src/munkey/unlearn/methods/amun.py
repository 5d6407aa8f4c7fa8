"""AMUN (Ebrahimpour-Boroojeny et al. 2025; app. B.2): learn D_r and adversarial images of D_f."""

import math
from collections import Counter
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from munkey.core.device import to_host
from munkey.models.family import System
from munkey.settings import Count, Positive, Share
from munkey.unlearn.contract import Images, Request, TuningSettings, method

if TYPE_CHECKING:
    from munkey.data.image_set import LabeledSet


class AmunSettings(TuningSettings):
    """Settings of the PGD attack and of the training set.

    Attributes
    ----------
    epsilon
        The first L2 radius, on pixels in [0, 1], which doubles up to epsilon_cap.
    steps
        The number of steps in each ball.
    stride
        The length of a step, as a multiple of the radius.
    keep_forget
        Whether to also train on the clean forget set.
    """

    epsilon: Positive
    epsilon_cap: Positive
    steps: Count
    stride: Share
    keep_forget: bool

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.epsilon_cap < self.epsilon:
            raise ValueError(
                f"epsilon_cap = {self.epsilon_cap} must be at least epsilon = {self.epsilon}"
            )
        return self


def count_amun_passes(images: Images, settings: AmunSettings) -> int:
    """Count the steps of all radii, an upper bound for the attack, and fine-tuning."""
    doublings = int(math.log2(settings.epsilon_cap / settings.epsilon) + 1e-9)  # 1e-9: rounding
    attack = images.forget * (1 + settings.steps * (1 + doublings))
    return 3 * (attack + images.epochs * (images.retain + images.forget))


@method(
    "amun",
    title="AMUN",
    description=(
        "fine-tune on the retain set and on adversarial images of the forget set, labeled as"
        " the model errs"
    ),
    citation=(
        "A. Ebrahimpour-Boroojeny, H. Sundaram, V. Chandrasekaran. *AMUN: Adversarial Machine"
        " UNlearning*. 2025"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=AmunSettings,
    passes=count_amun_passes,
)
def amun(system: System, request: Request, settings: AmunSettings) -> System:
    """Fine-tune on D_r and on adversarial images of D_f, with the original's wrong predictions."""
    import torch

    from munkey.data.image_set import JoinedSet, TensorSet
    from munkey.unlearn.adversarial import list_doubling_radii, untargeted_l2
    from munkey.unlearn.finetune import finetune

    model = system.copy_model().eval()
    forget = request.forget
    tuning = request.tuning
    radii = list_doubling_radii(settings.epsilon, settings.epsilon_cap)

    def predict_logits(pixels: torch.Tensor) -> torch.Tensor:
        return model(tuning.augment.eval_transform(pixels))

    images = torch.empty(0)  # of the successful attacks, concatenated
    predicted: list[int] = []
    radii_of_success: list[float] = []
    for index in torch.arange(len(forget)).split(tuning.settings.batch_size):
        clean, labels = forget.batch(index, request.device)
        result = untargeted_l2(
            predict_logits, clean, labels, radii, settings.steps, settings.stride
        )
        if not len(images):
            # Allocated once, as it may take gigabytes; only pages that are written use memory.
            images = torch.empty(len(forget), *clean.shape[1:])
        is_fooled = result.radius.isfinite()
        start = len(predicted)
        predicted += result.predicted[is_fooled].tolist()
        radii_of_success += result.radius[is_fooled].tolist()
        images[start : len(predicted)] = to_host(result.images[is_fooled])
        request.report(f"attacked {int(index[-1]) + 1}/{len(forget)} images")
    counts = Counter(sorted(radii_of_success))
    epsilons = {f"{radius:g}": count for radius, count in counts.items()}
    request.facts = {"epsilon": epsilons, "failed": len(forget) - len(predicted)}
    labels_as_predicted = torch.tensor(predicted, dtype=torch.int64)
    parts: list[LabeledSet] = [request.retain]
    if settings.keep_forget:
        parts.append(forget)
    parts.append(TensorSet(images[: len(predicted)], labels_as_predicted))
    return finetune(system, request, settings.lr_factor, JoinedSet(tuple(parts)))

"""AMUN (Ebrahimpour-Boroojeny et al. 2025; app. B.2): learn adversarial images of D_f."""

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
    """The section `unlearn.amun` of params.yaml."""

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


def amun_passes(images: Images, settings: AmunSettings) -> int:
    """Count the passes of the attack, at all radii, and of fine-tuning."""
    # 1e-9 makes up for rounding errors in the logarithm, before it is rounded down.
    doublings = int(math.log2(settings.epsilon_cap / settings.epsilon) + 1e-9)
    attack = images.forget * (1 + settings.steps * (1 + doublings))
    return 3 * (attack + images.epochs * (images.retain + images.forget))


@method(
    "amun",
    title="AMUN",
    description=(
        "fine-tune on the retain set and on adversarial images of the forget set, labeled with"
        " the model's wrong predictions"
    ),
    citation=(
        "A. Ebrahimpour-Boroojeny, H. Sundaram, V. Chandrasekaran. *AMUN: Adversarial Machine"
        " UNlearning*. 2025"
    ),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=AmunSettings,
    passes=amun_passes,
)
def amun(system: System, request: Request, settings: AmunSettings) -> System:
    """Fine-tune on D_r and on adversarial images of D_f, labeled as the original predicts."""
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

    # The results of all successful attacks.
    adversarial_images = torch.empty(0)
    adversarial_labels: list[int] = []
    attack_radii: list[float] = []
    for index in torch.arange(len(forget)).split(tuning.settings.batch_size):
        clean, labels = forget.batch(index, request.device)
        result = untargeted_l2(
            predict_logits, clean, labels, radii, settings.steps, settings.stride
        )
        if not len(adversarial_images):
            # Allocate memory for the whole forget set, which may be gigabytes, only once. The
            # operating system maps only the pages that are written.
            adversarial_images = torch.empty(len(forget), *clean.shape[1:])
        is_successful = result.radius.isfinite()
        start = len(adversarial_labels)
        adversarial_labels += result.predicted[is_successful].tolist()
        attack_radii += result.radius[is_successful].tolist()
        adversarial_images[start : len(adversarial_labels)] = to_host(result.images[is_successful])
        request.report(f"attacked {int(index[-1]) + 1}/{len(forget)} images")
    counts = Counter(sorted(attack_radii))
    epsilons = {f"{radius:g}": count for radius, count in counts.items()}
    success_count = len(adversarial_labels)
    request.facts = {"epsilon": epsilons, "failed": len(forget) - success_count}
    adversarial_set = TensorSet(
        adversarial_images[:success_count], torch.tensor(adversarial_labels, dtype=torch.int64)
    )
    parts: list[LabeledSet] = [request.retain]
    if settings.keep_forget:
        parts.append(forget)
    parts.append(adversarial_set)
    return finetune(system, request, settings.lr_factor, JoinedSet(tuple(parts)))

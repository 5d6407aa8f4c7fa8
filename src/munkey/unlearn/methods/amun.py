"""AMUN (Ebrahimpour-Boroojeny et al. 2025; app. B.2): fine-tune on D_r and on adversarial images of D_f."""

import math
from collections import Counter
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from munkey.core.device import to_host
from munkey.models.family import System
from munkey.settings import Count, Positive, Share
from munkey.unlearn.contract import Images, Request, Tuned, method

if TYPE_CHECKING:
    from munkey.data.image_set import Labeled


class AmunSettings(Tuned):
    """epsilon: first L2 radius on [0, 1] pixels, doubled up to epsilon_cap. stride: step of the attack / radius."""

    epsilon: Positive
    epsilon_cap: Positive
    steps: Count
    stride: Share
    keep_forget: bool

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.epsilon_cap < self.epsilon:
            raise ValueError(f"epsilon_cap = {self.epsilon_cap} must be at least epsilon = {self.epsilon}")
        return self


def passes(images: Images, settings: AmunSettings) -> int:
    """Forward passes: at most all steps of all radii, and fine-tuning."""
    radii = 1 + int(math.log2(settings.epsilon_cap / settings.epsilon) + 1e-9)
    attack = images.forget * (1 + settings.steps * radii)
    return 3 * (attack + images.epochs * (images.retain + images.forget))


@method(
    "amun",
    title="AMUN",
    description="fine-tune on the retain set and on adversarial images of the forget set, labeled as the model errs",
    citation=("A. Ebrahimpour-Boroojeny, H. Sundaram, V. Chandrasekaran. *AMUN: Adversarial Machine UNlearning*. 2025"),
    in_paper=True,
    family="vit",
    needs={"retain images", "retain labels", "forget images", "forget labels"},
    settings=AmunSettings,
    # Its adversarial images, and in the attack some copies of a batch.
    passes=passes,
)
def amun(system: System, request: Request, settings: AmunSettings) -> System:
    import torch

    from munkey.data.image_set import Joined, TensorSet
    from munkey.unlearn.adversarial import doubling, untargeted_l2
    from munkey.unlearn.finetune import finetune

    model, forget, tuning = system.copy_of_model().eval(), request.forget, request.tuning
    radii = doubling(settings.epsilon, settings.epsilon_cap)
    answer = lambda pixels: model(tuning.augment.plain(pixels))  # noqa: E731
    images = torch.empty(0)
    predicted: list[int] = []
    took: list[float] = []
    for index in torch.arange(len(forget)).split(tuning.settings.batch_size):
        clean, labels = forget.batch(index, request.device)
        attacked = untargeted_l2(answer, clean, labels, radii, settings.steps, settings.stride)
        if not len(images):  # gigabytes: held once, and touched only as far as attacks succeed
            images = torch.empty(len(forget), *clean.shape[1:])
        fooled = attacked.radius.isfinite()
        start = len(predicted)
        predicted += attacked.predicted[fooled].tolist()
        took += attacked.radius[fooled].tolist()
        images[start : len(predicted)] = to_host(attacked.images[fooled])
        request.report(f"attacked {int(index[-1]) + 1}/{len(forget)} images")
    epsilons = {f"{radius:g}": count for radius, count in Counter(sorted(took)).items()}
    request.facts = {"epsilon": epsilons, "failed": len(forget) - len(took)}
    kept: list[Labeled] = [request.retain, *([forget] if settings.keep_forget else [])]
    adversarial = TensorSet(images[: len(took)], torch.tensor(predicted, dtype=torch.int64))
    return finetune(system, request, settings.lr_factor, Joined((*kept, adversarial)))

"""FCS, forget, contrast, strengthen (Cadet et al. 2024; beyond the paper): spread answers, then repair, in rounds."""

from typing import TYPE_CHECKING

from munkey.models.family import System
from munkey.settings import Positive
from munkey.unlearn.contract import Request, Tuned, method

if TYPE_CHECKING:
    from torch import Tensor, nn

    from munkey.training.loop import Outcome


class FCSSettings(Tuned):
    """first, contrast: rates of the first pass and of the forget rounds / that of the retain rounds. temperature: of
    the products of logits.
    """

    first: Positive
    contrast: Positive
    temperature: Positive


@method(
    "fcs",
    title="FCS",
    description="answer the forget set uniformly; then, in turns, unlike any of the retain set, and fine-tune on that",
    citation=(
        "X. F. Cadet, A. Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi. *Deep Unlearn: "
        "Benchmarking Machine Unlearning for Image Classification*"
    ),
    family="vit",
    needs={"retain images", "retain labels", "forget images"},
    settings=FCSSettings,
    passes=lambda images, _: 3 * images.forget + images.epochs * (3 * images.retain + 4 * images.forget),
)
def fcs(system: System, request: Request, settings: FCSSettings) -> System:
    import torch

    from munkey.training.loop import cosine
    from munkey.unlearn.finetune import endless, finished, fitted, marked, optimizer_of, spread, training_step

    model, tuning, retain = system.copy_of_model().train(), request.tuning, request.retain
    forget = marked(request.forget, torch.arange(len(request.forget)), True)  # no labels are needed
    rate, history = settings.lr_factor * tuning.base_lr, request.history
    falling = cosine(settings.contrast * rate, tuning.settings.epochs, 0)
    uniform = training_step(model, request, lambda model, images, _: spread(model(images)))
    first, contrast, strengthen = (optimizer_of(model, request) for _ in range(3))

    def apart(model: "nn.Module", images: "Tensor", _: "Tensor") -> "Outcome":
        gone = model(images)
        with torch.no_grad():
            kept = model(next(others).images)
        return spread(gone @ kept.T / settings.temperature)

    fitted(forget, uniform, first, request, lambda _: settings.first * rate, epochs=1)
    for _ in range(tuning.settings.epochs):
        others, step = endless(retain, tuning.settings.batch_size, request), training_step(model, request, apart)
        fitted(forget, step, contrast, request, lambda done: falling(len(history) + done), epochs=1)
        (entry,) = fitted(retain, training_step(model, request), strengthen, request, lambda _: rate, epochs=1)
        history.append(entry | {"epoch": len(history) + 1})
    return finished(system, model)

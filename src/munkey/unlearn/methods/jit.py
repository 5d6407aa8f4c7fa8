"""JiT (Foster et al. 2024, arXiv 2402.01401; beyond the paper): flatten the answers around the forget set."""

from munkey.models.family import System
from munkey.settings import Count, Positive, Section
from munkey.unlearn.contract import Request, method


class JitSettings(Section):
    """eta: learning rate; sigma: sd of the noise, in normalized pixels; samples: noisy copies of each picture."""

    eta: Positive
    sigma: Positive
    samples: Count


@method(
    "jit",
    title="JiT",
    description="one pass that lowers how much answers change with noise on the forget set; no labels, no other data",
    citation=(
        "J. Foster et al. *Zero-Shot Machine Unlearning at Scale via Lipschitz Regularization*. arXiv 2402.01401"
    ),
    family="vit",
    needs={"forget images"},
    settings=JitSettings,
    passes=lambda images, settings: (3 + settings.samples) * images.forget,
)
def jit(system: System, request: Request, settings: JitSettings) -> System:
    """Gradients add up over the batches, as in the original, which clears them once."""
    import torch

    from munkey.core.device import to_device
    from munkey.unlearn.finetune import finished, marked
    from munkey.unlearn.saliency import trainable

    model = system.copy_of_model()
    forget = marked(request.forget, torch.arange(len(request.forget)), True)  # no labels are needed
    weights = list(trainable(model).values())
    summed = [torch.zeros_like(weight) for weight in weights]
    for index in torch.arange(len(forget)).split(request.tuning.settings.batch_size):
        images, _ = forget.batch(index, request.device)
        images = request.tuning.augment.plain(images)
        low, high = images.min(), images.max()
        answers, slope = model(images), torch.zeros((), device=images.device)
        for _ in range(settings.samples):
            noise = to_device(torch.randn(images.shape, generator=request.generator), request.device)
            noisy = (images + settings.sigma * noise).clamp(low, high)
            with torch.no_grad():
                others = model(noisy)
            apart = (answers - others).norm(dim=1) / (images - noisy).flatten(1).norm(dim=1)
            slope = slope + apart.sum() / settings.samples
        summed = [total + more for total, more in zip(summed, torch.autograd.grad(slope, weights), strict=True)]
        for weight, gradient in zip(weights, summed, strict=True):
            weight.data -= settings.eta * gradient
    return finished(system, model)

"""JiT (Foster et al. 2024, arXiv 2402.01401; beyond the paper): flatten logits around D_f."""

from munkey.models.family import System
from munkey.settings import Count, Positive, Section
from munkey.unlearn.contract import Request, method


class JitSettings(Section):
    """The method's section of params.yaml.

    Attributes
    ----------
    eta
        The learning rate.
    sigma
        The standard deviation of the noise, in normalized pixels.
    samples
        The number of noisy copies of each image.
    """

    eta: Positive
    sigma: Positive
    samples: Count


@method(
    "jit",
    title="JiT",
    description=(
        "one pass that makes predictions on the forget set change less with noise; no labels, no "
        "other data"
    ),
    citation=(
        "J. Foster et al. *Zero-Shot Machine Unlearning at Scale via Lipschitz Regularization*."
        " arXiv 2402.01401"
    ),
    family="vit",
    needs={"forget images"},
    settings=JitSettings,
    passes=lambda images, settings: (3 + settings.samples) * images.forget,
)
def jit(system: System, request: Request, settings: JitSettings) -> System:
    """Reduce, for each batch of D_f, how steeply the logits change around its images."""
    import torch

    from munkey.core.device import to_device
    from munkey.unlearn.finetune import finish, mark_samples
    from munkey.unlearn.saliency import get_trainable_parameters

    model = system.copy_model()
    # The labels are not needed.
    forget = mark_samples(request.forget, torch.arange(len(request.forget)), True)
    weights = list(get_trainable_parameters(model).values())
    # As in the released code, gradients are cleared only once, so they add up over batches.
    gradient_sums = [torch.zeros_like(weight) for weight in weights]
    for index in torch.arange(len(forget)).split(request.tuning.settings.batch_size):
        images, _ = forget.batch(index, request.device)
        images = request.tuning.augment.eval_transform(images)
        lowest = images.min()
        highest = images.max()
        logits = model(images)
        # The mean over noisy copies of |z(x) - z(x + noise)| / |noise|, summed over the batch: an
        # estimate of how steep the model is around the images (its local Lipschitz constant).
        steepness = torch.zeros((), device=images.device)
        for _ in range(settings.samples):
            noise = torch.randn(images.shape, generator=request.generator)
            noise = to_device(noise, request.device)
            noisy_images = (images + settings.sigma * noise).clamp(lowest, highest)
            with torch.no_grad():
                noisy_logits = model(noisy_images)
            output_distance = (logits - noisy_logits).norm(dim=1)
            input_distance = (images - noisy_images).flatten(1).norm(dim=1)
            steepness = steepness + (output_distance / input_distance).sum() / settings.samples
        gradients = torch.autograd.grad(steepness, weights)
        for weight, gradient_sum, gradient in zip(weights, gradient_sums, gradients, strict=True):
            gradient_sum.add_(gradient)
            weight.data -= settings.eta * gradient_sum
    return finish(system, model)

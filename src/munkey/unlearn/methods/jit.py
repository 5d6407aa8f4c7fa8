"""JiT (Foster et al. 2024, arXiv 2402.01401; beyond the paper): smooth the model around D_f."""

from munkey.models.family import System
from munkey.settings import Count, Positive, Section
from munkey.unlearn.contract import Request, method


class JitSettings(Section):
    """The section `unlearn.jit` of params.yaml."""

    eta: Positive
    sigma: Positive
    samples: Count


@method(
    "jit",
    title="JiT",
    description=(
        "in one pass over the forget set, reduce how much noise changes the predictions; needs no"
        " labels and no other data"
    ),
    citation=(
        "J. Foster et al. *Zero-Shot Machine Unlearning at Scale via Lipschitz Regularization*."
        " arXiv 2402.01401"
    ),
    family="vit",
    needs={"forget images"},
    settings=JitSettings,
    # A forward and a backward pass on each image, and a forward pass on each noisy copy.
    passes=lambda images, settings: (3 + settings.samples) * images.forget,
)
def jit(system: System, request: Request, settings: JitSettings) -> System:
    """Reduce how steep the model is around the images of D_f, in one pass."""
    import torch

    from munkey.core.device import to_device
    from munkey.unlearn.finetune import finish, mark_samples
    from munkey.unlearn.saliency import trainable_parameters

    model = system.copy_model()
    # The labels are not needed, so replace them.
    forget = mark_samples(request.forget, torch.arange(len(request.forget)), mark=True)
    weights = list(trainable_parameters(model).values())
    # As in the released code, gradients are not cleared between batches, so they add up.
    gradient_sums = [torch.zeros_like(weight) for weight in weights]
    for index in torch.arange(len(forget)).split(request.tuning.settings.batch_size):
        stored_images, _ = forget.batch(index, request.device)
        images = request.tuning.augment.eval_transform(stored_images)
        lowest = images.min()
        highest = images.max()
        logits = model(images)
        # The mean of |z(x) - z(x + noise)| / |noise| over noisy copies, summed over the batch. This
        # estimates the model's local Lipschitz constant: how steep it is around the images.
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

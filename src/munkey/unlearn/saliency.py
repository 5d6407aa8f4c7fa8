"""How much each weight matters to a set of samples, by its gradients (SSD, SalUn, MSG)."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.core.device import to_device, to_host
from munkey.data.image_set import LabeledSet
from munkey.training.loop import shuffled_batches
from munkey.unlearn.contract import Request
from munkey.unlearn.finetune import plain_batch, subset

Importances = dict[str, Tensor]
Criterion = Callable[[Tensor, Tensor], Tensor]


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are not frozen, by name."""
    named = model.named_parameters()
    return {name: parameter for name, parameter in named if parameter.requires_grad}


def batch_gradients(
    model: nn.Module,
    samples: LabeledSet,
    request: Request,
    batches: Iterable[Tensor],
    criterion: Criterion = F.cross_entropy,
) -> Iterator[dict[str, Tensor]]:
    """Gradients of the mean loss of each batch, by parameter name; images are not augmented.

    Parameters
    ----------
    batches
        Positions of the samples.
    criterion
        (logits (B, C), labels (B,)) -> scalar.
    """
    trained = trainable_parameters(model)
    for index in batches:
        images, labels = plain_batch(samples, index, request)
        loss = criterion(model(images), labels)
        yield dict(zip(trained, torch.autograd.grad(loss, tuple(trained.values())), strict=True))


def importances(
    model: nn.Module,
    samples: LabeledSet,
    request: Request,
    per_sample: bool = False,
    criterion: Criterion = F.cross_entropy,
    size: Callable[[Tensor], Tensor] = torch.square,
) -> Importances:
    """Return the diagonal of the Fisher information by parameter name, as SSD estimates it.

    It is the mean over batches of the squared gradient of the batch's mean cross-entropy.

    Parameters
    ----------
    per_sample
        Over single samples instead.
    criterion, size
        LFSSD's loss, and its absolute value for the square.
    """
    batch_size = 1 if per_sample else request.tuning.settings.batch_size
    # As in SSD's code, batches follow the order of the samples: shuffled ones would dilute the
    # forget set, which lies at the end of D. Also as there, a set smaller than a batch has larger
    # gradients.
    batches = torch.arange(len(samples)).split(batch_size)
    total = {
        name: torch.zeros_like(parameter) for name, parameter in trainable_parameters(model).items()
    }
    for gradients in batch_gradients(model, samples, request, batches, criterion):
        for name, gradient in gradients.items():
            total[name] += size(gradient)
    for name, importance in total.items():
        importance.div_(len(batches))
        if name.endswith("qkv.bias"):
            # A bias of the keys adds the same number to all scores of a query, which softmax
            # ignores. Its gradient is 0 in exact arithmetic, and rounding noise here.
            importance.view(3, -1)[1] = 0
    return total


def dampen(
    model: nn.Module,
    request: Request,
    forgotten: Importances,
    everything: Importances,
    alpha: float,
    lam: float,
) -> nn.Module:
    """Dampen, in place, the weights that matter more to D_f than to D (SSD). Returns the model.

    Parameters
    ----------
    forgotten, everything
        Importances of the weights to D_f and to D.
    alpha, lam
        See `dampening_factors`.
    """
    is_dampened = []
    for name, parameter in trainable_parameters(model).items():
        factor = dampening_factors(forgotten[name], everything[name], alpha, lam)
        parameter.data.mul_(factor)
        is_dampened.append((factor != 1).flatten())
    flags = torch.cat(is_dampened)
    count = int(to_host(flags.sum()))
    request.facts = {"dampened": count, "weights": len(flags)}
    request.report(f"{count} of {len(flags)} weights dampened")
    if not count:
        rate = len(request.forget) / (len(request.retain) + len(request.forget))
        request.report(
            f"warning: nothing changed. D includes the forget set, so hardly any weight can matter"
            f" alpha = {alpha:g} times more to it unless alpha < 1 / rate = {1 / rate:.1f}:"
            " lower the method's alpha"
        )
    return model


def dampening_factors(forgotten: Tensor, everything: Tensor, alpha: float, lam: float) -> Tensor:
    """Return the factor of each weight: min(lam I_D / I_f, 1) where I_f > alpha I_D, else 1 (SSD)."""
    factor = (lam * everything / forgotten).clamp(max=1)
    return factor.where(forgotten > alpha * everything, 1)


def summed_gradients(model: nn.Module, samples: LabeledSet, request: Request) -> dict[str, Tensor]:
    """Return the sum over shuffled batches of the gradient of the mean cross-entropy, by name (SalUn)."""
    total = {
        name: torch.zeros_like(parameter) for name, parameter in trainable_parameters(model).items()
    }
    batches = shuffled_batches(len(samples), request.tuning.settings.batch_size, request.generator)
    for gradients in batch_gradients(model, samples, request, batches):
        for name, gradient in gradients.items():
            total[name] += gradient
    return total


def top_share(scores: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Masks of the int(share * number) highest scores over all tensors; the earlier of ties."""
    flat_scores = torch.cat([score.flatten() for score in scores.values()])
    count = int(share * len(flat_scores))
    highest = flat_scores.argsort(descending=True, stable=True)[:count]
    flat_mask = torch.zeros_like(flat_scores, dtype=torch.bool)
    flat_mask[highest] = True
    flat_masks = flat_mask.split([score.numel() for score in scores.values()])
    masks = {}
    for (name, score), mask in zip(scores.items(), flat_masks, strict=True):
        masks[name] = mask.view_as(score)
    return masks


def renew_smallest(
    model: nn.Module, names: Iterable[str], share: float, request: Request
) -> dict[str, Tensor]:
    """Re-initialize, in place, the share of each named weight with the smallest gradients (MSG).

    The gradient is that of the retain loss minus the forget loss, over as many retain samples,
    drawn here, as there are forget samples. Frozen weights stay. Returns masks of the new values,
    by name.
    """
    order = torch.randperm(len(request.retain), generator=request.generator)
    retain_sample = subset(request.retain, order[: len(request.forget)].numpy())
    retain_gradients = summed_gradients(model, retain_sample, request)
    forget_gradients = summed_gradients(model, request.forget, request)
    weights = trainable_parameters(model)
    masks: dict[str, Tensor] = {}
    for name in names:
        if name not in weights:
            continue
        smallness = -(retain_gradients[name] - forget_gradients[name]).abs()
        masks |= top_share({name: smallness}, share)
        weight = weights[name]
        # Normal with variance 2 / fan-out (He et al. 2015), drawn on the CPU as all random numbers.
        fresh = torch.empty(weight.shape)
        nn.init.kaiming_normal_(
            fresh, mode="fan_out", nonlinearity="relu", generator=request.generator
        )
        weight.data.copy_(to_device(fresh, request.device).where(masks[name], weight.data))
    return masks

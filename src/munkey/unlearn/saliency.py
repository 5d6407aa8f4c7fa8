"""The importance of each weight to a set of samples, from gradients (SSD, SalUn, MSG)."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.core.device import to_device, to_host
from munkey.data.image_set import LabeledSet
from munkey.training.loop import shuffled_batches
from munkey.unlearn.contract import Request
from munkey.unlearn.finetune import plain_batch, select

Importances = dict[str, Tensor]
Criterion = Callable[[Tensor, Tensor], Tensor]


def get_trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are not frozen, by name."""
    parameters = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameters[name] = parameter
    return parameters


def compute_batch_gradients(
    model: nn.Module,
    samples: LabeledSet,
    request: Request,
    batches: Iterable[Tensor],
    criterion: Criterion = F.cross_entropy,
) -> Iterator[dict[str, Tensor]]:
    """Yield the gradients of each batch's mean loss, by parameter name. Images are not augmented.

    Parameters
    ----------
    batches
        The positions of each batch in `samples`.
    criterion
        (logits (B, C), labels (B,)) -> scalar.
    """
    trained = get_trainable_parameters(model)
    for index in batches:
        images, labels = plain_batch(samples, index, request)
        loss = criterion(model(images), labels)
        gradients = torch.autograd.grad(loss, tuple(trained.values()))
        yield dict(zip(trained, gradients, strict=True))


def compute_importances(
    model: nn.Module,
    samples: LabeledSet,
    request: Request,
    per_sample: bool = False,
    criterion: Criterion = F.cross_entropy,
    size: Callable[[Tensor], Tensor] = torch.square,
) -> Importances:
    """Estimate the diagonal of the Fisher information by parameter name, as SSD does.

    It is the mean over batches of the squared gradient of the batch's mean cross-entropy.

    Parameters
    ----------
    per_sample
        Whether to square the gradients of single samples instead of batches.
    criterion
        The loss: (logits (B, C), labels (B,)) -> scalar. LFSSD uses another one.
    size
        The function of a gradient that is averaged: its square, or its absolute value for LFSSD.
    """
    batch_size = 1 if per_sample else request.tuning.settings.batch_size
    # As in SSD's code, batches are in the order of the samples. Shuffling would dilute the forget
    # set, which is at the end of D. Also as there, a set smaller than a batch has larger gradients.
    batches = torch.arange(len(samples)).split(batch_size)
    total = _make_zeros(model)
    for gradients in compute_batch_gradients(model, samples, request, batches, criterion):
        for name, gradient in gradients.items():
            total[name] += size(gradient)
    for name, importance in total.items():
        importance.div_(len(batches))
        if name.endswith("qkv.bias"):
            # The keys' bias adds the same number to all scores of a query, which softmax ignores.
            # Its gradient is 0 in exact arithmetic, but rounding noise here. The three rows are the
            # biases of queries, keys and values.
            importance.view(3, -1)[1] = 0
    return total


def _make_zeros(model: nn.Module) -> dict[str, Tensor]:
    """Make zeros in the shape of each trainable parameter, by name."""
    zeros = {}
    for name, parameter in get_trainable_parameters(model).items():
        zeros[name] = torch.zeros_like(parameter)
    return zeros


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
        The importances of the weights to D_f and to D.
    alpha, lam
        The threshold and the strength, as in `compute_dampening_factors`.
    """
    is_dampened = []
    for name, parameter in get_trainable_parameters(model).items():
        factor = compute_dampening_factors(forgotten[name], everything[name], alpha, lam)
        parameter.data.mul_(factor)
        is_dampened.append((factor != 1).flatten())
    flags = torch.cat(is_dampened)
    count = int(to_host(flags.sum()))
    request.facts = {"dampened": count, "weights": len(flags)}
    request.report(f"{count} of {len(flags)} weights dampened")
    if not count:
        rate = len(request.forget) / (len(request.retain) + len(request.forget))
        request.report(
            f"warning: nothing changed. D includes the forget set, so hardly any weight can be"
            f" alpha = {alpha:g} times more important to it unless alpha < 1 / rate ="
            f" {1 / rate:.1f}: lower the method's alpha"
        )
    return model


def compute_dampening_factors(
    forgotten: Tensor, everything: Tensor, alpha: float, lam: float
) -> Tensor:
    """Compute each weight's factor: min(lam I_D / I_f, 1) where I_f > alpha I_D, else 1 (SSD)."""
    factor = (lam * everything / forgotten).clamp(max=1)
    return factor.where(forgotten > alpha * everything, 1)


def sum_gradients(model: nn.Module, samples: LabeledSet, request: Request) -> dict[str, Tensor]:
    """Sum the gradients of the mean cross-entropy over shuffled batches, by name (SalUn)."""
    total = _make_zeros(model)
    batches = shuffled_batches(len(samples), request.tuning.settings.batch_size, request.generator)
    for gradients in compute_batch_gradients(model, samples, request, batches):
        for name, gradient in gradients.items():
            total[name] += gradient
    return total


def mask_top_share(scores: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Make masks of the int(share * number) highest scores over all tensors.

    Ties go to the earlier scores.
    """
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

    The gradient is that of the retain loss minus the forget loss. As many retain samples are drawn
    as there are forget samples. Frozen weights are unchanged. Returns masks of the new values, by
    name.
    """
    order = torch.randperm(len(request.retain), generator=request.generator)
    retain_sample = select(request.retain, order[: len(request.forget)].numpy())
    retain_gradients = sum_gradients(model, retain_sample, request)
    forget_gradients = sum_gradients(model, request.forget, request)
    weights = get_trainable_parameters(model)
    masks: dict[str, Tensor] = {}
    for name in names:
        if name not in weights:
            continue
        gradient = retain_gradients[name] - forget_gradients[name]
        masks |= mask_top_share({name: -gradient.abs()}, share)
        weight = weights[name]
        # Normal with variance 2 / fan-out (He et al. 2015), drawn on the CPU like all random
        # numbers.
        new_weight = torch.empty(weight.shape)
        nn.init.kaiming_normal_(
            new_weight, mode="fan_out", nonlinearity="relu", generator=request.generator
        )
        new_weight = to_device(new_weight, request.device)
        weight.data.copy_(new_weight.where(masks[name], weight.data))
    return masks

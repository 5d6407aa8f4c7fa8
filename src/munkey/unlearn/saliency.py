"""The importance of each weight to a set of samples, based on gradients (SSD, SalUn, MSG)."""

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


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
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
    """Yield the gradients of each batch's loss, by parameter name, without augmentation.

    `batches` are positions; ``criterion(logits, labels)`` returns the scalar loss of a batch.
    """
    parameters = trainable_parameters(model)
    for index in batches:
        images, labels = plain_batch(samples, index, request)
        loss = criterion(model(images), labels)
        gradients = torch.autograd.grad(loss, tuple(parameters.values()))
        yield dict(zip(parameters, gradients, strict=True))


def compute_importances(
    model: nn.Module,
    samples: LabeledSet,
    request: Request,
    per_sample: bool = False,
    criterion: Criterion = F.cross_entropy,
    magnitude: Callable[[Tensor], Tensor] = torch.square,
) -> Importances:
    """Return the importance of each weight, by parameter name.

    By default, this is SSD's estimate of the diagonal of the Fisher information: the mean over
    batches of the squared gradient of the batch's mean cross-entropy.

    Parameters
    ----------
    per_sample
        Whether to square the gradients of single samples instead of batches.
    criterion
        ``criterion(logits, labels)`` returns the loss of a batch.
    magnitude
        The function of a gradient that is averaged: its square, or its absolute value for LFSSD.
    """
    batch_size = 1 if per_sample else request.tuning.settings.batch_size
    # As in SSD's code, batches are not shuffled, because shuffling would dilute the forget set,
    # which is at the end of D. Also as in SSD's code, a set smaller than a batch has larger
    # gradients.
    batches = torch.arange(len(samples)).split(batch_size)
    total = _make_zeros(model)
    for gradients in compute_batch_gradients(model, samples, request, batches, criterion):
        for name, gradient in gradients.items():
            total[name] += magnitude(gradient)
    for name, importance in total.items():
        importance.div_(len(batches))
        if name.endswith("qkv.bias"):
            # The bias of the keys adds the same number to all scores of a query. The softmax does
            # not depend on this number, so the gradient is only rounding noise. The three rows are
            # the biases of queries, keys, and values.
            _, key_bias_importance, _ = importance.view(3, -1)
            key_bias_importance.fill_(0)
    return total


def _make_zeros(model: nn.Module) -> dict[str, Tensor]:
    """Return a tensor of zeros for each trainable parameter, by name."""
    zeros = {}
    for name, parameter in trainable_parameters(model).items():
        zeros[name] = torch.zeros_like(parameter)
    return zeros


def dampen(
    model: nn.Module,
    request: Request,
    forget_importances: Importances,
    all_importances: Importances,
    alpha: float,
    lam: float,
) -> nn.Module:
    """Dampen, in place, the weights that are important mainly to the forget set (SSD).

    `all_importances` are to all training samples D; alpha and lam as in
    `compute_dampening_factors`.
    """
    dampened_masks = []
    for name, parameter in trainable_parameters(model).items():
        factors = compute_dampening_factors(
            forget_importances[name], all_importances[name], alpha, lam
        )
        parameter.data.mul_(factors)
        dampened_masks.append((factors != 1).flatten())
    is_dampened = torch.cat(dampened_masks)
    count = int(to_host(is_dampened.sum()))
    request.facts = {"dampened": count, "weights": len(is_dampened)}
    request.report(f"{count} of {len(is_dampened)} weights dampened")
    if not count:
        rate = len(request.forget) / (len(request.retain) + len(request.forget))
        request.report(
            "warning: no weight was dampened. D includes the forget set, so hardly any weight can"
            f" be alpha = {alpha:g} times as important to the forget set as to D unless"
            f" alpha < 1 / rate = {1 / rate:.1f}. Lower the method's alpha"
        )
    return model


def compute_dampening_factors(
    forget_importance: Tensor, all_importance: Tensor, alpha: float, lam: float
) -> Tensor:
    """Return the factor of each weight: min(lam I_D / I_f, 1) if I_f > alpha I_D, else 1 (SSD)."""
    # Where I_f is 0, the quotient is inf or NaN, but the condition is false, so the factor is 1.
    factors = (lam * all_importance / forget_importance).clamp(max=1)
    return factors.where(forget_importance > alpha * all_importance, 1)


def sum_gradients(model: nn.Module, samples: LabeledSet, request: Request) -> dict[str, Tensor]:
    """Return the sum of the cross-entropy's gradients over shuffled batches, by name (SalUn)."""
    total = _make_zeros(model)
    batches = shuffled_batches(len(samples), request.tuning.settings.batch_size, request.generator)
    for gradients in compute_batch_gradients(model, samples, request, batches):
        for name, gradient in gradients.items():
            total[name] += gradient
    return total


def mask_top_share(scores: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return masks of the highest floor(share * count) scores, by name. Ties go to the first score."""
    flat_scores = torch.cat([score.flatten() for score in scores.values()])
    count = int(share * len(flat_scores))
    highest = flat_scores.argsort(descending=True, stable=True)[:count]
    flat_mask = torch.zeros_like(flat_scores, dtype=torch.bool)
    flat_mask[highest] = True
    parts = flat_mask.split([score.numel() for score in scores.values()])
    masks = {}
    for (name, score), part in zip(scores.items(), parts, strict=True):
        masks[name] = part.view_as(score)
    return masks


def reinitialize_smallest(
    model: nn.Module, names: Iterable[str], share: float, request: Request
) -> dict[str, Tensor]:
    """Re-initialize, in place, each weight's entries with the smallest gradients (MSG).

    The gradient is that of the retain loss, on a random subset as large as the forget set, minus
    the forget loss. `share` is that of entries. Frozen weights are skipped. Returns masks of the
    entries.
    """
    order = torch.randperm(len(request.retain), generator=request.generator)
    retain_subset = select(request.retain, order[: len(request.forget)].numpy())
    retain_gradients = sum_gradients(model, retain_subset, request)
    forget_gradients = sum_gradients(model, request.forget, request)
    weights = trainable_parameters(model)
    masks: dict[str, Tensor] = {}
    for name in names:
        if name not in weights:
            continue
        gradient = retain_gradients[name] - forget_gradients[name]
        masks[name] = mask_top_share({name: -gradient.abs()}, share)[name]
        weight = weights[name]
        # Normally distributed with a variance of 2 / fan_out (He et al. 2015). Like all random
        # numbers, the new values are drawn on the CPU.
        new_values = torch.empty(weight.shape)
        nn.init.kaiming_normal_(
            new_values, mode="fan_out", nonlinearity="relu", generator=request.generator
        )
        new_values = to_device(new_values, request.device)
        weight.data.copy_(new_values.where(masks[name], weight.data))
    return masks

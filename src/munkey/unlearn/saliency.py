"""How much each weight matters to a set of samples, from gradients (SSD, SalUn)."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.data.image_set import Labeled
from munkey.training.loop import shuffled
from munkey.unlearn.contract import Request
from munkey.unlearn.finetune import plain


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are not frozen, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def batch_gradients(model: nn.Module, samples: Labeled, request: Request) -> Iterator[dict[str, Tensor]]:
    """The gradients of every batch's mean cross-entropy, by parameter name. Samples come once, shuffled, not augmented.

    The last batch is kept, however small.
    """
    trained = trainable(model)
    for index in shuffled(len(samples), request.tuning.settings.batch_size, request.generator):
        images, labels = plain(samples, index, request)
        loss = F.cross_entropy(model(images), labels)
        yield dict(zip(trained, torch.autograd.grad(loss, tuple(trained.values())), strict=True))


def importances(model: nn.Module, samples: Labeled, request: Request) -> dict[str, Tensor]:
    """By parameter name, the mean over batches of the squared gradient of the batch's mean cross-entropy (SSD).

    Zero for the key third of each qkv bias: softmax ignores what is added to all scores of a query, so its gradient is
    zero in exact arithmetic, and what is computed is rounding noise.
    """
    total, batches = {name: torch.zeros_like(parameter) for name, parameter in trainable(model).items()}, 0
    for gradients in batch_gradients(model, samples, request):
        batches += 1
        for name, gradient in gradients.items():
            total[name] += gradient.square()
    for name, importance in total.items():
        importance.div_(batches)
        if name.endswith("qkv.bias"):
            importance.view(3, -1)[1] = 0
    return total


def summed_gradients(model: nn.Module, samples: Labeled, request: Request) -> dict[str, Tensor]:
    """By parameter name, the sum over batches of the gradient of the batch's mean cross-entropy."""
    total = {name: torch.zeros_like(parameter) for name, parameter in trainable(model).items()}
    for gradients in batch_gradients(model, samples, request):
        for name, gradient in gradients.items():
            total[name] += gradient
    return total


def top_share(scores: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Masks of the round(share * number) highest scores, all tensors ranked together; ties go to the earlier one."""
    flat = torch.cat([score.flatten() for score in scores.values()])
    best = flat.argsort(descending=True, stable=True)[: round(share * len(flat))]
    mask = torch.zeros_like(flat, dtype=torch.bool)
    mask[best] = True
    pieces = mask.split([score.numel() for score in scores.values()])
    return {name: piece.view_as(scores[name]) for name, piece in zip(scores, pieces, strict=True)}

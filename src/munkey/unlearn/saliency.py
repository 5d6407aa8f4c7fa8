"""How much each weight matters to a set of samples, from gradients (SSD, SalUn)."""

from collections.abc import Iterable, Iterator, Mapping

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


def batch_gradients(
    model: nn.Module, samples: Labeled, request: Request, batches: Iterable[Tensor]
) -> Iterator[dict[str, Tensor]]:
    """The gradients of every batch's mean cross-entropy, by parameter name; not augmented.

    batches: positions of the samples, each once; the last batch is kept, however small.
    """
    trained = trainable(model)
    for index in batches:
        images, labels = plain(samples, index, request)
        loss = F.cross_entropy(model(images), labels)
        yield dict(zip(trained, torch.autograd.grad(loss, tuple(trained.values())), strict=True))


def importances(model: nn.Module, samples: Labeled, request: Request) -> dict[str, Tensor]:
    """By parameter name, the mean over batches of the squared gradient of the batch's mean cross-entropy (SSD).

    Batches follow the order of the samples, as in the original: mixing would dilute a set that lies at the end. A set
    smaller than a batch gets one small batch, whose squared gradient is larger, as in the original.

    Zero for the key third of each qkv bias: softmax ignores what is added to all scores of a query, so its gradient is
    zero in exact arithmetic, and what is computed is rounding noise.
    """
    total, batches = {name: torch.zeros_like(parameter) for name, parameter in trainable(model).items()}, 0
    in_order = torch.arange(len(samples)).split(request.tuning.settings.batch_size)
    for gradients in batch_gradients(model, samples, request, in_order):
        batches += 1
        for name, gradient in gradients.items():
            total[name] += gradient.square()
    for name, importance in total.items():
        importance.div_(batches)
        if name.endswith("qkv.bias"):
            importance.view(3, -1)[1] = 0
    return total


def summed_gradients(model: nn.Module, samples: Labeled, request: Request) -> dict[str, Tensor]:
    """By parameter name, the sum over shuffled batches of the gradient of the batch's mean cross-entropy (SalUn)."""
    total = {name: torch.zeros_like(parameter) for name, parameter in trainable(model).items()}
    in_turn = shuffled(len(samples), request.tuning.settings.batch_size, request.generator)
    for gradients in batch_gradients(model, samples, request, in_turn):
        for name, gradient in gradients.items():
            total[name] += gradient
    return total


def top_share(scores: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Masks of the int(share * number) highest scores, all tensors ranked together; ties go to the earlier one."""
    flat = torch.cat([score.flatten() for score in scores.values()])
    best = flat.argsort(descending=True, stable=True)[: int(share * len(flat))]
    mask = torch.zeros_like(flat, dtype=torch.bool)
    mask[best] = True
    pieces = mask.split([score.numel() for score in scores.values()])
    return {name: piece.view_as(scores[name]) for name, piece in zip(scores, pieces, strict=True)}

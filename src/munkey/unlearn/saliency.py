"""How much each weight matters to a set of samples, from gradients (SSD and its relatives, SalUn)."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.core.device import to_device, to_host
from munkey.data.image_set import Labeled
from munkey.training.loop import shuffled
from munkey.unlearn.contract import Request
from munkey.unlearn.finetune import plain, subset

Importances = dict[str, Tensor]
Criterion = Callable[[Tensor, Tensor], Tensor]


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are not frozen, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def batch_gradients(
    model: nn.Module,
    samples: Labeled,
    request: Request,
    batches: Iterable[Tensor],
    criterion: Criterion = F.cross_entropy,
) -> Iterator[dict[str, Tensor]]:
    """The gradients of every batch's mean cross-entropy, by parameter name; not augmented.

    batches: positions of the samples, each once; the last batch is kept, however small. criterion: in place of the
    mean cross-entropy, of logits (B, C) and labels (B,).
    """
    trained = trainable(model)
    for index in batches:
        images, labels = plain(samples, index, request)
        loss = criterion(model(images), labels)
        yield dict(zip(trained, torch.autograd.grad(loss, tuple(trained.values())), strict=True))


def importances(
    model: nn.Module,
    samples: Labeled,
    request: Request,
    per_sample: bool = False,
    criterion: Criterion = F.cross_entropy,
    size: Callable[[Tensor], Tensor] = torch.square,
) -> Importances:
    """By parameter name, the mean over batches of the squared gradient of the batch's mean cross-entropy (SSD).

    Batches follow the order of the samples, as in the original: mixing would dilute a set that lies at the end. A set
    smaller than a batch gets one small batch, whose squared gradient is larger, as in the original. per_sample: the
    gradient of each sample apart instead, which depends on no batches. criterion, size: as LFSSD has others.

    Zero for the key third of each qkv bias: softmax ignores what is added to all scores of a query, so its gradient is
    zero in exact arithmetic, and what is computed is rounding noise.
    """
    total, batches = {name: torch.zeros_like(parameter) for name, parameter in trainable(model).items()}, 0
    in_order = torch.arange(len(samples)).split(1 if per_sample else request.tuning.settings.batch_size)
    for gradients in batch_gradients(model, samples, request, in_order, criterion):
        batches += 1
        for name, gradient in gradients.items():
            total[name] += size(gradient)
    for name, importance in total.items():
        importance.div_(batches)
        if name.endswith("qkv.bias"):
            importance.view(3, -1)[1] = 0
    return total


def dampened(
    model: nn.Module, request: Request, forgotten: Importances, everything: Importances, alpha: float, lam: float
) -> nn.Module:
    """The model, whose weights that matter more than alpha times as much to D_f as to D are dampened in place (SSD).

    Reports how many.
    """
    moved = []
    for name, parameter in trainable(model).items():
        factor = dampening(forgotten[name], everything[name], alpha, lam)
        parameter.data.mul_(factor)
        moved.append((factor != 1).flatten())
    of_all = torch.cat(moved)
    changed, total = int(to_host(of_all.sum())), len(of_all)
    request.facts = {"dampened": changed, "weights": total}
    request.report(f"{changed} of {total} weights dampened")
    if not changed:
        rate = len(request.forget) / (len(request.retain) + len(request.forget))
        request.report(
            f"warning: nothing changed. D holds the forget set, so hardly any weight can matter alpha = {alpha:g} times"
            f" more to it unless alpha < 1 / rate = {1 / rate:.1f}: lower the method's alpha"
        )
    return model


def dampening(forgotten: Tensor, everything: Tensor, alpha: float, lam: float) -> Tensor:
    """Factor of each weight: min(lam I_D / I_f, 1) where I_f > alpha I_D, else 1."""
    factor = (lam * everything / forgotten).clamp(max=1)
    return factor.where(forgotten > alpha * everything, 1)


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


def renew_smallest(model: nn.Module, names: Iterable[str], share: float, request: Request) -> dict[str, Tensor]:
    """Draw anew, in place, the share of each named weight with the smallest gradients of retain less forget loss (MSG).

    The losses are those of as many retain samples, drawn here, as there are forget samples. New values are normal with
    variance 2 / fan-out (He et al. 2015). Returns masks of what is new, by name; of the named, frozen ones stay.
    """
    drawn = torch.randperm(len(request.retain), generator=request.generator)[: len(request.forget)]
    kept = summed_gradients(model, subset(request.retain, drawn.numpy()), request)
    gone, masks = summed_gradients(model, request.forget, request), {}
    for name in filter(trainable(model).__contains__, names):
        masks.update(top_share({name: -(kept[name] - gone[name]).abs()}, share))
        weight = model.get_parameter(name)
        fresh = torch.empty(weight.shape)
        nn.init.kaiming_normal_(fresh, mode="fan_out", nonlinearity="relu", generator=request.generator)
        weight.data.copy_(to_device(fresh, request.device).where(masks[name], weight.data))
    return masks

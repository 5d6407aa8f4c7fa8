"""Logits of a system on every sample, retrieval and late fusion included (sec. 3.2, app. D.1). Metrics come later."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from munkey.images import ImageSet, Loader, normalise, resize
from munkey.memory import ExemplarMemory, rank_weights, similarity_weights
from munkey.models import Munkey
from munkey.neighbors import NOBODY
from munkey.system import System

if TYPE_CHECKING:
    from munkey.params import DataParams, InferenceParams

BATCH = 256  # passes of the model at once; a constant, so that results do not depend on it
KNN_FLOOR = 1e-6  # smallest KNN probability, so that losses stay finite


def exemplars(
    tokens: Tensor, cosines: Tensor, present: Tensor, fusion: str, temperature: float
) -> tuple[Tensor, Tensor]:
    """What the model reads for a query, and with which weight its answers are averaged.

    tokens: (B, K, m); cosines, present: (B, K). `ensemble` gives K tokens a query, (B, K, m) and weights (B, K);
    `softmax` and `rank` give one weighted average token, (B, 1, m) and weights of one.
    """
    weights = rank_weights(present) if fusion == "rank" else similarity_weights(cosines, present, temperature)
    if fusion == "ensemble":
        return tokens, weights
    return (weights[:, :, None] * tokens).sum(dim=1, keepdim=True), torch.ones_like(weights[:, :1])


def munkey_logits(
    model: Munkey, images: Tensor, memory: ExemplarMemory, rows: Tensor, cosines: Tensor, settings: "InferenceParams"
) -> Tensor:
    """Logits (B, C) of queries whose nearest memory rows are `rows` (B, K), NOBODY where there are fewer.

    A query that finds nobody, because the memory is empty, is answered with the null token.
    """
    present = rows != NOBODY
    found = present.any(dim=1)
    if len(memory):
        tokens = memory.tokens[rows.clamp(min=0)]
    else:
        tokens = torch.zeros(*rows.shape, memory.tokens.shape[1], device=rows.device)
    tokens, weights = exemplars(tokens, cosines, present, settings.fusion, settings.temperature)
    weights = torch.where(found[:, None], weights, torch.full_like(weights, 1 / weights.shape[1]))
    fused = tokens.shape[1]
    patches = model.patch_embed(images).repeat_interleave(fused, dim=0)
    adapted = model.adapter(tokens.flatten(0, 1))
    adapted = torch.where(found.repeat_interleave(fused)[:, None], adapted, model.null_token)
    logits = model.classify(patches, adapted[:, None]).view(len(images), fused, -1)
    return (weights[:, :, None] * logits).sum(dim=1)


def knn_logits(memory: ExemplarMemory, rows: Tensor) -> Tensor:
    """log of the share of each class among the nearest rows (B, K), floored; ties go to the nearer neighbour's class.

    The memory's tokens are one-hot labels. The tie is broken by raising the winner's probability by the floor.
    """
    present = rows != NOBODY
    if len(memory):
        votes = memory.tokens[rows.clamp(min=0)] * present[:, :, None]
    else:
        votes = memory.tokens.new_zeros(*rows.shape, memory.tokens.shape[1])
    counts = votes.sum(dim=1)
    probabilities = (counts / present.sum(dim=1, keepdim=True).clamp(min=1)).clamp(min=KNN_FLOOR)
    tied = counts == counts.amax(dim=1, keepdim=True)
    nearest_tied = (votes * tied[:, None]).sum(dim=2).argmax(dim=1)
    winner = votes[torch.arange(len(rows)), nearest_tied].argmax(dim=1)
    probabilities[torch.arange(len(rows)), winner] += KNN_FLOOR
    return probabilities.log()


def batches(samples: ImageSet, data: "DataParams", device: str, passes: int = 1) -> Iterable[tuple[slice, Tensor]]:
    """All samples in order, as the model sees them at test time: resized without cropping, normalised.

    passes: how many times the model reads each of them at once.
    """
    start = 0
    for batch in Loader(samples, torch.arange(len(samples)).split(max(1, BATCH // passes)), device):
        images = normalise(resize(batch.images, data.image_size), data.pixel_mean, data.pixel_std)
        yield slice(start, start + len(batch)), images
        start += len(batch)


def predict(
    system: System,
    samples: ImageSet,
    data: "DataParams",
    device: str,
    neighbours: tuple[np.ndarray, np.ndarray] | None = None,
    settings: "InferenceParams | None" = None,
) -> np.ndarray:
    """Logits (S, C) float32 of the samples.

    A system with a memory needs `settings` and `neighbours`: ids and cosines (S, >= K). Raises KeyError where one of
    these is not a row of the system's own memory, so nothing deleted can answer.
    """
    model, memory, passes = system.model, system.memory, 1
    forward: Callable[[slice, Tensor], Tensor]
    if memory is None:
        assert model is not None
        forward = lambda _, images: model(images)  # noqa: E731
    else:
        assert neighbours is not None and settings is not None
        rows = memory.rows(neighbours[0][:, : settings.k])
        if model is None:
            return knn_logits(memory, rows).cpu().numpy()
        assert isinstance(model, Munkey)
        passes = settings.k if settings.fusion == "ensemble" else 1
        cosines = torch.from_numpy(neighbours[1][:, : settings.k]).to(device)
        forward = lambda block, images: munkey_logits(  # noqa: E731
            model, images, memory, rows[block], cosines[block], settings
        )
    with torch.inference_mode():
        parts = [forward(block, images).float().cpu() for block, images in batches(samples, data, device, passes)]
    return torch.cat(parts).numpy()


def cls_features(system: System, samples: ImageSet, data: "DataParams", device: str) -> np.ndarray:
    """[CLS] before the head (N, width) of MUNKEY's members, from own image and own token."""
    found: list[np.ndarray] = []
    hook = system.model.head.register_forward_pre_hook(lambda _, given: found.append(given[0].float().cpu().numpy()))  # type: ignore[union-attr]
    tokens = system.memory.tokens[system.memory.rows(samples.ids)]  # type: ignore[union-attr]
    with torch.inference_mode():
        for block, images in batches(samples, data, device):
            system.model(images, tokens[block])  # type: ignore[misc]
    hook.remove()
    return np.concatenate(found)


def pathway_logits(system: System, samples: ImageSet, data: "DataParams", device: str) -> dict[str, np.ndarray]:
    """Logits of MUNKEY's members of the memory with one pathway cut, and with neither (sec. 3.2, P_s).

    samples: those in the memory. `image`: own image, null token; `token`: null image, own token; `both`: own image and
    own token, no retrieval. Each (N, C) float32.
    """
    model, memory = system.model, system.memory
    assert isinstance(model, Munkey) and memory is not None
    tokens = memory.tokens[memory.rows(samples.ids)]
    drops = {"image": (False, True), "token": (True, False), "both": (False, False)}  # (image, token) dropped
    parts: dict[str, list[np.ndarray]] = {name: [] for name in drops}
    with torch.inference_mode():
        for block, images in batches(samples, data, device):
            for name, dropped in drops.items():
                masks = (torch.full((len(images),), drop, device=device) for drop in dropped)
                parts[name].append(model(images, tokens[block], *masks).float().cpu().numpy())
    return {name: np.concatenate(values) for name, values in parts.items()}

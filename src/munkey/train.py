"""Training: one loop for originals and oracles from fresh weights and for baselines that fine-tune (app. B.2, B.3)."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey import models
from munkey.images import Batch, ImageSet, Loader, crop_resize, normalise, on, random_boxes, resize
from munkey.memory import ExemplarMemory, similarity_weights
from munkey.neighbors import NOBODY
from munkey.precision import Precision
from munkey.randomness import torch_generator
from munkey.resume import Checkpoint
from munkey.system import System

if TYPE_CHECKING:
    from munkey.params import DataParams, FinetuneParams, MunkeyParams, TrainParams

History = list[dict[str, float]]
Report = Callable[[str], None]


class Batches(Protocol):
    """What `fit` runs through in an epoch: a Loader, or a list."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Augmentation:
    """Random-resized-crop to the model's size and normalisation: all that training does to an image (app. B.3)."""

    size: int
    scale: list[float]
    ratio: list[float]
    mean: float
    std: float

    @classmethod
    def of(cls, data: "DataParams", train: "TrainParams") -> "Augmentation":
        return cls(data.image_size, train.crop_scale, train.crop_ratio, data.pixel_mean, data.pixel_std)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        boxes = random_boxes(len(images), images.shape[2], images.shape[3], self.scale, self.ratio, generator)
        return normalise(crop_resize(images, boxes, self.size), self.mean, self.std)

    def plain(self, images: Tensor) -> Tensor:
        """The same without the crop: images as a model sees them at test time. Differentiable."""
        return normalise(resize(images, self.size), self.mean, self.std)


@dataclass(frozen=True)
class Tuning:
    """What methods that fine-tune share with each other and with the training before (app. B.2)."""

    settings: "FinetuneParams"
    base_lr: float
    augment: Augmentation
    precision: str

    @classmethod
    def of(cls, data: "DataParams", train: "TrainParams", finetune: "FinetuneParams") -> "Tuning":
        return cls(finetune, train.lr, Augmentation.of(data, train), train.precision)


@dataclass(frozen=True)
class Recipe:
    """How a SISA was trained: what an exact deletion must repeat, `stage`, the root of its randomness, included."""

    data: "DataParams"
    settings: "TrainParams"
    stage: tuple[object, ...]


def shuffled(count: int, batch_size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Batches of positions, in a new order each time, the last one kept however small."""
    return torch.randperm(count, generator=generator).split(batch_size)


def fit(
    epochs: int,
    batches: Callable[[int], Batches],
    step: Callable[[Any], tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    rate: Callable[[float], float],
    report: Report,
    after_epoch: Callable[[int], dict[str, float]] | None = None,
    checkpoint: Checkpoint | None = None,
    precision: Precision | None = None,
) -> History:
    """Minimise. `batches(epoch)` holds what `step` turns into (loss, number correct); `rate(epochs done)` is the lr.

    Reads nothing back from the device before an epoch's end.

    Returns per epoch: epoch, loss (mean over batches), accuracy (percent, on the training batches as augmented), lr (at
    the epoch's start), seconds; and what `after_epoch(epoch)` returns. Goes on from `checkpoint` where there is one.
    Raises FloatingPointError where a loss is not finite.
    """
    precision = precision or Precision()
    history: History = checkpoint.restore(optimizer, precision.scaler) if checkpoint else []
    if history:
        report(f"goes on after epoch {len(history)}, from {checkpoint and checkpoint.path}")
    for epoch in range(len(history) + 1, epochs + 1):
        started, todo = time.perf_counter(), batches(epoch)
        losses, correct, seen = [], [], 0
        for position, batch in enumerate(todo):
            for group in optimizer.param_groups:
                group["lr"] = rate(epoch - 1 + position / len(todo))
            with precision.forward():
                loss, hits = step(batch)
            precision.descend(loss, optimizer)
            losses.append(loss.detach())
            correct.append(hits)
            seen += len(batch)
        mean = torch.stack(losses).mean().item()
        accuracy = 100 * torch.stack(correct).sum().item() / seen
        if not math.isfinite(mean):
            raise FloatingPointError(f"the loss of epoch {epoch} is {mean}: lower train.lr or the method's lr_factor")
        seconds = time.perf_counter() - started
        history.append({"epoch": epoch, "loss": mean, "accuracy": accuracy, "lr": rate(epoch - 1), "seconds": seconds})
        pace = f"{seconds:.2f} s  {seconds * (epochs - epoch):.0f} s left"
        report(f"epoch {epoch}/{epochs}  loss {mean:.4f}  accuracy {accuracy:.2f} %  {pace}")
        history[-1] |= after_epoch(epoch) if after_epoch else {}
        if checkpoint and (epoch < epochs or checkpoint.ends):
            checkpoint.save(optimizer, precision.scaler, history)
    return history


def adamw(parameters: Iterable[nn.Parameter], betas: list[float], weight_decay: float) -> torch.optim.AdamW:
    """AdamW over the parameters that train; its lr is set by `fit`."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return torch.optim.AdamW(trained, lr=0.0, betas=(betas[0], betas[1]), weight_decay=weight_decay, fused=True)


def cosine(lr: float, epochs: int, warmup_epochs: float) -> Callable[[float], float]:
    """lr after a (fractional) number of epochs: linear warm-up, then cosine to 0 at the end."""

    def rate(done: float) -> float:
        if done < warmup_epochs:
            return lr * done / warmup_epochs
        return lr * 0.5 * (1 + math.cos(math.pi * (done - warmup_epochs) / (epochs - warmup_epochs)))

    return rate


def classified(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy and number of correct predictions."""
    return F.cross_entropy(logits, labels), (logits.detach().argmax(dim=1) == labels).sum()


class Exemplars:
    """MUNKEY's part of a training step: the memory with its learnable tokens, and what is drawn for each sample.

    ids: (N,) of the training samples, ascending; keys: (N, d); neighbours: ids and cosines (N, K) of the nearest other
    members of each. All randomness is derived from `stage`.
    """

    def __init__(
        self,
        ids: np.ndarray,
        settings: "MunkeyParams",
        keys: np.ndarray,
        neighbours: tuple[np.ndarray, np.ndarray],
        stage: tuple[object, ...],
        device: str,
    ) -> None:
        fixed = torch.from_numpy(keys).to(device)
        if settings.architecture == "direct-key":
            self.tokens = nn.Parameter(fixed.clone(), requires_grad=False)
        else:
            tokens = torch.empty(len(ids), settings.token_dim)
            nn.init.normal_(tokens, std=settings.token_std, generator=torch_generator(*stage, "tokens"))
            self.tokens = nn.Parameter(tokens.to(device))
        self.memory = ExemplarMemory(torch.from_numpy(ids).to(device), fixed, self.tokens)
        self.neighbours = self.memory.rows(neighbours[0])
        self.cosines = torch.from_numpy(neighbours[1]).to(device)
        self.settings = settings
        self.generator = torch_generator(*stage, "pathways")

    def forward(self, model: Callable[..., Tensor], images: Tensor, index: Tensor) -> Tensor:
        """Logits of a batch with its pathways dropped at random and its exemplar tokens looked up (eq. 1)."""
        device = images.device.type
        image_dropped, token_dropped, retrieved, count = (on(drawn, device) for drawn in self.draw(len(index)))
        tokens = self.training_tokens(on(index, device), retrieved, count)
        return model(images, tokens, image_dropped, token_dropped)

    def draw(self, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """image_dropped, token_dropped, retrieved (r): (B,) bool; K', how many neighbours are aggregated: (B,)."""
        s = self.settings
        mask = torch.rand(count, generator=self.generator)
        retrieved = torch.rand(count, generator=self.generator) < s.p_retrieve
        neighbours = torch.randint(s.neighbors[0], s.neighbors[1] + 1, (count,), generator=self.generator)
        image_dropped = mask < s.p_image
        return image_dropped, ~image_dropped & (mask < s.p_image + s.p_token), retrieved, neighbours

    def training_tokens(self, index: Tensor, retrieved: Tensor, count: Tensor) -> Tensor:
        """(1 - r) v_i + r v_n of a batch (eq. 1): (B, m). No gradient reaches the neighbours' tokens."""
        rows = self.neighbours[index]
        present = (torch.arange(rows.shape[1], device=rows.device) < count[:, None]) & (rows != NOBODY)
        weights = similarity_weights(self.cosines[index], present, self.settings.temperature)
        aggregated = (weights[:, :, None] * self.tokens.detach()[rows.clamp(min=0)]).sum(dim=1)
        return torch.where(retrieved[:, None], aggregated, self.tokens[index])


def train(
    kind: str,
    architecture: dict[str, Any],
    samples: ImageSet,
    memory: "tuple[MunkeyParams, np.ndarray, tuple[np.ndarray, np.ndarray]] | None",
    data: "DataParams",
    settings: "TrainParams",
    stage: tuple[object, ...],
    device: str,
    report: Report,
    watch: "Callable[[int, System], dict[str, float]] | None" = None,
    resume: tuple[Path, float] | None = None,
) -> tuple[System, History]:
    """Train a ViT, or MUNKEY where `memory` is given, from fresh weights on `samples` (sorted by id).

    memory: MUNKEY's parameters, the samples' keys, and their neighbours, as for `Exemplars`. `stage` names the run: all
    its randomness is derived from it. watch: called with 0 before and with each epoch's number after it; what it
    returns joins the history. It must change nothing. resume: a file for checkpoints, from which a killed training goes
    on, and the seconds between two; the caller removes it when the result is safe.
    """
    model = models.build(kind, architecture, torch_generator(*stage, "weights")).to(device).train()
    exemplars = None if memory is None else Exemplars(samples.ids, *memory, stage, device)
    order, crops = torch_generator(*stage, "order"), torch_generator(*stage, "crops")
    augment = Augmentation.of(data, settings)
    answer: Callable[..., Tensor] = torch.compile(model) if settings.compile else model

    def step(batch: Batch) -> tuple[Tensor, Tensor]:
        images = augment(batch.images, crops)
        return classified(exemplars.forward(answer, images, batch.index) if exemplars else answer(images), batch.labels)

    system = System(kind, architecture, model, exemplars.memory if exemplars else None)
    if watch:
        watch(0, system)
    learned = [*model.parameters(), *([exemplars.tokens] if exemplars else [])]
    history = fit(
        settings.epochs,
        lambda _: Loader(samples, shuffled(len(samples), settings.batch_size, order), device),
        step,
        adamw(learned, settings.betas, settings.weight_decay),
        cosine(settings.lr, settings.epochs, settings.warmup_epochs),
        report,
        (lambda epoch: watch(epoch, system)) if watch else None,
        Checkpoint(*resume, [order, crops, *([exemplars.generator] if exemplars else [])]) if resume else None,
        Precision(settings.precision, device),
    )
    model.eval()
    return system, history

"""The training loop: for originals and oracles from fresh weights, and for methods that fine-tune (app. B.2, B.3)."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.core.console import Report
from munkey.core.device import to_host
from munkey.core.diverged import DivergedError
from munkey.data.loader import Batch, Loader
from munkey.training.checkpoint import Checkpoint, History
from munkey.training.precision import Precision


class Outcome(NamedTuple):
    """What a training step minimizes, and how many predictions of its batch are correct; scalars on the device."""

    loss: Tensor
    correct: Tensor


@dataclass
class Fit:
    """A minimization by gradient descent.

    batches(epoch): what `step` turns into an Outcome. rate(epochs done): the learning rate. after_epoch(epoch): what it
    returns joins the history. checkpoint: where the training resumes from, and saves its state to.
    """

    epochs: int
    batches: Callable[[int], Loader]
    step: Callable[[Batch], Outcome]
    optimizer: torch.optim.Optimizer
    rate: Callable[[float], float]
    report: Report = print
    precision: Precision = field(default_factory=Precision)
    checkpoint: Checkpoint | None = None
    after_epoch: Callable[[int], dict[str, float]] | None = None

    def run(self) -> History:
        """Minimize. Reads nothing back from the device before an epoch ends.

        Returns per epoch: epoch, loss (mean over batches), accuracy (percent, on the augmented training batches), lr
        (at the epoch's start), seconds; and what `after_epoch` returns. Raises DivergedError for a loss that is not
        finite.
        """
        history: History = []
        if self.checkpoint and (history := self.checkpoint.restore(self.optimizer, self.precision.scaler)):
            self.report(f"resumes after epoch {len(history)} from {self.checkpoint.file.path}")
        for epoch in range(len(history) + 1, self.epochs + 1):
            history.append(self._epoch(epoch))
            history[-1] |= self.after_epoch(epoch) if self.after_epoch else {}
            if self.checkpoint and (epoch < self.epochs or self.checkpoint.always_after):
                self.checkpoint.save(self.optimizer, self.precision.scaler, history)
        return history

    def _epoch(self, epoch: int) -> dict[str, float]:
        started, batches = time.perf_counter(), self.batches(epoch)
        losses, correct, seen = [], [], 0
        for position, batch in enumerate(batches):
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate(epoch - 1 + position / len(batches))
            with self.precision.forward():
                outcome = self.step(batch)
            self.precision.descend(outcome.loss, self.optimizer)
            losses.append(outcome.loss.detach())
            correct.append(outcome.correct)
            seen += len(batch)
        loss = to_host(torch.stack(losses).mean()).item()
        accuracy = 100 * to_host(torch.stack(correct).sum()).item() / seen
        if not math.isfinite(loss):
            raise DivergedError(f"the loss of epoch {epoch} is {loss}: lower train.lr or the method's lr_factor")
        seconds = time.perf_counter() - started
        pace = f"{seconds:.2f} s  {seconds * (self.epochs - epoch):.0f} s left"
        self.report(f"epoch {epoch}/{self.epochs}  loss {loss:.4f}  accuracy on crops {accuracy:.2f} %  {pace}")
        return {"epoch": epoch, "loss": loss, "accuracy": accuracy, "lr": self.rate(epoch - 1), "seconds": seconds}


def shuffled(count: int, batch_size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Batches of positions, in a new order each time. The last one is kept, however small."""
    return torch.randperm(count, generator=generator).split(batch_size)


def adamw(parameters: Iterable[nn.Parameter], betas: list[float], weight_decay: float) -> torch.optim.AdamW:
    """AdamW over the parameters that train. Its learning rate is set by `Fit`."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return torch.optim.AdamW(trained, lr=0.0, betas=(betas[0], betas[1]), weight_decay=weight_decay, fused=True)


def cosine(lr: float, epochs: int, warmup_epochs: float) -> Callable[[float], float]:
    """lr after a (fractional) number of epochs: linear warm-up, then cosine to 0 at the end."""

    def rate(done: float) -> float:
        if done < warmup_epochs:
            return lr * done / warmup_epochs
        return lr * 0.5 * (1 + math.cos(math.pi * (done - warmup_epochs) / (epochs - warmup_epochs)))

    return rate


def classified(logits: Tensor, labels: Tensor) -> Outcome:
    """Cross-entropy and number of correct predictions."""
    return Outcome(F.cross_entropy(logits, labels), (logits.detach().argmax(dim=1) == labels).sum())

"""The training loop of originals, of oracles, and of methods that fine-tune (app. B.2, B.3)."""

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
    """Loss and number of correct predictions of a batch, as scalars on the device."""

    loss: Tensor
    correct: Tensor


@dataclass
class Fit:
    """A training run.

    Parameters
    ----------
    epochs : int
        Number of epochs.
    batches : callable
        Takes the epoch, from 1. Returns the Loader of its batches.
    step : callable
        The forward pass: takes a Batch and returns an Outcome.
    optimizer : torch.optim.Optimizer
        The optimizer, whose learning rate is set at every step.
    rate : callable
        Takes the number of epochs done, e.g. 1.5. Returns the learning rate.
    report : callable, default print
        Takes a line of text after each epoch.
    precision : Precision
        The number format of matrix products, by default float32.
    checkpoint : Checkpoint, optional
        Where to resume from, and to save the state to.
    after_epoch : callable, optional
        Takes the epoch. Returns further values of its record.
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
        """Train. Returns a record of each epoch.

        A record has epoch, loss (mean over batches), accuracy (percent, on augmented training
        batches), lr (at the start of the epoch), seconds, and the values from `after_epoch`. Raises
        DivergedError if the loss of an epoch is not finite.
        """
        history: History = []
        if self.checkpoint:
            history = self.checkpoint.restore(self.optimizer, self.precision.scaler)
            if history:
                self.report(f"resumes after epoch {len(history)} from {self.checkpoint.file.path}")
        for epoch in range(len(history) + 1, self.epochs + 1):
            record = self._run_epoch(epoch)
            if self.after_epoch:
                record |= self.after_epoch(epoch)
            history.append(record)
            # The last epoch needs no checkpoint, unless another part of the run follows.
            if self.checkpoint and (epoch < self.epochs or self.checkpoint.always_after):
                self.checkpoint.save(self.optimizer, self.precision.scaler, history)
        return history

    def _run_epoch(self, epoch: int) -> dict[str, float]:
        """Train for one epoch. Returns its record."""
        start = time.perf_counter()
        losses = []
        correct_counts = []
        sample_count = 0
        batches = self.batches(epoch)
        for position, batch in enumerate(batches):
            # The schedule is continuous: the rate changes at every step, not only every epoch.
            lr = self.rate(epoch - 1 + position / len(batches))
            for group in self.optimizer.param_groups:
                group["lr"] = lr
            with self.precision.forward():
                outcome = self.step(batch)
            self.precision.descend(outcome.loss, self.optimizer)  # backward and optimizer step
            # These stay on the device: reading a number here would wait for the GPU at every step.
            losses.append(outcome.loss.detach())
            correct_counts.append(outcome.correct)
            sample_count += len(batch)
        loss = to_host(torch.stack(losses).mean()).item()
        accuracy = 100 * to_host(torch.stack(correct_counts).sum()).item() / sample_count
        if not math.isfinite(loss):
            raise DivergedError(
                f"the loss of epoch {epoch} is {loss}: lower train.lr or the method's lr_factor"
            )
        seconds = time.perf_counter() - start
        seconds_left = seconds * (self.epochs - epoch)
        self.report(
            f"epoch {epoch}/{self.epochs}  loss {loss:.4f}  accuracy on crops {accuracy:.2f} %"
            f"  {seconds:.2f} s  {seconds_left:.0f} s left"
        )
        return {
            "epoch": epoch,
            "loss": loss,
            "accuracy": accuracy,
            "lr": self.rate(epoch - 1),
            "seconds": seconds,
        }


def shuffled_batches(count: int, batch_size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Draw a random order of positions, and split it into batches. The last may be smaller."""
    return torch.randperm(count, generator=generator).split(batch_size)


def adamw(
    parameters: Iterable[nn.Parameter],
    betas: list[float],
    weight_decay: float,
) -> torch.optim.AdamW:
    """Return AdamW for the parameters that are not frozen. `Fit` sets its learning rate."""
    return torch.optim.AdamW(
        [parameter for parameter in parameters if parameter.requires_grad],
        lr=0.0,
        betas=(betas[0], betas[1]),
        weight_decay=weight_decay,
        fused=True,
    )


def cosine_schedule(lr: float, epochs: int, warmup_epochs: float) -> Callable[[float], float]:
    """Return a schedule: a linear warm-up [ours], then a cosine to 0 (app. B.3).

    It takes the number of epochs done, and returns the learning rate.
    """

    def rate(done: float) -> float:
        if done < warmup_epochs:
            return lr * done / warmup_epochs
        progress = (done - warmup_epochs) / (epochs - warmup_epochs)
        return lr * 0.5 * (1 + math.cos(math.pi * progress))

    return rate


def classification_outcome(logits: Tensor, labels: Tensor) -> Outcome:
    """Return the mean cross-entropy and the number of correct predictions."""
    correct = (logits.detach().argmax(dim=1) == labels).sum()
    return Outcome(F.cross_entropy(logits, labels), correct)

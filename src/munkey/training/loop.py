"""The training loop for originals, oracles, and fine-tuning methods (app. B.2, B.3)."""

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
    """A batch's loss and number of correct predictions: scalar tensors on the device."""

    loss: Tensor
    correct: Tensor


@dataclass
class TrainingLoop:
    """A training loop over epochs and batches.

    Parameters
    ----------
    epochs : int
        Number of epochs.
    batches : callable
        ``batches(epoch)`` returns the batches of an epoch. The first epoch is 1.
    step : callable
        ``step(batch)`` makes a forward pass and returns its `Outcome`.
    optimizer : torch.optim.Optimizer
        Optimizer, whose learning rate is set before each step.
    learning_rate : callable
        ``learning_rate(progress)`` of the number of completed epochs, including fractions.
    report : callable, default print
        Prints a line after each epoch.
    precision : Precision, optional
        Number format of matrix products. By default, float32.
    checkpoint : Checkpoint, optional
        State to resume from and to save after epochs.
    after_epoch : callable, optional
        ``after_epoch(epoch)`` returns more values for the epoch's record, by name.
    """

    epochs: int
    batches: Callable[[int], Loader]
    step: Callable[[Batch], Outcome]
    optimizer: torch.optim.Optimizer
    learning_rate: Callable[[float], float]
    report: Report = print
    precision: Precision = field(default_factory=Precision)
    checkpoint: Checkpoint | None = None
    after_epoch: Callable[[int], dict[str, float]] | None = None

    def run(self) -> History:
        """Train for all epochs. Raises DivergedError if the mean loss of an epoch is not finite.

        Returns
        -------
        list of dict
            A record for each epoch, earlier ones of a resumed run included: `epoch`, the mean
            `loss` over batches, the `accuracy` on augmented training batches in percent, `lr` at
            the start, the wall time (`seconds`), and the values from `after_epoch`.
        """
        history: History = []
        if self.checkpoint:
            history = self.checkpoint.restore(self.optimizer, self.precision.scaler)
            if history:
                self.report(f"resuming after epoch {len(history)} from {self.checkpoint.file.path}")
        for epoch in range(len(history) + 1, self.epochs + 1):
            record = self._run_epoch(epoch)
            if self.after_epoch:
                record |= self.after_epoch(epoch)
            history.append(record)
            # No checkpoint is needed after the last epoch, unless another part of the run follows.
            if self.checkpoint and (epoch < self.epochs or self.checkpoint.always_after):
                self.checkpoint.save(self.optimizer, self.precision.scaler, history)
        return history

    def _run_epoch(self, epoch: int) -> dict[str, float]:
        """Train for an epoch. Returns its record."""
        start = time.perf_counter()
        losses = []
        correct_counts = []
        sample_count = 0
        batches = self.batches(epoch)
        for batch_number, batch in enumerate(batches):
            # The schedule is a continuous function, so the learning rate is set before every step.
            lr = self.learning_rate(epoch - 1 + batch_number / len(batches))
            for group in self.optimizer.param_groups:
                group["lr"] = lr
            with self.precision.forward():
                outcome = self.step(batch)
            self.precision.descend(outcome.loss, self.optimizer)  # backward and optimizer step
            # Keep these tensors on the device, since reading their values would wait for the GPU.
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
            f"epoch {epoch}/{self.epochs}  loss {loss:.4f}  accuracy on crops {accuracy:.2f}%"
            f"  {seconds:.2f} s  {seconds_left:.0f} s left"
        )
        return {
            "epoch": epoch,
            "loss": loss,
            "accuracy": accuracy,
            "lr": self.learning_rate(epoch - 1),
            "seconds": seconds,
        }


def shuffled_batches(count: int, batch_size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
    """Return batches of the positions 0 to count - 1, shuffled. The last batch may be smaller."""
    return torch.randperm(count, generator=generator).split(batch_size)


def adamw(
    parameters: Iterable[nn.Parameter],
    betas: list[float],
    weight_decay: float,
) -> torch.optim.AdamW:
    """Return an AdamW optimizer for the parameters that are not frozen.

    Its learning rate is 0 until `TrainingLoop` sets it before each step.
    """
    return torch.optim.AdamW(
        [parameter for parameter in parameters if parameter.requires_grad],
        lr=0.0,
        betas=(betas[0], betas[1]),
        weight_decay=weight_decay,
        fused=True,
    )


def cosine_schedule(lr: float, epochs: int, warmup_epochs: float) -> Callable[[float], float]:
    """Return a schedule with a linear warm-up [ours] and a cosine decay from `lr` to 0 (app. B.3).

    It maps completed epochs, including fractions, to the learning rate. `epochs` include the
    warm-up.
    """

    def learning_rate(progress: float) -> float:
        if progress < warmup_epochs:
            return lr * progress / warmup_epochs
        decay_progress = (progress - warmup_epochs) / (epochs - warmup_epochs)
        return lr * 0.5 * (1 + math.cos(math.pi * decay_progress))

    return learning_rate


def classification_outcome(logits: Tensor, labels: Tensor) -> Outcome:
    """Return the mean cross-entropy of logits (B, C), and the number of correct predictions."""
    correct = (logits.detach().argmax(dim=1) == labels).sum()
    return Outcome(F.cross_entropy(logits, labels), correct)

"""Checkpoints of a training that may be killed at any moment: it goes on from the last and ends with the same bytes.

They lie outside of what the workflow counts as output, and are removed when the training is done.
"""

import hashlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from munkey.files import atomic


def progress_of(identity: Iterable[object], inputs: Iterable[str]) -> Path:
    """The file for the checkpoints of a training: of this identity, and of these inputs as they are now."""
    stamps = [Path(path).stat().st_mtime_ns for path in inputs]
    return Path("cache/train") / f"{hashlib.sha256(f'{list(identity)} {stamps}'.encode()).hexdigest()[:16]}.pt"


def part_of(progress: Path, *part: int) -> Path:
    """The file for a part of a training that has several, beside that of the whole."""
    return progress.with_suffix("".join(f".{number}" for number in part) + ".pt")


def remove(progress: Path) -> None:
    """Remove the checkpoints of a training that is done, those of its parts included."""
    for path in progress.parent.glob(f"{progress.stem}.*"):
        path.unlink()


class Checkpoint:
    """Where a training stands: weights, optimiser, scale of the loss, generators and history.

    Written after an epoch when it is due.

    path: a file that names this very training, its parameters and inputs; every_s: seconds between two. `generators`
    are all that the training draws from. ends: the number of epochs after which it is written in any case, where this
    is a part of a training and others follow. Nothing in it depends on time but when it is written.
    """

    def __init__(self, path: Path, every_s: float, generators: list[torch.Generator], ends: int | None = None) -> None:
        self.path, self.every_s, self.generators, self.ends = path, every_s, generators, ends
        self.last = time.monotonic()

    def restore(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> list[dict[str, float]]:
        """Put everything back as it was, in place; returns the history so far, empty where there is no checkpoint."""
        if not self.path.exists():
            return []
        stored = torch.load(self.path, weights_only=True)
        with torch.no_grad():
            for own, kept in zip(_parameters(optimizer), stored["parameters"], strict=True):
                own.copy_(kept)
        optimizer.load_state_dict(stored["optimizer"])
        scaler.load_state_dict(stored["scaler"])
        for generator, state in zip(self.generators, stored["generators"], strict=True):
            generator.set_state(state)
        history: list[dict[str, float]] = stored["history"]
        return history

    def save(
        self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, history: list[dict[str, float]]
    ) -> None:
        """Write where the training stands, if the last time is `every_s` ago or this part of it ends."""
        if time.monotonic() - self.last < self.every_s and len(history) != self.ends:
            return
        stored: dict[str, Any] = {
            "parameters": [parameter.detach() for parameter in _parameters(optimizer)],
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
            "generators": [generator.get_state() for generator in self.generators],
            "history": history,
        }
        with atomic(self.path) as temporary:
            torch.save(stored, temporary)
        self.last = time.monotonic()


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]

"""Checkpoints of a training: killed at any moment, it resumes from the last one and ends with the same bytes.

They lie outside of what the workflow counts as output, and are removed once the training's result is safe.
"""

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import torch

from munkey.core.files import atomic

FOLDER = Path("cache/train")
History = list[dict[str, float]]


class State(TypedDict):
    """What a checkpoint file holds."""

    parameters: list[torch.Tensor]
    optimizer: dict[str, object]
    scaler: dict[str, object]
    generators: list[torch.Tensor]
    history: History


@dataclass(frozen=True)
class CheckpointFile:
    """Where a training keeps its checkpoints. every_s: seconds between two."""

    path: Path
    every_s: float

    @classmethod
    def of(cls, identity: Iterable[object], inputs: Iterable[str], every_s: float) -> "CheckpointFile":
        """The file of a training with this identity, on these input files as they are now."""
        stamps = [Path(path).stat().st_mtime_ns for path in inputs]
        name = hashlib.sha256(f"{list(identity)} {stamps}".encode()).hexdigest()[:16]
        return cls(FOLDER / f"{name}.pt", every_s)

    def part(self, *numbers: int) -> "CheckpointFile":
        """The file for a part of a training that has several, beside that of the whole."""
        return CheckpointFile(self.path.with_suffix("".join(f".{n}" for n in numbers) + ".pt"), self.every_s)

    def remove(self) -> None:
        """Remove the checkpoints of a finished training, those of its parts included."""
        for path in self.path.parent.glob(f"{self.path.stem}.*"):
            path.unlink()


class Checkpoint:
    """The state of a training: weights, optimizer, scale of the loss, generators and history, saved after an epoch.

    generators: all that the training draws from. always_after: number of epochs after which the state is saved even if
    the last save was recent; for a part of a training that others follow.
    """

    def __init__(
        self, file: CheckpointFile, generators: list[torch.Generator], always_after: int | None = None
    ) -> None:
        self.file, self.generators, self.always_after = file, generators, always_after
        self.last = time.monotonic()

    def restore(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> History:
        """Put everything back as it was, in place. Returns the history so far; empty where there is no checkpoint."""
        if not self.file.path.exists():
            return []
        stored: State = torch.load(self.file.path, weights_only=True)
        with torch.no_grad():
            for parameter, kept in zip(_parameters(optimizer), stored["parameters"], strict=True):
                parameter.copy_(kept)
        optimizer.load_state_dict(stored["optimizer"])
        scaler.load_state_dict(stored["scaler"])
        for generator, state in zip(self.generators, stored["generators"], strict=True):
            generator.set_state(state)
        return stored["history"]

    def save(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, history: History) -> None:
        """Save the state, unless the last save was less than `every_s` seconds ago and this part goes on."""
        if time.monotonic() - self.last < self.file.every_s and len(history) != self.always_after:
            return
        state: State = {
            "parameters": [parameter.detach() for parameter in _parameters(optimizer)],
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
            "generators": [generator.get_state() for generator in self.generators],
            "history": history,
        }
        with atomic(self.file.path) as temporary:
            torch.save(state, temporary)
        self.last = time.monotonic()


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]

"""Checkpoints of a training: killed at any moment, it resumes from the last one and ends with the same bytes.

They lie outside of what the workflow counts as output, and are removed once the training's result is safe. A checkpoint
is overwritten again and again: its SHA-256 is its own first 32 bytes, so that the two can never be apart.
"""

import hashlib
import io
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from munkey.core.console import warn
from munkey.core.files import atomic

FOLDER = Path("cache/train")
DIGEST = 32  # bytes of a SHA-256
History = list[dict[str, float]]


@dataclass(frozen=True)
class CheckpointFile:
    """Where a training keeps its checkpoints. every_s: seconds between two."""

    path: Path
    every_s: float

    @classmethod
    def of(cls, identity: Iterable[object], inputs: Iterable[str | Path], every_s: float) -> "CheckpointFile":
        """The file of a training with this identity, on these input files as they are now."""
        stamps = [Path(path).stat().st_mtime_ns for path in inputs]
        name = hashlib.sha256(f"{list(identity)} {stamps}".encode()).hexdigest()[:16]
        return cls(FOLDER / f"{name}.pt", every_s)

    def part(self, *numbers: int) -> "CheckpointFile":
        """The file for one part of a training that has several, beside the file of the whole."""
        return CheckpointFile(self.path.with_suffix("".join(f".{n}" for n in numbers) + ".pt"), self.every_s)

    def remove(self) -> None:
        """Remove the checkpoints of a finished training, those of its parts included."""
        for path in self.path.parent.glob(f"{self.path.stem}.*"):
            path.unlink()


class Checkpoint:
    """The state of a training: weights, optimizer, scale of the loss, generators and history, saved after an epoch.

    generators: all that the training draws from. always_after: number of epochs after which the state is saved even if
    the last save was recent; for a part of a training that others follow. buffers: what else changes in training, such
    as the statistics of batch norms.
    """

    def __init__(
        self,
        file: CheckpointFile,
        generators: list[torch.Generator],
        always_after: int | None = None,
        buffers: Iterable[torch.Tensor] = (),
    ) -> None:
        self.file, self.generators, self.always_after = file, generators, always_after
        self.buffers = list(buffers)
        self.last = time.monotonic()

    def restore(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> History:
        """Put everything back as it was, in place. Returns the history so far; empty where there is no checkpoint."""
        stored = read(self.file.path)
        if stored is None:
            return []
        with torch.no_grad():
            for tensor, kept in zip(self._tensors(optimizer), stored["parameters"], strict=True):
                tensor.copy_(kept)
        optimizer.load_state_dict(stored["optimizer"])
        scaler.load_state_dict(stored["scaler"])
        for generator, state in zip(self.generators, stored["generators"], strict=True):
            generator.set_state(state)
        return stored["history"]

    def save(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler, history: History) -> None:
        """Save the state, unless the last save was less than `every_s` seconds ago and this part goes on."""
        if time.monotonic() - self.last < self.file.every_s and len(history) != self.always_after:
            return
        state = {
            "parameters": [tensor.detach() for tensor in self._tensors(optimizer)],
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
            "generators": [generator.get_state() for generator in self.generators],
            "history": history,
        }
        content = io.BytesIO()
        torch.save(state, content)
        with atomic(self.file.path) as temporary:
            temporary.write_bytes(hashlib.sha256(content.getbuffer()).digest() + content.getbuffer())
        self.last = time.monotonic()

    def _tensors(self, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        return [*(parameter for group in optimizer.param_groups for parameter in group["params"]), *self.buffers]


def read(path: Path) -> dict[str, Any] | None:
    """The parts of the state in a checkpoint file; None if there is none. A damaged one is set aside with a warning."""
    if not path.exists():
        return None
    content = path.read_bytes()
    digest, content = content[:DIGEST], content[DIGEST:]
    if hashlib.sha256(content).digest() == digest:
        return torch.load(io.BytesIO(content), weights_only=True)
    aside = path.replace(path.with_name(f"{path.name}.damaged"))
    warn(f"WARNING: the checkpoint {path} is damaged: this training starts over. Until it ends, it is kept as {aside}")
    return None

"""Checkpoints of training runs.

A run that resumes from one has, bit for bit, the result of a run without interruption. They are not
outputs of the workflow. As they are overwritten often, a SHA-256 is in their own first 32 bytes.
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
DIGEST_BYTES = 32  # length of a SHA-256 digest
History = list[dict[str, float]]  # one record per epoch, as returned by TrainingLoop.run


@dataclass(frozen=True)
class CheckpointFile:
    """The file in which a training run saves its checkpoints, at least `every_s` seconds apart."""

    path: Path
    every_s: float

    @classmethod
    def for_training(
        cls, identity: Iterable[object], inputs: Iterable[str | Path], every_s: float
    ) -> "CheckpointFile":
        """Return the checkpoint file of a training run.

        Its name depends on `identity`, which distinguishes the run from all others, and the input
        files' modification times, so a run never resumes from the checkpoint of another or of older
        inputs.
        """
        modification_times = [Path(path).stat().st_mtime_ns for path in inputs]
        identifier = f"{list(identity)} {modification_times}"
        name = hashlib.sha256(identifier.encode()).hexdigest()[:16]
        return cls(FOLDER / f"{name}.pt", every_s)

    def for_part(self, *numbers: int) -> "CheckpointFile":
        """Return the checkpoint file of the part with these numbers, in the same folder."""
        suffix = "".join(f".{number}" for number in numbers)
        return CheckpointFile(self.path.with_suffix(f"{suffix}.pt"), self.every_s)

    def remove(self) -> None:
        """Remove the checkpoints of a finished run and of its parts."""
        for path in self.path.parent.glob(f"{self.path.stem}.*"):
            path.unlink()


class Checkpoint:
    """The state of a training run: weights, optimizer, loss scale, generators, and history.

    Parameters
    ----------
    generators
        All random generators that training uses.
    always_after
        The number of epochs after which the state is saved in any case, for a part of a run.
    buffers
        Other tensors that training changes, such as the statistics of batch norms.
    """

    def __init__(
        self,
        file: CheckpointFile,
        generators: list[torch.Generator],
        always_after: int | None = None,
        buffers: Iterable[torch.Tensor] = (),
    ) -> None:
        self.file = file
        self.generators = generators
        self.always_after = always_after
        self.buffers = list(buffers)
        self.last_save = time.monotonic()

    def restore(self, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> History:
        """Restore the state in place. Returns the history so far, empty without a checkpoint."""
        stored = read_checkpoint(self.file.path)
        if stored is None:
            return []
        with torch.no_grad():
            tensors = self._list_tensors(optimizer)
            for tensor, value in zip(tensors, stored["parameters"], strict=True):
                tensor.copy_(value)
        optimizer.load_state_dict(stored["optimizer"])
        scaler.load_state_dict(stored["scaler"])
        for generator, state in zip(self.generators, stored["generators"], strict=True):
            generator.set_state(state)
        return stored["history"]

    def save(
        self,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        history: History,
    ) -> None:
        """Save the state after `always_after` epochs, or `every_s` after the last save."""
        is_recent = time.monotonic() - self.last_save < self.file.every_s
        if is_recent and len(history) != self.always_after:
            return
        state = {
            "parameters": [tensor.detach() for tensor in self._list_tensors(optimizer)],
            "optimizer": optimizer.state_dict(),
            "scaler": scaler.state_dict(),
            "generators": [generator.get_state() for generator in self.generators],
            "history": history,
        }
        content = io.BytesIO()
        torch.save(state, content)
        digest = hashlib.sha256(content.getbuffer()).digest()
        with atomic(self.file.path) as temporary:
            temporary.write_bytes(digest + content.getbuffer())
        self.last_save = time.monotonic()

    def _list_tensors(self, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        """Return all tensors that training changes."""
        tensors: list[torch.Tensor] = []
        for group in optimizer.param_groups:
            tensors += group["params"]
        return tensors + self.buffers


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """Read the state in a file; None if there is none. A damaged file is kept under another name."""
    if not path.exists():
        return None
    stored = path.read_bytes()
    digest = stored[:DIGEST_BYTES]
    content = stored[DIGEST_BYTES:]
    if hashlib.sha256(content).digest() == digest:
        return torch.load(io.BytesIO(content), weights_only=True)
    renamed = path.replace(path.with_name(f"{path.name}.damaged"))
    warn(
        f"WARNING: the checkpoint {path} is damaged, so training starts from the beginning. Until"
        f" it ends, the damaged file is kept as {renamed}"
    )
    return None

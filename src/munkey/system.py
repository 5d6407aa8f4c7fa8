"""A trained system on disk: weights and memory in one file, with the architecture they belong to."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialised
from torch import nn

from munkey import models
from munkey.files import DamagedFileError, atomic
from munkey.memory import ExemplarMemory


@dataclass(frozen=True)
class System:
    """What answers queries: `vit` (weights), `munkey` (weights and memory) or `knn` (memory of one-hot labels)."""

    kind: str
    architecture: dict[str, Any]
    model: nn.Module | None
    memory: ExemplarMemory | None

    def copy_of_model(self) -> nn.Module:
        """A deep copy of the weights, for methods that change them: their input stays untouched."""
        return copy.deepcopy(self.model)  # type: ignore[return-value]


def knn_index(ids: np.ndarray, keys: np.ndarray, labels: np.ndarray, classes: int) -> System:
    """KNN over all keys before unlearning: a memory whose tokens are one-hot labels, no weights."""
    tokens = nn.functional.one_hot(torch.from_numpy(labels), classes).float()
    memory = ExemplarMemory(torch.from_numpy(ids), torch.from_numpy(keys), tokens)
    return System("knn", {"classes": classes}, None, memory)


def save(path: str | Path, system: System) -> None:
    tensors: dict[str, torch.Tensor] = {}
    if system.model is not None:
        tensors |= {f"model.{name}": tensor for name, tensor in system.model.state_dict().items()}
    if system.memory is not None:
        memory = system.memory
        tensors |= {"memory.ids": memory.ids, "memory.keys": memory.keys, "memory.tokens": memory.tokens.detach()}
    tensors = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    # One entry, because the order of several differs from file to file.
    metadata = {"system": json.dumps({"kind": system.kind, "architecture": system.architecture}, sort_keys=True)}
    with atomic(path) as temporary:
        temporary.write_bytes(serialised(tensors, metadata))


def load(path: str | Path, expected: dict[str, Any] | None = None, device: str = "cpu") -> System:
    """Load a system.

    Raises DamagedFileError for a truncated file, ValueError where the architecture is not the `expected` one.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise DamagedFileError(path, f"truncated or not a checkpoint ({error})") from error
    if "system" not in metadata:
        raise DamagedFileError(path, "not a checkpoint of this project")
    kind, architecture = (json.loads(metadata["system"])[name] for name in ("kind", "architecture"))
    differing = sorted(k for k, value in (expected or {}).items() if architecture.get(k) != value)
    if differing:
        raise ValueError(
            f"{path} holds another architecture: "
            + ", ".join(f"{k} is {architecture.get(k)}, expected {(expected or {})[k]}" for k in differing)
        )
    weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    model = None
    if weights:
        model = models.build(kind, architecture, generator=None)
        model.load_state_dict(weights)
        model.to(device)
    memory = None
    if "memory.ids" in tensors:
        memory = ExemplarMemory(
            tensors["memory.ids"].to(device), tensors["memory.keys"].to(device), tensors["memory.tokens"].to(device)
        )
    return System(kind, architecture, model, memory)

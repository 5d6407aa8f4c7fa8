"""System files: a model's weights and memory with their architecture, in one safetensors file."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as serialize_tensors

from munkey.core.device import to_host
from munkey.core.diverged import DIVERGED, DivergedError
from munkey.core.files import atomic_with_checksum, read_bytes
from munkey.memory.exemplars import ExemplarMemory
from munkey.models.family import FAMILIES, Architecture, System

if TYPE_CHECKING:
    from munkey.models.networks.vit import ViTArchitecture


def save(path: str | Path, system: System) -> None:
    """Write a system to a safetensors file. Equal systems give identical files."""
    tensors: dict[str, torch.Tensor] = {}
    if system.model is not None:
        for name, tensor in system.model.state_dict().items():
            tensors[f"model.{name}"] = tensor
    memory = system.memory
    if memory is not None:
        tensors["memory.ids"] = memory.ids
        tensors["memory.keys"] = memory.keys
        tensors["memory.tokens"] = memory.tokens.detach()
        if memory.labels is not None:
            tensors["memory.labels"] = memory.labels
    tensors = {name: to_host(tensor).contiguous() for name, tensor in tensors.items()}
    # All metadata is in a single entry, because safetensors writes entries in arbitrary order.
    description = {"family": system.family, "architecture": asdict(system.architecture)}
    metadata = {"system": json.dumps(description, sort_keys=True)}
    with atomic_with_checksum(path) as temporary:
        temporary.write_bytes(serialize_tensors(tensors, metadata))


def save_diverged(path: str | Path, reason: str) -> None:
    """Write a system file without weights; `reason` includes the path of the log."""
    with atomic_with_checksum(path) as temporary:
        temporary.write_bytes(serialize_tensors({}, {DIVERGED: reason}))


def require_finite(system: System) -> System:
    """Return the system unchanged, or raise DivergedError if a weight or token is not finite."""
    parameters: dict[str, torch.Tensor] = {}
    if system.model is not None:
        parameters |= system.model.named_parameters()
    if system.memory is not None:
        parameters["tokens"] = system.memory.tokens
    nonfinite_names = [name for name, value in parameters.items() if not value.isfinite().all()]
    if nonfinite_names:
        raise DivergedError(
            f"NaN or infinity in {len(nonfinite_names)} of {len(parameters)} weight tensors, for"
            f" example {nonfinite_names[0]}"
        )
    return system


def save_for_timm(system: System, folder: Path, mean: float, std: float) -> None:
    """Write a ViT to a folder in timm's format, for `pretrained.model` and `keys.encoder`.

    `mean` and `std` normalized its training images. Raises ValueError for another family's system.
    """
    import timm

    if system.family != "vit" or system.model is None:
        raise ValueError(
            f"this system is of the family {system.family}; only a plain ViT can be saved for timm"
        )
    architecture = cast("ViTArchitecture", system.architecture)
    classes = architecture.classes
    arguments: dict[str, Any] = {
        "img_size": architecture.image_size,
        "patch_size": architecture.patch_size,
        "embed_dim": architecture.width,
        "depth": architecture.depth,
        "num_heads": architecture.heads,
        "mlp_ratio": architecture.mlp_ratio,
    }
    # timm needs the name of a registered model. The arguments override all of its sizes.
    model: Any = timm.create_model("vit_tiny_patch16_224", num_classes=classes, **arguments)
    model.load_state_dict(system.model.state_dict())
    model.pretrained_cfg |= {
        "mean": [mean] * 3,
        "std": [std] * 3,
        "crop_pct": 1.0,
        "interpolation": "bilinear",
    }
    timm.models.save_for_hf(
        model,
        str(folder),
        model_config={"num_classes": classes},
        model_args=arguments,
        safe_serialization=True,
    )


def load(path: str | Path, expected: Architecture | None = None, device: str = "cpu") -> System:
    """Load a system from its file.

    Raises DamagedFileError, DivergedError if `save_diverged` wrote it, and ValueError if its
    architecture is not the `expected` one.
    """
    content = read_bytes(path)
    tensors = load_tensors(content)
    # A safetensors file starts with 8 bytes for the length of its JSON header.
    header_length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + header_length])["__metadata__"]
    if DIVERGED in metadata:
        raise DivergedError(metadata[DIVERGED])
    description = json.loads(metadata["system"])
    family = FAMILIES[description["family"]]
    architecture = family.restore_architecture(description["architecture"])
    if expected is not None:
        _require_architecture(path, family.name, architecture, expected)
    weights = {}
    for name, tensor in tensors.items():
        if name.startswith("model."):
            weights[name.removeprefix("model.")] = tensor
    model = None
    if weights:
        model = family.build(architecture, generator=None)
        model.load_state_dict(weights)
        model.to(device).eval()
    memory = None
    if "memory.ids" in tensors:
        memory = ExemplarMemory(
            ids=tensors["memory.ids"],
            keys=tensors["memory.keys"].to(device),
            tokens=tensors["memory.tokens"].to(device),
            labels=tensors.get("memory.labels"),
        )
    return System(family.name, architecture, model=model, memory=memory)


def _require_architecture(
    path: str | Path, family: str, architecture: Architecture, expected: Architecture
) -> None:
    """Raise ValueError if the architecture of a system's file differs from the expected one."""
    if type(expected) is not type(architecture):
        raise ValueError(
            f"{path} contains a model of the family {family}, but a {type(expected).__name__} was"
            " expected"
        )
    differences = expected.list_differences(architecture)
    if differences:
        raise ValueError(f"{path} has an unexpected architecture: {', '.join(differences)}")

"""A trained system on disk: weights and memory in one file, with the architecture they belong to."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors.torch import load as tensors_in
from safetensors.torch import save as serialized

from munkey.core.device import to_host
from munkey.core.diverged import DIVERGED, DivergedError
from munkey.core.files import read_bytes, sealed
from munkey.memory.exemplars import ExemplarMemory
from munkey.models.family import FAMILIES, Architecture, System

if TYPE_CHECKING:
    from munkey.models.networks.vit import ViTArchitecture


def save(path: str | Path, system: System) -> None:
    """Write a system. The same system gives the same bytes."""
    tensors: dict[str, torch.Tensor] = {}
    if system.model is not None:
        tensors |= {f"model.{name}": tensor for name, tensor in system.model.state_dict().items()}
    if system.memory is not None:
        memory = system.memory
        tensors |= {"memory.ids": memory.ids, "memory.keys": memory.keys, "memory.tokens": memory.tokens.detach()}
        tensors |= {} if memory.labels is None else {"memory.labels": memory.labels}
    tensors = {name: to_host(tensor).contiguous() for name, tensor in tensors.items()}
    # One entry, because the order of several differs from file to file.
    described = {"family": system.family, "architecture": asdict(system.architecture)}
    metadata = {"system": json.dumps(described, sort_keys=True)}
    with sealed(path) as temporary:
        temporary.write_bytes(serialized(tensors, metadata))


def save_diverged(path: str | Path, why: str) -> None:
    """Write a system without weights, for a training or a method that diverged. why: names the log, too."""
    with sealed(path) as temporary:
        temporary.write_bytes(serialized({}, {DIVERGED: why}))


def require_finite(system: System) -> System:
    """The system. Raises DivergedError where a weight or a token is NaN or infinite."""
    values: dict[str, torch.Tensor] = dict(system.model.named_parameters()) if system.model is not None else {}
    if system.memory is not None:
        values["tokens"] = system.memory.tokens
    bad = [name for name, value in values.items() if not value.isfinite().all()]
    if bad:
        raise DivergedError(f"{len(bad)} of {len(values)} weights are not finite, {bad[0]} among them")
    return system


def save_for_timm(system: System, folder: Path, mean: float, std: float) -> None:
    """Write a ViT of ours as timm writes its models, for `pretrained.model` or `keys.encoder` to name the folder.

    mean, std: of the pixels in [0, 1] that it was trained on. Raises ValueError for a system of another family.
    """
    import timm

    if system.family != "vit" or system.model is None:
        raise ValueError(f"holds a system of the family {system.family}; only a plain ViT can be saved for timm")
    a = cast("ViTArchitecture", system.architecture)
    arguments: dict[str, Any] = {"img_size": a.image_size, "patch_size": a.patch_size, "embed_dim": a.width}
    arguments |= {"depth": a.depth, "num_heads": a.heads, "mlp_ratio": a.mlp_ratio}
    model: Any = timm.create_model("vit_tiny_patch16_224", num_classes=a.classes, **arguments)
    model.load_state_dict(system.model.state_dict())
    model.pretrained_cfg |= {"mean": [mean] * 3, "std": [std] * 3, "crop_pct": 1.0, "interpolation": "bilinear"}
    timm.models.save_for_hf(
        model, str(folder), model_config={"num_classes": a.classes}, model_args=arguments, safe_serialization=True
    )


def load(path: str | Path, expected: Architecture | None = None, device: str = "cpu") -> System:
    """Load a system.

    Raises DamagedFileError for a damaged file, ValueError where the architecture is not the `expected` one,
    DivergedError for what `save_diverged` wrote.
    """
    content = read_bytes(path)
    tensors = tensors_in(content)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])  # its length, then JSON
    if DIVERGED in header["__metadata__"]:
        raise DivergedError(header["__metadata__"][DIVERGED])
    described = json.loads(header["__metadata__"]["system"])
    family = FAMILIES[described["family"]]
    architecture = family.stored_architecture(described["architecture"])
    if expected is not None and type(expected) is not type(architecture):
        raise ValueError(f"{path} holds a model of the family {family.name}, not the one expected")
    if expected is not None and (differing := expected.differing(architecture)):
        raise ValueError(f"{path} holds another architecture: {', '.join(differing)}")
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    model = None
    if weights:
        model = family.build(architecture, None)
        model.load_state_dict(weights)
        model.to(device).eval()
    memory = None
    if "memory.ids" in tensors:
        keys, tokens = (tensors[f"memory.{name}"].to(device) for name in ("keys", "tokens"))
        memory = ExemplarMemory(tensors["memory.ids"], keys, tokens, tensors.get("memory.labels"))
    return System(family.name, architecture, model, memory)

"""The Vision Transformer (Dosovitskiy et al. 2021; app. B.3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.core import gpu
from munkey.models.family import Architecture


@dataclass(frozen=True)
class ViTArchitecture(Architecture):
    """The architecture of a ViT. `mlp_ratio` is the MLPs' hidden width / `width`."""

    image_size: int
    patch_size: int
    width: int
    depth: int
    heads: int
    mlp_ratio: float


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax(q k^T / sqrt(d)) v for inputs of shape (B, heads, n, d)."""
    if q.is_cuda:
        return gpu.attention(q, k, v)
    # On a CPU, torch's fused kernel is slower for our sequence lengths (docs/performance.md).
    return (q * q.shape[-1] ** -0.5 @ k.mT).softmax(dim=-1) @ v


class Attention(nn.Module):
    """Multi-head self-attention: (B, n, width) -> (B, length, width).

    Only the first `length` tokens are queries. By default, all tokens are queries.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, length: int | None = None) -> Tensor:
        batch, tokens, width = x.shape
        qkv = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, heads, n, d) each
        mixed = attend(q[:, :, :length], k, v)  # (B, heads, length, d)
        return self.proj(mixed.transpose(1, 2).reshape(batch, -1, width))  # (B, length, width)


class MLP(nn.Module):
    """Two linear layers with a GELU in between, applied to each token."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """Pre-norm transformer block: (B, n, width) -> (B, length, width).

    It attends to all tokens but returns the first `length`, since the head reads only [CLS].
    """

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = MLP(width, hidden)

    def forward(self, x: Tensor, length: int | None = None) -> Tensor:
        x = x[:, :length] + self.attn(self.norm1(x), length)
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    """Patch embedding: (B, 3, S, S) -> (B, n, width)."""

    def __init__(self, patch_size: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch_size, stride=patch_size)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images).flatten(2).mT


class ViT(nn.Module):
    """Vision Transformer with a linear head on the [CLS] token."""

    def __init__(self, architecture: ViTArchitecture) -> None:
        super().__init__()
        width = architecture.width
        self.image_size = architecture.image_size
        self.patch_embed = PatchEmbed(architecture.patch_size, width)
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        patch_count = (architecture.image_size // architecture.patch_size) ** 2
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + patch_count, width))
        hidden = int(width * architecture.mlp_ratio)
        self.blocks = nn.ModuleList(
            Block(width, architecture.heads, hidden) for _ in range(architecture.depth)
        )
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, architecture.classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (B, classes) of normalized images (B, 3, S, S)."""
        patches = self.patch_embed(images)  # (B, n, width)
        return self.classify(patches)

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        """Return the logits (B, classes) of patch embeddings (B, n, width).

        `extra` (B, e, width) are tokens to append, without position embeddings [ours].
        """
        sequence = self.embed_positions(patches)  # (B, 1 + n, width)
        if extra is not None:
            sequence = torch.cat([sequence, extra], dim=1)  # (B, 1 + n + e, width)
        for block, length in zip(self.blocks, self.output_lengths(), strict=True):
            sequence = block(sequence, length)  # finally (B, 1, width)
        return self.forward_head(sequence)

    def output_lengths(self) -> list[int | None]:
        """Return how many tokens each block returns: None for all, and 1 ([CLS]) for the last."""
        return [None] * (len(self.blocks) - 1) + [1]

    def embed_positions(self, patches: Tensor) -> Tensor:
        """Prepend [CLS] and add position embeddings: (B, n, width) -> (B, 1 + n, width)."""
        cls = self.cls_token.expand(len(patches), -1, -1)
        return torch.cat([cls, patches], dim=1) + self.pos_embed

    def forward_head(self, sequence: Tensor) -> Tensor:
        """Return the logits (B, classes) of sequences (B, n, width), whose first token is [CLS]."""
        return self.head(self.norm(sequence[:, 0]))

    def initialize(self, generator: torch.Generator) -> None:
        """Draw all weights: layers as in `initialize_layer`, [CLS] and positions as in timm."""
        for module in self.modules():
            initialize_layer(module, generator)
        nn.init.normal_(self.cls_token, std=1e-6, generator=generator)
        nn.init.trunc_normal_(self.pos_embed, std=0.02, generator=generator)


def initialize_layer(module: nn.Module, generator: torch.Generator) -> None:
    """Draw weights uniformly within ±1/sqrt(fan_in), as PyTorch does by default [ours].

    Biases are set to 0 and the scales of norms to 1.
    """
    if isinstance(module, nn.Linear | nn.Conv2d):
        bound = module.weight[0].numel() ** -0.5
        nn.init.uniform_(module.weight, -bound, bound, generator=generator)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


NetworkT = TypeVar("NetworkT", bound=nn.Module)


def build_on_cpu(
    make_network: Callable[[], NetworkT], generator: torch.Generator | None
) -> NetworkT:
    """Build a network on the CPU with initial weights from `generator`, or uninitialized for None."""
    # Layers on the meta device draw no weights, so torch's global generator does not advance.
    with torch.device("meta"):
        network = make_network()
    network = network.to_empty(device="cpu")
    if generator is not None:
        assert isinstance(network, ViT)  # SISA's ensemble is only built without a generator
        with torch.no_grad():
            network.initialize(generator)
    return network

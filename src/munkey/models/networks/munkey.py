"""MUNKEY's networks: a ViT that reads an exemplar token beside the image (sec. 3.2), and its variants (app. D.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from munkey.core.ids import NOBODY
from munkey.memory.exemplars import ExemplarMemory, fuse
from munkey.models.networks.vit import Block, ViT, ViTArchitecture, attend
from munkey.settings import InferenceSettings


@dataclass(frozen=True)
class MunkeyArchitecture(ViTArchitecture):
    """architecture: how the token is read. token_dim: its length m; None where it is not known before loading.

    head: alpha and temperature of the LDA on the memory's keys whose logits are added; None: nothing is, or not known.
    """

    architecture: str
    token_dim: int | None
    head: Mapping[str, float] | None = None


class Pathways(NamedTuple):
    """The two parts of z_in before the backbone. patches: (B, n, width); exemplar: (B, 1, width)."""

    patches: Tensor
    exemplar: Tensor


class Munkey(ViT):
    """A ViT that reads one exemplar token beside the image: z_in = [P(z_i), P(h_psi(v))] (sec. 3.2, eq. 1).

    Also Direct Key (app. D.1), whose memory holds each sample's frozen key in place of a learnable token.
    """

    def __init__(self, architecture: MunkeyArchitecture) -> None:
        super().__init__(architecture)
        assert architecture.token_dim is not None
        self.adapter = nn.Linear(architecture.token_dim, architecture.width)
        self.null_image = nn.Parameter(torch.empty(architecture.width))
        self.null_token = nn.Parameter(torch.empty(architecture.width))

    def forward(  # type: ignore[override]  # a ViT's input and more
        self,
        images: Tensor,
        tokens: Tensor,
        image_dropped: Tensor | None = None,
        token_dropped: Tensor | None = None,
    ) -> Tensor:
        """(B, 3, S, S) images and (B, m) exemplar tokens -> (B, classes) logits.

        Where `image_dropped` (B,) is true, the null image replaces every patch embedding, before the position is added;
        where `token_dropped` (B,) is true, the null token replaces the adapted exemplar token.
        """
        patches, exemplar = self.pathways(images, tokens, image_dropped, token_dropped)
        return self.classify(patches, exemplar)

    def pathways(
        self, images: Tensor, tokens: Tensor, image_dropped: Tensor | None, token_dropped: Tensor | None
    ) -> Pathways:
        """What the backbone reads, with pathways dropped as in `forward`."""
        patches = self.patch_embed(images)  # (B, n, width)
        exemplar = self.adapter(tokens)  # (B, width)
        if image_dropped is not None:
            patches = torch.where(image_dropped[:, None, None], self.null_image, patches)
        if token_dropped is not None:
            exemplar = torch.where(token_dropped[:, None], self.null_token, exemplar)
        return Pathways(patches, exemplar[:, None])

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        nn.init.trunc_normal_(self.null_image, std=0.02, generator=generator)
        nn.init.trunc_normal_(self.null_token, std=0.02, generator=generator)


class DeepPrompt(Munkey):
    """The exemplar token joins the sequence anew before every block (app. D.1; Jia et al. 2022, VPT-deep)."""

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        assert extra is not None
        sequence = self.sequence(patches)  # (B, 1 + n, width)
        for block, kept in zip(self.blocks, self.kept(), strict=True):
            sequence = block(torch.cat([sequence, extra], dim=1), kept or sequence.shape[1])  # (B, 1 + n, width)
        return self.answer(sequence)


class CrossAttention(nn.Module):
    """Queries from [CLS] and image tokens (B, n, width), keys and values from exemplar tokens (B, e, width) (app. D.1).

    With a single exemplar token the softmax is 1, so every query receives that token's value, whatever the query is.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, exemplars: Tensor) -> Tensor:
        batch, length, width = x.shape
        q = self.q(self.norm(x)).view(batch, length, self.heads, -1).transpose(1, 2)  # (B, heads, n, d)
        kv = self.kv(exemplars).view(batch, -1, 2, self.heads, width // self.heads)  # (B, e, 2, heads, d)
        k, v = kv.permute(2, 0, 3, 1, 4)  # (B, heads, e, d) each
        mixed = attend(q, k, v)  # (B, heads, n, d)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, width))


class CrossAttended(Munkey):
    """The exemplar token is attended to after the self-attention of the first, middle and last block (app. D.1)."""

    def __init__(self, architecture: MunkeyArchitecture) -> None:
        super().__init__(architecture)
        depth, width, heads = architecture.depth, architecture.width, architecture.heads
        places = sorted({0, depth // 2, depth - 1})
        self.cross = nn.ModuleDict({str(place): CrossAttention(width, heads) for place in places})

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        assert extra is not None
        sequence = self.sequence(patches)  # (B, 1 + n, width)
        for place, (block, kept) in enumerate(zip(self.blocks, self.kept(), strict=True)):
            assert isinstance(block, Block)
            sequence = sequence[:, :kept] + block.attn(block.norm1(sequence), kept)
            if str(place) in self.cross:
                sequence = sequence + self.cross[str(place)](sequence, extra)
            sequence = sequence + block.mlp(block.norm2(sequence))  # after the last block (B, 1, width)
        return self.answer(sequence)


NETWORKS: dict[str, type[Munkey]] = {
    "input-level": Munkey,
    "deep-prompt": DeepPrompt,
    "cross-attention": CrossAttended,
    "direct-key": Munkey,
}


Cut = Literal["image", "token"] | None


class Nearest(NamedTuple):
    """The nearest rows of a memory to each query of a batch. rows: (B, K), NOBODY where absent; cosines: (B, K)."""

    rows: Tensor
    cosines: Tensor


def ask(
    model: Munkey,
    images: Tensor,
    memory: ExemplarMemory,
    nearest: Nearest,
    settings: InferenceSettings,
    cut: Cut = None,
) -> Tensor:
    """Logits (B, C) of queries (sec. 3.2). With an empty memory, the null token answers.

    cut: for every query, the null image or the null token takes the place of this one.
    """
    present = nearest.rows != NOBODY  # (B, K)
    some = present.any(dim=1) & (cut != "token")  # (B,)
    if len(memory):
        tokens = memory.tokens[nearest.rows.clamp(min=0)]  # (B, K, m)
    else:
        tokens = torch.zeros(*nearest.rows.shape, memory.tokens.shape[1], device=nearest.rows.device)
    tokens, weights = fuse(tokens, nearest.cosines, present, settings)  # (B, P, m), (B, P)
    weights = torch.where(some[:, None], weights, torch.full_like(weights, 1 / weights.shape[1]))
    passes = tokens.shape[1]
    patches = model.patch_embed(images).repeat_interleave(passes, dim=0)  # (B P, n, width)
    patches = model.null_image.expand_as(patches) if cut == "image" else patches
    adapted = model.adapter(tokens.flatten(0, 1))  # (B P, width)
    adapted = torch.where(some.repeat_interleave(passes)[:, None], adapted, model.null_token)
    logits = model.classify(patches, adapted[:, None]).view(len(images), passes, -1)  # (B, P, C)
    return (weights[:, :, None] * logits).sum(dim=1)

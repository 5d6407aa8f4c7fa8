"""MUNKEY's networks: a ViT with an exemplar token (sec. 3.2), and its variants (app. D.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from munkey.core.ids import NO_NEIGHBOR
from munkey.memory.exemplars import ExemplarMemory, fuse
from munkey.models.networks.vit import Block, ViT, ViTArchitecture, attend
from munkey.settings import InferenceSettings


@dataclass(frozen=True)
class MunkeyArchitecture(ViTArchitecture):
    """The architecture of a ViT that reads exemplar tokens of length `token_dim`.

    `architecture` is a name in NETWORKS. `head` has the settings of a head whose logits are added
    to the network's (`read_added_head`). `token_dim` and `head` are None until a file is loaded.
    """

    architecture: str
    token_dim: int | None
    head: Mapping[str, float | str] | None = None


class Pathways(NamedTuple):
    """The two parts of z_in (eq. 1).

    Attributes
    ----------
    patches
        (B, n, width): P(z_i).
    exemplar
        (B, 1, width): P(h_psi(v)).
    """

    patches: Tensor
    exemplar: Tensor


class Munkey(ViT):
    """A ViT that reads an image and an exemplar token: z_in = [P(z_i), P(h_psi(v))] (eq. 1).

    z_i are the patch embeddings, v is the token, h_psi the adapter, and P pathway dropout, which
    replaces its argument by a learned null embedding. For Direct Key (app. D.1), v is the sample's
    frozen key.
    """

    def __init__(self, architecture: MunkeyArchitecture) -> None:
        super().__init__(architecture)
        assert architecture.token_dim is not None, "the length of a token is not known"
        self.adapter = nn.Linear(architecture.token_dim, architecture.width)
        self.null_image = nn.Parameter(torch.empty(architecture.width))
        self.null_token = nn.Parameter(torch.empty(architecture.width))

    def forward(  # type: ignore[override]  # has more arguments than a ViT's
        self,
        images: Tensor,
        tokens: Tensor,
        image_dropped: Tensor | None = None,
        token_dropped: Tensor | None = None,
    ) -> Tensor:
        """Return the logits (B, classes) of images (B, 3, S, S) with exemplar tokens (B, m).

        Where `image_dropped` (B,), the null image replaces each patch embedding, before position
        embeddings are added [ours]; where `token_dropped` (B,), the null token replaces the adapted
        token.
        """
        patches, exemplar = self.drop_pathways(images, tokens, image_dropped, token_dropped)
        return self.classify(patches, exemplar)

    def drop_pathways(
        self,
        images: Tensor,
        tokens: Tensor,
        image_dropped: Tensor | None,
        token_dropped: Tensor | None,
    ) -> Pathways:
        """Return the two parts of z_in, with pathways dropped as in `forward`."""
        patches = self.patch_embed(images)  # z_i: (B, n, width)
        exemplar = self.adapter(tokens)  # v' = h_psi(v): (B, width)
        # P(u, null, gamma) = gamma u + (1 - gamma) null (sec. 3.2), with gamma = 0 where dropped.
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
    """A variant that inserts the exemplar token before each block (app. D.1; Jia et al. 2022)."""

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        assert extra is not None, "no exemplar token"
        sequence = self.embed_positions(patches)  # (B, 1 + n, width)
        for block, length in zip(self.blocks, self.output_lengths(), strict=True):
            prompted = torch.cat([sequence, extra], dim=1)  # (B, 2 + n, width)
            # Discard the output at the exemplar token, which is the last one.
            sequence = block(prompted, length or sequence.shape[1])  # finally (B, 1, width)
        return self.forward_head(sequence)


class CrossAttention(nn.Module):
    """Cross-attention from [CLS] and patches (B, n, width) to exemplars (B, e, width) (app. D.1).

    With a single exemplar token, the softmax is 1, so each query gets this token's value.
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
        # (B, heads, n, d)
        q = self.q(self.norm(x)).view(batch, length, self.heads, -1).transpose(1, 2)
        # (B, e, 2, heads, d)
        kv = self.kv(exemplars).view(batch, -1, 2, self.heads, width // self.heads)
        k, v = kv.permute(2, 0, 3, 1, 4)  # (B, heads, e, d) each
        mixed = attend(q, k, v)  # (B, heads, n, d)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, width))


class CrossAttentionMunkey(Munkey):
    """A variant with cross-attention to the exemplar token in three blocks (app. D.1).

    These are the first, the middle, and the last block.
    """

    def __init__(self, architecture: MunkeyArchitecture) -> None:
        super().__init__(architecture)
        depth = architecture.depth
        self.cross = nn.ModuleDict()
        for number in sorted({0, depth // 2, depth - 1}):  # blocks are counted from 0
            self.cross[str(number)] = CrossAttention(architecture.width, architecture.heads)

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        assert extra is not None, "no exemplar token"
        sequence = self.embed_positions(patches)  # (B, 1 + n, width)
        lengths = self.output_lengths()
        for number, (block, length) in enumerate(zip(self.blocks, lengths, strict=True)):
            assert isinstance(block, Block)
            sequence = sequence[:, :length] + block.attn(block.norm1(sequence), length)
            if str(number) in self.cross:
                sequence = sequence + self.cross[str(number)](sequence, extra)
            sequence = sequence + block.mlp(block.norm2(sequence))  # finally (B, 1, width)
        return self.forward_head(sequence)


NETWORKS: dict[str, type[Munkey]] = {
    "input-level": Munkey,
    "deep-prompt": DeepPrompt,
    "cross-attention": CrossAttentionMunkey,
    "direct-key": Munkey,
}


Pathway = Literal["image", "token"]


class Nearest(NamedTuple):
    """The neighbors of each query: rows (B, K) of the memory, or NO_NEIGHBOR, and cosines (B, K)."""

    rows: Tensor
    cosines: Tensor


def predict_queries(
    model: Munkey,
    images: Tensor,
    memory: ExemplarMemory,
    nearest: Nearest,
    settings: InferenceSettings,
    dropped: Pathway | None = None,
) -> Tensor:
    """Return the logits (B, C) of queries: sum_j w_j f([z_q, h_psi(v_j)]) (alg. 1, phase 3).

    Queries without neighbors read the null token. A null embedding replaces the pathway `dropped`.
    """
    present = nearest.rows != NO_NEIGHBOR  # (B, K)
    has_token = present.any(dim=1) & (dropped != "token")  # (B,)
    if len(memory):
        # Absent neighbors (row -1) read the token in row 0, with a weight of 0.
        neighbor_tokens = memory.tokens[nearest.rows.clamp(min=0)]  # (B, K, m)
    else:
        token_dim = memory.tokens.shape[1]
        neighbor_tokens = torch.zeros(*nearest.rows.shape, token_dim, device=nearest.rows.device)
    # One token v_j and weight w_j for each of P = K passes (`ensemble`, sec. 3.2), or the average
    # token for P = 1 pass (`softmax` and `rank`, app. D.1).
    tokens, weights = fuse(neighbor_tokens, nearest.cosines, present, settings)  # (B, P, m), (B, P)
    passes = tokens.shape[1]
    # All passes of a query without a token read the null token and give the same logits, so they
    # are averaged with equal weights.
    equal_weights = torch.full_like(weights, 1 / passes)
    weights = torch.where(has_token[:, None], weights, equal_weights)

    patches = model.patch_embed(images).repeat_interleave(passes, dim=0)  # (B * P, n, width)
    if dropped == "image":
        patches = model.null_image.expand_as(patches)
    exemplar = model.adapter(tokens.flatten(0, 1))  # v'_j = h_psi(v_j): (B * P, width)
    pass_has_token = has_token.repeat_interleave(passes)  # (B * P,)
    exemplar = torch.where(pass_has_token[:, None], exemplar, model.null_token)
    logits = model.classify(patches, exemplar[:, None]).view(len(images), passes, -1)  # (B, P, C)
    return (weights[:, :, None] * logits).sum(dim=1)  # sum_j w_j f([z_q, v'_j])

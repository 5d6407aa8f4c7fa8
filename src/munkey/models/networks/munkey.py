"""MUNKEY's networks: a ViT with an exemplar token (sec. 3.2), and its variants (app. D.1)."""

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
    """The shape of the network.

    Attributes
    ----------
    architecture
        A name in NETWORKS.
    token_dim
        The length m of a token; None before loading.
    head
        The constants of the head on the memory's keys whose logits are added, as `read_added_head`
        reads them; None without such a head, or before loading.
    """

    architecture: str
    token_dim: int | None
    head: Mapping[str, float | str] | None = None


class Pathways(NamedTuple):
    """The two parts of z_in (eq. 1).

    Attributes
    ----------
    patches
        (B, n, width).
    exemplar
        (B, 1, width).
    """

    patches: Tensor
    exemplar: Tensor


class Munkey(ViT):
    """A ViT that reads the image and an exemplar token: z_in = [P(z_i), P(h_psi(v))] (eq. 1).

    z_i are the patch embeddings, v is the exemplar token, h_psi the adapter, and P pathway dropout,
    which replaces a pathway by a learned null token. The variant Direct Key (app. D.1) uses the
    same network, but its memory has each sample's frozen key instead of a learnable token.
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
        """Compute logits (B, classes) of images (B, 3, S, S) with exemplar tokens (B, m).

        Where `image_dropped` (B,) is true, the null image replaces every patch embedding, before
        the position is added [ours]. Where `token_dropped` (B,) is true, the null token replaces
        the adapted exemplar token.
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
        """Compute the backbone's input, with pathways dropped as in `forward`."""
        patches = self.patch_embed(images)  # z_i: (B, n, width)
        exemplar = self.adapter(tokens)  # v' = h_psi(v): (B, width)
        # P(u, null, gamma) = gamma u + (1 - gamma) null (sec. 3.2), gamma = 0 where dropped.
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
    """Inserts the exemplar token again before every block (app. D.1; Jia et al. 2022)."""

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        assert extra is not None
        sequence = self.embed_positions(patches)  # (B, 1 + n, width)
        for block, length in zip(self.blocks, self.get_output_lengths(), strict=True):
            prompted = torch.cat([sequence, extra], dim=1)  # (B, 2 + n, width)
            # The exemplar token's own output, which is the last, is dropped.
            sequence = block(prompted, length or sequence.shape[1])  # (B, 1 + n, width)
        return self.forward_head(sequence)


class CrossAttention(nn.Module):
    """Cross-attention from [CLS] and patches (B, n, width) to exemplars (B, e, width) (app. D.1).

    With a single exemplar token, the softmax is 1, so every query gets that token's value.
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
    """Cross-attention to the exemplar token in the first, middle and last block (app. D.1)."""

    def __init__(self, architecture: MunkeyArchitecture) -> None:
        super().__init__(architecture)
        depth = architecture.depth
        self.cross = nn.ModuleDict()
        for number in sorted({0, depth // 2, depth - 1}):
            self.cross[str(number)] = CrossAttention(architecture.width, architecture.heads)

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        assert extra is not None
        sequence = self.embed_positions(patches)  # (B, 1 + n, width)
        lengths = self.get_output_lengths()
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


Cut = Literal["image", "token"] | None


class Nearest(NamedTuple):
    """The neighbors of each query.

    Attributes
    ----------
    rows
        (B, K) rows of the memory, NOBODY where absent.
    cosines
        (B, K) cosines of their keys with the query's.
    """

    rows: Tensor
    cosines: Tensor


def predict_queries(
    model: Munkey,
    images: Tensor,
    memory: ExemplarMemory,
    nearest: Nearest,
    settings: InferenceSettings,
    cut: Cut = None,
) -> Tensor:
    """Compute logits (B, C) of queries: sum_j w_j f([z_q, h_psi(v_j)]) (alg. 1, phase 3).

    A query without neighbors, such as with an empty memory, gets the null token.

    Parameters
    ----------
    cut
        The pathway to replace by its null token for all queries, as in pathway sensitivity (eq. 3).
    """
    present = nearest.rows != NOBODY  # (B, K)
    has_token = present.any(dim=1) & (cut != "token")  # (B,)
    if len(memory):
        tokens = memory.tokens[nearest.rows.clamp(min=0)]  # (B, K, m); absent rows get weight 0
    else:
        token_dim = memory.tokens.shape[1]
        tokens = torch.zeros(*nearest.rows.shape, token_dim, device=nearest.rows.device)
    # w_j, softmax over cosines, and v_j; with P = 1 pass, their weighted average (app. D.1).
    tokens, weights = fuse(tokens, nearest.cosines, present, settings)  # (B, P, m), (B, P)
    passes = tokens.shape[1]
    # Without a token, all P passes read the null token and agree, so the weights only need to sum
    # to 1.
    equal_weights = torch.full_like(weights, 1 / passes)
    weights = torch.where(has_token[:, None], weights, equal_weights)

    patches = model.patch_embed(images).repeat_interleave(passes, dim=0)  # (B P, n, width)
    if cut == "image":
        patches = model.null_image.expand_as(patches)
    exemplar = model.adapter(tokens.flatten(0, 1))  # (B P, width)
    has_token = has_token.repeat_interleave(passes)  # (B P,)
    exemplar = torch.where(has_token[:, None], exemplar, model.null_token)
    logits = model.classify(patches, exemplar[:, None]).view(len(images), passes, -1)  # (B, P, C)
    return (weights[:, :, None] * logits).sum(dim=1)  # sum_j w_j f([z_q, v'_j])

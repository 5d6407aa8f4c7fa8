"""The ViT and MUNKEY (sec. 3). Parameter names are timm's, so its checkpoints load and its model checks ours."""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(d)) v over (B, heads, n, d).

    Written out on a CPU, where torch's fused kernel is slower at our lengths (docs/performance.md).
    """
    if q.is_cuda:
        return F.scaled_dot_product_attention(q, k, v)
    return (q * q.shape[-1] ** -0.5 @ k.mT).softmax(dim=-1) @ v


class Attention(nn.Module):
    """Multi-head self-attention over (B, n, width); of the first `kept` tokens only, where it is given."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, kept: int | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = attend(q[:, :, :kept], k, v)
        return self.proj(mixed.transpose(1, 2).reshape(batch, -1, width))


class MLP(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """Pre-norm transformer block.

    All tokens are attended to, but only the first `kept` go on: after the last block nobody reads any but [CLS].
    """

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = MLP(width, hidden)

    def forward(self, x: Tensor, kept: int | None = None) -> Tensor:
        x = x[:, :kept] + self.attn(self.norm1(x), kept)
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    """(B, 3, S, S) -> (B, n, width)."""

    def __init__(self, patch_size: int, width: int) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch_size, stride=patch_size)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images).flatten(2).mT


def initialise_layer(module: nn.Module, generator: torch.Generator) -> None:
    """Weights uniform within 1/sqrt(fan-in), PyTorch's default for these layers [ours]; biases 0, norms 1."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        bound = module.weight[0].numel() ** -0.5
        nn.init.uniform_(module.weight, -bound, bound, generator=generator)
        nn.init.zeros_(module.bias)  # type: ignore[arg-type]
    elif isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


class ViT(nn.Module):
    """Vision Transformer with a linear head on [CLS] (Dosovitskiy et al. 2021; app. B.3)."""

    def __init__(
        self, image_size: int, classes: int, patch_size: int, width: int, depth: int, heads: int, mlp_ratio: float
    ) -> None:
        super().__init__()
        self.image_size = image_size
        self.patch_embed = PatchEmbed(patch_size, width)
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.pos_embed = nn.Parameter(torch.empty(1, 1 + (image_size // patch_size) ** 2, width))
        self.blocks = nn.ModuleList(Block(width, heads, int(width * mlp_ratio)) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) normalised images -> (B, classes) logits."""
        return self.classify(self.patch_embed(images))

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        """Logits from patch embeddings (B, n, width); `extra` tokens (B, e, width) join without a position."""
        sequence = self.sequence(patches)
        if extra is not None:
            sequence = torch.cat([sequence, extra], dim=1)
        for block, kept in zip(self.blocks, self.kept(), strict=True):
            sequence = block(sequence, kept)
        return self.answer(sequence)

    def kept(self) -> list[int | None]:
        """How many tokens go on after each block: all, and after the last one [CLS]."""
        return [None] * (len(self.blocks) - 1) + [1]

    def sequence(self, patches: Tensor) -> Tensor:
        """[CLS] and patch embeddings with their positions: (B, n, width) -> (B, 1 + n, width)."""
        cls = self.cls_token.expand(len(patches), -1, -1)
        return torch.cat([cls, patches], dim=1) + self.pos_embed

    def answer(self, sequence: Tensor) -> Tensor:
        """Logits (B, classes) from [CLS], the first of a sequence."""
        return self.head(self.norm(sequence[:, 0]))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw all weights anew: layers as `initialise_layer`, [CLS] and positions normal of std 1e-6 and 0.02."""
        for module in self.modules():
            initialise_layer(module, generator)
        nn.init.normal_(self.cls_token, std=1e-6, generator=generator)
        nn.init.trunc_normal_(self.pos_embed, std=0.02, generator=generator)


class Munkey(ViT):
    """A ViT that reads one exemplar token beside the image: z_in = [P(z_i), P(h_psi(v))] (sec. 3.2, eq. 1).

    Also Direct Key (app. D.1), whose memory holds each sample's frozen key in place of a learnable token.
    """

    def __init__(self, token_dim: int, **vit: int | float) -> None:
        super().__init__(**vit)  # type: ignore[arg-type]
        width = self.cls_token.shape[-1]
        self.adapter = nn.Linear(token_dim, width)
        self.null_image = nn.Parameter(torch.empty(width))
        self.null_token = nn.Parameter(torch.empty(width))

    def forward(  # type: ignore[override]  # a ViT's input and more
        self,
        images: Tensor,
        tokens: Tensor,
        image_dropped: Tensor | None = None,
        token_dropped: Tensor | None = None,
    ) -> Tensor:
        """(B, 3, S, S) images and (B, m) exemplar tokens -> (B, classes) logits.

        Where `image_dropped` (B,) is true, the null image stands for every patch embedding, before the position is
        added; where `token_dropped` (B,) is true, the null token stands for the adapted exemplar token.
        """
        return self.classify(*self.pathways(images, tokens, image_dropped, token_dropped))

    def pathways(
        self, images: Tensor, tokens: Tensor, image_dropped: Tensor | None, token_dropped: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The two parts of z_in before the backbone: patches (B, n, width) and exemplar token (B, 1, width)."""
        patches, exemplar = self.patch_embed(images), self.adapter(tokens)
        if image_dropped is not None:
            patches = torch.where(image_dropped[:, None, None], self.null_image, patches)
        if token_dropped is not None:
            exemplar = torch.where(token_dropped[:, None], self.null_token, exemplar)
        return patches, exemplar[:, None]

    def initialise(self, generator: torch.Generator) -> None:
        super().initialise(generator)
        nn.init.trunc_normal_(self.null_image, std=0.02, generator=generator)
        nn.init.trunc_normal_(self.null_token, std=0.02, generator=generator)


class DeepPrompt(Munkey):
    """The exemplar token stands afresh beside the sequence before every block (app. D.1; Jia et al. 2022, VPT-deep)."""

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        assert extra is not None
        sequence = self.sequence(patches)
        for block, kept in zip(self.blocks, self.kept(), strict=True):
            sequence = block(torch.cat([sequence, extra], dim=1), kept or sequence.shape[1])
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
        q = self.q(self.norm(x)).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = self.kv(exemplars).view(batch, -1, 2, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = attend(q, k, v)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, width))


class CrossAttended(Munkey):
    """The exemplar token is attended to after the self-attention of the first, middle and last block (app. D.1)."""

    def __init__(self, token_dim: int, **vit: int | float) -> None:
        super().__init__(token_dim, **vit)
        depth, width, heads = (int(vit[name]) for name in ("depth", "width", "heads"))
        places = sorted({0, depth // 2, depth - 1})
        self.cross = nn.ModuleDict({str(place): CrossAttention(width, heads) for place in places})

    def classify(self, patches: Tensor, extra: Tensor | None = None) -> Tensor:
        assert extra is not None
        sequence = self.sequence(patches)
        for place, (block, kept) in enumerate(zip(self.blocks, self.kept(), strict=True)):
            sequence = sequence[:, :kept] + block.attn(block.norm1(sequence), kept)  # type: ignore[operator]
            if str(place) in self.cross:
                sequence = sequence + self.cross[str(place)](sequence, extra)
            sequence = sequence + block.mlp(block.norm2(sequence))  # type: ignore[operator]
        return self.answer(sequence)


class Sisa(nn.Module):
    """`shards` ViTs that answer together; each is kept as it was after each of its slices (Bourtoule et al. 2021)."""

    def __init__(self, shards: int, slices: int, **vit: int | float) -> None:
        super().__init__()
        self.shards, self.slices = shards, slices
        self.states = nn.ModuleList(ViT(**vit) for _ in range(shards * slices))  # type: ignore[arg-type]

    def state(self, shard: int, part: int) -> ViT:
        """The model of a shard as it was after its slice `part`."""
        return cast(ViT, self.states[shard * self.slices + part])

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) -> (B, classes): the log of the shards' mean probability after their last slice."""
        answers = [self.state(shard, self.slices - 1)(images).log_softmax(dim=1) for shard in range(self.shards)]
        return torch.stack(answers).logsumexp(dim=0) - math.log(self.shards)


MUNKEYS: dict[str, type[Munkey]] = {
    "input-level": Munkey,
    "deep-prompt": DeepPrompt,
    "cross-attention": CrossAttended,
    "direct-key": Munkey,
}
OWN_ARGUMENTS = {"vit": (), "munkey": ("architecture", "token_dim"), "sisa": ("shards", "slices")}


def architecture(kind: str, settings: Any, classes: int, key_dim: int | None = None) -> dict[str, Any]:
    """The arguments of `build` out of parameters: sections data, model and, but for `vit`, that of the kind.

    Direct Key's tokens are keys of length `key_dim`; their length is left out where that is None.
    """
    own = {name: getattr(settings, kind).__dict__[name] for name in OWN_ARGUMENTS[kind]}
    if own.get("architecture") == "direct-key":
        own["token_dim"] = key_dim
    found = {"image_size": settings.data.image_size, "classes": classes, **vars(settings.model), **own}
    return {name: value for name, value in found.items() if value is not None}


def build(kind: str, architecture: dict[str, Any], generator: torch.Generator | None) -> Any:
    """A model with fresh weights from `generator`, or with unset ones where it is None and weights are loaded next."""
    arguments = dict(architecture)
    made: dict[str, Any] = {"vit": ViT, "sisa": Sisa, "munkey": MUNKEYS[arguments.pop("architecture", "input-level")]}
    with torch.device("meta"):
        model = made[kind](**arguments)
    model.to_empty(device="cpu")
    if generator is not None:
        with torch.no_grad():
            model.initialise(generator)
    return model

"""A ViT's arithmetic: floating-point operations, weights and bytes, from its settings alone. Nothing is computed.

Operations are two for each multiply-add of matrix products, as torch's FlopCounterMode counts them. Bytes are those of
float32 on a CPU, where the (n, n) weights of attention are held; a GPU's kernels hold none of them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from munkey.settings import ModelSettings

if TYPE_CHECKING:
    from torch import nn

FLOAT = 4  # bytes
PAIR = 2  # images, of which a batch norm needs more than one
PASSES = 256  # passes at once when it answers, as munkey.models.forward has it, whose import would need torch


@dataclass(frozen=True)
class Network:
    """One ViT. extra: tokens beside [CLS] and the patches; token_dim: m, where it reads exemplar tokens."""

    model: ModelSettings
    image_size: int
    classes: int
    extra: int = 0
    token_dim: int = 0

    @property
    def patches(self) -> int:
        return (self.image_size // self.model.patch_size) ** 2

    @property
    def tokens(self) -> int:
        """n, what a block attends to."""
        return 1 + self.patches + self.extra

    @property
    def hidden(self) -> int:
        return int(self.model.width * self.model.mlp_ratio)

    @property
    def weights(self) -> int:
        """How many parameters there are, without the memory's tokens."""
        d, h = self.model.width, self.hidden
        patch = (3 * self.model.patch_size**2 + 1) * d
        block = 4 * d * d + 2 * d * h + 9 * d + h  # qkv, proj and MLP with biases, two norms
        ends = d + (1 + self.patches) * d + 2 * d + (d + 1) * self.classes  # [CLS], positions, norm, head
        adapter = (self.token_dim + 3) * d if self.token_dim else 0  # with its bias and the two nulls
        return patch + self.model.depth * block + ends + adapter

    @property
    def forward(self) -> int:
        """Operations of one pass of one image. After the last block, only [CLS] is kept."""
        d, n = self.model.width, self.tokens

        def block(queries: int) -> int:
            return 6 * n * d * d + 4 * queries * n * d + queries * (2 * d * d + 4 * d * self.hidden)

        ends = self._patching + 2 * d * self.classes + 2 * self.token_dim * d
        return (self.model.depth - 1) * block(n) + block(1) + ends

    @property
    def step(self) -> int:
        """Operations of a forward and a backward pass of one image, whose pixels get no gradient."""
        return 3 * self.forward - self._patching

    @property
    def attention_bytes(self) -> int:
        """The (n, n) weights of attention among what is kept."""
        return FLOAT * (self.model.depth - 1) * self.model.heads * self.tokens**2

    @property
    def layers(self) -> int:
        return self.model.depth

    @property
    def _patching(self) -> int:
        return 6 * self.patches * self.model.patch_size**2 * self.model.width

    @property
    def kept_bytes(self) -> int:
        """What the forward pass of one image keeps for the backward pass.

        Of a block: its input, two norms' outputs, q, k, v, the mixed values and the sum, 8 d in all; the MLP before and
        after its GELU, 2 h; and the weights of attention, heads x n. Of the last block, hardly more than input, norm,
        k and v.
        """
        d, n = self.model.width, self.tokens
        block = n * (8 * d + 2 * self.hidden + self.model.heads * n)
        return FLOAT * ((self.model.depth - 1) * block + 4 * n * d + self._picture)

    @property
    def backward_bytes(self) -> int:
        """What the backward pass of one image holds on top of that at its peak: gradients within an MLP."""
        return FLOAT * self.tokens * (2 * self.hidden + 2 * self.model.width)

    @property
    def answer_bytes(self) -> int:
        """The most that one image takes while it is answered, without gradients: in attention, or in an MLP; and its
        pixels as the model reads them, of this batch and the one before it.
        """
        d, n = self.model.width, self.tokens
        attending = max(8 * d + self.model.heads * n, 5 * d + 2 * self.model.heads * n)
        return FLOAT * (n * max(attending, 2 * d + 2 * self.hidden) + 2 * self._picture)

    @property
    def _picture(self) -> int:
        return 3 * self.image_size**2


@dataclass(frozen=True)
class Measured:
    """Another network, as it ran once on torch's meta device, where nothing is computed either."""

    image_size: int
    weights: int
    forward: int
    step: int
    kept_bytes: int
    answer_bytes: int
    layers: int
    backward_bytes: int = 0
    attention_bytes: int = 0
    token_dim: int = 0


def measured(model: "nn.Module", image_size: int) -> Measured:
    """What one image costs a model on the meta device. Kept: what the backward pass reads; while it answers, three of
    the largest tensors among that.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    kept: dict[int, torch.Tensor] = {}
    held = {parameter.untyped_storage()._cdata for parameter in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if (place := tensor.untyped_storage()._cdata) not in held:
            kept[place] = tensor
        return tensor

    with FlopCounterMode(display=False) as counter, torch.autograd.graph.saved_tensors_hooks(keep, lambda each: each):
        logits = model.train()(torch.empty(PAIR, 3, image_size, image_size, device="meta"))
        forward = counter.get_total_flops()
        logits.sum().backward()
        step = counter.get_total_flops()
    sizes, picture = [tensor.nbytes // PAIR for tensor in kept.values()], 3 * FLOAT * image_size**2
    weights = list(model.parameters())
    return Measured(
        image_size,
        sum(weight.numel() for weight in weights),
        forward // PAIR,
        step // PAIR,
        sum(sizes),
        3 * max(sizes) + 2 * picture,
        len([weight for weight in weights if weight.dim() > 1]),
    )


def training_bytes(
    network: Network | Measured, batch: int, stored_size: int, *, graphs: int = 1, models: int = 1
) -> int:
    """Peak of a training in float32, on top of what the process takes anyway. stored_size: side of a stored picture.

    Weights and AdamW's two moments; activations of a batch; pictures before the crop. graphs: forward passes that are
    kept at once; models: copies of the weights, teachers included.
    """
    state = FLOAT * network.weights * (2 + models)
    activations = graphs * network.kept_bytes + network.backward_bytes
    pixels = FLOAT * 3 * stored_size**2
    return state + max(FLOAT * network.weights, batch * (activations + graphs * pixels))


def answering_bytes(network: Network | Measured, stored_size: int, passes: int = 1) -> int:
    """Peak of an evaluation in float32, on top of what the process takes anyway. passes: of the model for a picture."""
    pictures = max(1, PASSES // passes)
    pixels = FLOAT * 3 * stored_size**2  # of this batch, the one before it, and a copy while it is made
    return FLOAT * network.weights + pictures * (passes * network.answer_bytes + 3 * pixels)

"""The network of a deep semi-parametric model (Zheng, Tai & Yeh 2026): attention to class means."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from munkey.models.networks.vit import ViT, ViTArchitecture

MIN_PROBABILITY = 1e-8  # of a class without rows


@dataclass(frozen=True)
class SpmArchitecture(ViTArchitecture):
    """The architecture of a ViT that compares an image with class means.

    `support` is the number of samples whose embeddings are averaged in each step of training.
    """

    support: int


class Spm(ViT):
    """A ViT that embeds an image, and classifies it by attention to the mean embedding of each class.

    Attributes
    ----------
    means
        (C, width): the mean embedding of each class's rows in the memory; 0 for a class without rows.
    is_present
        (C,) bool: whether a class has rows.
    """

    means: Tensor
    is_present: Tensor

    def __init__(self, architecture: SpmArchitecture) -> None:
        super().__init__(architecture)
        width = architecture.width
        classes = architecture.classes
        self.head = nn.Linear(width, width, bias=False)  # W_q
        self.support_head = nn.Linear(width, width, bias=False)  # W_s
        self.register_buffer("means", torch.empty(classes, width))
        self.register_buffer("is_present", torch.empty(classes, dtype=torch.bool))

    def forward(
        self,
        images: Tensor,
        support_images: Tensor | None = None,
        support_labels: Tensor | None = None,
    ) -> Tensor:
        """Return log-probabilities (B, C) of images (B, 3, S, S).

        Training compares them with support images (M, 3, S, S) and their labels (M,), prediction
        with the rows in the memory.
        """
        if support_images is None:
            return self.attend(self.embed(images), self.means, self.is_present)
        assert support_labels is not None, "no labels of the support images"
        embeddings = self.embed(torch.cat([images, support_images]))
        queries, support = embeddings.split([len(images), len(support_images)])
        means, is_present = average_classes(support, support_labels, len(self.means))
        return self.attend(queries, means, is_present)

    def embed(self, images: Tensor) -> Tensor:
        """Return the embeddings (B, width) of images (B, 3, S, S)."""
        sequence = self.embed_positions(self.patch_embed(images))
        for block, length in zip(self.blocks, self.output_lengths(), strict=True):
            sequence = block(sequence, length)  # finally (B, 1, width)
        return self.norm(sequence[:, 0])

    def attend(self, queries: Tensor, means: Tensor, is_present: Tensor) -> Tensor:
        """Return the log of each class's attention (B, C), at least log MIN_PROBABILITY.

        Parameters
        ----------
        queries
            Embeddings (B, width).
        means, is_present
            (C, width) and (C,): those of the classes.
        """
        scores = self.head(queries) @ self.support_head(means).mT / math.sqrt(means.shape[1])
        # The smallest number instead of -inf, which would give NaN if no class were present.
        lowest = torch.finfo(torch.float32).min
        attention = scores.float().masked_fill(~is_present, lowest).softmax(dim=1) * is_present
        return attention.clamp(min=MIN_PROBABILITY).log()

    def set_rows(self, embeddings: Tensor, labels: Tensor) -> None:
        """Set `means` and `is_present` to those of rows: embeddings (N, width) and labels (N,)."""
        means, is_present = average_classes(embeddings, labels, len(self.means))
        self.means.copy_(means)
        self.is_present.copy_(is_present)

    def initialize(self, generator: torch.Generator) -> None:
        super().initialize(generator)
        nn.init.zeros_(self.means)
        self.is_present.fill_(False)


def average_classes(embeddings: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the mean embedding of each class (C, width), and whether it has samples (C,)."""
    members = F.one_hot(labels, classes).to(embeddings.dtype)  # (N, C)
    counts = members.sum(dim=0)
    means = members.mT @ embeddings / counts.clamp(min=1)[:, None]
    return means, counts > 0

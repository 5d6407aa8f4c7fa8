"""The ViT answers from the image alone."""

import numpy as np
import torch

from munkey.models.family import FAMILIES, System
from tests.conftest import VIT, generator, lively
from tests.models.inputs import answered, normalized, seven_samples


@torch.no_grad()
def test_it_answers_from_the_resized_and_normalized_image():
    model = lively(FAMILIES["vit"].build(VIT, generator()))
    logits = answered(System("vit", VIT, model), seven_samples())
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, model(normalized(seven_samples())), rtol=1e-4, atol=1e-5)

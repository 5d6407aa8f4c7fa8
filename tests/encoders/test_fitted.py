"""The fitted encoder on docs/encoders.md: fitted once on a split, its file identifies it."""

import numpy as np
import torch
from sklearn.decomposition import PCA

from munkey.data.prepared import prepare
from munkey.data.source import SPLITS, Source
from munkey.encoders.registry import ENCODERS, find
from tests.encoders.inputs import settings
from tests.pages import block


def test_the_encoder_of_the_page_has_the_principal_components_of_the_split(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (36, 4, 4, 3), dtype=np.uint8)
    prepare(
        Source(images, np.arange(36) % 2, np.repeat(SPLITS, 12), ["cat", "dog"]),
        tmp_path / "prepared",
    )
    (tmp_path / "encoders").mkdir()
    monkeypatch.chdir(tmp_path)
    page = {"__name__": "page"}
    exec(compile(block("encoders", "python", '"my-pca"'), "docs/encoders.md", "exec"), page)
    try:
        entry = find("my-pca")
        encoder_settings = settings("my-pca")
        weights = [entry.weights(encoder_settings)]
        for split, part in (("train", images[:12]), ("val", images[12:24])):
            page["fit"]("prepared", split)
            weights.append(entry.weights(encoder_settings))
            pixels = torch.from_numpy(images[30:]).permute(0, 3, 1, 2).float() / 255
            expected = (
                PCA(8).fit(part.reshape(12, -1) / 255).transform(images[30:].reshape(6, -1) / 255)
            )
            np.testing.assert_allclose(
                entry.build(encoder_settings, "cpu")(pixels), expected, atol=1e-5
            )
        assert len(set(weights)) == 3
    finally:
        ENCODERS.remove("my-pca")

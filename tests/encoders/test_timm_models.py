"""Encoders of timm, loaded from disk as the real ones are, against a direct call of the saved model."""

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from munkey.data.image_set import to_unit_range
from munkey.encoders.registry import MissingEncoderError, find
from tests.encoders.inputs import settings


@pytest.mark.parametrize(
    ("crop_pct", "crop_mode"), [(1.0, "center"), (0.8, "center"), (0.8, "squash")]
)
def test_a_saved_timm_model_gives_the_features_of_a_direct_call(tmp_path, crop_pct, crop_mode):
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=0).eval()
    model.pretrained_cfg = model.pretrained_cfg | {"crop_pct": crop_pct, "crop_mode": crop_mode}
    timm.models.save_for_hf(model, tmp_path / "model", model_config={"num_classes": 0})
    encode = find(f"{tmp_path}/model").build(settings(tmp_path / "model"), "cpu")
    config = timm.data.resolve_data_config({}, model=model)
    assert (config["crop_pct"], config["crop_mode"]) == (crop_pct, crop_mode)
    small = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    picture = Image.fromarray(small).resize((240, 200), Image.Resampling.BICUBIC)
    with torch.no_grad():
        ours = encode(to_unit_range(torch.from_numpy(np.array(picture))[None]))
        direct = model(timm.data.create_transform(**config)(picture)[None])
    # timm rounds to whole pixel values, we do not
    assert torch.nn.functional.cosine_similarity(ours, direct) > 0.999
    torch.testing.assert_close(ours, direct, atol=0.05, rtol=0)


def test_a_timm_model_that_pads_pictures_is_refused(tmp_path):
    model = timm.create_model("test_vit", num_classes=0)
    model.pretrained_cfg = model.pretrained_cfg | {"crop_mode": "border"}
    timm.models.save_for_hf(model, tmp_path / "model", model_config={"num_classes": 0})
    with pytest.raises(MissingEncoderError, match="crop_mode 'border'"):
        find(f"{tmp_path}/model").build(settings(tmp_path / "model"), "cpu")

"""ResNet-18, and models of timm that bring their weights: built, trained, frozen, saved, and refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from timm.models import save_for_hf
from torch import nn
from torchvision.models import resnet18

from munkey.cli.experiment import save_backbone
from munkey.core.files import write_json
from munkey.core.randomness import Stage
from munkey.encoders.registry import ENCODERS, MissingEncoderError
from munkey.experiment.params.load import ParamsError, load
from munkey.models import system as systems
from munkey.models.families.pretrained import PretrainedSettings
from munkey.models.families.resnet18 import ResNet18Settings
from munkey.models.family import FAMILIES, Recipe, System, Training
from munkey.models.networks.backbone import Backbone
from munkey.settings import DataSettings, EncoderSettings
from tests.conftest import changed
from tests.training.inputs import MODEL, TRAIN, digits

DATA = DataSettings(image_size=16, pixel_mean=0.4, pixel_std=0.3)
VIT = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 3, "num_heads": 2}
SWIN = {
    "img_size": 32,
    "patch_size": 4,
    "window_size": 4,
    "embed_dim": 12,
    "depths": (1, 1),
    "num_heads": (2, 2),
}
RESNET = {"channels": (8, 8, 16, 16)}
MODELS = {"vit_tiny_patch16_224": VIT, "swin_tiny_patch4_window7_224": SWIN, "resnet18": RESNET}


def recipe(name: str, settings: Any, seed: int = 0) -> Recipe:
    sections = {
        "data": DATA.model_dump(),
        "train": TRAIN.model_dump() | {"epochs": 2},
        name: settings.model_dump(),
    }
    return FAMILIES[name].make_recipe(sections, Stage("backbones", seed))


def trained(name: str, settings: Any, seed: int = 0) -> System:
    training = Training(digits(), 10, recipe(name, settings, seed), "cpu", lambda _: None)
    return FAMILIES[name].train(training).system


def backbone(system: System) -> Backbone:
    assert isinstance(system.model, Backbone)
    return system.model


def saved(folder: Path, name: str = "vit_tiny_patch16_224") -> nn.Module:
    """A model with the weights of some training, as timm writes it."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = timm.create_model(name, num_classes=7, **MODELS[name])
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.add_(0.1)  # statistics of batch norms
    save_for_hf(model, folder, model_args=MODELS[name])
    return model.eval()


def pretrained(folder: Path, **changes: Any) -> PretrainedSettings:
    return PretrainedSettings(
        **{"model": f"{folder}/", "image_size": None, "frozen": 0, "epochs": 2, "lr": 1e-3}
        | changes
    )


@pytest.mark.parametrize("size", [16, 96])
def test_a_resnet_18_is_that_of_torchvision(size: int) -> None:
    """Small pictures get a 3 x 3 stem without pooling, as in the literature on CIFAR."""
    family = FAMILIES["resnet18"]
    one = recipe("resnet18", ResNet18Settings(width=64))
    one = Recipe(
        DATA.model_copy(update={"image_size": size}), None, one.train, one.family, one.stage
    )
    ours = family.build(family.make_architecture(one, 10), torch.Generator().manual_seed(0)).eval()
    other: Any = resnet18(num_classes=10).eval()
    if size == 16:
        other.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        other.maxpool = nn.Identity()
    weights = {}
    for name, value in ours.state_dict().items():
        weights[name.removeprefix("body.").replace("head.", "fc.")] = value
    other.load_state_dict(weights)
    images = torch.rand(2, 3, size, size)
    torch.testing.assert_close(ours(images), other(images))


def test_weights_of_a_resnet_18_depend_on_the_seed_alone_and_draw_from_no_other_generator() -> None:
    settings = ResNet18Settings(width=4)
    before = torch.random.get_rng_state()
    first = backbone(trained("resnet18", settings, seed=0)).state_dict()
    again = backbone(trained("resnet18", settings, seed=0)).state_dict()
    other = backbone(trained("resnet18", settings, seed=1)).state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    for name in first:
        assert torch.equal(first[name], again[name])
    assert not torch.equal(first["body.conv1.weight"], other["body.conv1.weight"])


def test_a_saved_resnet_18_answers_the_same_with_its_batch_statistics(tmp_path: Path) -> None:
    family = FAMILIES["resnet18"]
    settings = ResNet18Settings(width=4)
    system = trained("resnet18", settings)
    systems.save(tmp_path / "r.safetensors", system)
    again = systems.load(
        tmp_path / "r.safetensors", family.make_architecture(recipe("resnet18", settings), 10)
    )
    assert backbone(again).body.bn1.num_batches_tracked == 8
    assert not backbone(again).training
    np.testing.assert_array_equal(
        family.predict_logits(again, digits(), DATA, "cpu", None),
        family.predict_logits(system, digits(), DATA, "cpu", None),
    )
    with pytest.raises(ValueError, match="arguments is"):
        systems.load(
            tmp_path / "r.safetensors",
            family.make_architecture(recipe("resnet18", ResNet18Settings(width=8)), 10),
        )


@pytest.mark.parametrize("name", MODELS)
def test_a_pretrained_model_starts_from_the_saved_weights_of_any_model_of_timm(
    name: str, tmp_path: Path
) -> None:
    """Before training, its head reads exactly what timm's model gives, on pictures as that one wants them."""
    model = saved(tmp_path, name)
    family = FAMILIES["pretrained"]
    size = 32 if name.startswith("swin") else None
    one = recipe("pretrained", pretrained(tmp_path, image_size=size))
    architecture = family.make_architecture(one, 10)
    network: Any = family.build(architecture, torch.Generator().manual_seed(0)).eval()
    family.prepare_weights(network, architecture, one)  # type: ignore[attr-defined]  # of a family of networks
    pixels = torch.rand(2, 3, 16, 16)
    config = timm.data.resolve_data_config({}, model=model)
    mean = torch.tensor(config["mean"]).view(3, 1, 1)
    std = torch.tensor(config["std"]).view(3, 1, 1)
    whole = nn.functional.interpolate(
        pixels, size=(size or 16,) * 2, mode="bilinear", antialias=True
    )
    model.reset_classifier(0)  # type: ignore[operator]  # a method of timm's models
    torch.testing.assert_close(
        network((pixels - 0.4) / 0.3), network.head(model((whole - mean) / std))
    )
    # no depth is drawn at random
    torch.testing.assert_close(network.train()(pixels), network(pixels))


def test_a_packaged_network_starts_from_the_weights_of_the_encoder_of_its_name(
    tmp_path: Path,
) -> None:
    family = FAMILIES["pretrained"]
    settings = pretrained(tmp_path, model="efficientnet-lite0", image_size=32)
    one = recipe("pretrained", settings)
    architecture = family.make_architecture(one, 10)
    network: Any = family.build(architecture, torch.Generator().manual_seed(0)).eval()
    family.prepare_weights(network, architecture, one)  # type: ignore[attr-defined]  # of a family of networks
    encoder = EncoderSettings(
        encoder="efficientnet-lite0", revision=None, image_size=32, batch_size=2
    )
    pixels = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        keys = ENCODERS["efficientnet-lite0"].build(encoder, "cpu")(pixels)
        torch.testing.assert_close(network((pixels - 0.4) / 0.3), network.head(keys))
    assert family.identify_weights(settings) == ENCODERS["efficientnet-lite0"].weights(encoder)


def test_a_published_model_of_timm_gets_pictures_with_the_mean_and_deviation_of_its_training(
    tmp_path: Path,
) -> None:
    settings = pretrained(tmp_path, model="timm:resnet18.a1_in1k")
    architecture: Any = FAMILIES["pretrained"].make_architecture(recipe("pretrained", settings), 10)
    assert architecture.name == "resnet18.a1_in1k"
    assert architecture.arguments == {}
    assert (architecture.image_size, architecture.classes) == (16, 10)
    # of ImageNet
    mean = (0.485, 0.456, 0.406)
    std = (0.229, 0.224, 0.225)
    np.testing.assert_allclose(architecture.scale, 0.3 / np.array(std))
    np.testing.assert_allclose(architecture.shift, (0.4 - np.array(mean)) / std)


def test_a_vit_of_ours_saved_for_timm_answers_the_same_there(tmp_path: Path) -> None:
    """Its names and its arithmetic are timm's: so it can be trained here and fine-tuned by anyone."""
    family = FAMILIES["vit"]
    one = Recipe(DATA, MODEL, TRAIN.model_copy(update={"epochs": 2}), None, Stage("saved"))
    system = family.train(Training(digits(), 10, one, "cpu", lambda _: None)).system
    systems.save(tmp_path / "system.safetensors", system)
    write_json(tmp_path / "record.json", {"settings": {"data": DATA.model_dump()}})
    save_backbone(tmp_path / "system.safetensors", tmp_path / "timm")
    model = timm.create_model(f"local-dir:{tmp_path / 'timm'}", pretrained=True).eval()
    assert timm.data.resolve_data_config({}, model=model)["mean"] == [0.4] * 3
    images = (torch.rand(2, 3, 16, 16) - 0.4) / 0.3
    assert system.model is not None
    torch.testing.assert_close(model(images), system.model(images))
    start = backbone(trained("pretrained", pretrained(tmp_path / "timm", frozen=3)))
    assert torch.equal(
        start.body.state_dict()["blocks.0.attn.qkv.weight"],
        model.state_dict()["blocks.0.attn.qkv.weight"],
    )
    with pytest.raises(ValueError, match="only a plain ViT"):
        systems.save_for_timm(
            trained("resnet18", ResNet18Settings(width=4)), tmp_path / "no", 0.5, 0.5
        )


@pytest.mark.parametrize(
    ("name", "frozen", "frozen_layers", "next_layer"),
    [
        ("vit_tiny_patch16_224", 2, ("patch_embed.", "blocks.0."), "blocks.1."),
        ("resnet18", 3, ("conv1.", "bn1.", "layer1."), "layer2.0."),
    ],
)
def test_frozen_layers_keep_their_weights_and_their_batch_statistics(
    name: str, frozen: int, frozen_layers: tuple[str, ...], next_layer: str, tmp_path: Path
) -> None:
    start = saved(tmp_path, name).state_dict()
    body = backbone(trained("pretrained", pretrained(tmp_path, frozen=frozen))).body.state_dict()
    moved = [key for key, value in body.items() if not torch.equal(value, start[key])]
    for key in moved:
        assert not key.startswith(frozen_layers)
    assert [key for key in moved if key.startswith(next_layer)]


def test_epochs_and_rate_of_a_pretrained_model_replace_those_of_the_section_train(
    tmp_path: Path,
) -> None:
    saved(tmp_path)
    one = recipe("pretrained", pretrained(tmp_path, epochs=5, lr=0.25))
    assert (one.train.epochs, one.train.lr, one.train.batch_size) == (5, 0.25, TRAIN.batch_size)
    assert recipe("resnet18", ResNet18Settings(width=4)).train.lr == TRAIN.lr


def test_unusable_weights_and_settings_are_refused_by_name(
    config: dict[str, Any], tmp_path: Path
) -> None:
    saved(tmp_path)
    with pytest.raises(ValueError, match=r"pretrained\.frozen = 9: .* 4 layers"):
        trained("pretrained", pretrained(tmp_path, frozen=9))
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(MissingEncoderError, match=r"pretrained\.model"):
        trained("pretrained", pretrained(tmp_path))

    def refusal(**changes: object) -> str:
        altered = config
        for key, value in changes.items():
            altered = changed(altered, key.replace("__", "."), value)
        with pytest.raises(ParamsError) as refused:
            load(altered)
        return str(refused.value)

    assert "network = 'resnet50'" in refusal(network="resnet50")
    for model in ("timm:vit_smoll_patch16_224", "resnet18", "timm:hf-hub:a/b", "/no/where"):
        message = refusal(network="pretrained", pretrained__model=model)
        assert f"pretrained.model = '{model}'" in message
    for model in (f"{tmp_path}/", "efficientnet-lite0"):
        load(changed(changed(config, "network", "pretrained"), "pretrained.model", model))


def test_other_saved_weights_have_another_identity(tmp_path: Path) -> None:
    saved(tmp_path)
    kind = FAMILIES["pretrained"]
    settings = pretrained(tmp_path)
    before = kind.identify_weights(settings)
    (tmp_path / "model.safetensors").write_bytes(b"others")
    assert before
    assert kind.identify_weights(settings) != before
    published = pretrained(tmp_path, model="timm:resnet18")
    assert kind.identify_weights(published) == f"timm {timm.__version__}"
    assert FAMILIES["resnet18"].identify_weights(ResNet18Settings(width=4)) is None

"""Which folders count as a copy of the paper's encoder."""

import json

import pytest

from munkey.encoders.published_name import find_published_name
from tests.encoders.inputs import PAPERS_CONFIG, PAPERS_PROCESSOR

FOREIGN = {str(number): f"class {number}" for number in range(1000)}


@pytest.fixture
def folder(tmp_path):
    def saved(config=None, processor=None):
        for name, facts in (("config.json", config), ("preprocessor_config.json", processor)):
            if facts is not None:
                (tmp_path / name).write_text(json.dumps(facts))
        return str(tmp_path)

    return saved


@pytest.mark.parametrize("size", [224, {"height": 224, "width": 224}])
def test_a_copy_of_the_papers_encoder_gets_its_registered_name(folder, size):
    """Older and newer versions of transformers write the size differently."""
    assert (
        find_published_name(folder(PAPERS_CONFIG, PAPERS_PROCESSOR | {"size": size})) == "vit-b16"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "dinov2"},
        {"hidden_size": 1024},
        {"num_hidden_layers": 24},
        {"num_attention_heads": 6},
        {"intermediate_size": 1536},
        {"patch_size": 32},
        {"image_size": 384},
        {"id2label": FOREIGN},  # fine-tuned on other classes
        {"id2label": {"0": "cat", "1": "dog"}},
        {"id2label": PAPERS_CONFIG["id2label"] | {"1000": "background"}},
        {"id2label": {}},
    ],
    ids=str,
)
def test_another_model_is_not_that_encoder(folder, changes):
    config = PAPERS_CONFIG | {"_name_or_path": "google/vit-base-patch16-224"} | changes
    path = folder(config, PAPERS_PROCESSOR)
    assert find_published_name(path) == path


@pytest.mark.parametrize(
    "changes",
    [{"image_mean": [0.485, 0.456, 0.406]}, {"image_std": [0.229, 0.224, 0.225]}, {"size": 384}],
    ids=str,
)
def test_another_preprocessing_is_not_that_encoder(folder, changes):
    path = folder(PAPERS_CONFIG, PAPERS_PROCESSOR | changes)
    assert find_published_name(path) == path


def test_a_folder_without_a_configuration_is_not_that_encoder(folder):
    path = folder()
    assert find_published_name(path) == path
    assert find_published_name(folder(config=PAPERS_CONFIG)) == path


@pytest.mark.parametrize(
    "name", ["vit-b16", "clip", "efficientnet-lite0", "timm:hf-hub/vit_base_patch16_224"]
)
def test_an_encoder_that_is_not_a_folder_keeps_its_name(name):
    assert find_published_name(name) == name


def test_a_name_without_a_slash_is_not_a_folder_even_if_one_exists(folder, tmp_path, monkeypatch):
    folder(PAPERS_CONFIG, PAPERS_PROCESSOR)
    monkeypatch.chdir(tmp_path.parent)
    assert find_published_name(tmp_path.name) == tmp_path.name
    assert find_published_name(f"./{tmp_path.name}") == "vit-b16"


@pytest.mark.parametrize(
    ("content", "message"), [("{", "is not valid JSON"), ("[]", "is not an encoder configuration")]
)
@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json"])
def test_a_broken_configuration_is_named_without_advice_to_delete_it(
    folder, tmp_path, name, content, message
):
    path = folder(PAPERS_CONFIG, PAPERS_PROCESSOR)
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=rf"{tmp_path}/{name}: {message}") as refused:
        find_published_name(path)
    assert "elete" not in str(refused.value)

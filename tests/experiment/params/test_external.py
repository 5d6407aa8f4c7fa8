"""What parameters name outside of themselves is looked at before any job: files, encoders, stores."""

import json
from pathlib import Path
from typing import Any

import pytest

from munkey.experiment.params import external
from munkey.experiment.params.load import ParamsError, load
from tests.conftest import changed

Config = dict[str, Any]


def refusal(config: Config, **changes: object) -> str:
    """The message that refuses changes by dotted keys, with __ for the dots."""
    for key, value in changes.items():
        config = changed(config, key.replace("__", "."), value)
    with pytest.raises(ParamsError) as refusal_error:
        load(config)
    return str(refusal_error.value)


def refuse_encoder(config: Config, folder: str) -> str:
    """The message that refuses a folder or a name as the encoder of keys."""
    return refusal(config, keys__encoder=folder, keys__image_size=None, keys__revision=None)


def test_a_reader_of_a_file_refuses_a_folder_and_the_reverse(
    config: Config, tmp_path: Path
) -> None:
    file = tmp_path / "x.npz"
    file.touch()
    assert "is a folder, but npz reads a file" in refusal(
        config, datasets=["npz"], source__path=str(tmp_path)
    )
    for name in ("imagefolder", "idx"):
        message = refusal(config, datasets=[name], source__path=str(file))
        assert f"source.path = {str(file)!r}: is a file, but {name} reads a folder" in message


@pytest.mark.parametrize("path", ["/nowhere/at/all", "x" * 5000, "a\0b", ""])
def test_a_path_without_a_file_or_folder_is_refused(config: Config, path: str) -> None:
    message = refusal(config, datasets=["imagefolder"], source__path=path)
    assert "- source.path = " in message
    assert "overrides" not in message


def test_a_tilde_in_a_path_is_the_home_folder(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "pets").mkdir()
    params = load(changed(changed(config, "datasets", ["imagefolder"]), "source.path", "~/pets"))
    assert params.for_case("imagefolder").source.path == str(tmp_path / "pets")
    assert f"{tmp_path}/none': there is no such folder" in refuse_encoder(config, "~/none")


def test_a_rate_that_forgets_no_sample_and_a_depth_beyond_all_keys_are_refused(
    config: Config,
) -> None:
    for changes in (
        {"forget__rates": [0.1, 1e-4]},
        {"keys__depth": 1000},
        {"forget__rates": [0.999]},
        {"overrides": {"digits": {"keys": {"depth": 1000}}}},
    ):
        assert "digits has 1,078 training samples" in refusal(config, **changes)
    assert load(changed(config, "forget.rates", [0.0005])).for_case("digits").least_samples == 1001


def test_the_file_of_a_listed_forget_set_is_read_before_any_job(
    config: Config, tmp_path: Path
) -> None:
    listed = {"rates": [0.1], "sampling": "listed", "names": None}
    file = tmp_path / "seed{seed}.txt"
    message = refusal(config, forget=listed | {"file": str(file)})
    for seed in (0, 1, 2):
        assert f"forget.file: {tmp_path}/seed{seed}.txt: cannot be read" in message
    for seed in range(3):
        (tmp_path / f"seed{seed}.txt").write_text(f"{seed}\n")
    params = load(config | {"forget": listed | {"file": str(file)}})
    assert params.for_case("digits").forget.file == str(file)
    (tmp_path / "seed2.txt").write_text("")
    message = refusal(
        config, scenarios={"published": {"sampling": "listed", "rates": [0.1], "file": str(file)}}
    )
    assert "scenarios.published: forget.file: " in message
    assert "seed2.txt: contains no entries" in message
    assert "seed1" not in message


def test_a_listed_forget_set_needs_a_file_and_a_single_rate(config: Config) -> None:
    assert "file = null: sampling = listed needs a file" in refusal(
        config, forget__sampling="listed"
    )
    assert "forget.file = 'a.txt': it is only used" in refusal(config, forget__file="a.txt")
    listed = {"rates": [0.1, 0.02], "sampling": "listed", "names": None, "file": "a.txt"}
    assert "sampling = listed needs a single rate" in refusal(config, forget=listed)


def test_a_file_that_is_missing_in_a_copy_by_dvc_is_refused_with_the_way_out(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure: with `dvc exp run --temp`, "there is no such folder" of one that stands in the project."""
    folder = {"datasets": ["imagefolder"], "source__path": "data/pets"}
    forget = {"rates": [0.1], "sampling": "listed", "names": None, "file": "data/list.csv"}
    words = "write an absolute path"
    assert words not in refusal(config, **folder)
    copy = tmp_path / ".dvc/tmp/exps/standalone/tmp1"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    assert words in refusal(config, **folder)
    assert words in refusal(config, forget=forget)
    assert words in refuse_encoder(config, "encoders/mine")
    assert words not in refusal(config, **(folder | {"source__path": "/nowhere"}))


def test_a_saved_model_of_another_size_than_its_preprocessing_is_refused(
    config: Config, tmp_path: Path
) -> None:
    """The failure: a DINOv2 saved for 224 pixels stopped in its job, by an assertion of timm's about 518."""
    pretrained_config = {"input_size": [3, 518, 518], "fixed_input_size": True}
    model_config = {"architecture": "vit_small_patch14_dinov2", "model_args": {"img_size": 224}}
    (tmp_path / "config.json").write_text(
        json.dumps(model_config | {"pretrained_cfg": pretrained_config})
    )
    message = refuse_encoder(config, str(tmp_path))
    assert "takes 224 pixels" in message
    assert "[3, 224, 224]" in message
    pretrained_config["input_size"] = [3, 224, 224]
    (tmp_path / "config.json").write_text(
        json.dumps(model_config | {"pretrained_cfg": pretrained_config})
    )
    keys = config["keys"] | {"encoder": str(tmp_path), "image_size": None, "revision": None}
    load(config | {"keys": keys, "ablations": {}})


def test_the_folder_of_an_encoder_without_its_files_is_refused(
    config: Config, tmp_path: Path
) -> None:
    folder = tmp_path / "encoder"
    assert "there is no such folder" in refuse_encoder(config, str(folder))
    folder.mkdir()
    assert "config.json is missing" in refuse_encoder(config, str(folder))
    for content in ("{", "\x9f"):
        (folder / "config.json").write_bytes(content.encode("latin-1"))
        assert "config.json is not JSON" in refuse_encoder(config, str(folder))
    for content in ("{}", "[]", "3", '{"model_type": "bert"}', '{"model_type": []}'):
        (folder / "config.json").write_text(content)
        message = refuse_encoder(config, str(folder))
        assert "config.json is not that of" in message
        assert "SigLIP" in message
        assert "timm" in message
    (folder / "config.json").write_text(json.dumps({"model_type": "vit"}))
    assert "preprocessor_config.json is missing" in refuse_encoder(config, str(folder))
    (folder / "preprocessor_config.json").write_text("{}")
    keys = config["keys"] | {"encoder": str(folder), "image_size": None, "revision": None}
    for model_type in ("vit", "dinov3_vit", "siglip"):
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        load(config | {"keys": keys, "ablations": {}})
    (folder / "config.json").write_text(json.dumps({"architecture": "vit_tiny_patch16_224"}))
    load(config | {"keys": keys, "ablations": {}})


@pytest.mark.parametrize(
    ("encoder", "key", "value", "words"),
    [
        ("efficientnet-lite0", "image_size", None, "it must be a number of pixels"),
        ("timm:resnet18", "image_size", 96, "it must be null"),
        ("efficientnet-lite0", "revision", "0" * 40, "it must be null"),
        ("vit-b16", "revision", None, "it must be a commit"),
    ],
)
def test_a_size_or_revision_that_an_encoder_does_not_take_is_refused(
    config: Config, encoder: str, key: str, value: object, words: str
) -> None:
    fitting = {"image_size": 96 if encoder == "efficientnet-lite0" else None, "revision": None}
    keys = config["keys"] | {"encoder": encoder} | fitting | {key: value}
    assert f"keys.{key} = {value}: with encoder {encoder} {words}" in refusal(config, keys=keys)


def test_a_model_that_timm_does_not_have_is_refused_with_similar_names(config: Config) -> None:
    message = refuse_encoder(config, "timm:vit_tiny_patch16_225")
    assert "similar names: vit_tiny_patch16_224" in message
    assert "write its path, with a slash" in refuse_encoder(config, "FOLDER")
    for name in ("timm:NAME", "timm:", "timm:resnet18 "):
        assert "timm has no such model" in refuse_encoder(config, name)
    for name in ("timm:resnet18", "timm:resnet18.a1_in1k", "timm:hf-hub:somebody/something"):
        keys = config["keys"] | {"encoder": name, "image_size": None}
        load(config | {"keys": keys, "ablations": {}})


def test_the_names_of_timms_models_are_those_that_timm_lists() -> None:
    import timm

    assert external.list_timm_models() >= set(timm.list_models())


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("mlruns", "MLflow no longer writes to folders"),
        ("file:///tmp/mlruns", "MLflow no longer writes to folders"),
        ("ftp://host/x", "must be sqlite:///FILE"),
        ("postgres://u:secret@host/x", "must be sqlite:///FILE"),
        ("sqlite://mlflow.db", "must be sqlite:///FILE"),
        ("sqlite:///", "must be sqlite:///FILE"),
        ("http://", "no host"),
        ("http://host:0", "no host"),
        ("https://host:port", "no host"),
        ("postgresql+nosuch://u:secret@host/x", "cannot be used"),
        ("mysql+mysqlconnector://u:secret@host/x", "cannot be used"),
        ("postgresql://u:secret@host:port/x", "cannot be used"),
    ],
)
def test_a_store_that_mlflow_cannot_use_is_refused(config: Config, uri: str, words: str) -> None:
    message = refusal(config, tracking__uri=uri)
    assert "tracking.uri" in message
    assert words in message
    assert "secret" not in message


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:///mlflow.db",
        "sqlite:////tmp/x.db",
        "http://host:5000",
        "https://u:p@host/x",
        "http://[::1]:5000",
    ],
)
def test_a_store_that_mlflow_can_use_is_accepted(config: Config, uri: str) -> None:
    assert load(changed(config, "tracking.uri", uri)).tracking.uri == uri

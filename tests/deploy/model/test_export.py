"""An export: whole or not there, with all that is needed to answer, and nothing that runs."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from munkey.cli import use
from munkey.core.files import CONFIGFILES, read_csv, write_csv, write_json
from munkey.deploy.errors import ExportError, UnreadableModelError
from munkey.deploy.model import export as exporting
from munkey.deploy.model import model as loading
from munkey.deploy.model.export import export, renew_export
from munkey.deploy.model.manifest import MANIFEST_NAME, MEMORY, MODEL_FORMAT, read_manifest
from munkey.deploy.model.trained_system import find_system
from munkey.deploy.predictor import Predictor
from munkey.encoders import keys
from munkey.encoders.keys import Keys
from munkey.encoders.registry import EncoderEntry, MissingEncoderError
from munkey.memory.database import SIDE_FILES
from munkey.models import system
from munkey.models.families.newton import NewtonFamilySettings
from munkey.models.family import FAMILIES, System
from munkey.settings import EncoderSettings
from tests.conftest import raise_full_disk
from tests.deploy.inputs import result_in, sections


@pytest.fixture
def run(result: Path, tmp_path: Path, monkeypatch) -> Path:
    """A copy of the run to change, in the current folder: results/tiny."""
    shutil.copytree(result.parents[4], tmp_path / "results" / "tiny")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results" / "tiny"


def test_an_export_has_settings_provenance_and_metrics_and_no_other_files(exported, result):
    manifest = json.loads((exported / "manifest.json").read_text())
    config = sections()
    for name in ("data", "model", "inference"):
        assert manifest[name] == config[name]
    assert manifest["encoder"]["settings"]["encoder"] == "efficientnet-lite0"
    assert len(manifest["encoder"]["weights"]) == 64
    assert manifest["stored"] == {"height": 10, "width": 10}
    assert manifest["provenance"]["commit"] == "c0ffee"
    assert manifest["provenance"]["system"] == "original-m"
    card = (exported / "README.md").read_text()
    assert "| 0.1 | TA, accuracy on the test split | 91.50 |" in card
    assert "0.210" in card
    assert "Not removed" in card
    assert "33.5" not in card
    assert "44.5" not in card
    names = {file.relative_to(exported).parts[0] for file in exported.rglob("*") if file.is_file()}
    beside = {f"memory.db{suffix}" for suffix in SIDE_FILES}  # while, or since, it was open
    assert names - beside == {"manifest.json", "weights.safetensors", "README.md", "memory.db"}


def test_a_finished_export_is_nothing_but_the_model(result, tmp_path):
    directory = export(result, tmp_path / "model")

    def names() -> list[str]:
        return sorted(path.name for path in directory.iterdir())

    whole = names()
    assert whole == sorted([MEMORY, MANIFEST_NAME, *read_manifest(directory).static_files])
    with Predictor.load(directory) as model:
        assert len(model.ids)
        with Predictor.load(directory) as other:
            assert len(other.ids)
        assert len(model.rows()) == len(model.ids)
    assert names() == whole


def test_the_command_prints_samples_and_head_of_the_export(result, tmp_path, capsys):
    use.export(str(result), tmp_path / "out")
    with Predictor.load(tmp_path / "out") as model:
        head = model.head
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: 36 samples, head {head}\n"


@pytest.mark.parametrize("source", [{}, {"reader": "csv", "path": "results/../pictures/list.csv"}])
def test_the_folder_of_the_pictures_is_named_in_full(run, source):
    config = sections(Path("results/../pictures"))
    config["source"] |= source
    manifest = json.loads((export("tiny", "out", config) / "manifest.json").read_text())
    assert manifest["source"] == str(Path.cwd() / "pictures")


def test_units_are_exported_and_an_added_picture_equals_its_exported_copy(run, result):
    samples = read_csv(run / "data" / "toy" / "samples.csv")
    for row in samples:
        row["unit"] = ""
    samples[5]["unit"] = "Anna"
    write_csv(run / "data" / "toy" / "samples.csv", samples)
    with Predictor.load(export("tiny", "out"), device="cpu") as model:
        assert [row.unit for row in model.rows()[:5]] == [None, None, None, "Anna", None]
        assert model.select(units=["Anna"]).ids.tolist() == [5]
        picture = result.parents[6] / "pictures" / "c" / "05.png"
        Image.open(picture).save("lossless.webp", lossless=True)
        Image.open(picture).save("other.webp", quality=50)
        addition = model.add([picture, "lossless.webp", "other.webp"], ["fish"] * 3)
        assert addition.identical == {60: (5,), 61: (5,)}
        assert model.verify().sound


FOLDER = EncoderEntry(
    "FOLDER", "", "own", None, None, lambda settings: None, lambda settings, device: None
)


def test_an_encoder_in_a_folder_is_named_in_full(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(exporting, "build_encoder", FOLDER.build)
    monkeypatch.setattr(exporting, "fingerprint_weights", FOLDER.weights)
    monkeypatch.setattr(exporting, "compute_probe_key", lambda *of: [1.0])
    settings = EncoderSettings(encoder="./mine", revision=None, image_size=None, batch_size=1)
    assert exporting._make_encoder_reference(settings).settings.encoder == str(tmp_path / "mine")


def test_a_model_with_keys_of_several_encoders_answers_finds_adds_and_forgets(
    tmp_path, monkeypatch
):
    pictures = tmp_path / "pictures"
    encoder = "efficientnet-lite0@32+efficientnet-lite0@48"
    export(result_in(tmp_path / "results/tiny", pictures, encoder=encoder), tmp_path / "model")
    assert encoder in (tmp_path / "model/README.md").read_text()
    monkeypatch.chdir(tmp_path / "model")
    with Predictor.load(tmp_path / "model", device="cpu") as model:
        (near,) = model.find([pictures / "a/00.png"], count=1).samples
        assert near[0].id == 0
        assert near[0].copy
        assert near[0].cosine == pytest.approx(1, abs=1e-5)
        assert model.predict([pictures / "a/00.png"]).classes
        model.forget(ids=[0])
        (near,) = model.find([pictures / "a/00.png"], count=1).samples
        assert near[0].id != 0
        (added,) = model.add([pictures / "a/00.png"], ["cat"], allow_blocked=True).ids
        (near,) = model.find([pictures / "a/00.png"], count=1).samples
        assert near[0].id == added


@pytest.mark.parametrize(
    ("error", "can_be_installed"), [(ModuleNotFoundError, True), (RuntimeError, False)]
)
def test_an_encoder_that_needs_another_package_says_what_to_install(
    error, can_be_installed, monkeypatch
):
    def fails(settings, device):
        raise error("No module named 'timm'")

    monkeypatch.setattr(loading, "find_encoders", lambda settings: [FOLDER])
    monkeypatch.setattr(loading, "build", fails)
    settings = EncoderSettings(encoder="mine", revision=None, image_size=None, batch_size=1)
    with pytest.raises(MissingEncoderError, match="the encoder mine cannot be loaded") as raised:
        loading.build_encoder(settings, "cpu")
    assert ("pip install 'munkey[experiment]'` installs" in str(raised.value)) is can_be_installed


@pytest.mark.parametrize(
    "name",
    [
        "tiny",
        "tiny/toy",
        "tiny/toy/seed0",
        "tiny/toy/seed0/full/original-m",
        "results/tiny/models/toy/seed0/full/original-m",
        "results/tiny/models/toy/seed0/full/original-m/system.safetensors",
    ],
)
def test_a_result_is_found_by_its_name_or_path(name, run):
    system_file = run / "models/toy/seed0/full/original-m/system.safetensors"
    assert find_system(name).resolve() == system_file


def test_a_name_of_several_results_or_none_is_refused(run):
    shutil.copytree(run / "models" / "toy" / "seed0", run / "models" / "toy" / "seed1")
    with pytest.raises(ExportError, match=r"seed0/full/original-m, .*seed1/full/original-m"):
        find_system("tiny/toy")
    for nothing in ("other", "tiny/other", "tiny/toy/seed2", "/nowhere"):
        with pytest.raises(ExportError, match="no such result"):
            find_system(nothing)


def drop_memory(munkey: System) -> System:
    return dataclasses.replace(munkey, memory=None)


def fit_newton(munkey: System) -> System:
    """A system with a memory, and weights that deletion alone does not change."""
    family = FAMILIES["newton"]
    rows = Keys(munkey.memory.ids.numpy(), munkey.memory.keys.numpy())
    settings = NewtonFamilySettings(lam=0.1, sigma=0.1)
    return family.fit(rows, rows.ids % 3, 3, settings, family.make_stage(0, "toy", "full"))


@pytest.mark.parametrize("change", [drop_memory, fit_newton])
def test_a_system_that_cannot_be_exported_is_refused_and_those_that_can_are_listed(change, run):
    other = run / "models" / "toy" / "seed0" / "rate0.1" / "scrub"
    shutil.copytree(run / "models" / "toy" / "seed0" / "full" / "original-m", other)
    write_json(other / "record.json", {"settings": {"data": {}, "model": {}, "train": {}}})
    file = other / "system.safetensors"
    system.save(file, change(system.load(file)))
    with pytest.raises(ExportError, match=r"scrub.*with a memory.*: full/original-m$"):
        export("tiny/toy/seed0/rate0.1/scrub", "out")


def test_a_system_that_lost_its_memory_is_refused(run):
    file = run / "models" / "toy" / "seed0" / "full" / "original-m" / "system.safetensors"
    system.save(file, dataclasses.replace(system.load(file), memory=None))
    with pytest.raises(ExportError, match=r"original-m.*with a memory"):
        export("tiny", "out")


def test_a_system_that_was_taken_out_of_its_results_is_refused(run):
    shutil.move(run / "models" / "toy" / "seed0" / "full" / "original-m", "taken")
    with pytest.raises(ExportError, match=r"taken.*: is not in the results"):
        export("taken", "out")


def test_a_result_that_was_not_measured_yet_is_exported(run):
    shutil.rmtree(run / "metrics")
    assert "91.50" not in (export("tiny", "out") / "README.md").read_text()


def test_an_export_has_the_settings_of_training_although_the_settings_changed(run):
    changed = sections()
    changed["model"]["width"] = 16
    changed["data"]["image_size"] = 16
    changed["inference"]["k"] = 3
    write_json(run / "settings.json", {"toy": changed})
    with Predictor.load(export("tiny", "out"), device="cpu") as model:
        assert model.manifest.model.width == 8
        assert model.manifest.data.image_size == 8
        assert model.manifest.inference.k == 3  # no training reads it
        model.warm_up()


def test_settings_of_a_run_that_are_missing_are_named(run, monkeypatch):
    write_json(run / "settings.json", {"another": sections()})
    with pytest.raises(ExportError, match=r"settings\.json: .*toy"):
        export("tiny", "out")
    (run / "settings.json").unlink()
    monkeypatch.setenv(CONFIGFILES, "'my tiny.yaml'")
    with pytest.raises(ExportError, match=r"'my tiny\.yaml' -- results/tiny/settings\.json`"):
        export("tiny", "out")
    assert not Path("out").exists()


def test_keys_of_another_encoder_are_refused(run):
    changed = sections()
    changed["keys"]["image_size"] = 64
    with pytest.raises(ExportError, match="64px"):
        export("tiny", "out", changed)
    folder = run / "keys" / "toy" / "efficientnet-lite0_32px"
    stored = keys.read(folder / "keys.npz")
    keys.write(folder / "keys.npz", stored.ids, stored.keys[::-1])
    with pytest.raises(ExportError, match="keys in its memory"):
        export("tiny", "out")
    assert not Path("out").exists()


def test_an_export_that_fails_leaves_nothing_and_a_full_directory_is_left_alone(run, monkeypatch):
    monkeypatch.setattr(exporting, "_make_manifest", raise_full_disk)
    with pytest.raises(OSError, match="No space"):
        export("tiny", "out")
    assert {path.name for path in Path().iterdir()} == {"results"}
    Path("mine").mkdir()
    Path("mine/text").write_text("mine")
    with pytest.raises(FileExistsError, match="mine"):
        export("tiny", "mine")
    assert Path("mine/text").read_text() == "mine"


def test_an_export_in_use_is_not_made_again(run):
    config = sections()
    directory = Path("out")
    renew_export("tiny", directory, config)
    renew_export("tiny", directory, config)
    with Predictor.load(directory) as model:
        assert not model.forget([999], ignore_missing=True, request="2026-17").deleted
        assert model.log() == []
        with pytest.raises(ExportError, match="is open"):
            renew_export("tiny", directory, config)
        assert model.in_place
        assert len(model.rows()) == len(model.ids)
    # A request that found nothing has deleted nothing.
    renew_export("tiny", directory, config)
    with Predictor.load(directory) as model:
        assert model.log() == []
        assert 0 in model.ids
        model.forget([0])
    with pytest.raises(ExportError, match="in use"):
        renew_export("tiny", directory, config)
    assert [path.name for path in Path().iterdir() if "out" in path.name] == ["out"]
    written = (directory / "manifest.json").read_text()
    (directory / "manifest.json").write_text(
        written.replace(f'"version": {MODEL_FORMAT}', '"version": 2')
    )
    with pytest.raises(UnreadableModelError, match="export again"):
        renew_export("tiny", directory, config)
    (directory / "manifest.json").write_text(written)
    with Predictor.load(directory) as model:
        assert 0 not in model.ids
        assert model.deletions == 1

"""A file that a stranger sends is checked before it is used."""

import hashlib
import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from munkey.core.files import DamagedFileError, write_npz, write_text
from munkey.experiment.params.load import Params, load
from munkey.experiment.publish import check, crate
from munkey.experiment.publish.check import _list_others, check_run, find_repeatable
from munkey.experiment.publish.contents import KEYS, KINDS, MODELS, PICTURES, find_kind, list_kinds
from munkey.experiment.publish.published_run import (
    AlteredRunError,
    NotAPublishedRunError,
    open_run,
)
from munkey.experiment.publish.workflow import JobFiles, RecordedJob, WorkflowFailedError
from munkey.experiment.publish.workspace import (
    make_workspace,
    make_workspace_with_data,
    make_workspace_without_data,
)
from tests.conftest import ROOT

LOGITS = "results/default/logits/digits/seed0/full/original-l.npz"
TABLE = "results/default/tables/main.md"
SECRETS = {
    "results/default/data/digits/images.npy": PICTURES,
    "results/default/data/digits/samples.csv": PICTURES,
    "results/default/explore/digits.html": PICTURES,
    "results/default/keys/digits/pixels_8px/keys.npz": KEYS,
    "results/default/models/digits/seed0/full/original-m/system.safetensors": MODELS,
    "results/default/trace/digits/seed0.npz": MODELS,
}
JOBS = [
    RecordedJob(
        "evaluate", "evaluate.evaluate", "0" * 16, "logs/a.log", 1e9, 1e9 + 2, (), [LOGITS]
    ),
    RecordedJob(
        "tables", "tables.tables", "1" * 16, "logs/b.log", 1e9 + 3, 1e9 + 4, (LOGITS,), [TABLE]
    ),
    RecordedJob("data", "data.data", "2" * 16, "logs/c.log", 1e9, 1e9 + 1, (), [*SECRETS]),
]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder with results, whose withheld ones have a content of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(crate, "describe_machine", lambda: {"commit": "abc"})
    for name in ("requirements.lock", "Snakefile"):
        shutil.copy(ROOT / name, name)
    write_npz(LOGITS, {"logits": np.arange(12.0).reshape(4, 3)})
    write_text(TABLE, "| a table |\n")
    for path, kind in SECRETS.items():
        write_text(path, f"secret {kind} " * 9)
    return tmp_path


@pytest.fixture
def write(results, config, params) -> Callable[..., Path]:
    def write_run(added=()) -> Path:
        path, _ = crate.write_crate(results, config, params, JOBS, added)
        return path

    return write_run


def rewrite(path: Path, changes: dict[str, bytes]) -> Path:
    """The same file with other contents, under a name that states no checksum."""
    changed = path.with_name("changed.zip")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        for name in dict.fromkeys([*old.namelist(), *changes]):
            new.writestr(name, changes[name] if name in changes else old.read(name))
    return changed


def test_a_run_is_read_as_it_was_written(write):
    path = write()
    run = open_run(path)
    assert path.name == f"default-{run.sha256[:16]}.zip"
    assert [(job.rule, job.function, job.code) for job in run.jobs] == [
        ("evaluate", "evaluate.evaluate", "0" * 16),
        ("tables", "tables.tables", "1" * 16),
        ("data", "data.data", "2" * 16),
    ]
    assert (run.jobs[1].inputs, run.jobs[1].outputs) == ((LOGITS,), [TABLE])
    assert (run.jobs[1].started, run.jobs[1].ended) == (1e9 + 3, 1e9 + 4)
    assert run.facts.seeds == [0, 1, 2]
    assert run.read(TABLE) == b"| a table |\n"


def test_the_same_run_gives_the_same_bytes(write):
    before = write()
    assert write() == before


@pytest.mark.parametrize("added", [(), (KEYS,), KINDS])
def test_pictures_keys_and_models_are_in_the_file_only_if_asked_for(write, added):
    path = write(added)
    with zipfile.ZipFile(path) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    for kind in KINDS:
        assert (f"secret {kind} ".encode() in content) == (kind in added)
    withheld = {name for name, facts in open_run(path).files.items() if facts.withheld}
    assert withheld == {name for name, kind in SECRETS.items() if kind not in added}


@pytest.mark.parametrize(("path", "kind"), [*SECRETS.items(), (LOGITS, ""), (TABLE, "")])
def test_each_result_has_a_kind(path, kind):
    assert find_kind(path) == kind
    assert list_kinds([path, "src/munkey/report/page/glossary.csv"]) == [kind] * bool(kind)


def test_an_unknown_array_is_left_out():
    assert find_kind("results/default/new-study/digits.npz") == MODELS


def test_the_address_and_password_of_mlflow_are_not_in_the_file(write, config):
    config["tracking"]["uri"] = "postgresql://me:secret-word@store.example.org/mlflow"
    params = open_run(write()).read("params.yaml")
    assert b"secret-word" not in params
    assert b"example.org" not in params


def test_a_damaged_result_is_not_published(write):
    Path(TABLE).write_text("| altered |\n")
    with pytest.raises(DamagedFileError, match=r"tables/main\.md"):
        write()


@pytest.mark.parametrize("name", [LOGITS, TABLE, "params.yaml", "run.json"])
def test_one_altered_byte_is_named_with_its_file(write, name):
    path = write()
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(name)
    content = bytearray(path.read_bytes())
    start = content.index(name.encode()) + len(name) + 20  # of the compressed content
    content[start + entry.compress_size // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(AlteredRunError) as caught:
        open_run(path)
    assert name in str(caught.value)
    assert "the name states the SHA-256" in str(caught.value)


def test_an_altered_file_is_named_even_if_the_zip_file_is_whole(write):
    with pytest.raises(AlteredRunError, match=rf"{TABLE}: was altered: its SHA-256 is"):
        open_run(rewrite(write(), {TABLE: b"| a tabla |\n"}))
    with pytest.raises(AlteredRunError, match=rf"{TABLE}: has 5 bytes instead of 12"):
        open_run(rewrite(write(), {TABLE: b"short"}))
    with pytest.raises(AlteredRunError, match=r"more\.md: is not described"):
        open_run(rewrite(write(), {"results/default/more.md": b""}))


def describe(path: Path, change: Callable[[dict], None]) -> dict[str, bytes]:
    """A description with changes to its entities."""
    with zipfile.ZipFile(path) as archive:
        description = json.loads(archive.read(crate.DESCRIPTION))
    change({entity["@id"]: entity for entity in description["@graph"]})
    return {crate.DESCRIPTION: json.dumps(description).encode()}


@pytest.mark.parametrize(
    "name", ["../outside.md", "/etc/outside.md", "a/../../b.md", "a\\..\\b.md"]
)
def test_a_path_out_of_the_folder_is_refused(write, name):
    with pytest.raises(NotAPublishedRunError, match="leads out of the folder"):
        open_run(rewrite(write(), {name: b""}))


def test_a_described_path_out_of_the_folder_is_refused(write):
    path = write()
    withheld = f"{crate.WITHHELD}results/default/data/digits/images.npy"

    def lead_out(entities):
        entities[withheld]["@id"] = f"{crate.WITHHELD}results/../../images.npy"

    with pytest.raises(NotAPublishedRunError, match="leads out of the folder"):
        open_run(rewrite(path, describe(path, lead_out)))


def test_a_link_is_refused(write):
    path = write()
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("results/default/link.md")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(NotAPublishedRunError, match="is a link"):
        open_run(path)


def test_a_size_beyond_the_disk_is_refused(write, monkeypatch):
    path = write()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
    run = open_run(path)
    with pytest.raises(NotAPublishedRunError, match=r"more than the disk of .* has free"):
        run.unpack([TABLE], path.parent)


@pytest.mark.parametrize(
    "name", ["sitecustomize.py", "src/munkey/core/ids.py", ".snakemake/x.json"]
)
def test_code_in_the_file_is_refused(write, name):
    path = write()

    def add(entities):
        entities[f"{crate.WITHHELD}results/default/trace/digits/seed0.npz"] |= {
            "@id": name,
            "contentSize": "4",
            "sha256": hashlib.sha256(b"code").hexdigest(),
        }

    with pytest.raises(NotAPublishedRunError, match="no run has the file"):
        open_run(rewrite(path, describe(path, add) | {name: b"code"}))


def test_the_name_of_a_rule_cannot_be_an_option_of_snakemake(write):
    path = write()

    def rename(entities):
        entities[f"#tables-{'1' * 16}"]["name"] = "--snakefile=results/default/evil.md"

    with pytest.raises(NotAPublishedRunError, match="is not the name of a rule"):
        open_run(rewrite(path, describe(path, rename)))


def test_parameters_that_snakemake_would_run_as_code_are_refused(write, config, tmp_path):
    config["__use_yte__"] = True
    run = open_run(write())
    with pytest.raises(NotAPublishedRunError, match="__use_yte__"):
        make_workspace(run, tmp_path / "workspace", [])


@pytest.mark.parametrize("content", [b"", b"no zip file", b"PK\x03\x04"])
def test_another_file_is_not_a_published_run(tmp_path, content):
    path = tmp_path / "run.zip"
    path.write_bytes(content)
    with pytest.raises(NotAPublishedRunError, match="is not a published run"):
        open_run(path)


def test_a_folder_is_not_a_published_run(tmp_path):
    with pytest.raises(NotAPublishedRunError, match="is a folder"):
        open_run(tmp_path)


def test_data_outside_the_project_are_not_published(write, params, tmp_path):
    outside = params.source.model_copy(update={"path": str(tmp_path / "my pictures")})
    params.__dict__["source"] = outside
    params._resolved.clear()
    with pytest.raises(ValueError, match=r"make a link .* such as data/my pictures"):
        write()


def test_a_check_needs_no_data(write, tmp_path, monkeypatch):
    """The parameters name folders and files of the publisher, which are not there."""
    Path("data/mine").mkdir(parents=True)
    monkeypatch.setattr(crate, "_find_sources", lambda _: {"data/mine": "folder"})
    run = open_run(write())
    make_workspace_without_data(run, tmp_path / "workspace")
    assert (tmp_path / "workspace/data/mine").is_dir()


def test_a_run_of_which_nothing_can_be_computed_again_is_refused(write, tmp_path, monkeypatch):
    monkeypatch.setattr(check, "plan_jobs", lambda targets, folder: [])
    run = open_run(write())
    run.jobs.clear()
    with pytest.raises(NotAPublishedRunError, match="nothing in it can be computed again"):
        check_run(run, tmp_path / "workspace", 1)


def test_what_is_not_computed_again_is_listed_with_the_reason(write):
    run = open_run(write())
    assert [job.rule for job in find_repeatable(run)] == ["evaluate", "tables"]
    assert _list_others(run, [LOGITS, TABLE]) == {}
    run.jobs.clear()
    assert _list_others(run, []) == {"no job made them": [LOGITS, TABLE]}


def test_a_job_said_to_read_keys_is_repeated_if_it_reads_none_here(write, tmp_path, monkeypatch):
    run = open_run(write())
    tables = JobFiles("tables", [LOGITS], [TABLE])
    evaluate = JobFiles("evaluate", [*SECRETS], [LOGITS])
    monkeypatch.setattr(check, "plan_jobs", lambda targets, folder: [tables, evaluate])
    assert check.find_misstated(run, [], tmp_path) == [tables]
    assert check.find_misstated(run, [TABLE], tmp_path) == []


def test_results_that_no_rule_makes_are_refused_with_the_commit(write, tmp_path, monkeypatch):
    def fail(targets, folder):
        raise WorkflowFailedError("No rule to produce it")

    monkeypatch.setattr(check, "plan_jobs", fail)
    with pytest.raises(NotAPublishedRunError, match=r"commit abc:\nNo rule"):
        check.find_misstated(open_run(write()), [], tmp_path)


def test_a_run_whose_parameters_name_another_folder_is_refused(write, config, tmp_path):
    config["name"] = "other"
    run = open_run(write())
    with pytest.raises(NotAPublishedRunError, match=r"name 'other', .* results/default"):
        make_workspace(run, tmp_path / "workspace", [])


# Lists of samples to forget, and models, of the publisher


def list_samples(config: dict, file: Path, *entries: object) -> Params:
    """Parameters whose forget sets are listed in a file, which is written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{entry}\n" for entry in entries))
    listed = {"sampling": "listed", "file": str(file), "rates": [0.1]}
    return load({**config, "forget": {**config["forget"], **listed}})


def test_names_of_picture_files_are_published_only_with_pictures(results, config):
    params = list_samples(config, Path("data/gone.txt"), "scan of Ada.png")
    with pytest.raises(ValueError, match=r'gone\.txt has names of picture files.* WITH="pictures"'):
        crate.write_crate(results, config, params, JOBS, [])
    path, _ = crate.write_crate(results, config, params, JOBS, [PICTURES])
    assert open_run(path).read("data/gone.txt") == b"scan of Ada.png\n"
    params = list_samples(config, Path("data/gone.txt"), 3, 14)
    path, _ = crate.write_crate(results, config, params, JOBS, [])
    assert open_run(path).facts.lists == ["data/gone.txt"]


def test_a_list_is_written_into_the_workspace_and_not_through_its_links(results, config, tmp_path):
    params = list_samples(config, Path("data/lists/gone.txt"), 3, 14)
    run = open_run(crate.write_crate(results, config, params, JOBS, [])[0])
    Path("data/lists/gone.txt").write_text("mine\n")
    Path("data/pictures").mkdir()
    workspace = tmp_path / "workspace"
    make_workspace_with_data(run, workspace)
    assert (workspace / "data/lists/gone.txt").read_text() == "3\n14\n"
    assert Path("data/lists/gone.txt").read_text() == "mine\n"
    assert (workspace / "data/pictures").is_dir()
    make_workspace_with_data(run, workspace)  # after an interruption
    assert (workspace / "data/lists/gone.txt").read_text() == "3\n14\n"


@pytest.mark.parametrize("name", ["src/munkey/audits/power.csv", "./src/munkey/audits/power.csv"])
def test_a_list_cannot_replace_a_file_of_the_code(write, monkeypatch, name):
    Path("src/munkey/audits").mkdir(parents=True)
    Path("src/munkey/audits/power.csv").write_text("forged\n")
    monkeypatch.setattr(crate, "_find_lists", lambda _: [name])
    monkeypatch.setattr(crate, "read_list", lambda _: [1])
    with pytest.raises((NotAPublishedRunError, AlteredRunError), match=r"src/munkey/.*power\.csv"):
        open_run(write())


def test_a_source_within_the_code_is_not_made(write, tmp_path, monkeypatch):
    monkeypatch.setattr(crate, "_find_sources", lambda _: {"./src/touched.py": "file"})
    run = open_run(write())
    Path("src").mkdir()
    make_workspace_without_data(run, tmp_path / "workspace")
    assert not Path("src/touched.py").exists()


def test_a_check_of_a_run_with_a_saved_encoder_needs_only_its_description(
    results, config, tmp_path
):
    encoder = Path("encoders/mine")
    encoder.mkdir(parents=True)
    (encoder / "config.json").write_text('{"architecture": "vit_tiny_patch16_224"}')
    (encoder / "model.safetensors").write_text("secret weights")
    config["keys"] |= {"encoder": str(encoder), "image_size": None}
    run = open_run(crate.write_crate(results, config, load(config), JOBS, [])[0])
    shutil.rmtree("encoders")
    workspace = tmp_path / "workspace"
    make_workspace_without_data(run, workspace)
    assert (workspace / encoder / "config.json").exists()
    assert not (workspace / encoder / "model.safetensors").exists()


def test_a_rule_that_trains_is_refused_whatever_the_file_says(monkeypatch, tmp_path):
    model = "results/default/models/digits/seed0/full/original-t/system.safetensors"
    training = JobFiles("tables", [LOGITS], [model])
    monkeypatch.setattr(check, "plan_jobs", lambda targets, folder: [training])
    monkeypatch.setattr(check, "run_snakemake", lambda *_: pytest.fail("it ran"))
    with pytest.raises(NotAPublishedRunError, match=r"the rule tables, which makes .*safetensors"):
        check.repeat(["tables"], [TABLE], tmp_path, 1)

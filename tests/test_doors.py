"""Two walks of docs/layout.md leave no file out: a setting is followed, and a request to forget."""

import re
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Self

import pytest

from munkey.deploy.http.bodies import ForgetRequest
from munkey.deploy.http.service import delete_samples
from munkey.deploy.predictor import Predictor
from munkey.experiment.params.load import load
from munkey.experiment.plan.plan import Plan
from munkey.experiment.run.dispatch import Task, call, dump_settings
from munkey.jobs.train import train
from munkey.models.families.munkey import MunkeySettings
from tests.conftest import ROOT
from tests.deploy.inputs import IDS, model_in
from tests.experiment.inputs import small_config
from tests.jobs.inputs import prepare_dataset, write_keys

SOURCE = f"{ROOT}/src/"
SETTING = "A setting: `munkey.p_token`"
REQUEST = "A request to forget, from HTTP to the disk"
P_TOKEN = 0.2371  # no other setting has this value
# Where it goes besides, on no reader's way to the training step.
BESIDE = {
    "src/munkey/core/files.py": "the record is written",
    "src/munkey/experiment/params/overlays.py": "cases that change another knob of the section",
    "src/munkey/experiment/run/provenance.py": "the digest of the record's settings",
    "src/munkey/experiment/run/record.py": "the record",
    "src/munkey/settings.py": "checks sections",
    "src/munkey/models/training_inputs.py": "reads as many neighbors as the section says",
    "src/munkey/core/knobs.py": "sections as they stand in the record",
}
# Where a request goes besides, on no reader's way to the disk.
BESIDE_REQUEST = {
    "src/munkey/data/intake/unit_names.py": "a unit's name as people type it",
    "src/munkey/deploy/model/live_model.py": "holds the manifest and what answers",
    "src/munkey/deploy/model/sources.py": "which samples a file name or a unit means",
    "src/munkey/memory/rows.py": "checks of ids, and digests",
}
# What the workflow does with the value, by the words for it.
OF_WORKFLOW = ("configfile: ", "load(config)", "train_settings(", "dispatch.run(")


def walk(title: str) -> list[str]:
    """The files that a walk of docs/layout.md links to, each once, from the project's folder."""
    text = (ROOT / "docs/layout.md").read_text()
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    links = re.findall(r"\]\(\.\./([^)#]+)\)", section)
    return list(dict.fromkeys(links))


def test_the_page_says_how_many_files_the_walk_of_a_setting_has() -> None:
    text = " ".join((ROOT / "docs/layout.md").read_text().split())
    assert f"through these {len(walk(SETTING))} files" in text
    assert f"through {len(BESIDE)} files" in text


def holds(value: object) -> bool:
    """Whether this is the value, its section, or a mapping or a record with either of them."""
    kind = type(value)
    if kind is dict:
        return any(map(holds, value.values()))
    if is_dataclass(kind):
        parts = [getattr(value, field.name, None) for field in fields(kind)]
        return any(map(holds, parts))
    return kind is MunkeySettings or (kind is float and value == P_TOKEN)


class Watch:
    """Notes while it is entered which functions of the project have the value, and which sections are checked."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.checked: list[MunkeySettings] = []

    def __enter__(self) -> Self:
        sys.setprofile(self.note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        name = frame.f_code.co_name
        if event != "return" or not file.startswith(SOURCE):
            return
        if any(map(holds, frame.f_locals.values())):
            self.functions.add((str(Path(file).relative_to(ROOT)), name))
        section = frame.f_locals.get("self")
        if name == MunkeySettings._check_ranges.__name__ and isinstance(section, MunkeySettings):
            self.checked.append(section)


def test_the_walk_of_a_setting_names_every_file_that_it_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MUNKEY is trained, from the parameters on, and every function is watched for the value."""
    monkeypatch.chdir(tmp_path)
    data = prepare_dataset(tmp_path / "data")
    keyfile, neighbors = write_keys(tmp_path, data, 17)
    files = {"images": "data/images.npy", "keyfile": str(keyfile), "neighbors": str(neighbors)}
    outputs = {"system": "system", "record": "record.json"}
    wildcards = {"seed": "0", "subset": "full"}
    changes = {
        "munkey.p_token": P_TOKEN,
        "train.epochs": 1,
        "train.batch_size": 180,
        "model.depth": 1,
    }
    config = small_config(changes | {"ablations": {"inference.k": [1, 2]}})
    with Watch() as planning:
        sections = Plan(load(config)).train_settings("digits", "m")
        params = {"family": "munkey", "dataset": "digits", "settings": dump_settings(sections)}
    with Watch() as job:
        call(train, Task("train", wildcards, files, outputs, params), {"device": "cpu"})
    assert ("src/munkey/models/families/munkey.py", "draw") in job.functions
    passed = {file for file, _ in planning.functions | job.functions}
    assert passed >= BESIDE.keys()
    assert sorted(passed - BESIDE.keys() - set(walk(SETTING))) == []
    # In the plan it is one object, whatever the case; the job checks what it is handed, once.
    assert any(section is sections["munkey"] for section in planning.checked)
    assert job.checked == [sections["munkey"]]


def test_the_walk_of_a_request_names_every_file_that_it_passes(tmp_path: Path) -> None:
    """A body is read, and its sample deleted, in one thread: without the queue between the two."""
    functions: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            file = str(Path(frame.f_code.co_filename).relative_to(ROOT))
            functions.add((file, frame.f_code.co_name))

    with Predictor.load(model_in(tmp_path / "model"), device="cpu") as model:
        model.forget([IDS[0]])  # what is opened at the first request is no part of the walk
        sys.setprofile(note)
        try:
            order = ForgetRequest.model_validate_json(f'{{"ids": [{IDS[1]}]}}')
            answer = delete_samples(model, order, model.plan(order.to_deletion_request()))
            assert IDS[1] not in model.ids
        finally:
            sys.setprofile(None)
    assert answer["deleted"] == 1
    assert ("src/munkey/memory/memory_file.py", "_remove_rows") in functions
    passed = {file for file, _ in functions}
    assert passed >= BESIDE_REQUEST.keys()
    assert sorted(passed - BESIDE_REQUEST.keys() - set(walk(REQUEST))) == []


def test_the_walk_of_a_setting_names_every_file_of_the_workflow_that_passes_it_on() -> None:
    files = [
        ROOT / "Snakefile",
        *(ROOT / "workflow").rglob("*.smk"),
        *(ROOT / "workflow").rglob("*.py"),
    ]
    passing = set()
    for file in files:
        text = file.read_text()
        for words in OF_WORKFLOW:
            if words in text:
                passing.add(str(file.relative_to(ROOT)))
    assert len(passing) == 3
    assert passing <= set(walk(SETTING))

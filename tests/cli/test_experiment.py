"""The commands about an experiment: their output and their errors."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import yaml

from munkey.cli import experiment
from munkey.core.files import CONFIGFILES, write_json, write_text
from munkey.data.prepared import prepare
from munkey.data.source import Source
from munkey.encoders import keys
from munkey.experiment.cost import machines
from munkey.experiment.run.fork_server import SERVER_VARIABLE
from munkey.experiment.run.job import IN_TERMINAL, POST_MORTEM
from munkey.studies.paper import preflight
from munkey.studies.paper import tables as paper
from tests.conftest import ROOT, unit_rows
from tests.evaluation.test_search import search
from tests.experiment.inputs import epyc, small_config, small_plan

PAPER = ("workflow/presets/paper.yaml", "--machine", "amd-epyc-cpu", "--gpus", "1,8")


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(CONFIGFILES, "")  # which the command sets: not for the tests after these


def test_plan_prints_the_costs(munkey):
    printed = munkey("plan", *PAPER)
    assert printed.code == 0
    assert printed.out.startswith("paper on AMD EPYC, CPU")
    assert "84 training runs" in printed.out
    assert "on 8 machines: at least" in printed.out


def test_plan_prints_the_costs_as_json(munkey):
    costs = munkey("plan", *PAPER, "--json")
    assert costs.code == 0
    assert costs.json["name"] == "paper"
    assert costs.json["uncounted"] == []
    assert costs.json["machine"] == {"name": "AMD EPYC, CPU", "gpu": False, "measured": True}
    seconds = sum(work["seconds"] for work in costs.json["work"])
    assert costs.json["hours"] == {
        "1": pytest.approx(seconds / 3600),
        "8": pytest.approx(seconds / 8 / 3600),
    }
    assert sum(work["jobs"] for work in costs.json["work"] if work["step"] == "train") == 84


def test_plan_takes_the_speed_of_a_machine(munkey):
    slow = munkey("plan", "--tflops", 0.1, "--json").json["hours"]
    fast = munkey("plan", "--tflops", 0.2, "--json").json["hours"]
    assert slow["1"] == pytest.approx(2 * fast["1"])
    assert munkey("plan", "--tflops", 0).code == 2
    assert munkey("plan", "--tflops", 1, "--machine", "mine").code == 2


@pytest.mark.parametrize("pdb", [False, True])
def test_a_job_is_forced_in_this_terminal_and_debugged_if_requested(munkey, monkeypatch, pdb):
    calls = []

    def run(command, env, **_):
        calls.append((command, env))
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setattr(subprocess, "run", run)
    file = "results/default/forget/digits/seed0/rate0.1.csv"
    options = ["--pdb"] * pdb
    assert munkey("job", file, *options).code == 3
    ((command, environment),) = calls
    assert command[-3:] == ["--force", "--", file]
    assert environment[IN_TERMINAL] == file
    assert environment[SERVER_VARIABLE] == "0"
    assert (POST_MORTEM in environment) == pdb


def test_a_job_without_snakemake_names_what_to_install(munkey, monkeypatch):
    """The failure: Python's own `No module named snakemake`."""
    monkeypatch.setattr(experiment, "find_spec", lambda name: None)
    result = munkey("job", "results/default/tables/main.md")
    assert result.code == 2
    assert "package snakemake: pip install 'munkey[experiment]'" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--machine", "abacus"], "no benchmarks of abacus"),
        (["nosuch.yaml"], "nosuch.yaml"),
        (["--gpus", "1,many"], "--gpus 1,many"),
        (["--gpus", "0"], "--gpus 0"),
    ],
)
def test_bad_input_of_plan_is_refused(munkey, words, message):
    result = munkey("plan", *words)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_the_command_that_finds_an_unknown_size_has_the_overlays(munkey, tmp_path):
    for name in ("a", "b"):
        (tmp_path / "pets" / name).mkdir(parents=True)
    overlay = tmp_path / "my pets.yaml"
    overlay.write_text(
        f"name: never-made\ndatasets: [imagefolder]\nsource: {{path: {tmp_path}/pets}}\n"
    )
    result = munkey("plan", overlay)
    command = f"--configfile '{overlay}' -- results/never-made/data/imagefolder/samples.csv"
    assert result.code == 2
    assert command in result.err


def test_preflight_names_the_costs_and_everything_missing(munkey, monkeypatch):
    monkeypatch.setattr(preflight, "find_obstacles", lambda plan, costs: [])
    monkeypatch.setattr(machines, "find_machine", epyc)
    ready = munkey("preflight", PAPER[0], "workflow/presets/rehearsal.yaml")
    assert ready.code == 0
    assert ready.out.endswith("This machine is ready.\n")
    assert ready.out.startswith("paper-rehearsal on AMD EPYC, CPU")
    assert "126 training runs" in ready.out
    monkeypatch.setattr(preflight, "find_obstacles", lambda plan, costs: ["no GPU", "no room"])
    refused = munkey("preflight", PAPER[0], "workflow/presets/rehearsal.yaml", "--gpus", 8)
    assert refused.code == 1
    assert refused.err.endswith(":\n- no GPU\n- no room\n")
    assert "on 8 machines: at least" in refused.out


def compare_printed_numbers() -> pd.DataFrame:
    """The paper's own numbers of one table as if they were ours, one of them far off."""
    printed = paper.read_printed_numbers()
    ours = printed.query("table == 'main' and dataset == 'cifar10' and rate == 0.1")
    wide = ours.pivot(index="method", columns="metric", values="mean").add_suffix("_mean")
    wide.loc["munkey", "TA_mean"] += 50
    for column in list(wide):
        wide[column.replace("_mean", "_sd")] = 0.1
    return paper.compare(wide.reset_index().assign(dataset="cifar10", rate=0.1))


def test_compare_paper_shows_both_numbers_and_counts_those_within(munkey, tmp_path, monkeypatch):
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    before = munkey("compare-paper", ROOT / PAPER[0])
    assert before.code == 2
    assert "tables/paper.csv is missing" in before.err
    assert "`make paper`" in before.err
    write_text("results/paper/tables/paper.csv", compare_printed_numbers().to_csv(index=False))
    text = munkey("compare-paper", ROOT / PAPER[0]).out
    assert text.startswith("### main, cifar10, 10%: ours (the paper's)\n")
    [line] = re.findall(r"^\| munkey .*", text, re.MULTILINE)
    assert "✗" in line
    assert line.count("✓") == 4
    [line] = re.findall(r"^\| main .*\| 10% .*", text, re.MULTILINE)
    assert line.replace(" ", "").endswith("|62|62|61|98%|")
    assert "about 65% of our numbers" in text
    assert "(ours: n = 3, the paper's: n = 3)" in text
    assert "cifar10: the paper's setting" in text


def test_the_settings_of_a_search_are_listed_best_first_within_the_limit_of_the_run(
    munkey, tmp_path
):
    write_json(tmp_path / "seed0/rate0.1/cf/search.json", search((89, 88), (70, 70)))
    for drop, first in (("5", "lr_factor 0"), ("inf", "lr_factor 1")):
        lines = munkey("search-summary", tmp_path, "--drop", drop).out.splitlines()
        assert lines[1].startswith(f"  {first}:")
    missing = munkey("search-summary", tmp_path / "nowhere")
    assert missing.code == 2
    assert "no search.json" in missing.err
    (tmp_path / "seed0/rate0.1/cf/search.json").write_text("{")
    assert "search.json: damaged" in munkey("search-summary", tmp_path).err


def test_the_external_state_is_that_of_the_plan_and_repeatable(munkey, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(small_config({})))
    for _ in range(2):
        assert munkey("external-state", "state.json").code == 0
        assert json.loads((tmp_path / "state.json").read_text()) == small_plan().external_state
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(small_config({"datasets": ["digit"]})))
    refused = munkey("external-state", "state.json")
    assert refused.code == 2
    assert "unknown data set 'digit'" in refused.err


def test_the_external_state_needs_no_package_of_a_run(tmp_path):
    code = (
        "import sys\nfrom munkey.cli.experiment import external_state\n"
        f"external_state({str(tmp_path / 'state.json')!r})\n"
        "print(*{'torch', 'timm', 'transformers', 'snakemake', 'pandas', 'dvc'} & set(sys.modules))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert process.stdout.split() == []


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_has_it(
    munkey, monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.delitem(sys.modules, "munkey.studies.paper.tables", raising=False)
    result = munkey("compare-paper", PAPER[0])
    assert result.code == 2
    assert "pandas: pip install 'munkey[experiment]'" in result.err


@pytest.mark.parametrize(
    "content", [b"seeds: [0\nx: 1\n", b"# fine\nseeds: [0]  # \xff\n"], ids=["YAML", "UTF-8"]
)
def test_make_names_the_file_and_the_line_of_an_overlay_that_cannot_be_read(content, tmp_path):
    """Snakemake, which reads it before the Snakefile, names neither."""
    (tmp_path / "mine.yaml").write_bytes(content)
    command = ["make", "-o", ".venv/ready", "run", f"CONFIG={tmp_path}/mine.yaml"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert f"{tmp_path}/mine.yaml: " in process.stderr
    assert "line 2" in process.stderr


def test_the_number_of_neighbors_is_searched_on_training_samples_alone(munkey, tmp_path):
    """Labels are the sign of the first number, for other samples its opposite: those must not count."""
    splits = np.repeat(["train", "val", "test"], [60, 30, 30])
    vectors = unit_rows(120, 3)
    labels = (vectors[:, 0] > 0) ^ (splits != "train")
    images = np.random.default_rng(0).integers(0, 256, (120, 2, 2, 3), dtype=np.uint8)
    source = Source(images, labels.astype(int), splits, ["a", "b"])
    prepare(source, tmp_path / "data/signs", lambda line: None)
    folder = tmp_path / "keys/signs"
    (folder / "one").mkdir(parents=True)
    keys.write(folder / "one/keys.npz", np.arange(120), vectors)
    out = munkey("search-neighbors", tmp_path / "data/signs", "--count", 2).out
    lines = [line for line in out.splitlines() if "settings/s" not in line]
    assert [line for line in lines if not line.startswith(" ")] == [
        "knn: 88 settings",
        f"inference: no trained MUNKEY in {tmp_path}/models/signs",
    ]
    losses = [float(line.split("likelihood ")[1].split(",")[0]) for line in lines[1:3]]
    assert -0.5 < losses[1] <= losses[0] < 0
    for line in lines[1:3]:
        assert float(line.split()[-1].rstrip("%")) > 80
    (folder / "one").rename(folder / "other")
    for keys_path in (folder / "other/keys.npz", folder / "other"):
        repeat = munkey("search-neighbors", tmp_path / "data/signs", "--keys", keys_path)
        assert repeat.code == 0
        assert repeat.out.count("likelihood") == 3
    (folder / "other/keys.npz").unlink()
    refused = munkey("search-neighbors", tmp_path / "data/signs")
    assert refused.code == 2
    assert "--keys (found: none" in refused.err

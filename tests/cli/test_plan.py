"""`munkey plan` says what an experiment will cost, and ends with 1 where a job cannot fit."""

import pytest

from munkey.core.files import CONFIGFILES
from tests.conftest import ROOT

PAPER = ("workflow/presets/paper.yaml", "--machine", "amd-epyc-cpu", "--gpus", "1,8")


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv(CONFIGFILES, "")  # which the command sets: not for the tests after these


def test_it_prints_the_costs_and_ends_with_what_does_not_fit(munkey):
    fits = munkey("plan", *PAPER, "--memory", 16)
    assert fits.code == 0
    assert fits.out.startswith("paper on AMD EPYC, CPU (speeds measured; 16.0 GB of memory for a job)")
    assert "84 trainings" in fits.out and "on 8 machines: at least" in fits.out
    refused = munkey("plan", *PAPER, "--memory", 4)
    assert refused.code == 1 and "DOES NOT FIT: " in refused.out


def test_it_prints_the_same_as_json(munkey):
    said = munkey("plan", *PAPER, "--memory", 4, "--json")
    assert said.code == 1 and said.json["name"] == "paper" and said.json["refusals"]
    assert said.json["machine"] == {"name": "AMD EPYC, CPU", "gpu": False, "measured": True, "memory": 4e9}
    seconds = sum(each["seconds"] for each in said.json["work"])
    assert said.json["hours"] == {"1": pytest.approx(seconds / 3600), "8": pytest.approx(seconds / 8 / 3600)}
    assert sum(each["jobs"] for each in said.json["work"] if each["step"] == "train") == 84


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--machine", "abacus"], "no benchmarks of abacus"),
        (["nosuch.yaml"], "nosuch.yaml"),
        (["--gpus", "1,many"], "--gpus 1,many: write numbers of GPUs"),
        (["--gpus", "0"], "--gpus 0: write numbers of GPUs"),
    ],
)
def test_bad_input_ends_with_a_sentence(munkey, words, why):
    ended = munkey("plan", *words)
    assert ended.code == 2 and why in ended.err and ended.out == ""


def test_where_a_size_is_not_known_yet_the_command_that_finds_it_has_the_overlays(munkey, tmp_path):
    for name in ("a", "b"):
        (tmp_path / "pets" / name).mkdir(parents=True)
    overlay = tmp_path / "my pets.yaml"
    overlay.write_text(f"name: never-made\ndatasets: [imagefolder]\nsource: {{path: {tmp_path}/pets}}\n")
    ended = munkey("plan", overlay)
    command = f"--configfile '{overlay}' -- results/never-made/data/imagefolder/samples.csv"
    assert ended.code == 2 and command in ended.err

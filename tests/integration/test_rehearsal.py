"""`make reproduce`, rehearsed: the paper's files and formats, encoders, jobs, tables and figures, small.

Twice: three of its data sets with a quarter of their jobs in CI, and whole in `make soak`.
"""

import re
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from munkey.core.files import read_csv, read_npz
from munkey.data.registry import DATASETS
from munkey.experiment.params.load import load, read_params
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.studies.paper import tables as paper
from tests.integration.archives import ENCODER_FAMILIES, SIZES, archives_in, encoders_in
from tests.integration.conftest import ROOT, Project, checkout

pytestmark = [pytest.mark.slow, pytest.mark.ci]
WHOLE = ("workflow/presets/paper.yaml", "workflow/presets/rehearsal.yaml")
SHORT = (*WHOLE, "tests/integration/short-rehearsal.yaml")
REHEARSAL = ("reproduce", "REHEARSAL=1")
# Trainings, counted by hand. The ViT and MUNKEY have an original and, for each rate, an oracle. MUNKEY also has an
# original and an oracle for each value of an ablation that trains and is not the base's own, an original for each
# pair of the selection that is not the base's own, and one more original for the figures. So one seed of a data set
# with one rate has 4 + 2 * 3 (architectures) + 2 * 2 (aggregations) + 4 (pairs) + 1 = 19 trainings; with two rates and
# two more encoders, 6 + 2 * 2 + 15 = 25. Four data sets are of the former kind, two of the latter.
WHOLE_TRAININGS = 4 * 19 + 2 * 25
# With (0, 0) and one more pair of the selection, which is the base's own on Tiny ImageNet; CIFAR-10 alone has a second
# rate, two more encoders, an architecture, and an aggregation.
SHORT_TRAININGS = (4 + 1 + 1) + (4 + 2 + 1) + (6 + 2 * 2 + 2 + 2 + 2 + 1)


class Rehearsal(NamedTuple):
    """overlays: files that change params.yaml. trainings: their number."""

    overlays: tuple[str, ...]
    trainings: int

    @property
    def plan(self) -> Plan:
        overlays = [ROOT / overlay for overlay in self.overlays]
        return Plan(load(read_params(overlays, ROOT / "params.yaml")))


def make(
    project: Project, *arguments: str, check: bool = True, **env: str
) -> CompletedProcess[str]:
    """Make in the environment of the tests, which it must not install anew; without a network for encoders."""
    # Under `make test`, this one would print the folder that it enters.
    command = ("make", "--no-print-directory", "-o", ".venv/ready", *arguments)
    hub = {"HF_HOME": str(project.path / "hub"), "HF_HUB_OFFLINE": "1"}
    return project.run(*command, check=check, timeout=7200, **hub, **env)


@pytest.fixture(
    scope="module",
    params=[
        Rehearsal(SHORT, SHORT_TRAININGS),
        pytest.param(Rehearsal(WHOLE, WHOLE_TRAININGS), marks=pytest.mark.soak(long=True)),
    ],
    ids=["short", "whole"],
)
def rehearsal(request: pytest.FixtureRequest) -> Rehearsal:
    return request.param


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project as it stands, with nothing downloaded."""
    project = checkout(tmp_path_factory.mktemp("bare") / "project")
    project.commit("as it stands")
    return project


@pytest.fixture(scope="module")
def ready(bare: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project with all downloads in place."""
    project = bare.copy(tmp_path_factory.mktemp("ready") / "project")
    archives_in(project.path)
    encoders_in(project.path / "hub")
    return project


@pytest.fixture(scope="module")
def output(ready: Project, rehearsal: Rehearsal) -> str:
    """What the rehearsal prints. Afterwards, its results lie in `ready`."""
    return make(ready, *REHEARSAL, f"PAPER={' '.join(rehearsal.overlays)}").stdout


@pytest.fixture(scope="module")
def plan(rehearsal: Rehearsal) -> Plan:
    return rehearsal.plan


@pytest.fixture(scope="module")
def results(ready: Project, output: str, plan: Plan) -> Path:
    return ready.path / "results" / plan.params.name


def test_all_missing_downloads_are_listed_before_the_first_job(bare: Project) -> None:
    refused = make(bare, *REHEARSAL, check=False)
    assert refused.returncode != 0
    assert "this machine is not ready:" in refused.stderr
    for dataset in Rehearsal(WHOLE, WHOLE_TRAININGS).plan.params.datasets:
        archive = DATASETS[dataset].archive
        assert archive is not None
        assert f"- {dataset}: {archive().name} is not in data/" in refused.stderr
    assert refused.stderr.count("hf download") == len(ENCODER_FAMILIES)
    assert "no GPU" not in refused.stderr
    assert not (bare.path / "results").exists()
    first, *_ = make(bare, "-n", "reproduce").stdout.splitlines()
    assert first.split()[:4] == ["munkey", "preflight", "workflow/presets/paper.yaml", "--gpus"]


def test_the_rehearsal_prints_its_costs_and_that_it_is_a_rehearsal(
    output: str, rehearsal: Rehearsal, plan: Plan
) -> None:
    before, _, after = output.partition("This machine is ready.")
    assert f"\n{rehearsal.trainings} training runs" in before
    assert "at least" in before
    for dataset in plan.params.datasets:
        assert f"{dataset}: a rehearsal" in after


def test_every_data_set_is_read_from_its_archive_and_limited(results: Path, plan: Plan) -> None:
    for dataset in plan.params.datasets:
        size = SIZES[dataset]
        limit = plan.params.for_case(dataset).source.limit_per_class
        samples = read_csv(results / "data" / dataset / "samples.csv")
        splits = Counter(sample["split"] for sample in samples)
        for split in ("train", "val", "test"):
            labels = np.arange(getattr(size, split)) % size.classes
            assert splits[split] == np.bincount(labels).clip(max=limit).sum(), (dataset, split)
        images = np.load(results / "data" / dataset / "images.npy", mmap_mode="r")
        assert images.shape == (splits.total(), size.side, size.side, 3)


def test_the_keys_are_those_of_the_papers_encoders(results: Path, plan: Plan) -> None:
    for dataset in plan.params.datasets:
        folders = sorted(path.name for path in (results / "keys" / dataset).iterdir())
        varied = plan.params.for_case(dataset).ablations.root.get("keys")
        encoders = ENCODER_FAMILIES if varied else ["vit-b16"]
        assert [name.partition("_")[0] for name in folders] == sorted(encoders)
    lengths = {}
    for path in (results / "keys" / "cifar10").glob("*/keys.npz"):
        lengths[path.parent.name.partition("_")[0]] = read_npz(path, "keys")["keys"].shape[1]
    assert lengths == {"vit-b16": 16, "dinov2": 16, "clip": 12}  # as the tiny ones are made


def test_every_system_of_the_paper_is_measured_and_compared_with_it(
    results: Path, plan: Plan, request: pytest.FixtureRequest
) -> None:
    main = pd.read_csv(results / "tables/main.csv")
    systems = main.groupby(["dataset", "rate"])["method"].apply(set)
    assert len(systems) == (8 if "whole" in request.node.name else 4)
    for names in systems:
        assert names == {*plan.originals, *plan.oracles, *plan.params.methods}
    both = pd.read_csv(results / "tables/paper.csv")
    printed = paper.read_printed_numbers()
    assert both["ours_mean"].notna().all()
    requests = pd.MultiIndex.from_frame(printed[["dataset", "rate"]])
    ran = printed["method"].isin(systems.iloc[0]) & requests.isin(systems.index)
    if "whole" in request.node.name:
        assert len(both) == len(printed)
        assert ran.all()
    compared = both[both["table"] == "main"]
    expected = printed[ran & (printed["table"] == "main")]
    assert 0 < len(compared) == len(expected)


def test_the_comparison_counts_what_agrees_and_renders_as_a_rehearsal(
    results: Path, output: str, plan: Plan
) -> None:
    within = pd.read_csv(results / "tables/paper.csv")["within"].astype("boolean")
    text = (results / "tables/paper.md").read_text()
    page = (results / "report/index.html").read_text()
    printed = paper.read_printed_numbers()
    printed = printed[printed["dataset"].isin(plan.params.datasets)]
    for text_with_counts in (output, text):
        pattern = r"^\| all +\| +\| +\| (\d+) +\| (\d+) +\| (\d+) +\|"
        [counts] = re.findall(pattern, text_with_counts, re.MULTILINE)
        expected = [len(printed), within.count(), within.sum()]
        assert list(map(int, counts)) == expected
    assert text.count("a rehearsal, with") == len(plan.params.datasets)
    assert page.count("a rehearsal, with") == len(plan.params.datasets)
    assert "### main, cifar10, 2%: ours (the paper's)" in output


def test_every_table_and_figure_is_there_and_nothing_is_left_to_do(
    ready: Project, results: Path, rehearsal: Rehearsal, plan: Plan
) -> None:
    for figure in Exhibits(plan).figures:
        for ending in ("svg", "png"):
            assert (results / f"figures/{figure}.{ending}").stat().st_size > 1000
    tables = ["main", "runtime", "datasets", "ablations", "aggregation", "strategies", "encoders"]
    for table in tables:
        assert len((results / f"tables/{table}.md").read_text().splitlines()) > 3
    assert ready.planned("--configfile", *rehearsal.overlays, "--", "paper") == {}

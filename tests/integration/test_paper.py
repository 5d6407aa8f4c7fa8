"""Every table and figure from one command, audits and relearning: each adds only its own jobs to the finished grid."""

import itertools
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import load_file

from munkey.report.tables.terminal import render_plain
from tests.integration.conftest import ROOT, Project

pytestmark = pytest.mark.ci
# the audit has the first
P_TOKEN = [yaml.safe_load((ROOT / "params.yaml").read_text())["munkey"]["p_token"], 0.65]
STEPS = [0, 1, 4, 20]
AUDIT = {"grid_pairs": 2, "grid": [{"munkey.p_token": P_TOKEN}], "relearn": {"steps": STEPS}}
TARGETS = ("--", "paper", "audit_grids", "relearning", "scenarios", "streams")
SCENARIOS = {
    "three": {"sampling": "class", "names": ["3"]},
    "class": None,
    "cluster": None,
    "easy": None,
}
STREAM = {"requests": 2, "additions": [1]}


@pytest.fixture(scope="module")
def paper_run(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny grid after `snakemake paper audit_grids relearning`. Not to be changed: take a copy."""
    project = finished.copy(tmp_path_factory.mktemp("paper") / "project")
    project.params({"audit": AUDIT, "scenarios": SCENARIOS, "stream": STREAM})
    done = project.snakemake(*TARGETS)
    (project.path / "run.log").write_text(done.stdout)
    return project


def select_work(planned: dict[str, int]) -> dict[str, int]:
    """The jobs that train, unlearn, evaluate or compute keys."""
    rules = ("train", "unlearn", "unlearn_audited", "evaluate", "keys")
    return {rule: planned[rule] for rule in rules if rule in planned}


def test_nothing_is_left_to_do_and_the_main_run_is_unchanged(
    paper_run: Project, finished: Project
) -> None:
    assert paper_run.planned("--", "all", *TARGETS[1:]) == {}
    for name in ("tables/main.md", "metrics.csv", "logits/digits/seed0/rate0.1/munkey.npz"):
        before = (finished.path / "results/default" / name).read_bytes()
        assert (paper_run.path / "results/default" / name).read_bytes() == before


def test_the_page_alone_trains_nothing(finished: Project, paper_run: Project) -> None:
    assert finished.planned("--", "page") == {"chart": 1, "page": 1}
    assert paper_run.planned("--", "page") == {}  # it is the page of `paper`, with every part


def test_every_table_has_named_columns_and_every_printed_one_a_tex_file(
    paper_run: Project,
) -> None:
    results = paper_run.path / "results/default"
    for path in results.rglob("*.csv"):
        header = path.read_text().splitlines()[0]
        assert "" not in header.split(","), path
    tex_files = list(results.rglob("*.tex"))
    names = ["main", "runtime", "paper"]
    names += ["ablations", "aggregation", "strategies", "fusion", "encoders"]
    assert set(tex_files) == {results / "tables" / f"{name}.tex" for name in names}
    for path in tex_files:  # where there is nothing to compare, a comment says so
        if "| " in path.with_suffix(".md").read_text():
            assert "\\begin{tabular}" in path.read_text(), path


def test_another_value_adds_only_its_own_jobs(paper_run: Project, tmp_path: Path) -> None:
    project = paper_run.copy(tmp_path / "project")
    # the latter trains an original and an oracle
    ablations = {"inference.k": [1, 4, 8], "munkey.token_dim": [128, 32]}
    project.params(
        {"ablations": ablations, "audit": {"grid": [{"munkey.p_token": [*P_TOKEN, 0.5]}]}}
    )
    planned = select_work(project.planned("--", "all", "ablations", "audit_grids"))
    assert planned == {"train": 2 + 4, "unlearn": 1, "unlearn_audited": 4, "evaluate": 3 + 3 + 4}


def test_fusions_share_one_model(paper_run: Project) -> None:
    logits = paper_run.path / "results/default/logits/digits"
    assert (logits / "inference.fusion/rank/seed0/full/original-m.npz").exists()
    assert not (logits / "inference.fusion/ensemble").exists()  # the base's own
    assert not (paper_run.path / "results/default/models/digits/inference.fusion").exists()


def test_a_fusion_that_is_trained_with_has_its_own_model_and_sensitivity(
    paper_run: Project,
) -> None:
    models = paper_run.path / "results/default/models/digits/aggregation/rank/seed0"
    assert (models / "full/original-m/system.safetensors").exists()
    assert (models / "rate0.1/retrain-m/system.safetensors").exists()
    summary = pd.read_csv(paper_run.path / "results/default/tables/ablations.csv")
    sensitivity = summary[summary["method"] == "original-m"].set_index("case")["P_s_mean"]
    assert sensitivity["inference.fusion/rank"] == sensitivity["inference.fusion/ensemble"]
    assert sensitivity["aggregation/rank"] != sensitivity["inference.fusion/rank"]
    tables = paper_run.path / "results/default/tables"
    aggregation = (tables / "aggregation.md").read_text()
    assert "Rank" in aggregation
    assert "Ensemble" not in aggregation
    assert "Ensemble" in (tables / "fusion.md").read_text()


def test_every_ablation_has_a_gap_to_an_oracle_of_its_own_kind(paper_run: Project) -> None:
    summary = pd.read_csv(paper_run.path / "results/default/tables/ablations.csv")
    munkey = summary[summary["method"] == "munkey"].set_index("case")
    assert munkey["gap_mean"].notna().all()
    assert len(munkey) == 11
    gaps = munkey["gap_mean"]
    assert gaps["inference.k/4"] == gaps["inference.fusion/ensemble"]
    accuracies = munkey["TA_mean"]
    assert accuracies["munkey.architecture/direct-key"] != accuracies["inference.k/4"]
    for name in ("ablations", "aggregation", "strategies", "fusion", "encoders"):
        for ending in ("md", "tex"):
            assert (paper_run.path / f"results/default/tables/{name}.{ending}").stat().st_size > 100


def test_the_selection_has_reasons_and_its_pair_can_be_trained_with(
    paper_run: Project, tmp_path: Path
) -> None:
    table = pd.read_csv(paper_run.path / "results/default/selection/digits/table.csv")
    assert table["chosen"].sum() == 1
    assert table["reason"].str.startswith("chosen").sum() == 1
    assert table["reason"].str.startswith("for reference").sum() == 1
    selection = paper_run.path / "results/default/selection/digits/chosen.json"
    selected = json.loads(selection.read_text())["chosen"]
    project = paper_run.copy(tmp_path / "project")
    project.params({"munkey": {"p_drop": "selected"}})
    models = "results/default/models/digits"
    project.snakemake("--", f"{models}/seed0/full/original-m/system.safetensors")
    original = project.path / models / "seed0/full/original-m"
    record = json.loads((original / "record.json").read_text())
    assert record["selected"] == selected
    case = f"{selected['p_image']}_{selected['p_token']}"
    grid = project.path / models / "p_drop" / case / "seed0/full/original-m/system.safetensors"
    if grid.exists():  # it does not if the pair of the base was selected
        assert (original / "system.safetensors").read_bytes() == grid.read_bytes()


def test_the_trace_ends_with_the_tokens_of_the_original(paper_run: Project) -> None:
    trace = np.load(paper_run.path / "results/default/trace/digits/seed0.npz")
    models = paper_run.path / "results/default/models/digits/seed0"
    system = load_file(models / "full/original-m/system.safetensors")
    np.testing.assert_array_equal(trace["tokens_2"], system["memory.tokens"])
    assert trace["epoch"].tolist() == [0, 1, 2]
    assert trace["features_1"].shape == (300, 16)


def test_every_figure_is_drawn_as_svg_and_png(paper_run: Project) -> None:
    figures = paper_run.path / "results/default/figures"
    names = ["forgetting", "neighbors", "selection-digits", "sensitivity-digits", "tokens-digits"]
    for ending in ("svg", "png"):
        assert sorted(path.stem for path in figures.glob(f"*.{ending}")) == names


class Page(HTMLParser):
    """The links and images of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "a":
            self.links.append(values["href"] or "")
        if tag == "img":
            self.images.append(values["src"] or "")


def test_the_report_has_all_chapters_and_its_links_exist(paper_run: Project) -> None:
    text = (paper_run.path / "results/default/report/index.html").read_text()
    page = Page(text)
    assert len(page.images) == 8
    for source in page.images:
        assert source.startswith("data:image/svg+xml;base64,")
    local = [link.partition("#")[0] for link in page.links if not link.startswith(("#", "http"))]
    assert local
    for link in local:
        assert (paper_run.path / "results/default/report" / link).exists()
    assert "../audit/digits/attacks.csv" in local
    assert ">residual share [%]</th>" in text
    assert "Attacks on one model: digits" in text
    assert "controls, whose results are known beforehand" in text
    assert "127.0.0.1:5000/#/experiments/" in " ".join(page.links)
    assert 'id="paper"' not in text
    assert "Deep Prompt" not in text
    assert "Direct Key" in text
    assert "<script src=" not in text
    assert "stylesheet" not in text


def test_the_audit_trains_pairs_on_swapped_halves_and_measures_every_path(
    paper_run: Project,
) -> None:
    folder = paper_run.path / "results/default/audit/digits"
    halves = [set(pd.read_csv(folder / f"halves/seed{seed}.csv")["id"]) for seed in range(4)]
    assert len(halves[0]) == len(halves[1]) == 30
    assert not halves[0] & halves[1]
    assert halves[0] | halves[1] == halves[2] | halves[3]
    assert halves[0] != halves[2]
    logits = paper_run.path / "results/default/logits/digits/audit/pool/seed0"
    with (
        np.load(logits / "rate0.1/munkey.npz") as after,
        np.load(logits / "full/original-m.npz") as nothing,
    ):
        assert not np.isin(after["memory_ids"], list(halves[0] | halves[1])).any()
        assert np.isin(list(halves[0]), nothing["memory_ids"]).all()
        assert not np.isin(nothing["memory_ids"], list(halves[1])).any()
        paths = [after[name] for name in ("logits", "path_softmax", "path_image", "path_token")]
    for one, other in itertools.combinations(paths, 2):
        assert one.shape == other.shape
        assert not np.allclose(one, other)
    table = pd.read_csv(folder / "table.csv")
    assert (table["role"] == "control").sum() == 4
    assert {"cf", "munkey", "retrain-t", "retrain-m"} <= set(table["name"])
    assert (folder / "table.md").read_text().startswith("### digits: 2 pairs of models")
    stored = pd.read_csv(folder / "storage.csv").set_index(["method", "file"])
    for method, parts in {"munkey": 2, "lda": 1}.items():  # keys and tokens; keys
        before = stored.loc[method, "original"]
        after = stored.loc[method, "unlearned"]
        assert before["rows"] == before["rows_of"] == parts * before["ids"] == parts * 30
        assert after["rows"] == after["ids"] == 0
    differencing = pd.read_csv(folder / "differencing.csv")
    assert set(differencing["batch"]) == {1, 10, 100}
    assert len(differencing) == 3 * (2 + 3)  # attackers of MUNKEY and LDA
    precision = differencing.set_index(["method", "attacker", "batch"])["precision"]
    assert precision["lda", "weights", 1] > 50
    assert precision["munkey", "answers", 1] > 5
    assert (folder / "differencing.md").read_text().startswith("### digits: ")
    audited = (paper_run.path / "results/default/tables/main-audited.md").read_text()
    assert "| Method       | residual share [%]" in audited
    assert render_plain(audited) in (paper_run.path / "run.log").read_text()
    assert (folder / "shares.png").stat().st_size > 10_000
    assert "by how much a sample was memorized" in (folder / "strata.md").read_text()
    assert not (paper_run.path / "results/default/audit/index.html").exists()


def test_scenarios_share_originals_and_have_a_table_each(paper_run: Project) -> None:
    """If a whole class is forgotten, deleting its rows and switching its output off are measured separately."""
    folder = paper_run.path / "results/default/scenarios/digits"
    table = pd.read_csv(folder / "table.csv").set_index(["case", "method"])
    assert not (paper_run.path / "results/default/models/digits/scenario/three/seed0/full").exists()
    oracle = table.loc[("scenario/three", "retrain-m")]
    off = table.loc[("scenario/three", "munkey-off")]
    assert oracle["FA_mean"] == oracle["FTA_mean"] == off["FTA_mean"] == 0
    assert off["RTA_mean"] > 0
    assert table.loc[("scenario/three", "lda"), "ToW"] == 1  # deletes exactly
    assert ("scenario/hard", "munkey-off") not in table.index
    assert table.loc[("scenario/hard", "munkey"), "ToW"] > 0
    main = pd.read_csv(paper_run.path / "results/default/tables/main.csv").set_index("method")
    # what is drawn is hard
    assert table.loc[("scenario/hard", "lda"), "FA_mean"] < main.loc["lda", "FA_mean"] - 10
    assert (folder / "tow.png").stat().st_size > 10_000
    assert "### digits, three: class 3, " in (folder / "table.md").read_text()
    assert 'id="scenarios"' in (paper_run.path / "results/default/report/index.html").read_text()


def test_the_grid_of_the_audit_has_every_value(paper_run: Project) -> None:
    folder = paper_run.path / "results/default/audit/digits"
    table = pd.read_csv(folder / "grid.csv")
    assert table["munkey.p_token"].unique().tolist() == P_TOKEN
    assert len(table) == 8
    assert (folder / "grid.md").read_text().startswith("### digits: 2 pairs of models")
    assert (folder / "grid.png").stat().st_size > 10_000


def test_relearning_starts_from_the_accuracies_of_the_main_run(paper_run: Project) -> None:
    folder = paper_run.path / "results/default/audit/digits/relearning"
    curves = pd.read_csv(folder / "curves.csv")
    table = pd.read_csv(folder / "table.csv")
    systems = ["original-t", "retrain-t", "cf", "original-m", "retrain-m", "munkey"]
    assert table["name"].tolist() == systems
    assert (table["n"] == 1).all()
    assert curves.groupby("name")["step"].apply(list).tolist() == [STEPS] * 6
    metrics = pd.read_csv(paper_run.path / "results/default/metrics.csv")
    values = metrics.set_index(["method", "metric"])["value"]
    for name in systems:
        first = curves[(curves["name"] == name) & (curves["step"] == 0)].iloc[0]
        for metric in ("FA", "TA"):
            assert first[metric] == pytest.approx(values[name, metric])
        assert curves[curves["name"] == name]["margin"].nunique() == len(STEPS)
    oracles = table[table["role"] == "oracle"].filter(like="mean")
    assert len(oracles) == 2
    assert (oracles == 0).all(axis=None)
    assert (folder / "table.md").read_text().startswith("### digits: 20 steps")
    assert (folder / "curves.png").stat().st_size > 10_000


@pytest.mark.soak
def test_without_ablations_and_a_pair_that_passes_the_page_says_so(
    finished: Project, tmp_path: Path
) -> None:
    project = finished.copy(tmp_path / "project")
    ablations = yaml.safe_load((project.path / "params.yaml").read_text())["ablations"]
    switched_off = {"ablations": {knob: [] for knob in ablations}, "audit": {"in_paper": False}}
    project.params(switched_off | {"selection": {"threshold": 1e-12}})
    project.snakemake("--", "paper")
    selection = project.path / "results/default/selection/digits"
    assert "no pair passes" in (selection / "table.md").read_text()
    assert json.loads((selection / "chosen.json").read_text()) == {"chosen": None}
    encoders = (project.path / "results/default/tables/encoders.md").read_text()
    assert encoders == "None of this was run.\n"
    page = (project.path / "results/default/report/index.html").read_text()
    assert 'id="audit"' not in page
    assert not (project.path / "results/default/audit").exists()
    assert 'id="selection"' in page
    assert 'id="encoders"' not in page
    assert 'id="ablations"' not in page
    project.params({"munkey": {"p_drop": "selected"}})
    refused = project.snakemake("--", "paper", check=False)
    assert refused.returncode != 0
    assert "no pair (p_image, p_token) has P_s < 1e-12" in refused.stderr
    assert "widen the grid `selection`" in refused.stderr


def test_streams_start_from_the_models_of_the_audit_and_have_oracles_at_some_requests(
    paper_run: Project,
) -> None:
    folder = paper_run.path / "results/default/streams/digits"
    text = (folder / "table.md").read_text()
    assert text.startswith("### digits: a stream of 2 requests")
    curves = pd.read_csv(folder / "curves.csv")
    assert set(curves["done"][curves["name"] == "retrain-t"]) == {1, 2}
    assert set(curves["done"][curves["name"] == "munkey"]) == {0, 1, 2}
    assert (folder / "curves.png").stat().st_size > 10_000

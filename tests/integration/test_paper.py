"""Every table and figure from one command, audits and relearning: each adds only what is new to the finished grid."""

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
def made(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny grid after `snakemake paper audit_grids relearning`. Not to be changed: take a copy."""
    project = finished.copy(tmp_path_factory.mktemp("paper") / "project")
    project.params({"audit": AUDIT, "scenarios": SCENARIOS, "stream": STREAM})
    done = project.snakemake(*TARGETS)
    (project.path / "run.log").write_text(done.stdout)
    return project


def work(planned: dict[str, int]) -> dict[str, int]:
    return {
        rule: n
        for rule, n in planned.items()
        if rule in ("train", "unlearn", "unlearn_audited", "evaluate", "keys")
    }


def test_nothing_is_left_to_do_and_the_main_run_is_as_it_was(
    made: Project, finished: Project
) -> None:
    assert made.planned("--", "all", *TARGETS[1:]) == {}
    for name in ("tables/main.md", "metrics.csv", "logits/digits/seed0/rate0.1/munkey.npz"):
        before, after = (project.path / "results/default" / name for project in (finished, made))
        assert before.read_bytes() == after.read_bytes()


def test_the_page_alone_trains_nothing_and_takes_what_exists(
    finished: Project, made: Project
) -> None:
    assert finished.planned("--", "page") == {"chart": 1, "page": 1}
    assert made.planned("--", "page") == {}  # it is the page of `paper`, with every part


def test_every_table_is_in_the_form_that_its_name_says_and_every_column_has_a_name(
    made: Project,
) -> None:
    results = made.path / "results/default"
    for path in results.rglob("*.csv"):
        assert all(path.read_text().splitlines()[0].split(",")), path
    printed = {
        "main",
        "runtime",
        "paper",
        "ablations",
        "aggregation",
        "strategies",
        "fusion",
        "encoders",
    }
    assert {path.relative_to(results) for path in results.rglob("*.tex")} == {
        Path("tables") / f"{name}.tex" for name in printed
    }
    for path in results.rglob("*.tex"):  # where there is nothing to compare, a comment says so
        assert (
            not path.with_suffix(".md").read_text().count("| ")
            or "\\begin{tabular}" in path.read_text()
        ), path


def test_one_more_value_adds_its_own_work_alone(made: Project, tmp_path: Path) -> None:
    project = made.copy(tmp_path / "project")
    # the latter trains an original and an oracle
    ablations = {"inference.k": [1, 4, 8], "munkey.token_dim": [128, 32]}
    project.params(
        {"ablations": ablations, "audit": {"grid": [{"munkey.p_token": [*P_TOKEN, 0.5]}]}}
    )
    planned = work(project.planned("--", "all", "ablations", "audit_grids"))
    assert planned == {"train": 2 + 4, "unlearn": 1, "unlearn_audited": 4, "evaluate": 3 + 3 + 4}


def test_one_model_three_fusions(made: Project) -> None:
    logits = made.path / "results/default/logits/digits"
    assert (logits / "inference.fusion/rank/seed0/full/original-m.npz").exists()
    assert not (logits / "inference.fusion/ensemble").exists()  # the base's own
    assert not (made.path / "results/default/models/digits/inference.fusion").exists()


def test_trained_with_its_own_aggregation_a_fusion_has_a_model_and_a_sensitivity_of_its_own(
    made: Project,
) -> None:
    models = made.path / "results/default/models/digits/aggregation/rank/seed0"
    assert (models / "full/original-m/system.safetensors").exists()
    assert (models / "rate0.1/retrain-m/system.safetensors").exists()
    summary = pd.read_csv(made.path / "results/default/tables/ablations.csv")
    sensitivity = summary[summary["method"] == "original-m"].set_index("case")["P_s_mean"]
    assert sensitivity["inference.fusion/rank"] == sensitivity["inference.fusion/ensemble"]
    assert sensitivity["aggregation/rank"] != sensitivity["inference.fusion/rank"]
    aggregation, fusion = (
        (made.path / f"results/default/tables/{name}.md").read_text()
        for name in ("aggregation", "fusion")
    )
    assert "Rank" in aggregation and "Ensemble" not in aggregation and "Ensemble" in fusion


def test_every_case_has_its_gap_to_an_oracle_of_its_own_kind(made: Project) -> None:
    found = pd.read_csv(made.path / "results/default/tables/ablations.csv")
    munkey = found[found["method"] == "munkey"].set_index("case")
    assert munkey["gap_mean"].notna().all() and len(munkey) == 11
    assert (
        munkey.loc["inference.k/4", "gap_mean"]
        == munkey.loc["inference.fusion/ensemble", "gap_mean"]
    )
    assert (
        munkey.loc["munkey.architecture/direct-key", "TA_mean"]
        != munkey.loc["inference.k/4", "TA_mean"]
    )
    for name in ("ablations", "aggregation", "strategies", "fusion", "encoders"):
        for ending in ("md", "tex"):
            assert (made.path / f"results/default/tables/{name}.{ending}").stat().st_size > 100


def test_the_selection_tells_why_and_can_be_used(made: Project, tmp_path: Path) -> None:
    table = pd.read_csv(made.path / "results/default/selection/digits/table.csv")
    assert table["chosen"].sum() == 1 and table["reason"].str.startswith("chosen").sum() == 1
    assert table["reason"].str.startswith("for reference").sum() == 1
    chosen = json.loads((made.path / "results/default/selection/digits/chosen.json").read_text())[
        "chosen"
    ]
    project = made.copy(tmp_path / "project")
    project.params({"munkey": {"p_drop": "selected"}})
    # 7 jobs
    project.snakemake(
        "--", "results/default/models/digits/seed0/full/original-m/system.safetensors"
    )
    record = json.loads(
        (
            project.path / "results/default/models/digits/seed0/full/original-m/record.json"
        ).read_text()
    )
    assert record["selected"] == chosen
    (case,) = [f"{chosen['p_image']}_{chosen['p_token']}"]
    grid = (
        project.path
        / f"results/default/models/digits/p_drop/{case}/seed0/full/original-m/system.safetensors"
    )
    if grid.exists():  # elsewhere where the base's own pair was chosen
        used = (
            project.path / "results/default/models/digits/seed0/full/original-m/system.safetensors"
        )
        assert used.read_bytes() == grid.read_bytes()


def test_the_trace_is_the_originals_own_training(made: Project) -> None:
    trace = np.load(made.path / "results/default/trace/digits/seed0.npz")
    own = load_file(
        made.path / "results/default/models/digits/seed0/full/original-m/system.safetensors"
    )
    np.testing.assert_array_equal(trace["tokens_2"], own["memory.tokens"])
    assert trace["epoch"].tolist() == [0, 1, 2] and trace["features_1"].shape == (300, 16)


def test_every_figure_is_there(made: Project) -> None:
    names = {path.stem for path in (made.path / "results/default/figures").glob("*.svg")}
    assert names == {path.stem for path in (made.path / "results/default/figures").glob("*.png")}
    assert names == {
        *("forgetting", "neighbors", "selection-digits", "sensitivity-digits", "tokens-digits"),
    }


class Page(HTMLParser):
    """What a page refers to, and the text of its cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.images: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.links += [found["href"] or ""] if tag == "a" else []
        self.images += [found["src"] or ""] if tag == "img" else []


def test_the_report_opens_from_disk_and_holds_it_all(made: Project) -> None:
    text = (made.path / "results/default/report/index.html").read_text()
    page = Page(text)
    assert len(page.images) == 8 and all(
        source.startswith("data:image/svg+xml;base64,") for source in page.images
    )
    local = [link.partition("#")[0] for link in page.links if not link.startswith(("#", "http"))]
    assert local and all((made.path / "results/default/report" / link).exists() for link in local)
    assert "../audit/digits/attacks.csv" in local and ">residual share [%]</th>" in text
    assert (
        "Attacks on one model: digits" in text
        and "controls, whose results are known beforehand" in text
    )
    assert any("127.0.0.1:5000/#/experiments/" in link for link in page.links)
    assert 'id="paper"' not in text and "Deep Prompt" not in text and "Direct Key" in text
    assert "<script src=" not in text and "stylesheet" not in text


def test_the_audit_trains_pairs_and_asks_every_path(made: Project) -> None:
    folder = made.path / "results/default/audit/digits"
    halves = [set(pd.read_csv(folder / f"halves/seed{seed}.csv")["id"]) for seed in range(4)]
    assert len(halves[0]) == len(halves[1]) == 30 and not halves[0] & halves[1]
    assert halves[0] | halves[1] == halves[2] | halves[3] and halves[0] != halves[2]
    logits = made.path / "results/default/logits/digits/audit/pool/seed0"
    with (
        np.load(logits / "rate0.1/munkey.npz") as after,
        np.load(logits / "full/original-m.npz") as nothing,
    ):
        assert not np.isin(after["memory_ids"], list(halves[0] | halves[1])).any()
        assert np.isin(list(halves[0]), nothing["memory_ids"]).all()
        assert not np.isin(nothing["memory_ids"], list(halves[1])).any()
        paths = [after[name] for name in ("logits", "path_softmax", "path_image", "path_token")]
        assert all(path.shape == paths[0].shape for path in paths)
        assert not any(
            np.allclose(one, other) for i, one in enumerate(paths) for other in paths[:i]
        )
    table = pd.read_csv(folder / "table.csv")
    assert (table["role"] == "control").sum() == 4 and set(table["name"]) >= {
        "cf",
        "munkey",
        "retrain-t",
        "retrain-m",
    }
    assert (folder / "table.md").read_text().startswith("### digits: 2 pairs of models, percent")
    stored = pd.read_csv(folder / "storage.csv").set_index(["method", "file"])
    for method, parts in {"munkey": 2, "lda": 1}.items():  # keys and tokens; keys
        before, after = stored.loc[method, "original"], stored.loc[method, "unlearned"]
        assert before["rows"] == before["rows_of"] == parts * before["ids"] == parts * 30
        assert after["rows"] == after["ids"] == 0
    named = pd.read_csv(folder / "differencing.csv").set_index(["method", "attacker", "batch"])[
        "precision"
    ]
    # MUNKEY, LDA
    assert set(named.index.get_level_values("batch")) == {1, 10, 100} and len(named) == 3 * (2 + 3)
    assert named["lda", "weights", 1] > 50 and named["munkey", "answers", 1] > 5
    assert (
        (folder / "differencing.md")
        .read_text()
        .startswith("### digits: deleted samples that two versions give away")
    )
    audited = (made.path / "results/default/tables/main-audited.md").read_text()
    assert (
        "| Method       | residual share [%]" in audited
        and render_plain(audited) in (made.path / "run.log").read_text()
    )
    assert (folder / "shares.png").stat().st_size > 10_000
    assert "by how much a sample was memorized" in (folder / "strata.md").read_text()
    assert not (made.path / "results/default/audit/index.html").exists()


def test_scenarios_share_originals_and_have_a_table_each(made: Project) -> None:
    """Of a class that is forgotten whole, deleting all rows is told apart from switching its output off."""
    folder = made.path / "results/default/scenarios/digits"
    table = pd.read_csv(folder / "table.csv").set_index(["case", "method"])
    assert not (made.path / "results/default/models/digits/scenario/three/seed0/full").exists()
    oracle, off = (table.loc[("scenario/three", name)] for name in ("retrain-m", "munkey-off"))
    assert oracle["FA_mean"] == oracle["FTA_mean"] == off["FTA_mean"] == 0 and off["RTA_mean"] > 0
    assert table.loc[("scenario/three", "lda"), "ToW"] == 1  # deletes exactly
    assert ("scenario/hard", "munkey-off") not in table.index and table.loc[
        ("scenario/hard", "munkey"), "ToW"
    ] > 0
    main = pd.read_csv(made.path / "results/default/tables/main.csv").set_index("method")
    # what is drawn is hard
    assert table.loc[("scenario/hard", "lda"), "FA_mean"] < main.loc["lda", "FA_mean"] - 10
    assert (folder / "tow.png").stat().st_size > 10_000
    assert "### digits, three: class 3, " in (folder / "table.md").read_text()
    assert 'id="scenarios"' in (made.path / "results/default/report/index.html").read_text()


def test_the_grid_of_the_audit_has_every_value(made: Project) -> None:
    folder = made.path / "results/default/audit/digits"
    table = pd.read_csv(folder / "grid.csv")
    assert table["munkey.p_token"].unique().tolist() == P_TOKEN and len(table) == 8
    assert (
        (folder / "grid.md")
        .read_text()
        .startswith("### digits: 2 pairs of models for each setting")
    )
    assert (folder / "grid.png").stat().st_size > 10_000


def test_relearning_starts_from_what_the_main_run_measured(made: Project) -> None:
    folder = made.path / "results/default/audit/digits/relearning"
    curves, table = pd.read_csv(folder / "curves.csv"), pd.read_csv(folder / "table.csv")
    systems = ["original-t", "retrain-t", "cf", "original-m", "retrain-m", "munkey"]
    assert table["name"].tolist() == systems and (table["n"] == 1).all()
    assert curves.groupby("name")["step"].apply(list).tolist() == [STEPS] * 6
    metrics = pd.read_csv(made.path / "results/default/metrics.csv").set_index(
        ["method", "metric"]
    )["value"]
    for name in systems:
        first = curves[(curves["name"] == name) & (curves["step"] == 0)].iloc[0]
        assert (first["FA"], first["TA"]) == pytest.approx(
            (metrics[name, "FA"], metrics[name, "TA"])
        )
        assert curves[curves["name"] == name]["margin"].nunique() == len(STEPS)
    oracles = table[table["role"] == "oracle"].filter(like="mean")
    assert len(oracles) == 2 and (oracles == 0).all(axis=None)
    assert (folder / "table.md").read_text().startswith("### digits: 20 steps on the retain set")
    assert (folder / "curves.png").stat().st_size > 10_000


@pytest.mark.soak
def test_without_ablations_and_without_a_pair_that_passes_there_is_a_paper_that_says_so(
    finished: Project, tmp_path: Path
) -> None:
    project = finished.copy(tmp_path / "project")
    ablations = yaml.safe_load((project.path / "params.yaml").read_text())["ablations"]
    switched_off = {"ablations": {knob: [] for knob in ablations}, "audit": {"in_paper": False}}
    project.params(switched_off | {"selection": {"threshold": 1e-12}})
    project.snakemake("--", "paper")
    assert (
        "no pair passes" in (project.path / "results/default/selection/digits/table.md").read_text()
    )
    assert json.loads(
        (project.path / "results/default/selection/digits/chosen.json").read_text()
    ) == {"chosen": None}
    assert (
        project.path / "results/default/tables/encoders.md"
    ).read_text() == "None of this was run.\n"
    page = (project.path / "results/default/report/index.html").read_text()
    assert 'id="audit"' not in page and not (project.path / "results/default/audit").exists()
    assert 'id="selection"' in page and 'id="encoders"' not in page and 'id="ablations"' not in page
    project.params({"munkey": {"p_drop": "selected"}})
    refused = project.snakemake("--", "paper", check=False)
    assert (
        refused.returncode != 0
        and "widen the grid `selection` or raise its threshold" in refused.stderr
    )
    assert "no pair (p_image, p_token) has P_s < 1e-12" in refused.stderr


def test_streams_go_on_from_the_audits_models_and_oracles_are_trained_at_some_requests(
    made: Project,
) -> None:
    folder = made.path / "results/default/streams/digits"
    text = (folder / "table.md").read_text()
    assert text.startswith(
        "### digits: a stream of 2 requests; mean over 4 models, [95% over 2 pairs]"
    )
    curves = pd.read_csv(folder / "curves.csv").set_index(["name", "seed", "done"])
    assert {done for name, _, done in curves.index if name == "retrain-t"} == {1, 2}
    assert {done for name, _, done in curves.index if name == "munkey"} == {0, 1, 2}
    assert (folder / "curves.png").stat().st_size > 10_000

"""An audit of the tiny grid: every job of it runs, and nothing of the main run is done again."""

import numpy as np
import pandas as pd
import pytest
import yaml

from munkey.report.tables.terminal import plain
from tests.integration.conftest import ROOT, Project

P_TOKEN = [yaml.safe_load((ROOT / "params.yaml").read_text())["munkey"]["p_token"], 0.65]  # the audit has the first
LOGITS = "results/default/logits/digits/audit/pool/seed0"


@pytest.mark.slow
def test_an_audit_trains_pairs_and_asks_every_path(project: Project) -> None:
    main = project.path / "results/default/tables/main.md"
    before = main.read_bytes()
    planned = project.planned("--", "audits")
    jobs = {
        "half",
        "neighbors",
        "train",
        "unlearn",
        "evaluate",
        "audit",
        "audit_cost",
        "attacks",
        "storage",
        "main_audited",
        "audit_page",
        "audits",
    }
    assert planned.keys() == jobs
    printed = project.snakemake("--", "audits").stdout
    folder = project.path / "results/default/audit/digits"
    halves = [set(pd.read_csv(folder / f"halves/seed{seed}.csv")["id"]) for seed in range(4)]
    assert len(halves[0]) == len(halves[1]) == 30 and not halves[0] & halves[1]
    assert halves[0] | halves[1] == halves[2] | halves[3] and halves[0] != halves[2]
    logits = project.path / LOGITS
    with np.load(logits / "rate0.1/munkey.npz") as after, np.load(logits / "full/original-m.npz") as nothing:
        assert not np.isin(after["memory_ids"], list(halves[0] | halves[1])).any()
        assert np.isin(list(halves[0]), nothing["memory_ids"]).all()
        assert not np.isin(nothing["memory_ids"], list(halves[1])).any()
        paths = [after[name] for name in ("logits", "path_softmax", "path_image", "path_token")]
        assert all(path.shape == paths[0].shape for path in paths)
        assert not any(np.allclose(one, other) for i, one in enumerate(paths) for other in paths[:i])
    table = pd.read_csv(folder / "table.csv")
    assert (table["role"] == "control").sum() == 4 and set(table["name"]) >= {"cf", "munkey", "retrain-t", "retrain-m"}
    assert (folder / "table.md").read_text().startswith("### digits: 2 to 2 pairs")
    stored = pd.read_csv(folder / "storage.csv").set_index("file")
    assert (
        stored.loc["original", "rows"] == stored.loc["original", "rows_of"] == 2 * stored.loc["original", "ids"] == 60
    )
    assert stored.loc["unlearned", "rows"] == stored.loc["unlearned", "ids"] == 0
    audited = (project.path / "results/default/tables/main-audited.md").read_text()
    assert "| Method       | left [%]" in audited and plain(audited) in printed
    page = (project.path / "results/default/audit/index.html").read_text()
    assert "Attacks on one model" in page and "control" in page
    assert (folder / "shares.png").stat().st_size > 10_000 and main.read_bytes() == before
    assert project.planned("--", "audits") == {} and project.planned() == {}
    the_grid_trains_what_the_audit_has_not(project)


def the_grid_trains_what_the_audit_has_not(project: Project) -> None:
    project.params({"audit": {"grid_pairs": 2, "grid": [{"munkey.p_token": P_TOKEN}]}})
    jobs = {"train": 4, "unlearn": 4, "evaluate": 8, "audit_grid": 1, "audit_grids": 1}
    assert project.planned("--", "audit_grids") == jobs
    project.snakemake("--", "audit_grids")
    folder = project.path / "results/default/audit/digits"
    table = pd.read_csv(folder / "grid.csv")
    assert table["munkey.p_token"].unique().tolist() == P_TOKEN and len(table) == 8
    assert (folder / "grid.md").read_text().startswith("### digits: 2 pairs of models for each setting")
    assert (folder / "grid.png").stat().st_size > 10_000 and project.planned("--", "audit_grids") == {}


def stored(project: Project, path: str) -> dict[str, np.ndarray]:
    with np.load(project.path / path) as arrays:
        return dict(arrays)


@pytest.mark.slow
def test_a_pool_of_the_hardest_samples_is_what_the_nearest_keys_get_wrong(project: Project) -> None:
    project.params({"audit": {"pool_of": "hardest"}})
    wanted = [f"results/default/audit/digits/hardest/seed{seed}.csv" for seed in range(4)]
    assert project.planned("--", *wanted) == {"hardest_half": 4}
    project.snakemake("--", *wanted)
    halves = [set(pd.read_csv(project.path / path)["id"]) for path in wanted]
    pool = halves[0] | halves[1]
    assert pool == halves[2] | halves[3] and not halves[0] & halves[1] and halves[0] != halves[2]
    samples = pd.read_csv(project.path / "results/default/data/digits/samples.csv")
    train, keys = samples[samples["split"] == "train"], project.path / "results/default/neighbors/digits"
    near = stored(project, str(next(keys.glob("*/full.npz")).relative_to(project.path)))
    label = samples.set_index("id")["label"]
    votes = {
        id: np.mean([label[other] == label[id] for other in near["neighbor_ids"][row] if other != id])
        for row, id in enumerate(near["ids"].tolist())
        if id in set(train["id"])
    }
    for _, part in train.groupby("label"):
        inside = part["id"].isin(pool)
        assert abs(inside.mean() - 0.2) < 0.02
        assert max(votes[id] for id in part["id"][inside]) <= min(votes[id] for id in part["id"][~inside])


@pytest.mark.slow
def test_wrong_labels_are_trained_on_forgotten_and_measured_in_the_audit_alone(project: Project) -> None:
    main = project.path / "results/default/logits/digits/seed0/rate0.1/cf.npz"
    before = main.read_bytes()
    project.params({"audit": {"pool_of": "mislabeled"}})
    systems = ["full/original-t", "rate0.1/cf", "rate0.1/retrain-t", "rate0.1/munkey"]
    project.snakemake("--", *[f"{LOGITS}/{system}.npz" for system in systems])
    true = pd.read_csv(project.path / "results/default/data/digits/samples.csv")
    wrong = pd.read_csv(project.path / "results/default/audit/digits/mislabeled/samples.csv")
    halves = [
        set(pd.read_csv(project.path / f"results/default/audit/digits/halves/seed{seed}.csv")["id"]) for seed in (0, 1)
    ]
    assert set(true["id"][true["label"] != wrong["label"]]) == halves[0] | halves[1]
    pd.testing.assert_frame_equal(true.drop(columns="label"), wrong.drop(columns="label"))
    for system in systems:
        assert stored(project, f"{LOGITS}/{system}.npz")["labels"].tolist() == wrong["label"].tolist()
    images = [
        (project.path / f"results/default/{place}/images.npy").read_bytes()
        for place in ("data/digits", "audit/digits/mislabeled")
    ]
    assert images[0] == images[1]
    assert main.read_bytes() == before and project.planned() == {}


@pytest.mark.soak
def test_of_an_odd_pool_and_without_munkey_an_audit_ends_with_its_verdicts(project: Project) -> None:
    project.params({"methods": ["cf"], "audit": {"pool": 61 / 300}})
    project.snakemake("--", "audits")
    folder = project.path / "results/default/audit/digits"
    halves = [set(pd.read_csv(folder / f"halves/seed{seed}.csv")["id"]) for seed in range(4)]
    assert [len(half) for half in halves] == [30] * 4 and halves[0] | halves[1] == halves[2] | halves[3]
    table = pd.read_csv(folder / "table.csv")
    assert table["name"].tolist() == ["original-t", "cf", "retrain-t"] and table["verdict"].notna().all()

"""Relearning on the tiny grid: it trains what was unlearned further, and runs again for what it depends on alone."""

import pandas as pd
import pytest

from tests.integration.conftest import Project

SYSTEMS = ["original-t", "retrain-t", "cf", "original-m", "retrain-m", "munkey"]
STEPS = [0, 1, 4, 20]


@pytest.mark.slow
def test_relearning_runs_for_what_it_depends_on_alone(project: Project) -> None:
    project.params({"audit": {"relearn": {"steps": STEPS}}})
    assert project.planned("--", "relearning") == {"relearn": 6, "relearning_table": 1, "relearning": 1}
    project.snakemake("--", "relearning")
    folder = project.path / "results/default/audit/digits/relearning"
    curves, table = pd.read_csv(folder / "curves.csv"), pd.read_csv(folder / "table.csv")
    assert table["name"].tolist() == SYSTEMS and (table["n"] == 1).all()
    assert curves.groupby("name")["step"].apply(list).tolist() == [STEPS] * 6
    metrics = pd.read_csv(project.path / "results/default/metrics.csv").set_index(["method", "metric"])["value"]
    for name in SYSTEMS:  # before any step, each system is what the main run has measured
        first = curves[(curves["name"] == name) & (curves["step"] == 0)].iloc[0]
        assert (first["FA"], first["TA"]) == pytest.approx((metrics[name, "FA"], metrics[name, "TA"]))
        assert curves[curves["name"] == name]["margin"].nunique() == len(STEPS)
    oracles = table[table["role"] == "oracle"].filter(like="mean")
    assert len(oracles) == 2 and (oracles == 0).all(axis=None)
    assert (folder / "table.md").read_text().startswith("### digits: 20 steps on the retain set")
    assert (folder / "curves.png").stat().st_size > 10_000 and (folder / "table.tex").exists()
    assert project.planned("--", "relearning") == {} and project.planned() == {}
    for change, again in (
        ({"audit": {"relearn": {"lr_factor": 0.5}}}, 6),
        ({"inference": {"temperature": 0.1}}, 3),
        ({"audit": {"k": 8, "pairs": 3}}, 0),
        ({"unlearn": {"cf": {"lr_factor": 0.3}}}, 1),
    ):
        other = project.copy(project.path.parent / f"changed{again}")
        other.params(change)
        assert other.planned("--", "relearning").get("relearn", 0) == again, change
    assert set(project.planned("--", "audits")) >= {"half", "train"}  # an audit of its own, untouched by this one

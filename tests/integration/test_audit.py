"""An audit of the tiny grid: every job of it runs, and nothing of the main run is done again."""

import numpy as np
import pandas as pd
import pytest

from tests.integration.conftest import Project

TINY = {"audit": {"pairs": 2, "oracles": 2, "control_pairs": 2}}


@pytest.mark.slow
def test_an_audit_trains_pairs_and_asks_every_path(project: Project) -> None:
    project.params(TINY)
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
        "audit_shown",
        "attacks",
        "audit_page",
        "audits",
    }
    assert planned.keys() == jobs
    project.snakemake("--", "audits")
    folder = project.path / "results/default/audit/digits"
    halves = [set(pd.read_csv(folder / f"halves/seed{seed}.csv")["id"]) for seed in range(4)]
    assert len(halves[0]) == len(halves[1]) > 100 and not halves[0] & halves[1]
    assert halves[0] | halves[1] == halves[2] | halves[3] and halves[0] != halves[2]
    logits = project.path / "results/default/logits/digits/audit/pool/seed0"
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
    page = (project.path / "results/default/audit/index.html").read_text()
    assert "Attacks on one model" in page and "control" in page
    assert (folder / "shares.png").stat().st_size > 10_000 and main.read_bytes() == before
    assert project.planned("--", "audits") == {} and project.planned() == {}

"""Audits of other pools than random samples; of these: test_paper.py."""

import numpy as np
import pandas as pd
import pytest

from tests.integration.conftest import Project

LOGITS = "results/default/logits/digits/audit/pool/seed0"


def stored(project: Project, path: str) -> dict[str, np.ndarray]:
    with np.load(project.path / path) as arrays:
        return dict(arrays)


@pytest.mark.ci
def test_a_pool_of_the_hardest_samples_is_what_the_nearest_keys_get_wrong(project: Project) -> None:
    project.params({"audit": {"pool_of": "hardest"}})
    wanted = [f"results/default/audit/digits/hardest/seed{seed}.csv" for seed in range(4)]
    assert project.planned("--", *wanted) == {"hardest_half": 4}
    project.make(*wanted)
    halves = [set(pd.read_csv(project.path / path)["id"]) for path in wanted]
    pool = halves[0] | halves[1]
    assert pool == halves[2] | halves[3] and not halves[0] & halves[1] and halves[0] != halves[2]
    samples = pd.read_csv(project.path / "results/default/data/digits/samples.csv")
    train, keys = (
        samples[samples["split"] == "train"],
        project.path / "results/default/neighbors/digits",
    )
    near = stored(project, str(next(keys.glob("*/full.npz")).relative_to(project.path)))
    label = samples.set_index("id")["label"]
    votes = {
        id: np.mean(
            [label[other] == label[id] for other in near["neighbor_ids"][row] if other != id]
        )
        for row, id in enumerate(near["ids"].tolist())
        if id in set(train["id"])
    }
    for _, part in train.groupby("label"):
        inside = part["id"].isin(pool)
        assert abs(inside.mean() - 0.2) < 0.02
        assert max(votes[id] for id in part["id"][inside]) <= min(
            votes[id] for id in part["id"][~inside]
        )


@pytest.mark.ci
def test_wrong_labels_are_trained_on_forgotten_and_measured_in_the_audit_alone(
    project: Project,
) -> None:
    main = project.path / "results/default/logits/digits/seed0/rate0.1/cf.npz"
    before = main.read_bytes()
    project.params({"audit": {"pool_of": "mislabeled"}})
    systems = ["full/original-t", "rate0.1/cf", "rate0.1/retrain-t", "rate0.1/munkey"]
    project.snakemake("--", *[f"{LOGITS}/{system}.npz" for system in systems])
    true = pd.read_csv(project.path / "results/default/data/digits/samples.csv")
    wrong = pd.read_csv(project.path / "results/default/audit/digits/mislabeled/samples.csv")
    halves = [
        set(pd.read_csv(project.path / f"results/default/audit/digits/halves/seed{seed}.csv")["id"])
        for seed in (0, 1)
    ]
    asked = halves[0] | halves[1] | set(true["id"][true["split"] == "test"])
    assert set(true["id"][true["label"] != wrong["label"]]) == asked
    pd.testing.assert_frame_equal(true.drop(columns="label"), wrong.drop(columns="label"))
    for system in systems:
        arrays = stored(project, f"{LOGITS}/{system}.npz")
        assert asked <= {*arrays["ids"]} < {*wrong["id"]}
        assert arrays["labels"].tolist() == wrong.set_index("id")["label"][arrays["ids"]].tolist()
    images = [
        (project.path / f"results/default/{place}/images.npy").read_bytes()
        for place in ("data/digits", "audit/digits/mislabeled")
    ]
    assert images[0] == images[1]
    assert main.read_bytes() == before and project.planned() == {}


@pytest.mark.soak
def test_of_an_odd_pool_and_without_munkey_an_audit_ends_with_its_verdicts(
    project: Project,
) -> None:
    project.params({"methods": ["cf"], "audit": {"pool": 61 / 300}})
    project.snakemake("--", "audits")
    folder = project.path / "results/default/audit/digits"
    halves = [set(pd.read_csv(folder / f"halves/seed{seed}.csv")["id"]) for seed in range(4)]
    assert [len(half) for half in halves] == [30] * 4 and halves[0] | halves[1] == halves[
        2
    ] | halves[3]
    table = pd.read_csv(folder / "table.csv")
    assert (
        table["name"].tolist() == ["original-t", "cf", "retrain-t"]
        and table["verdict"].notna().all()
    )

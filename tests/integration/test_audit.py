"""Audits of pools that are not random samples. Those of random samples: test_paper.py."""

import numpy as np
import pandas as pd
import pytest

from tests.integration.conftest import Project

LOGITS = "results/default/logits/digits/audit/pool/seed0"


def read_arrays(project: Project, path: str) -> dict[str, np.ndarray]:
    with np.load(project.path / path) as arrays:
        return dict(arrays)


@pytest.mark.ci
def test_the_hardest_pool_has_the_samples_with_the_fewest_neighbors_of_their_class(
    project: Project,
) -> None:
    project.params({"audit": {"pool_of": "hardest"}})
    targets = [f"results/default/audit/digits/hardest/seed{seed}.csv" for seed in range(4)]
    assert project.planned("--", *targets) == {"hardest_half": 4}
    project.make(*targets)
    halves = [set(pd.read_csv(project.path / path)["id"]) for path in targets]
    pool = halves[0] | halves[1]
    assert pool == halves[2] | halves[3]
    assert not halves[0] & halves[1]
    assert halves[0] != halves[2]
    samples = pd.read_csv(project.path / "results/default/data/digits/samples.csv")
    train = samples[samples["split"] == "train"]
    keys = project.path / "results/default/neighbors/digits"
    near = read_arrays(project, str(next(keys.glob("*/full.npz")).relative_to(project.path)))
    labels = samples.set_index("id")["label"]
    votes = pd.Series(dtype=float)
    for sample_id, neighbor_ids in zip(near["ids"], near["neighbor_ids"], strict=True):
        others = neighbor_ids[neighbor_ids != sample_id]
        votes[sample_id] = (labels[others] == labels[sample_id]).mean()
    for _, part in train.groupby("label"):
        inside = part["id"].isin(pool)
        assert abs(inside.mean() - 0.2) < 0.02
        assert votes[part["id"][inside]].max() <= votes[part["id"][~inside]].min()


@pytest.mark.ci
def test_only_the_audit_of_mislabeled_samples_sees_wrong_labels(
    project: Project,
) -> None:
    main = project.path / "results/default/logits/digits/seed0/rate0.1/cf.npz"
    before = main.read_bytes()
    project.params({"audit": {"pool_of": "mislabeled"}})
    systems = ["full/original-t", "rate0.1/cf", "rate0.1/retrain-t", "rate0.1/munkey"]
    project.snakemake("--", *[f"{LOGITS}/{system}.npz" for system in systems])
    true = pd.read_csv(project.path / "results/default/data/digits/samples.csv")
    wrong = pd.read_csv(project.path / "results/default/audit/digits/mislabeled/samples.csv")
    ids_in_audit = set(true["id"][true["split"] == "test"])
    for seed in (0, 1):
        half = project.path / f"results/default/audit/digits/halves/seed{seed}.csv"
        ids_in_audit |= set(pd.read_csv(half)["id"])
    assert set(true["id"][true["label"] != wrong["label"]]) == ids_in_audit
    pd.testing.assert_frame_equal(true.drop(columns="label"), wrong.drop(columns="label"))
    for system in systems:
        arrays = read_arrays(project, f"{LOGITS}/{system}.npz")
        assert ids_in_audit <= {*arrays["ids"]} < {*wrong["id"]}
        assert arrays["labels"].tolist() == wrong.set_index("id")["label"][arrays["ids"]].tolist()
    images = (project.path / "results/default/data/digits/images.npy").read_bytes()
    folder = project.path / "results/default/audit/digits/mislabeled"
    assert (folder / "images.npy").read_bytes() == images
    assert main.read_bytes() == before
    assert project.planned() == {}


@pytest.mark.soak
def test_an_audit_of_an_odd_pool_without_munkey_has_verdicts(
    project: Project,
) -> None:
    project.params({"methods": ["cf"], "audit": {"pool": 61 / 300}})
    project.snakemake("--", "audits")
    folder = project.path / "results/default/audit/digits"
    halves = [set(pd.read_csv(folder / f"halves/seed{seed}.csv")["id"]) for seed in range(4)]
    assert [len(half) for half in halves] == [30] * 4
    assert halves[0] | halves[1] == halves[2] | halves[3]
    table = pd.read_csv(folder / "table.csv")
    assert table["name"].tolist() == ["original-t", "cf", "retrain-t"]
    assert table["verdict"].notna().all()

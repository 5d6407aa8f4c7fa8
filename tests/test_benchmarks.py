"""What the benchmarks measure and how they split up the time of a run."""

from dataclasses import replace

import pytest

from benchmarks import grid, measuring, page, training
from benchmarks.run import BENCHMARKS

MACHINE = {"device": "a CPU", "cores": 2, "date": "2026-11-21", "versions": {"torch": "2"}}


def test_the_time_of_a_run_is_split_without_remainder(tmp_path):
    for path, seconds in {
        "forget/a/r.tsv": 0.5,
        "forget/b/r.tsv": 0.1,
        "train/a.tsv": 20.1,
        "unlearn/a/b.tsv": 0.3,
    }.items():
        target = tmp_path / "benchmarks" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"s\th:m:s\n{seconds}\t0:00:01\n")
    jobs = grid.seconds_of_jobs(tmp_path)
    assert jobs == {"forget": [0.5, 0.1], "train": [20.1], "unlearn": [0.3]}
    rows = {row["part"]: row for row in grid.parts(jobs, wall=20.0, cores=2)}
    around = 0.3  # the median of the forget jobs
    assert rows["train"]["core_s"] == pytest.approx(20.1 - around)
    assert rows["unlearn"]["core_s"] == pytest.approx(0)
    assert rows["forget"]["core_s"] == pytest.approx(0.2)
    assert rows["starting and ending jobs"]["core_s"] == pytest.approx(3 * around + 0.1)
    assert rows["planning, choosing jobs, waiting for the last"]["core_s"] == pytest.approx(40 - 21.0)
    assert sum(row["share"] for row in rows.values()) == pytest.approx(100)


@pytest.mark.parametrize("name", ["attention", "deletion", "evaluation"])
def test_a_benchmark_reports_n_median_and_quartiles(name, capsys):
    rows = BENCHMARKS[name]("cpu", 2)
    assert len(rows) == len(capsys.readouterr().out.splitlines()) > 2
    for row in rows:
        assert row["n"] == 2 and 0 < row["q25"] <= row["median"] <= row["q75"]
        assert f"| {row['name']} |" in page.speed({"machine": MACHINE, "results": rows})


@pytest.mark.parametrize("family", ["vit", "munkey"])
def test_a_training_step_of_the_benchmark_trains(family):
    stepper = training.stepper(training.Setup(replace(training.SMALL, batch=8), family, "cpu", "float32"))
    before = stepper.model.head.weight.detach().clone()
    stepper.steps(2)
    assert not before.equal(stepper.model.head.weight)


def test_models_and_the_matrix_product_are_measured_in_the_same_rounds(monkeypatch, capsys):
    monkeypatch.setattr(training.torch, "compile", lambda model: model)  # takes a minute
    monkeypatch.setattr(training, "paper_size", lambda device: training.SMALL)
    rows = {row["name"]: row for row in training.training("cpu", 2)}
    for precision in ("float32", "bfloat16"):
        assert rows[f"matrix product, {precision}"]["n"] == 4  # two sizes of model, two rounds
        for name in ("ViT", "MUNKEY", "ViT, compiled", "time of MUNKEY / ViT"):
            assert rows[f"small ViT, {precision}: {name}"]["n"] == 2
        share = rows[f"small ViT, {precision}: ViT's share of the matrix product"]
        assert 0 < share["median"] < 100


def test_the_order_is_turned_around_in_every_second_round():
    assert [measuring.turned("abc", number) for number in range(3)] == [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["a", "b", "c"],
    ]


def test_the_file_of_a_machine_is_named_for_it(tmp_path):
    assert measuring.file_for(MACHINE, "speed", tmp_path) == tmp_path / "speed-a-cpu.json"

"""What the benchmarks measure and how they split up the time of a run."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import grid, measuring, memory_file, page, search, training
from benchmarks.keys import format_difference
from benchmarks.run import BENCHMARKS
from munkey.core.paths import Layout

MACHINE = {"device": "a CPU", "cores": 2, "date": "2026-11-21", "versions": {"torch": "2"}}


def test_the_time_of_a_run_is_split_without_remainder(tmp_path):
    for name, seconds in {
        "forget/a/r": 0.5,
        "forget/b/r": 0.1,
        "train/a": 20.1,
        "tables": 0.3,
    }.items():
        log = tmp_path / Layout("default").log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(
            f"epoch 1\nThis job took {seconds} s, 0.2 s of CPU, 300.0 MiB of memory at most\n"
        )
    jobs = grid.seconds_by_step(tmp_path)
    assert jobs == {"forget": [0.5, 0.1], "tables": [0.3], "train": [20.1]}
    rows = {row["part"]: row for row in grid.parts(jobs, wall=20.0, cores=2)}
    assert rows["forget"] == {
        "part": "forget",
        "jobs": 2,
        "core_s": pytest.approx(0.6),
        "share": pytest.approx(1.5),
    }
    assert rows[grid.REST]["core_s"] == pytest.approx(40 - 21.0) and rows[grid.REST]["jobs"] == 4
    assert sum(row["share"] for row in rows.values()) == pytest.approx(100)


@pytest.mark.parametrize("name", ["attention", "deletion", "evaluation"])
def test_a_benchmark_reports_n_median_and_quartiles(name, capsys):
    rows = BENCHMARKS[name]("cpu", 2)
    assert len(rows) == len(capsys.readouterr().out.splitlines()) > 1
    for row in rows:
        assert row["n"] == 2 and 0 < row["q25"] <= row["median"] <= row["q75"]
        is_shown = f"| {row['name']} |" in page.speed({"machine": MACHINE, "results": rows})
        assert is_shown == (row["unit"] in {"images/s", "queries/s", "ms"})


def test_the_memory_in_a_file_and_its_search_are_measured_beside_their_promises(
    monkeypatch, capsys
):
    monkeypatch.setattr(memory_file, "SIZES", (100, 1000))
    monkeypatch.setattr(memory_file, "WIDTH", 12)
    monkeypatch.setattr(memory_file, "OPENED", (100, 12))
    for name, value in {"SIZES": (100, 3000), "WIDTH": 12, "TOKEN": 3, "BATCH": 20}.items():
        monkeypatch.setattr(search, name, value)
    monkeypatch.setattr(search, "resident", lambda *_: [])
    rows = {
        row["name"]: row
        for row in [*BENCHMARKS["memory"]("cpu", 1), *BENCHMARKS["search"]("cpu", 2)]
    }
    assert rows["1,000 rows: deletion of 100, acknowledged"]["n"] == 1
    assert rows["1,000 rows: one deletion, acknowledged"]["n"] == 100
    assert (
        rows["20 queries in 3,000 x 12"]["n"]
        == rows["one query in 100 x 12, a tenth deleted"]["n"]
        == 2
    )


def test_a_promise_stands_beside_what_was_measured_and_a_missed_one_is_marked():
    few = {"n": 3, "q25": 1.0, "q75": 900.0}
    results = [
        {"name": "10,000 rows: one deletion, acknowledged", "median": 0.9, "unit": "ms", **few},
        {
            "name": "1,000,000 rows: deletion of 100,000, acknowledged",
            "median": 4500.0,
            "unit": "ms",
            **few,
        },
        {"name": "something else", "median": 450.0, "unit": "queries/s", **few},
    ]
    table = page.promises({"machine": MACHINE, "results": results})
    assert "| 10,000 rows: one deletion, acknowledged | ≤ 1 ms | 0.9 | 1 – 900 | 3 |" in table
    assert "| ≤ 4,000 ms | **4,500: missed** |" in table
    assert len(table.splitlines()) == 6


@pytest.mark.parametrize("family", ["vit", "munkey"])
def test_a_training_step_of_the_benchmark_trains(family):
    stepper = training.stepper(
        training.Setup(replace(training.SMALL, batch=8), family, "cpu", "float32")
    )
    before = stepper.model.head.weight.detach().clone()
    stepper.steps(2)
    assert not before.equal(stepper.model.head.weight)


def test_models_and_the_matrix_product_are_measured_in_the_same_rounds(monkeypatch, capsys):
    monkeypatch.setattr(training.torch, "compile", lambda model: model)  # takes a minute
    monkeypatch.setattr(training, "multiplies_bfloat16", lambda: True)
    # Little of everything: a processor without bfloat16 products emulates them, hundreds of times slower.
    little = replace(training.SMALL, batch=4, steps=1)
    monkeypatch.setattr(training, "sizes", lambda device: [little, little])
    monkeypatch.setattr(training, "SIDE", {"cpu": 64})
    rows = {row["name"]: row for row in training.training("cpu", 2)}
    for precision in ("float32", "bfloat16"):
        assert rows[f"matrix product, {precision}"]["n"] == 4  # two sizes of model, two rounds
        for name in ("ViT", "MUNKEY", "ViT, compiled", "time of MUNKEY / ViT"):
            assert rows[f"small ViT, {precision}: {name}"]["n"] == 2
        share = rows[f"small ViT, {precision}: ViT's share of the matrix product"]
        assert share["median"] > 0


def test_the_order_is_turned_around_in_every_second_round():
    assert [measuring.turned("abc", number) for number in range(3)] == [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["a", "b", "c"],
    ]


def test_the_file_of_a_machine_is_named_for_it(tmp_path):
    assert measuring.file_for(MACHINE, "speed", tmp_path) == tmp_path / "speed-a-cpu.json"


def test_targets_are_those_of_training():
    row = {
        "name": page.TARGETS[0].name,
        "median": 72.0,
        "unit": "%",
        "n": 3,
        "q25": 70.0,
        "q75": 78.0,
    }
    assert "| ≥ 80% | **72: missed** |" in page.promises(
        {"machine": MACHINE, "results": [row]}, page.TARGETS
    )


def test_a_difference_over_few_draws_has_students_interval():
    """A bootstrap of five draws would be 1.6 times narrower."""
    shares = [0.50, 0.51, 0.52, 0.53, 0.54]
    first = np.array([np.arange(10_000) < 10_000 * share for share in shares])
    text = format_difference(first, np.zeros_like(first))
    # Over draws 2.776 · 1.581 / √5 = 1.963, over test pictures 0.97.
    assert text == "+52.00 [49.81, 54.19]"

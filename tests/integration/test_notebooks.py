"""The notebooks run as they are, from the top."""

import runpy

import pytest

from tests.conftest import ROOT


@pytest.mark.ci
def test_paper_in_40_lines_trains_and_forgets(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    results = runpy.run_path("notebooks/paper_in_40_lines.py")["results"]
    assert set(results) == {"original-m", "munkey", "retrain-m", "retrain-t"}
    for metrics in results.values():
        assert 30 < metrics["TA"] <= 100
    # forgotten samples are answered worse than before
    assert results["munkey"]["FA"] < results["original-m"]["FA"]
    assert "deleted in " in capsys.readouterr().out


def test_reading_results_reads_the_metrics_of_a_run(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    read = runpy.run_path(str(ROOT / "notebooks/reading_results.py"))
    seed = read["seed"].removeprefix("seed")
    rate = read["rate"].removeprefix("rate")
    row = f"method == 'munkey' and metric == 'TA' and seed == {seed} and rate == {rate}"
    ours = read["metrics"].query(row)
    assert read["by_split"]["test"] == pytest.approx(ours["value"].iloc[0])
    assert "munkey" in read["gaps"].index

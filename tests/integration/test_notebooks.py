"""The notebooks run as they are, from the top."""

import runpy

import pytest

from tests.conftest import ROOT


@pytest.mark.ci
def test_the_paper_in_40_lines(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    results = runpy.run_path("notebooks/paper_in_40_lines.py")["results"]
    assert set(results) == {"original-m", "munkey", "retrain-m", "retrain-t"}
    assert all(30 < each["TA"] <= 100 for each in results.values())
    # forgotten samples are answered worse than before
    assert results["munkey"]["FA"] < results["original-m"]["FA"]
    assert "deleted in " in capsys.readouterr().out


def test_reading_results(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    read = runpy.run_path(str(ROOT / "notebooks/reading_results.py"))
    seed, rate = read["seed"].removeprefix("seed"), read["rate"].removeprefix("rate")
    ours = read["metrics"].query(
        f"method == 'munkey' and metric == 'TA' and seed == {seed} and rate == {rate}"
    )
    assert read["by_split"]["test"] == pytest.approx(ours["value"].iloc[0])
    assert "munkey" in read["gaps"].index

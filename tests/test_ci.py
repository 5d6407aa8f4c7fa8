"""What CI adds to the tests: what they need must be there, and the commit draws two of those that take long."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import DRAWN, pytest_collection_modifyitems, pytest_runtest_makereport

SKIPPED = ("tests/test_it.py", 3, "Skipped: needs nginx")


class Item:
    """A test with a name and markers, as pytest hands it to its hooks."""

    def __init__(self, nodeid: str, *markers: pytest.Mark) -> None:
        self.nodeid, self.path, self.markers = (
            nodeid,
            Path(nodeid),
            {marker.name: marker for marker in markers},
        )

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.markers.get(name)

    def add_marker(self, name: str) -> None:
        self.markers[name] = getattr(pytest.mark, name).mark


def report_of(item: Item, skipped: bool, reason: str = SKIPPED[-1]) -> SimpleNamespace:
    """What the hook makes of a test's report."""
    outcome = "skipped" if skipped else "passed"
    longrepr = (*SKIPPED[:-1], reason) if skipped else None
    report = SimpleNamespace(outcome=outcome, skipped=skipped, longrepr=longrepr)
    steps = pytest_runtest_makereport(item)
    next(steps)
    with pytest.raises(StopIteration) as stopped:
        steps.send(report)
    return stopped.value.value


@pytest.mark.parametrize("marker", ["services", "slurm"])
def test_a_test_of_servers_that_is_skipped_has_failed_in_ci_and_nowhere_else(marker, monkeypatch):
    servers = Item("tests/test_it.py::test", getattr(pytest.mark, marker).mark)
    monkeypatch.setenv("CI", "true")
    failed = report_of(servers, skipped=True)
    assert failed.outcome == "failed"
    assert failed.longrepr == "skipped, which CI does not allow: Skipped: needs nginx"
    assert report_of(servers, skipped=False).outcome == "passed"
    assert (
        report_of(Item("tests/test_it.py::test", pytest.mark.gpu.mark), skipped=True).outcome
        == "skipped"
    )
    monkeypatch.delenv("CI")
    assert report_of(servers, skipped=True).outcome == "skipped"


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("Skipped: torch.compile needs a C++ compiler", "failed"),
        ("Skipped: no Chromium is installed", "failed"),
        ("Skipped: the paper's tables are not at hand", "skipped"),
        ("Skipped: no Firefox is installed", "skipped"),
    ],
)
def test_a_skipped_test_has_failed_in_ci_unless_ci_may_lack_what_it_needs(
    reason, outcome, monkeypatch
):
    item = Item("tests/test_it.py::test")
    monkeypatch.setenv("CI", "true")
    assert report_of(item, skipped=True, reason=reason).outcome == outcome
    monkeypatch.delenv("CI")
    assert report_of(item, skipped=True, reason=reason).outcome == "skipped"


def drawn(asked: str) -> list[str]:
    soak, long = pytest.mark.soak.mark, pytest.mark.soak(long=True).mark
    items = [Item(f"tests/test_it.py::short[{number}]", soak) for number in range(20)]
    items += [Item(f"tests/test_it.py::long[{number}]", long) for number in range(20)]
    items += [Item("tests/test_it.py::quick")]
    pytest_collection_modifyitems(SimpleNamespace(option=SimpleNamespace(markexpr=asked)), items)
    return [item.nodeid for item in items if item.get_closest_marker("drawn")]


def test_the_commit_draws_soak_tests_that_are_not_long():
    first, again = drawn("not soak or drawn"), drawn("not soak or drawn")
    assert first == again and len(first) == DRAWN
    assert all("short" in name for name in first)
    assert drawn("not soak") == []

"""Pruning: only what was superseded, only what is ours, only when told."""

from munkey.cli.prune import main, prune
from munkey.core.files import write_json
from munkey.experiment.tracking.mirror import mirror
from tests.experiment.tracking.test_mirror import URI, run, stored


def test_pruning_deletes_what_was_superseded_here_and_nothing_else(checkout):
    for accuracy in (1.0, 2.0):
        mirror(URI, "default", [run("a", accuracy)])
        mirror(URI, "small", [run("a", 10 * accuracy)])
    (listed,) = prune(URI, "default", delete=False)
    assert listed.startswith("digits: a, superseded 20")
    assert stored(checkout) == {"a": [1.0, 2.0, 10.0, 20.0]}
    assert prune(URI, "default", delete=True) == [listed]
    assert stored(checkout) == {"a": [2.0, 10.0, 20.0]}
    assert stored(checkout, deleted=True) == {"a": [1.0]}
    assert prune(URI, "default", delete=False) == []


def test_the_command_lists_first_and_deletes_on_yes(checkout, capsys):
    assert "results/small/tracking.json is missing" in main(["small"])
    for accuracy in (1.0, 2.0):
        mirror(URI, "small", [run("a", accuracy)])
    write_json("results/small/tracking.json", {"uri": URI})
    assert main(["small"]) is None
    assert (
        "digits: a, superseded" in (said := capsys.readouterr().out)
        and "1 superseded; --yes (with make: YES=1) deletes them" in said
    )
    assert stored(checkout) == {"a": [1.0, 2.0]}
    assert main(["small", "--yes"]) is None
    assert "1 deleted" in capsys.readouterr().out
    assert stored(checkout) == {"a": [2.0]}
    write_json(checkout / "results/small/tracking.json", {"uri": "sqlite:///"})
    assert "cannot be used" in main(["small"])

"""Pruning the MLflow runs that were superseded: lists them, and deletes them on --yes.

python -m munkey.cli.prune [NAME] [--yes]
"""

import argparse
import sys
from collections.abc import Sequence

from munkey.core.files import read_json
from munkey.core.paths import DEFAULT, Layout
from munkey.experiment.tracking.store import StoreError, opened


def prune(uri: str, configuration: str, delete: bool) -> list[str]:
    """The superseded runs of this checkout and configuration, named; `delete` deletes them, and no others.

    Raises StoreError where the store cannot be used.
    """
    with opened(uri, configuration) as store:
        old = [run for run in store.runs() if run.whole and not run.current]
        for run in old if delete else ():
            store.delete(run)
    return [f"{run.experiment}: {run.name}, superseded {run.since}" for run in old]


def main(arguments: Sequence[str] | None = None) -> str | None:
    """The command. Returns what is wrong, if anything."""
    parser = argparse.ArgumentParser(prog="python -m munkey.cli.prune", description="Prune superseded MLflow runs.")
    parser.add_argument("name", nargs="?", default=DEFAULT, help="name of the configuration (default: %(default)s)")
    parser.add_argument("--yes", action="store_true", help="delete them; without it, they are only listed")
    given = parser.parse_args(arguments)
    tracking = Layout(given.name).tracking
    try:
        old = prune(read_json(tracking)["uri"], given.name, given.yes)
    except FileNotFoundError:
        return f"{tracking} is missing: no results of a configuration {given.name!r} were mirrored from this folder"
    except StoreError as error:
        return str(error)
    told = "deleted" if given.yes else "superseded; --yes (with make: YES=1) deletes them"
    print(*old, f"{len(old)} {told}", sep="\n")
    return None


if __name__ == "__main__":
    sys.exit(main())

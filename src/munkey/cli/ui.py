"""Say where the MLflow store of a configuration compares methods, and start MLflow unless the store has its own server.

    python -m munkey.cli.ui [OVERLAY ...]

`make ui` calls it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from munkey.core.paths import DEFAULT
from munkey.experiment.cost.estimate import read
from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.tracking.store import StoreError, opened


def addresses(uri: str) -> list[str]:
    """Lines with the views of a store. Raises StoreError where it cannot be used."""
    with opened(uri, DEFAULT) as store:
        views = store.views()
    if not views:
        return ["This store is empty: run `make run`, or `make track` if there are results"]
    return ["Compare methods at:", *(f"{address}  {name}" for name, address in views.items())]


def main(arguments: Sequence[str] | None = None) -> str | None:
    """The command. Returns what is wrong, if anything."""
    parser = argparse.ArgumentParser(prog="python -m munkey.cli.ui", description=__doc__.split("\n")[0])
    parser.add_argument("overlays", nargs="*", type=Path, help="files that change params.yaml")
    try:
        uri = load(read(parser.parse_args(arguments).overlays)).tracking.uri
        print(*addresses(uri), sep="\n", flush=True)
    except (ParamsError, StoreError) as error:
        return str(error)
    if not uri.startswith("http"):
        os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
        mlflow = ["-m", "mlflow", "ui", "--workers", "1", "--backend-store-uri", uri]
        os.execv(sys.executable, [sys.executable, *mlflow])
    return None


if __name__ == "__main__":
    sys.exit(main())

"""Our results of the paper's experiment beside the paper's numbers, table by table.

    python -m munkey.cli.compare_paper OVERLAY ...

`make reproduce` ends with it. It reads what `make paper` with these overlays has made.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from munkey.core.files import DamagedFileError
from munkey.core.paths import fill
from munkey.experiment.cost.estimate import read
from munkey.experiment.params.load import ParamsError, load
from munkey.experiment.plan.exhibits import Exhibits
from munkey.experiment.plan.plan import Plan
from munkey.report.tables import agreement, paper
from munkey.report.tables.markup import render


def lines(plan: Plan) -> Iterator[str]:
    """Whether it is a reproduction, both numbers side by side, and how many agree. Raises FileNotFoundError."""
    both = paper.read(fill(plan.layout.table, table="paper", ending="csv"))
    seeds = len(plan.params.seeds)
    yield render([*agreement.side_by_side(both), agreement.counts(both, paper.printed())], "markdown")
    yield (
        "If our runs and the paper's were draws from one distribution, about"
        f" {100 * agreement.expected_share(seeds):.0f} % of our numbers would lie within the paper's ±"
        f" (ours: n = {seeds}, the paper's: n = 3)."
    )
    yield from paper.statements(Exhibits(plan).compared, seeds)


def main(arguments: Sequence[str] | None = None) -> str | None:
    """The command. Returns what is wrong, if anything."""
    parser = argparse.ArgumentParser(prog="python -m munkey.cli.compare_paper", description=__doc__.split("\n")[0])
    parser.add_argument("overlays", nargs="+", type=Path, help="files that change params.yaml")
    given = parser.parse_args(arguments)
    try:
        print(*lines(Plan(load(read(given.overlays)))), sep="\n")
    except (ParamsError, DamagedFileError) as error:
        return str(error)
    except FileNotFoundError as error:
        return f"{error.filename} is missing: `make paper` with the same overlays makes it"
    return None


if __name__ == "__main__":
    sys.exit(main())

"""The command line `munkey`: its commands, its help, and its exit codes."""

import sys
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from typing import Any

import typer
import typer.core

from munkey.cli import check, experiment, explore, find, forget, mlflow, output, use

HELP = """
Use a trained model: classify pictures, and forget samples in milliseconds, with proof. Run the experiments that train
models: estimate their cost, and look at their results.

\b
  munkey export default/digits/seed0 model      export a result of the pipeline as a model
  munkey predict model picture.png --explain    classify a picture, and list the samples behind it
  munkey find model picture.png                 find the nearest samples, with person and file
  munkey forget model --ids 17,42               forget samples, durably once the command returns
  munkey verify model --published HEAD          check the model; detect a restored backup
  munkey plan                                   estimate the cost of an experiment before it starts

\b
EXIT CODES
  0  done
  1  a check failed: of a model, a certificate, a purge, a plan or this machine
  2  bad input, such as unknown ids or a damaged file; nothing was changed
  3  locked by another process that reads or writes the model; try again
  4  an error of the machine: disk full, no permission, port in use
  5  a request to forget matched no sample, so it deleted nothing; other requests are done
  130  interrupted by Ctrl-C; samples forgotten before that stay forgotten
"""
USE = "Use a model"
CHECK = "Check and maintain a model"
EXPERIMENT = "Run experiments"


class CommandsByGroup(typer.core.TyperGroup):
    """A group whose help lists the commands under the headings that they were registered with."""

    def format_commands(
        self, ctx: Any, formatter: Any
    ) -> None:  # the types are those of typer's private copy of click
        """Write a section per heading, in the order of registration."""
        visible_commands = [command for command in self.commands.values() if not command.hidden]
        # The commands of a heading are registered one after the other, as `groupby` needs them.
        for heading, commands in groupby(visible_commands, attrgetter("rich_help_panel")):
            rows = []
            for command in commands:
                rows.append((str(command.name), command.get_short_help_str(200)))
            with formatter.section(heading):
                formatter.write_dl(rows)


app = typer.Typer(
    name="munkey",
    cls=CommandsByGroup,
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    USE: (use.predict, find.find, explore.explore, forget.forget, use.add, use.export, use.serve),
    CHECK: (
        check.list_,
        check.log,
        check.inspect,
        check.verify,
        check.purge,
        check.compact,
        check.certificate,
    ),
    EXPERIMENT: (
        experiment.plan,
        experiment.job,
        experiment.preflight,
        experiment.compare_paper,
        experiment.search_summary,
        experiment.search_fitted,
        experiment.save_backbone,
    ),
}
for heading, commands in COMMANDS.items():
    for command in commands:
        app.command(command.__name__.strip("_").replace("_", "-"), rich_help_panel=heading)(command)
app.command(hidden=True)(experiment.external_state)
app.command(hidden=True)(experiment.check_files)
app.add_typer(mlflow.app, rich_help_panel=EXPERIMENT)


def main() -> None:
    """Run a command. An error that the user can act on becomes a message and an exit code."""
    try:
        app()
    except Exception as error:
        user_error: Exception = error
        if isinstance(error, ModuleNotFoundError):
            # The user can install the missing library of an extra, but not a module of munkey.
            package = (error.name or "").partition(".")[0]
            if package not in ("", "munkey"):
                user_error = _make_missing_package_error(package)
        code = output.get_exit_code(user_error)
        if code is None:
            raise
        output.print_error(user_error, as_json="--json" in sys.argv)
        sys.exit(code)


def _make_missing_package_error(package: str) -> ValueError:
    """Make an error that tells how to install a missing package."""
    extra = "service" if package in ("fastapi", "uvicorn") else "experiment"
    return ValueError(f"this needs the package {package}: pip install 'munkey[{extra}]'")

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
  munkey predict model picture.png --explain    classify a picture, and list the samples behind the answer
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
USE, CHECK, EXPERIMENT = "Use a model", "Check and maintain a model", "Run experiments"


class CommandsByGroup(typer.core.TyperGroup):
    """Lists the commands in the help under the heading that each was registered with."""

    def format_commands(
        self, ctx: Any, formatter: Any
    ) -> None:  # the types are click's, of which typer has a private copy
        """Write a section per heading, in the order in which the commands were registered."""
        visible_commands = [command for command in self.commands.values() if not command.hidden]
        # `groupby` groups neighbors: commands of one heading were registered one after the other.
        for heading, commands in groupby(visible_commands, attrgetter("rich_help_panel")):
            lines = []
            for command in commands:
                lines.append((str(command.name), command.get_short_help_str(200)))
            with formatter.section(heading):
                formatter.write_dl(lines)


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
    """Run the command. Errors that the user can act on end it with a message and an exit code."""
    try:
        app()
    except Exception as error:
        user_error: Exception = error
        if isinstance(error, ModuleNotFoundError):
            # A missing library of an extra, not a module of our own, is the user's to install.
            package = (error.name or "").partition(".")[0]
            if package not in ("", "munkey"):
                user_error = _make_missing_package_error(package)
        code = output.get_exit_code(user_error)
        if code is None:
            raise
        output.print_error(user_error, as_json="--json" in sys.argv)
        sys.exit(code)


def _make_missing_package_error(package: str) -> ValueError:
    """Make the error that names the extra of a missing package."""
    extra = "experiment"
    if package in ("fastapi", "uvicorn"):
        extra = "service"
    return ValueError(f"this needs the package {package}: pip install 'munkey[{extra}]'")

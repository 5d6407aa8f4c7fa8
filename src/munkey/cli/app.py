"""The command line `munkey`: its commands, its help, and its exit codes."""

import sys
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import typer
import typer.core

from munkey.cli import check, experiment, explore, find, forget, mlflow, output, publish, use


def find_pages() -> Path:
    """Return the folder that contains docs/: of an installed wheel, or of a clone."""
    installed = Path(sys.prefix) / "share/doc/munkey"
    if installed.is_dir():
        return installed
    return Path(__file__).parents[3]


HELP = f"""
Classify pictures with a trained model, and forget samples in milliseconds, with proof. Run the experiments that train
models, estimate their cost, and look at their results.

\b
  munkey export default/digits/seed0 model      export a result of the pipeline as a model
  munkey predict model picture.png --explain    classify a picture, and list the samples behind the prediction
  munkey find model picture.png                 find the nearest samples, with their persons and files
  munkey forget model --ids 17,42               forget samples; the deletion is on disk when the command returns
  munkey verify model --published HEAD          check the model; detect a restored backup
  munkey plan                                   estimate the cost of an experiment before it starts
  munkey check-run FILE                         compute the tables of a published run again, and compare

\b
EXIT CODES
  0  done
  1  a check failed (of a model, certificate, purge, plan, published run, or this machine), or
     samples were forgotten, but bytes of them may be left in the directory
  2  bad input, such as unknown ids or a damaged file; nothing was changed
  3  the model is locked because another process is changing it, or reads it during a purge; try again
  4  system error, such as a full disk, a missing permission, or a port in use
  5  a forget request matched no sample and deleted nothing; all other requests were carried out
  130  interrupted with Ctrl-C; samples that were already forgotten stay forgotten

\b
PAGES
  docs/serving.md and others that messages name are in
  {find_pages()}
"""
USE = "Use a model"
CHECK = "Check and maintain a model"
EXPERIMENT = "Run experiments"


class CommandsByGroup(typer.core.TyperGroup):
    """List the commands in the help text by the headings that they were registered under."""

    # Typed as Any because the types come from typer's private copy of click.
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section per heading, in registration order."""
        visible_commands = [command for command in self.commands.values() if not command.hidden]
        # `groupby` only groups adjacent items. Commands are registered heading by heading.
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
        check.certificate,
        check.keygen,
    ),
    EXPERIMENT: (
        experiment.plan,
        experiment.job,
        experiment.preflight,
        experiment.compare_paper,
        experiment.search_summary,
        experiment.search_neighbors,
        experiment.save_backbone,
        publish.publish,
        publish.check_run,
        publish.rerun,
    ),
}
for heading, commands in COMMANDS.items():
    for command in commands:
        app.command(command.__name__.strip("_").replace("_", "-"), rich_help_panel=heading)(command)
app.command(hidden=True)(experiment.external_state)
app.command(hidden=True)(experiment.check_files)
app.add_typer(mlflow.app, rich_help_panel=EXPERIMENT)


def main() -> None:
    """Run a command. If the user can fix an error, print a message, and exit with its code."""
    try:
        app()
    except Exception as error:
        user_error: Exception = error
        if isinstance(error, ModuleNotFoundError):
            # The user can install a missing third-party package, but not a module of munkey itself.
            package = (error.name or "").partition(".")[0]
            if package not in ("", "munkey"):
                user_error = _make_missing_package_error(package)
        code = output.get_exit_code(user_error)
        if code is None:
            raise
        output.print_error(user_error, as_json="--json" in sys.argv)
        sys.exit(code)


def _make_missing_package_error(package: str) -> ValueError:
    """Return the error that tells the user which extra installs a missing package."""
    if package in ("fastapi", "uvicorn"):
        extra = "service"
    else:
        extra = "experiment"
    return ValueError(f"this needs the package {package}: pip install 'munkey[{extra}]'")

"""`munkey`: use a trained model from the command line. Every command answers `--json`; see EXIT CODES in `--help`."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from munkey.cli import experiment, mlflow, output

if TYPE_CHECKING:
    from munkey.deploy.model.predictor import Predictor

# docs/serving.md has the same table of exit codes
HELP = """
A trained MUNKEY in a directory: classify pictures, and forget samples in milliseconds, durably and provably. And the
experiment that trains it: what it will cost, and what came out.

\b
  munkey export default/digits/seed0 model      a result of the pipeline becomes a directory
  munkey predict model picture.png --explain    an answer, and the samples that it rests on
  munkey forget model --ids 17,42               durable when the command returns
  munkey verify model --published HEAD          recompute the chain; notice a restored backup
  munkey plan                                   what an experiment will cost, before its first job

\b
EXIT CODES
  0  done
  1  a check failed: the model is not what it claims to be, or contradicts a certificate; a planned job cannot fit
  2  bad input: unknown ids; a file that is not a picture, a model or a certificate, or is damaged; nothing was changed
  3  locked: another process writes this model, or a reader is in the way; try again
  4  the machine refused: disk full, no permission, port taken
"""
USE, CHECK, EXPERIMENT = "Use a model", "Check and maintain a model", "Run experiments"


class CommandsByGroup(typer.core.TyperGroup):
    """Lists the commands in the help under the heading that each was registered with."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # click's types, which typer holds privately
        """Write a section a heading, in the order in which the commands were registered."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                sections.setdefault(str(heading), []).append((name, command.get_short_help_str(limit=200)))
        for heading, lines in sections.items():
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

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="An exported model.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Ids = Annotated[str | None, typer.Option("--ids", metavar="1,2,3", help="Ids, separated by commas.")]
Pictures = Annotated[
    list[Path], typer.Argument(metavar="PICTURE...", help="Picture files, or folders of them.", show_default=False)
]


def model(directory: Path, *, writer: bool = False) -> "AbstractContextManager[Predictor]":
    """Open a model."""
    from munkey.deploy.model.predictor import Predictor

    return Predictor.load(directory, writer=writer)


@app.command(rich_help_panel=USE)
def predict(
    directory: Directory,
    pictures: Pictures,
    explain: Annotated[bool, typer.Option("--explain", help="List the samples that each answer rests on.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that shows pictures and neighbors.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Classify pictures.

    \b
    munkey predict model picture.png
    munkey predict model folder-of-pictures --explain --html answer.html
    munkey predict model *.png --json | jq '.predictions[].class'

    The page shows a neighbor's picture if its source file is still there. Samples without files, such as those of
    digits, are shown by their id alone; in Python, munkey.deploy.model.explain.page(answer, images) shows
    their pictures too.
    """
    from munkey.cli import answering, output_paths

    if html:
        output_paths.require_page(directory, html)
    with model(directory) as predictor:
        answering.predict(predictor, pictures, explain, html, as_json)


@app.command(rich_help_panel=USE)
def forget(
    directory: Directory,
    ids: Ids = None,
    ids_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of ids, one per line; - is standard input.")
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--files", metavar="PICTURE", help="The source file of a sample; may be repeated."),
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Forget what is there, even if some ids or files are missing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be forgotten; change nothing.")] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Purge, then write a certificate as JSON, with a page beside it."),
    ] = None,
    list_ids: Annotated[
        bool, typer.Option("--list-ids", help="Name the ids in the certificate, which makes it a trace of them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Forget the named samples, or none if one is unknown. No answer rests on them once the command has returned.

    \b
    munkey forget model --ids 17,42
    munkey forget model --files cats/tom.png --files cats/felix.png --certificate tom.json
    munkey forget model --ids-file leave.txt --ignore-missing --dry-run

    Prints the head of the chain of deletions. Keep it elsewhere: `munkey verify DIR --published HEAD` then finds an
    older copy that was put back.
    """
    from munkey.cli import forgetting, output_paths, which_samples

    wanted = which_samples.wanted_ids(ids, ids_file)
    if not wanted and not files:
        raise ValueError("name what to forget: --ids, --ids-file or --files")
    if list_ids and not certificate:
        raise ValueError("--list-ids names the ids in a certificate: give its file, --certificate FILE")
    if certificate:
        output_paths.require_certificate(directory, certificate)
    with model(directory, writer=not dry_run) as predictor:
        chosen = which_samples.choose(predictor, wanted, files or [], ignore_missing)
        if dry_run:
            forgetting.describe(predictor, chosen, certificate, as_json)
        else:
            forgetting.forget(predictor, chosen, certificate, list_ids, as_json)


@app.command(rich_help_panel=USE)
def add(
    directory: Directory,
    pictures: Pictures,
    label: Annotated[str, typer.Option(metavar="CLASS", help="The name of their class.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Remember pictures of a class, without training.

    \b
    munkey add model new/*.png --label cat
    """
    from munkey.cli import answering

    with model(directory, writer=True) as predictor:
        answering.add(predictor, pictures, label, as_json)


@app.command(rich_help_panel=CHECK)
def inspect(directory: Directory, as_json: AsJson = False) -> None:
    """Say what a model is, what its memory holds, and how it is searched: exactly, or by an index.

    \b
    munkey inspect model
    """
    from munkey.cli import maintenance

    with model(directory) as predictor:
        maintenance.inspect(predictor, as_json)


@app.command(rich_help_panel=CHECK)
def verify(
    directory: Directory,
    published: Annotated[
        str | None,
        typer.Option(metavar="HEAD", help="A head that `forget` printed, all 64 digits: it must be in the chain."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the chain of deletions; check every row, the index and all checksums.

    \b
    munkey verify model
    munkey verify model --published HEAD

    Exits with 1 if something is not as it must be, and with 2 if the model is too damaged to be opened at all.
    """
    from munkey.cli import maintenance

    with model(directory) as predictor:
        maintenance.verify(predictor, published, as_json)


@app.command(rich_help_panel=CHECK)
def purge(directory: Directory, as_json: AsJson = False) -> None:
    """Leave no byte of what was forgotten in any file of the directory.

    \b
    munkey purge model
    """
    from munkey.cli import maintenance

    with model(directory, writer=True) as predictor:
        maintenance.purge(predictor, as_json)


@app.command(rich_help_panel=CHECK)
def compact(directory: Directory, as_json: AsJson = False) -> None:
    """Purge, free the space of what was forgotten, and add new samples to the index, if there is one.

    \b
    munkey compact model
    """
    from munkey.cli import maintenance

    with model(directory, writer=True) as predictor:
        maintenance.compact(predictor, as_json)


@app.command(rich_help_panel=USE)
def export(
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help="NAME/DATASET/seedS, or a result's folder.", show_default=False)
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Export a result of the pipeline as a model.

    \b
    munkey export default/digits/seed0 model
    munkey export results/default/models/digits/seed0/full/original-m model

    The directory has all that is needed to classify and to forget, and a model card. Nothing in it runs code.
    """
    from munkey.cli import maintenance

    maintenance.export(result, directory, as_json)


@app.command(rich_help_panel=CHECK)
def certificate(
    directory: Directory,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The certificate, JSON.", show_default=False)],
    check: Annotated[bool, typer.Option("--check", help="Check it: look for its deletion in the chain.")] = False,
    deletion: Annotated[
        int | None,
        typer.Option(metavar="N", help="Certify the deletion that holds sequence number N, instead of the last one."),
    ] = None,
    ids: Ids = None,
    salt: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="With --check and --ids: the salt that `forget` printed for these ids."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a certificate of the last deletion, or check one. No file is overwritten.

    \b
    munkey certificate model receipt.json                    also writes receipt.html, a readable page
    munkey certificate model receipt.json --check
    munkey certificate model receipt.json --check --ids 17,42 --salt 0f3c…

    A certificate written here names no ids: the chain does not know them. `forget --certificate` puts a salted hash of
    them into the certificate and prints the salt. With ids and salt, anyone can prove that these samples were deleted.

    A check exits with 1 if the memory contradicts the certificate, and with 2 if the file is not a certificate or was
    changed after it was written.
    """
    from munkey.cli import certifying, output_paths, which_samples

    certifying.require_fitting(check, deletion, ids, salt)
    if not check:
        output_paths.require_certificate(directory, file)
    with model(directory) as predictor:
        if check:
            certifying.check(predictor.store, file, which_samples.wanted_ids(ids, None), salt, as_json)
        else:
            certifying.write(predictor.store, file, deletion, as_json)


@app.command(rich_help_panel=USE)
def serve(
    directory: Directory,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 for every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free port.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file with the token for deleting. Or set MUNKEY_TOKEN; else one is generated."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve the model over HTTP, and say how to call it.

    \b
    munkey serve model --port 8000
    MUNKEY_TOKEN=$(cat token) munkey serve model --host 0.0.0.0
    """
    from munkey.deploy.http import server

    server.serve(directory, host, port, token_file, lambda how: output.say(how, {"how": how}, as_json))


for command in (
    experiment.plan,
    experiment.job,
    experiment.preflight,
    experiment.compare_paper,
    experiment.search_summary,
):
    app.command(rich_help_panel=EXPERIMENT)(command)
app.command(hidden=True)(experiment.external_state)
app.command(hidden=True)(experiment.check_files)
app.add_typer(mlflow.app, rich_help_panel=EXPERIMENT)


def main() -> None:
    """Run the command. An error that a person can act on ends it with a sentence and the exit code of its kind."""
    try:
        app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "munkey"):
            raise
        extra = "service" if missing in ("fastapi", "uvicorn") else "experiment"
        output.refused(
            ValueError(f"this needs the package {missing}: pip install 'munkey[{extra}]'"), "--json" in sys.argv
        )
        sys.exit(output.BAD_INPUT)
    except Exception as error:
        code = output.code_of(error)
        if code is None:
            raise
        output.refused(error, "--json" in sys.argv)
        sys.exit(code)

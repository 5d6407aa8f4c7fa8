"""The command `munkey forget`: what its words name."""

from pathlib import Path
from typing import Annotated, Any

import typer

from munkey.cli.arguments import (
    AsJson,
    Classes,
    Directory,
    Files,
    Ids,
    Line,
    MoreFiles,
    Units,
    Wait,
    model,
    named_files,
    requests_in,
    wanted_ids,
)
from munkey.cli.output import AfterDeletionError, say


def forget(
    directory: Directory,
    more: MoreFiles = None,
    ids: Ids = None,
    ids_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Ids, one per line; - is standard input.")
    ] = None,
    files: Files = None,
    files_from: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Source files, one per line; - is standard input.")
    ] = None,
    classes: Classes = None,
    units: Units = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Requests; columns: id, file, class, unit, request.")
    ] = None,
    request: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Of the request: it is carried out once, and logged.")
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Forget what is there, even if some of what is named is missing.")
    ] = False,
    also_identical: Annotated[bool, typer.Option("--also-identical", help="Forget exact copies, too.")] = False,
    block_return: Annotated[
        bool, typer.Option("--block-return", help="Keep a hash of each picture, so that `add` refuses it later.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be forgotten; change nothing.")] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Purge, then write a certificate as JSON, with a page beside it."),
    ] = None,
    list_ids: Annotated[
        bool, typer.Option("--list-ids", help="Name the ids in the certificate, which makes it a trace of them.")
    ] = False,
    salt_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Put the certificate's salt there, or take it from there.")
    ] = None,
    wait: Wait = 0,
    as_json: AsJson = False,
) -> None:
    """Forget the named samples, or none if one is unknown. No answer rests on them once the command has returned.

    \b
    munkey forget model --ids 17,42
    munkey forget model --files cats/*.png --request 2026-17 --certificate cats.json
    munkey forget model --unit 'Anna K.' --also-identical --dry-run
    munkey forget model --csv requests.csv --certificate 'receipt-{request}.json'

    Prints the head of the chain of deletions. Keep it elsewhere: `munkey verify DIR --published HEAD` then finds an
    older copy that was put back.
    """
    from munkey.core.files import given_text

    listed = given_text(files_from).splitlines() if files_from else []
    named: Line = {
        "ids": wanted_ids(ids, ids_file),
        "files": [*named_files(files, more), *filter(str.strip, listed)],
        "labels": classes or [],
        "units": units or [],
    }
    lines: list[Line] = [{kind: names} for kind, names in named.items() if names]
    if bool(lines) == (csv is not None):
        raise ValueError(
            "name what to forget: --ids, --ids-file, --files, --files-from, --class, --unit; or --csv alone"
        )
    if classes and units:
        raise ValueError("--class and --unit: both, or either? Name one; or both in a line of a CSV, for what is both")
    if csv is not None and request is not None:
        raise ValueError("--request does not go with --csv, whose column `request` has the numbers")
    for option, given in (("--list-ids", list_ids), ("--salt-file", salt_file)):
        if given and not certificate:
            raise ValueError(f"{option} is about a certificate: give its file, --certificate FILE")
    requests = {request: lines} if csv is None else requests_in(csv)

    from munkey.cli import deletions
    from munkey.deploy.errors import UnknownNamesError, first_ten

    done: list[dict[str, Any]] = []
    try:
        with model(directory, writer=not dry_run, wait=wait) as predictor:
            plans, missing = deletions.planned(predictor, requests, certificate, salt_file)
            if missing and not ignore_missing:
                raise UnknownNamesError(missing)
            if dry_run:
                answers = deletions.preview(predictor, plans, also_identical)
            else:
                how = {"also_identical": also_identical, "block_return": block_return}
                deletions.carry_out(predictor, plans, list_ids, how, answers := done)
            head = predictor.head
        end = [f"not in the memory: {first_ten(missing)}"] if missing else []
        end.append("nothing was changed" if dry_run else f"head of the chain: {head}")
        value = answers[0] if csv is None else {"requests": answers, "left": answers[-1]["left"]}
        say("\n".join([*map(deletions.worded, answers), *end]), value | {"missing": missing, "head": head}, as_json)
    except Exception as error:
        if not done:
            raise
        raise AfterDeletionError(error, "\n".join(map(deletions.committed, done)), done) from error

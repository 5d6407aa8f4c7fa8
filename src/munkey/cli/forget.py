"""The command `munkey forget`: what its words name."""

from pathlib import Path
from typing import Annotated, Any

import typer

from munkey.cli import arguments as given
from munkey.cli.output import AfterDeletionError, say

OneFile = Path | None


def forget(
    directory: given.Directory,
    more: given.MoreFiles = None,
    ids: given.Ids = None,
    ids_file: Annotated[OneFile, typer.Option(metavar="FILE", help="Ids, one per line; - is standard input.")] = None,
    files: given.Files = None,
    files_from: Annotated[OneFile, typer.Option(metavar="FILE", help="Source files, one per line; - as above.")] = None,
    classes: given.Classes = None,
    units: given.Units = None,
    csv: Annotated[OneFile, typer.Option(metavar="FILE", help="Requests: id, file, class, unit, request.")] = None,
    request: Annotated[str | None, typer.Option(metavar="NUMBER", help="The request's; carried out once.")] = None,
    ignore_missing: Annotated[bool, typer.Option("--ignore-missing", help="Forget what is there.")] = False,
    also_identical: Annotated[bool, typer.Option("--also-identical", help="Forget exact copies, too.")] = False,
    block_return: Annotated[bool, typer.Option("--block-return", help="Let `add` refuse them from now on.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be forgotten; change nothing.")] = False,
    certificate: Annotated[
        OneFile, typer.Option(metavar="FILE", help="Purge, then write a certificate: JSON and page.")
    ] = None,
    list_ids: Annotated[
        bool, typer.Option("--list-ids", help="Let the certificate be a trace that names the ids.")
    ] = False,
    salt_file: Annotated[OneFile, typer.Option(metavar="FILE", help="Keep the certificate's salt there.")] = None,
    wait: given.Wait = 0,
    as_json: given.AsJson = False,
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
    named: given.Line = {
        "ids": given.wanted_ids(ids, ids_file),
        "files": [*given.named_files(files, more), *filter(str.strip, listed)],
        "labels": classes or [],
        "units": units or [],
    }
    lines: list[given.Line] = [{kind: names} for kind, names in named.items() if names]
    if bool(lines) == (csv is not None):
        raise ValueError("name what to forget: --ids, --ids-file, --files, --files-from, --class, --unit; or a --csv")
    for sentence, wrong in {
        "--class and --unit: both, or either? Name one; or both in a line of a CSV, for what is both": classes
        and units,
        "--request does not go with --csv, whose column `request` has the numbers": csv and request is not None,
        "--list-ids and --salt-file need a certificate: --certificate FILE": (list_ids or salt_file)
        and not certificate,
    }.items():
        if wrong:
            raise ValueError(sentence)
    requests = {request: lines} if csv is None else given.requests_in(csv)

    from munkey.cli import deletions
    from munkey.deploy.errors import UnknownNamesError, first_ten

    done: list[dict[str, Any]] = []
    try:
        with given.model(directory, writer=not dry_run, wait=wait) as predictor:
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
        later = "`munkey certificate DIR FILE --deletion NUMBER` certifies it later"
        said = [*map(deletions.worded, done), f"head of the chain: {done[-1]['head']}", later]
        raise AfterDeletionError(error, "\n".join(said), done) from error

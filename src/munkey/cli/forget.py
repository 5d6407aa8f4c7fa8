"""The command `munkey forget`, which reads requests, deletes samples, and reports the results."""

import re
import secrets
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from munkey.cli import arguments
from munkey.cli.output import (
    FAILED,
    FOUND_NOTHING,
    AfterDeletionError,
    print_result,
    show_spinner,
)
from munkey.core.console import escape_to_one_line, pluralize

if TYPE_CHECKING:
    from munkey.deploy.deletions import CertificateOrder, DeletionPlan


def forget(
    directory: arguments.Directory,
    more_files: arguments.MoreFiles = None,
    ids: arguments.Ids = None,
    ids_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with one id per line; - is standard input."),
    ] = None,
    files: arguments.Files = None,
    globs: arguments.Globs = None,
    files_from: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file with one source file per line; - is standard input."
        ),
    ] = None,
    classes: arguments.Classes = None,
    units: arguments.Units = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A table of requests, with columns id, file, class, unit, request."
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="A number for the request. A request with the same number is not carried out again.",
        ),
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Skip names that match no sample.")
    ] = False,
    also_identical: Annotated[
        bool, typer.Option("--also-identical", help="Also forget exact copies.")
    ] = False,
    block_return: Annotated[
        bool,
        typer.Option("--block-return", help="Make `munkey add` refuse these pictures from now on."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be forgotten.")
    ] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Purge the model, then write a certificate (JSON) and its page."
        ),
    ] = None,
    list_ids: Annotated[
        bool,
        typer.Option(
            "--list-ids",
            help="List the ids in the certificate, which is then itself a trace of the samples.",
        ),
    ] = False,
    salt_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the certificate's salt to this file."),
    ] = None,
    no_purge: Annotated[
        bool,
        typer.Option(
            "--no-purge",
            help="Do not remove the samples' bytes from the files now: `munkey purge` does it later.",
        ),
    ] = False,
    wait: arguments.Wait = arguments.DEFAULT_WAIT_S,
    as_json: arguments.AsJson = False,
) -> None:
    """Forget all samples that you name, or none if any name is unknown.

    \b
    munkey forget model --ids 17,42
    munkey forget model --files 'cats/IMG[1].png' --request 2026-17 --certificate cats.json
    munkey forget model --unit 'Anna K.' --also-identical --dry-run
    munkey forget model --glob 'cats/*.png' --dry-run
    munkey forget model --csv requests.csv --certificate 'receipt-{request}.json'

    When the command returns, the deletion is on disk, no prediction uses these samples, and none of
    their bytes is left in the directory. If it deleted them, but bytes may be left, because the
    purge failed or there are files that do not belong to the model, it says so and exits with 1, as
    `munkey purge` does. It works beside a running server. It prints the head of the chain of
    deletions. Store the head outside the model:
    `munkey verify DIR --published HEAD` then detects a restored backup.
    """
    names: dict[str, list[Any]] = {
        "ids": _collect_ids(ids, ids_file),
        "files": _collect_files(files, more_files, globs, files_from),
        "labels": classes or [],
        "units": units or [],
    }
    _require_unambiguous_request(names, csv, request)
    if (list_ids or salt_file) and not certificate:
        raise ValueError("--list-ids and --salt-file need a certificate: --certificate FILE")
    if no_purge and certificate:
        raise ValueError("--certificate purges, so it cannot be combined with --no-purge")
    if csv is not None:
        requests = _read_requests_or_exit(csv, as_json)
    else:
        # One entry for each kind of name: the request covers all samples that match any entry.
        entries = [{kind: values} for kind, values in names.items() if values]
        requests = {request: entries}

    from munkey.deploy.deletions import DeletionRequest

    deletion_request = DeletionRequest(
        requests,
        ignore_missing=ignore_missing,
        also_identical=also_identical,
        block_return=block_return,
    )
    # `delete` appends the outcome of each deletion that is on disk, in case a later one fails.
    finished_outcomes: list[dict[str, Any]] = []
    try:
        with arguments.open_model(directory, wait=wait) as predictor:
            plan = predictor.plan(deletion_request)
            # Repeated requests get no new files, but their certificates are looked up by name.
            all_certificate_files = _fill_file_names(certificate, plan.deletions)
            new_requests = _list_new_requests(plan)
            certificate_files = _fill_file_names(certificate, new_requests)
            salt_files = _fill_file_names(salt_file, new_requests)
            arguments.require_certificates(
                directory, certificate_files.values(), salt_files.values()
            )
            if dry_run:
                outcomes = predictor.preview(plan)
            else:
                order = _make_certificate_order(plan, certificate_files, salt_files, list_ids)
                with show_spinner("forgetting"):
                    outcomes = predictor.delete(
                        plan,
                        purge=not no_purge,
                        certificates=order,
                        results=finished_outcomes,
                    )
            for outcome in outcomes:
                if certificate:
                    _add_certificate(outcome, all_certificate_files[outcome["request"]], directory)
            head = predictor.head
        result = _join_outcomes(outcomes, is_list=csv is not None)
        result |= {"missing": plan.missing, "head": head}
        paragraphs = [_describe_outcome(outcome, directory) for outcome in outcomes]
        paragraphs += _describe_missing(plan)
        paragraphs += _describe_purge(outcomes, directory)
        _warn_if_not_purged(outcomes)
        paragraphs.append("nothing was changed" if dry_run else f"head of the chain: {head}")
        print_result("\n".join(paragraphs), result, as_json)
    except (Exception, KeyboardInterrupt) as error:
        if not finished_outcomes:
            raise
        paragraphs = [_describe_outcome(outcome, directory) for outcome in finished_outcomes]
        paragraphs.append(f"head of the chain: {finished_outcomes[-1]['head']}")
        paragraphs.append(
            "to certify it later, run `munkey certificate DIR FILE --deletion NUMBER`"
        )
        raise AfterDeletionError(error, "\n".join(paragraphs), finished_outcomes) from error
    _exit_unless_done(outcomes)


def _exit_unless_done(outcomes: list[dict[str, Any]]) -> None:
    """Exit with a code other than 0 if a request found nothing, or if bytes of samples may be left."""
    if any(outcome.get("unpurged") and outcome["deleted"] for outcome in outcomes):
        raise typer.Exit(FAILED)  # so that no script takes the samples for gone
    if any(outcome["found_nothing"] for outcome in outcomes):
        raise typer.Exit(FOUND_NOTHING)


def _join_outcomes(outcomes: list[dict[str, Any]], *, is_list: bool) -> dict[str, Any]:
    """Return the command's result as JSON: the only outcome, or those of a CSV file's requests."""
    if is_list:
        return {"requests": outcomes, "left": outcomes[-1]["left"]}
    return outcomes[0]


def _require_unambiguous_request(
    names: dict[str, list[Any]], csv: Path | None, request: str | None
) -> None:
    """Raise ValueError if the options name nothing to forget, or if they are ambiguous."""
    has_names = any(names.values())
    has_csv = csv is not None
    if has_names == has_csv:  # neither or both
        raise ValueError(
            "name what to forget: --ids, --ids-file, --files, --files-from, --glob, --class, --unit;"
            " or a --csv"
        )
    if names["labels"] and names["units"]:
        raise ValueError(
            "--class and --unit together are ambiguous: use only one of them. To forget the samples"
            " that match both, write both on one line of a CSV file"
        )
    if csv and request is not None:
        raise ValueError(
            "--request cannot be combined with --csv, because the column `request` has the numbers"
        )


def _collect_ids(ids: str | None, ids_file: Path | None) -> list[int]:
    """Collect the ids of --ids and --ids-file."""
    all_ids = []
    if ids is not None:
        all_ids += arguments.parse_ids("--ids", ids)
    if ids_file is not None:
        all_ids += arguments.read_ids(ids_file)
    return all_ids


def _collect_files(
    files: arguments.Names | None,
    more_files: arguments.Names | None,
    globs: arguments.Names | None,
    files_from: Path | None,
) -> list[str]:
    """Collect the source files of --files, --glob and --files-from."""
    names = arguments.join_files(files, more_files, globs)
    if files_from is not None:
        for line in arguments.read_list(files_from, "files"):
            if line.strip():
                names.append(line)
    return names


def _list_new_requests(plan: "DeletionPlan") -> list[str | None]:
    """Return the numbers of the requests that have not been carried out yet."""
    numbers = []
    for number, deletion in plan.deletions.items():
        if not deletion.earlier_receipt:
            numbers.append(number)
    return numbers


def _read_requests_or_exit(
    file: Path, as_json: bool
) -> dict[str | None, list[dict[str, list[Any]]]]:
    """Read requests from a CSV file. If it has none, print a message and exit with code 0."""
    requests = arguments.read_requests(file)
    if not requests:
        print_result(f"{file}: no requests, so nothing was changed", {"requests": []}, as_json)
        raise typer.Exit
    return requests


def _fill_file_names(
    template: Path | None, numbers: Iterable[str | None]
) -> dict[str | None, Path]:
    """Return the path of each request's file, by request number, which replaces {request}.

    Raises ValueError if two requests would have the same path.
    """
    files: dict[str | None, Path] = {}
    if template is None:
        return files
    # A template without {request} gives all requests the same path; `require_certificates` says so.
    has_number = "{request}" in str(template)
    number_by_file: dict[Path, str | None] = {}
    for number in numbers:
        # A slash would start a folder. A null byte is not allowed in a file name, and other control
        # characters, such as a line break, are hard to type and to read.
        safe_number = re.sub(r"[/\x00-\x1f]", "-", number or "")
        file = Path(str(template).replace("{request}", safe_number))
        if has_number and file in number_by_file:
            raise ValueError(
                f"requests {number_by_file[file]!r} and {number!r} would both write {file}, because"
                " file names have - for / and control characters; change one of the numbers"
            )
        number_by_file[file] = number
        files[number] = file
    return files


def _make_certificate_order(
    plan: "DeletionPlan",
    certificate_files: dict[str | None, Path],
    salt_files: dict[str | None, Path],
    list_ids: bool,
) -> "CertificateOrder":
    """Write the salt files, before a crash could lose a salt, and return the order of certificates."""
    from munkey.deploy.certificate import Certificate, write_certificate, write_new_file
    from munkey.deploy.deletions import CertificateOrder

    salts = {}
    for number in certificate_files:
        # A request that matches no sample gets no certificate.
        if len(plan.deletions[number].ids):
            salts[number] = secrets.token_bytes(16)
    for number in salts.keys() & salt_files.keys():
        # Only the owner may read a salt.
        write_new_file(salt_files[number], f"{salts[number].hex()}\n", 0o600)

    def deliver(outcome: dict[str, Any], document: Certificate) -> None:
        """Write a deletion's certificate and page, and add their paths to the outcome."""
        file = certificate_files[outcome["request"]]
        outcome["page"] = str(write_certificate(document, file))
        outcome["certificate"] = str(file)

    return CertificateOrder(salts, deliver, include_salts=not salt_files, list_ids=list_ids)


def _add_certificate(outcome: dict[str, Any], file: Path, directory: Path) -> None:
    """Add the certificate's file, or None, to an outcome, and how to write a missing one."""
    is_repeated = outcome.get("repeated")
    if is_repeated:
        has_certificate = file.exists()
    else:
        has_certificate = bool(outcome.get("would_delete"))  # a dry run, so it would be written
    outcome.setdefault("certificate", str(file) if has_certificate else None)
    if is_repeated and outcome["deleted"] and not has_certificate:
        outcome["certify"] = shlex.join(
            [
                "munkey",
                "certificate",
                str(directory),
                str(file),
                "--request",
                outcome["request"],
            ]
        )


def _warn_if_not_purged(outcomes: list[dict[str, Any]]) -> None:
    """Print a warning to standard error if the purge after a deletion failed."""
    purge_warning = outcomes[0].get("unpurged")
    if purge_warning:
        print(f"munkey: {purge_warning}", file=sys.stderr)


def _describe_purge(outcomes: list[dict[str, Any]], directory: Path) -> list[str]:
    """Return a line that recommends a purge if one is due and has not just failed; else no line."""
    if outcomes[0].get("unpurged"):
        return []
    for outcome in outcomes:
        if not outcome.get("deleted"):
            continue
        if not outcome["purged"] and not outcome["repeated"]:
            return [
                "bytes of these samples remain in the directory until you run"
                f" `munkey purge {directory}`"
            ]
    return []


def _describe_missing(plan: "DeletionPlan") -> list[str]:
    """Return lines that list the names that match no sample, and suggest similar names."""
    from munkey.deploy.errors import MEMORY_SCOPE, format_first_ten

    lines = []
    if plan.missing:
        lines.append(f"not in the memory, {MEMORY_SCOPE}: {format_first_ten(plan.missing)}")
    if plan.hint:
        lines.append(escape_to_one_line(plan.hint))
    return lines


def _describe_outcome(outcome: dict[str, Any], directory: Path) -> str:
    """Describe the outcome of a deletion or of its dry run."""
    from munkey.deploy.errors import format_first_ten

    prefix = ""
    if outcome["request"]:
        prefix = f"request {escape_to_one_line(outcome['request'])}: "
    if outcome.get("repeated"):
        return _describe_repeated(outcome, prefix)
    is_dry_run = "would_delete" in outcome
    if outcome["found_nothing"]:
        verb = "would delete" if is_dry_run else "deleted"
        lines = [
            f"{prefix}found nothing now; {verb} nothing, {outcome['left']:,} left",
            "none of the samples is in the memory: they were forgotten earlier (see `munkey log`) or"
            " were never in it",
        ]
    elif is_dry_run:
        lines = _describe_dry_run(outcome, prefix)
    else:
        text = f"{prefix}forgot {pluralize(outcome['deleted'], 'sample')}, {outcome['left']:,} left"
        if outcome["deleted"]:
            text += f"; numbers {outcome['first']} to {outcome['last']} in the chain"
        lines = [text]
    if outcome["patterns"]:
        lines.append(f"given as patterns: {format_first_ten(outcome['patterns'])}")
    lines += _describe_relatives(outcome, directory, is_dry_run)
    if "certificate" in outcome:
        lines.append(f"certificate: {_describe_certificate(outcome, is_dry_run)}")
    if "salt" in outcome:
        lines.append(f"salt of its ids, not stored in any file: {outcome['salt']}")
    return "\n".join(lines)


def _describe_repeated(outcome: dict[str, Any], prefix: str) -> str:
    """Describe a request that was carried out before. The text starts with `prefix`."""
    if outcome["found_nothing"]:
        return f"{prefix}found nothing on {outcome['when']}; deleted nothing"
    text = f"{prefix}carried out on {outcome['when']}, so nothing was changed"
    if "certify" in outcome:
        text += f"\nthe certificate is missing; to write it, run `{escape_to_one_line(outcome['certify'])}`"
    return text


def _describe_dry_run(outcome: dict[str, Any], prefix: str) -> list[str]:
    """Return lines on the samples that a request would forget: how many by class, and ids."""
    from munkey.deploy.errors import format_first_ten

    text = f"{prefix}would forget {pluralize(len(outcome['would_delete']), 'sample')}"
    if outcome["classes"]:
        counts = [f"{label} {count:,}" for label, count in outcome["classes"].items()]
        text += f" ({', '.join(counts)})"
    lines = [f"{text} and keep {outcome['left']:,}"]
    if outcome["would_delete"]:
        lines.append(f"ids {format_first_ten(outcome['would_delete'])}")
    return lines


def _describe_relatives(outcome: dict[str, Any], directory: Path, is_dry_run: bool) -> list[str]:
    """Return lines on exact copies, and on classes without remaining samples."""
    from munkey.deploy.errors import format_first_ten

    lines = []
    if outcome["copies"]:
        lines.append(_describe_copies(outcome, directory, is_dry_run))
    emptied_classes = outcome.get("emptied")
    if emptied_classes:
        lines.append(
            f"no samples remain in class {format_first_ten(emptied_classes)};"
            " `predict --only-held-classes` never predicts it"
        )
    return lines


def _describe_copies(outcome: dict[str, Any], directory: Path, is_dry_run: bool) -> str:
    """Describe which exact copies there are, whether they remain, and how to forget them."""
    from munkey.deploy.errors import format_first_ten

    copies = outcome["copies"]
    ids = [copy["id"] for copy in copies]
    id_list = f"ids {format_first_ten(ids)}{_describe_units(copies)}"
    if not outcome["identical"]:
        return f"{len(ids):,} of these are exact copies of samples that you named: {id_list}"
    if is_dry_run:
        remedy = "add --also-identical"
    else:
        command = f"munkey forget {shlex.quote(str(directory))} --ids {','.join(map(str, ids))}"
        if outcome["request"]:
            command += " --request NEW"
        remedy = f"run `{command}`"
    return f"exact copies of these remain: {id_list}; to forget them too, {remedy}"


def _describe_units(samples: list[dict[str, Any]]) -> str:
    """Return a phrase that lists the samples' units, or an empty string if they have none."""
    from munkey.deploy.errors import format_first_ten

    units = sorted({sample["unit"] for sample in samples if sample["unit"]})
    if not units:
        return ""
    return f", of unit {format_first_ten(units)}"


def _describe_certificate(outcome: dict[str, Any], is_dry_run: bool) -> str:
    """Describe where the certificate is, or would be written."""
    file = outcome["certificate"]
    if not file:
        return "none, because there is nothing to delete"
    if is_dry_run:
        return f"would be written to {file}"
    return f"{file}; readable page: {outcome.get('page')}"

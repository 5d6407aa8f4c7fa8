"""The command `munkey forget`, which reads requests, deletes samples, and reports the results."""

import re
import secrets
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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
from munkey.core.console import escape_to_one_line

if TYPE_CHECKING:
    from munkey.deploy.certificate import Certificate
    from munkey.deploy.deletions import CertificateOrder, Deletion, DeletionPlan


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
    sign: arguments.SigningKey = None,
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
    if (list_ids or salt_file or sign) and not certificate:
        raise ValueError(
            "--list-ids, --salt-file and --sign need a certificate: --certificate FILE"
        )
    # Read before anything is deleted.
    sign_certificate = arguments.make_signer(sign)
    if no_purge and certificate:
        raise ValueError("--certificate purges, so it cannot be combined with --no-purge")
    if csv is not None:
        requests = _read_requests_or_exit(csv, as_json)
    else:
        # One entry for each kind of name: the request covers all samples that match any entry.
        entries = [{kind: values} for kind, values in names.items() if values]
        requests = {request: entries}

    from munkey.deploy.deletions import Deletion, DeletionRequest

    deletion_request = DeletionRequest(
        requests,
        ignore_missing=ignore_missing,
        also_identical=also_identical,
        block_return=block_return,
    )
    # `delete` appends each deletion that is on disk, in case a later one fails.
    finished: list[Deletion] = []
    # What the results say about certificates, by request number.
    fields: dict[str | None, dict[str, Any]] = {}
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
                deletions = predictor.preview(plan)
            else:
                order = _make_certificate_order(
                    plan, certificate_files, salt_files, list_ids, fields, sign_certificate
                )
                with show_spinner("forgetting"), _remove_unused_salts(salt_files, finished):
                    deletions = predictor.delete(
                        plan, purge=not no_purge, certificates=order, results=finished
                    )
            for deletion in deletions:
                if certificate:
                    fields[deletion.request] = _look_for_certificate(
                        deletion, all_certificate_files[deletion.request], directory
                    ) | fields.get(deletion.request, {})
            head = predictor.head
        result = _join_results(_format_deletions(deletions, fields), is_list=csv is not None)
        result |= {"missing": plan.list_missing(), "head": head}
        paragraphs = _describe_deletions(deletions, fields, directory)
        paragraphs += _describe_missing(plan)
        paragraphs += _describe_purge(deletions, directory)
        paragraphs.append("nothing was changed" if dry_run else f"head of the chain: {head}")
        print_result("\n".join(paragraphs), result, as_json)
    except (Exception, KeyboardInterrupt) as error:
        if not finished:
            raise
        results = _format_deletions(finished, fields)
        paragraphs = _describe_deletions(finished, fields, directory)
        paragraphs.append(f"head of the chain: {results[-1]['head']}")
        paragraphs.append(
            "to certify it later, run `munkey certificate DIR FILE --deletion NUMBER`"
        )
        raise AfterDeletionError(error, "\n".join(paragraphs), results) from error
    _exit_unless_done(deletions)


def _exit_unless_done(deletions: Iterable["Deletion"]) -> None:
    """Exit with a code other than 0 if a request found nothing, or if bytes of samples may be left."""
    if any(deletion.unpurged and deletion.deleted for deletion in deletions):
        raise typer.Exit(FAILED)  # so that no script takes the samples for gone
    if any(deletion.found_nothing for deletion in deletions):
        raise typer.Exit(FOUND_NOTHING)


def _join_results(results: list[dict[str, Any]], *, is_list: bool) -> dict[str, Any]:
    """Return the command's result as JSON: the only result, or those of a CSV file's requests."""
    if is_list:
        return {"requests": results, "left": results[-1]["left"]}
    return results[0]


def _require_unambiguous_request(
    names: dict[str, list[Any]], csv: Path | None, request: str | None
) -> None:
    """Raise ValueError if the options name nothing to forget, or if they are ambiguous."""
    from munkey.deploy.model.samples import require_one_kind

    has_names = any(names.values())
    has_csv = csv is not None
    if has_names == has_csv:  # neither or both
        raise ValueError(
            "name what to forget: --ids, --ids-file, --files, --files-from, --glob, --class, --unit;"
            " or a --csv"
        )
    require_one_kind(
        {"--files": names["files"], "--class": names["labels"], "--unit": names["units"]}
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
    fields: dict[str | None, dict[str, Any]],
    sign_certificate: "Callable[[Certificate], Certificate]",
) -> "CertificateOrder":
    """Write the salt files, before a crash could lose a salt, and return the order of certificates.

    fields: gets the salts and files of the certificates, by request number.
    """
    from munkey.deploy.certificate import write_certificate, write_new_file
    from munkey.deploy.deletions import CertificateOrder, Deletion

    salts = {}
    for number in certificate_files:
        # A request that matches no sample gets no certificate.
        if len(plan.deletions[number].ids):
            salts[number] = secrets.token_bytes(16)
    for number, salt in salts.items():
        if number in salt_files:
            # Only the owner may read a salt.
            write_new_file(salt_files[number], f"{salt.hex()}\n", 0o600)
        else:
            fields[number] = {"salt": salt.hex()}

    def deliver(deletion: Deletion, document: "Certificate") -> None:
        """Write a deletion's certificate and page, and note their paths."""
        file = certificate_files[deletion.request]
        page = write_certificate(sign_certificate(document), file)
        paths = {"page": str(page), "certificate": str(file)}
        fields[deletion.request] = fields.get(deletion.request, {}) | paths

    return CertificateOrder(salts, deliver, list_ids=list_ids)


@contextmanager
def _remove_unused_salts(
    salt_files: Mapping[str | None, Path], finished: Sequence["Deletion"]
) -> Iterator[None]:
    """Remove the salt files of requests that another process prevented, which can be tried again.

    finished: the deletions that are on disk by then.
    """
    from munkey.memory.errors import LockedMemoryError

    try:
        yield
    except LockedMemoryError:
        done = {deletion.request for deletion in finished}
        for number, file in salt_files.items():
            if number not in done:
                file.unlink(missing_ok=True)
        raise


def _look_for_certificate(deletion: "Deletion", file: Path, directory: Path) -> dict[str, Any]:
    """Return fields with the certificate's file, or None, and how to write a missing one."""
    if deletion.repeated:
        has_certificate = file.exists()
    else:
        has_certificate = deletion.dry_run and len(deletion) > 0  # it would be written
    fields = {"certificate": str(file) if has_certificate else None}
    if deletion.repeated and deletion.deleted and not has_certificate:
        command = ["munkey", "certificate", str(directory), str(file)]
        fields["certify"] = shlex.join([*command, "--request", str(deletion.request)])
    return fields


def _format_deletions(
    deletions: Iterable["Deletion"], fields: dict[str | None, dict[str, Any]]
) -> list[dict[str, Any]]:
    from munkey.deploy.json_format import format_deletion

    return [format_deletion(each) | fields.get(each.request, {}) for each in deletions]


def _describe_purge(deletions: list["Deletion"], directory: Path) -> list[str]:
    """Return a line that recommends a purge if one is due; print why one has just failed."""
    if deletions[0].unpurged:
        print(f"munkey: {deletions[0].unpurged}", file=sys.stderr)
        return []
    if any(len(each) and not (each.dry_run or each.purged) for each in deletions):
        return [
            f"bytes of these samples remain in the directory until you run `munkey purge {directory}`"
        ]
    return []


def _describe_missing(plan: "DeletionPlan") -> list[str]:
    """Return lines that list the names that match no sample, and suggest similar names."""
    from munkey.deploy.errors import MEMORY_SCOPE, format_first_ten

    lines = []
    missing = plan.list_missing()
    if missing:
        lines.append(f"not in the memory, {MEMORY_SCOPE}: {format_first_ten(missing)}")
    if plan.hint:
        lines.append(escape_to_one_line(plan.hint))
    return lines


def _describe_deletions(
    deletions: Iterable["Deletion"],
    fields: dict[str | None, dict[str, Any]],
    directory: Path,
) -> list[str]:
    """Describe deletions or dry runs, each with its certificate."""
    paragraphs = []
    for deletion in deletions:
        # Names that match no sample are listed once, for all requests.
        paragraphs.append(replace(deletion, missing=()).describe(_find_remedy(deletion, directory)))
        if deletion.emptied and not deletion.repeated:
            paragraphs.append(
                "`predict --only-held-classes` never predicts a class without samples"
            )
        paragraphs += _describe_certificate(deletion, fields.get(deletion.request, {}))
    return paragraphs


def _find_remedy(deletion: "Deletion", directory: Path) -> str:
    """Say how to forget the copies that remain, too."""
    if deletion.dry_run:
        return "add --also-identical"
    ids = ",".join(str(copy["id"]) for copy in deletion.copies)
    command = f"munkey forget {shlex.quote(str(directory))} --ids {ids}"
    if deletion.request:
        command += " --request NEW"
    return f"run `{command}`"


def _describe_certificate(deletion: "Deletion", fields: dict[str, Any]) -> list[str]:
    """Return lines on where the certificate is, or would be written, and on its salt."""
    lines = []
    file = fields.get("certificate")
    if "certify" in fields:
        command = escape_to_one_line(fields["certify"])
        lines.append(f"the certificate is missing; to write it, run `{command}`")
    elif "certificate" in fields and not deletion.repeated:
        if not file:
            lines.append("certificate: none, because there is nothing to delete")
        elif deletion.dry_run:
            lines.append(f"certificate: would be written to {file}")
        else:
            lines.append(f"certificate: {file}; readable page: {fields['page']}")
    if "salt" in fields and len(deletion):
        lines.append(f"salt of its ids, not stored in any file: {fields['salt']}")
    return lines

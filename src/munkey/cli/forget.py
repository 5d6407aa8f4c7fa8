"""The command `munkey forget`: reads the request, deletes, and reports."""

import re
import secrets
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from munkey.cli import arguments
from munkey.cli.output import FOUND_NOTHING, AfterDeletionError, print_result, show_spinner
from munkey.core.console import one_line, pluralize

if TYPE_CHECKING:
    from munkey.deploy.deletions import CertificateOrder, DeletionPlan

FileOption = Path | None


def forget(
    directory: arguments.Directory,
    more: arguments.MoreFiles = None,
    ids: arguments.Ids = None,
    ids_file: Annotated[
        FileOption,
        typer.Option(metavar="FILE", help="A file of ids, one per line; - is standard input."),
    ] = None,
    files: arguments.Files = None,
    files_from: Annotated[
        FileOption,
        typer.Option(metavar="FILE", help="A file of source files, one per line; - as above."),
    ] = None,
    classes: arguments.Classes = None,
    units: arguments.Units = None,
    csv: Annotated[
        FileOption,
        typer.Option(
            metavar="FILE", help="A table of requests, with columns id, file, class, unit, request."
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="A number for the request. It is carried out only once."
        ),
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Skip names that match no sample.")
    ] = False,
    also_identical: Annotated[
        bool, typer.Option("--also-identical", help="Also forget exact copies.")
    ] = False,
    similar: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE",
            help="List look-alikes of at least this cosine of keys [default: 0.95]. 0: none.",
        ),
    ] = None,
    also_similar: Annotated[
        bool,
        typer.Option("--also-similar", help="Also forget look-alikes. Try --dry-run first."),
    ] = False,
    block_return: Annotated[
        bool,
        typer.Option("--block-return", help="Let `munkey add` refuse these pictures from now on."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be forgotten.")
    ] = False,
    certificate: Annotated[
        FileOption,
        typer.Option(metavar="FILE", help="Purge, then write a certificate (JSON) and its page."),
    ] = None,
    list_ids: Annotated[
        bool,
        typer.Option(
            "--list-ids", help="List the ids in the certificate. It is then a trace of them."
        ),
    ] = False,
    salt_file: Annotated[
        FileOption,
        typer.Option(metavar="FILE", help="Write the salt of the certificate to this file."),
    ] = None,
    wait: arguments.Wait = 0,
    as_json: arguments.AsJson = False,
) -> None:
    """Forget samples: all that you name, or none if a name is unknown.

    \b
    munkey forget model --ids 17,42
    munkey forget model --files 'cats/*.png' --request 2026-17 --certificate cats.json
    munkey forget model --unit 'Anna K.' --also-identical --dry-run
    munkey forget model --csv requests.csv --certificate 'receipt-{request}.json'

    When the command returns, the deletion is on disk and no answer uses these samples. It prints the head of the chain
    of deletions. Keep the head elsewhere: with it, `munkey verify DIR --published HEAD` detects a restored backup.
    """
    names: dict[str, list[Any]] = {
        "ids": _collect_ids(ids, ids_file),
        "files": _collect_files(files, more, files_from),
        "labels": classes or [],
        "units": units or [],
    }
    # A line for each kind of name: the request means all samples that any of them means.
    lines = [{kind: values} for kind, values in names.items() if values]
    _require_unambiguous_request(names, csv, request)
    if (list_ids or salt_file) and not certificate:
        raise ValueError("--list-ids and --salt-file need a certificate: --certificate FILE")
    requests = {request: lines}
    if csv is not None:
        requests = _read_requests_or_exit(csv, as_json)

    from munkey.deploy.deletions import DeletionRequest

    deletion_request = DeletionRequest(
        requests,
        ignore_missing=ignore_missing,
        also_identical=also_identical,
        similar=similar,
        also_similar=also_similar,
        block_return=block_return,
    )
    # The answers of deletions that are on disk, in case a later one fails.
    finished_answers: list[dict[str, Any]] = []
    try:
        with arguments.open_model(directory, writer=not dry_run, wait=wait) as predictor:
            plan = predictor.plan(deletion_request)
            new_requests = _list_new_requests(plan)
            certificate_files = _name_files(certificate, new_requests)
            salt_files = _name_files(salt_file, new_requests)
            arguments.require_certificates(
                directory, certificate_files.values(), salt_files.values()
            )
            if dry_run:
                answers = predictor.preview(plan)
            else:
                order = _make_certificate_order(plan, certificate_files, salt_files, list_ids)
                with show_spinner("forgetting"):
                    answers = predictor.delete(plan, certificates=order, results=finished_answers)
            for answer in answers:
                answer.update(plan.deletions[answer["request"]].look_alikes)
                for file in _name_files(certificate, [answer["request"]]).values():
                    _add_certificate(answer, file, directory)
            head = predictor.head
        value = answers[0]
        if csv is not None:
            value = {"requests": answers, "left": answers[-1]["left"]}
        value |= {"missing": plan.missing, "head": head}
        text = [_describe(answer, directory) for answer in answers]
        text += _describe_missing(plan)
        text += _describe_purge(answers, directory)
        text.append("nothing was changed" if dry_run else f"head of the chain: {head}")
        print_result("\n".join(text), value, as_json)
    except (Exception, KeyboardInterrupt) as error:
        if not finished_answers:
            raise
        text = [_describe(answer, directory) for answer in finished_answers]
        text.append(f"head of the chain: {finished_answers[-1]['head']}")
        text.append("`munkey certificate DIR FILE --deletion NUMBER` certifies it later")
        raise AfterDeletionError(error, "\n".join(text), finished_answers) from error
    if any(answer["found_nothing"] for answer in answers):
        raise typer.Exit(FOUND_NOTHING)


def _require_unambiguous_request(
    names: dict[str, list[Any]], csv: FileOption, request: str | None
) -> None:
    """Raise ValueError if the options name nothing, or can mean two things."""
    if any(names.values()) == (csv is not None):
        raise ValueError(
            "name what to forget: --ids, --ids-file, --files, --files-from, --class, --unit; or a --csv"
        )
    if names["labels"] and names["units"]:
        raise ValueError(
            "--class and --unit are ambiguous (samples of both, or of either?): name one of them; for"
            " samples of both, write both in a line of a CSV file"
        )
    if csv and request is not None:
        raise ValueError(
            "--request cannot be combined with --csv, whose column `request` has the numbers"
        )


def _collect_ids(ids: str | None, ids_file: FileOption) -> list[int]:
    """Collect the ids of both options."""
    all_ids = []
    if ids is not None:
        all_ids += arguments.parse_ids("--ids", ids)
    if ids_file is not None:
        all_ids += arguments.read_ids(ids_file)
    return all_ids


def _collect_files(
    files: arguments.Names, more: arguments.Names, files_from: FileOption
) -> list[str]:
    """Collect the names of source files after `--files`, and those in a file."""
    names = arguments.join_files(files, more)
    if files_from is not None:
        for line in arguments.read_list(files_from, "files"):
            if line.strip():
                names.append(line)
    return names


def _list_new_requests(plan: "DeletionPlan") -> list[str | None]:
    """List the numbers of the requests that were not carried out before."""
    numbers = []
    for number, deletion in plan.deletions.items():
        if not deletion.earlier_receipt:
            numbers.append(number)
    return numbers


def _read_requests_or_exit(
    file: Path, as_json: bool
) -> dict[str | None, list[dict[str, list[Any]]]]:
    """Read the requests of a CSV file. If it has none, as on some days, end the command."""
    requests = arguments.read_requests(file)
    if not requests:
        print_result(f"{file}: no requests, so nothing was changed", {"requests": []}, as_json)
        raise typer.Exit
    return requests


def _name_files(file: FileOption, numbers: Iterable[str | None]) -> dict[str | None, Path]:
    """Name the file of each request, by number: {request} in its name stands for the number."""
    files: dict[str | None, Path] = {}
    if file is None:
        return files
    for number in numbers:
        safe_number = re.sub(r"[/\x00-\x1f]", "-", number or "")  # no slash, no control character
        files[number] = Path(str(file).replace("{request}", safe_number))
    return files


def _make_certificate_order(
    plan: "DeletionPlan",
    certificate_files: dict[str | None, Path],
    salt_files: dict[str | None, Path],
    list_ids: bool,
) -> "CertificateOrder":
    """Make the order of the certificates to write during the deletion.

    The files of salts are written now, so that no deletion can be without the salt of its
    certificate.
    """
    from munkey.deploy.certificate import Certificate, write_certificate, write_new_file
    from munkey.deploy.deletions import CertificateOrder

    salts = {}
    for number in certificate_files:
        if len(plan.deletions[number].ids):
            salts[number] = secrets.token_bytes(16)
    for number in salts.keys() & salt_files.keys():  # only their owner may read them: 0o600
        write_new_file(salt_files[number], f"{salts[number].hex()}\n", 0o600)

    def deliver(answer: dict[str, Any], document: Certificate) -> None:
        file = certificate_files[answer["request"]]
        answer["page"] = str(write_certificate(document, file))
        answer["certificate"] = str(file)

    return CertificateOrder(salts, deliver, include_salts=not salt_files, list_ids=list_ids)


def _add_certificate(answer: dict[str, Any], file: Path, directory: Path) -> None:
    """Add the file of the certificate to an answer that has none yet.

    If a repeated request has no certificate yet, add the command that writes one.
    """
    is_repeated = answer.get("repeated")
    if is_repeated:
        has_certificate = file.exists()
    else:
        has_certificate = bool(answer.get("would_delete"))  # in a dry run: it would be written
    answer.setdefault("certificate", str(file) if has_certificate else None)
    if is_repeated and answer["deleted"] and not has_certificate:
        words = ["munkey", "certificate", f"{directory}", f"{file}", "--request", answer["request"]]
        answer["certify"] = shlex.join(words)


def _describe_purge(answers: list[dict[str, Any]], directory: Path) -> list[str]:
    """Write a line if names of source files and units stay in the directory.

    The reason why a purge failed goes to standard error instead.
    """
    purge_warning = answers[0].get("unpurged")
    if purge_warning:
        print(f"munkey: {purge_warning}", file=sys.stderr)
        return []
    for answer in answers:
        if not answer.get("deleted"):
            continue
        if not answer["purged"] and not answer["repeated"]:
            return [
                "names of source files and units stay in the directory until"
                f" `munkey purge {directory}`"
            ]
    return []


def _describe_missing(plan: "DeletionPlan") -> list[str]:
    """Write lines about the names that no sample has, with similar names."""
    from munkey.deploy.errors import MEMORY_SCOPE, format_first_ten

    lines = []
    if plan.missing:
        lines.append(f"not in the memory, {MEMORY_SCOPE}: {format_first_ten(plan.missing)}")
    if plan.hint:
        lines.append(one_line(plan.hint))
    return lines


def _describe(answer: dict[str, Any], directory: Path) -> str:
    """Describe a request that was carried out, or would be."""
    name = ""
    if answer["request"]:
        name = f"request {one_line(answer['request'])}: "
    if answer.get("repeated"):
        return _describe_repeated(answer, name)
    is_dry_run = "would_delete" in answer
    if answer["found_nothing"]:
        verb = "would delete" if is_dry_run else "deleted"
        lines = [
            f"{name}found nothing now; {verb} nothing, {answer['left']:,} left",
            "the memory has none of the samples: they were forgotten earlier (see `munkey log`), or"
            " never in it",
        ]
    elif is_dry_run:
        lines = _describe_dry_run(answer, name)
    else:
        text = f"{name}forgot {pluralize(answer['deleted'], 'sample')}, {answer['left']:,} left"
        if answer["deleted"]:
            text += f"; numbers {answer['first']} to {answer['last']} of the chain"
        lines = [text]
    lines += _describe_relatives(answer, directory, is_dry_run)
    if "certificate" in answer:
        lines.append(f"certificate: {_describe_certificate(answer, is_dry_run)}")
    if "salt" in answer:
        lines.append(f"salt of its ids, stored in no file: {answer['salt']}")
    return "\n".join(lines)


def _describe_repeated(answer: dict[str, Any], name: str) -> str:
    """Describe a request that was carried out before. name: of the request."""
    if answer["found_nothing"]:
        return f"{name}found nothing on {answer['when']}; deleted nothing"
    text = f"{name}carried out on {answer['when']}, so nothing was changed"
    if "certify" in answer:
        text += f"\nthe certificate is missing: `{one_line(answer['certify'])}` writes it"
    return text


def _describe_dry_run(answer: dict[str, Any], name: str) -> list[str]:
    """Describe how many samples would be forgotten, by class, and which. name: of the request."""
    from munkey.deploy.errors import format_first_ten

    text = f"{name}would forget {pluralize(len(answer['would_delete']), 'sample')}"
    if answer["classes"]:
        counts = [f"{label} {count:,}" for label, count in answer["classes"].items()]
        text += f" ({', '.join(counts)})"
    lines = [f"{text} and keep {answer['left']:,}"]
    if answer["would_delete"]:
        lines.append(f"ids {format_first_ten(answer['would_delete'])}")
    return lines


def _describe_relatives(answer: dict[str, Any], directory: Path, is_dry_run: bool) -> list[str]:
    """Write lines about exact copies, look-alikes, and classes without samples."""
    from munkey.deploy.errors import format_first_ten

    lines = []
    if answer["copies"]:
        lines.append(_describe_copies(answer, directory, is_dry_run))
    similar = answer.get("similar")
    if similar and similar["samples"]:
        lines.append(_describe_look_alikes(**similar))
    emptied_classes = answer.get("emptied")
    if emptied_classes:
        lines.append(
            f"no sample is left in class {format_first_ten(emptied_classes)};"
            " `predict --only-held-classes` never predicts it"
        )
    return lines


def _describe_copies(answer: dict[str, Any], directory: Path, is_dry_run: bool) -> str:
    """Describe exact copies: which, whether they stay, and how to forget them."""
    from munkey.deploy.errors import format_first_ten

    copies = answer["copies"]
    ids = [copy["id"] for copy in copies]
    id_list = f"ids {format_first_ten(ids)}{_describe_units(copies)}"
    if not answer["identical"]:
        return f"{len(ids):,} of these are exact copies of samples that you named: {id_list}"
    way = "--also-identical"
    if not is_dry_run:
        command = f"munkey forget {shlex.quote(str(directory))} --ids {','.join(map(str, ids))}"
        if answer["request"]:
            command += " --request NEW"
        way = f"`{command}`"
    return f"exact copies of these stay: {id_list}; {way} forgets them too"


def _describe_look_alikes(above: float, also: bool, samples: list[dict[str, Any]]) -> str:
    """Describe how many look-alikes there are, which, and whether they stay."""
    from munkey.deploy.errors import format_first_ten

    ids = format_first_ten([f"{sample['id']} ({sample['cosine']:.2f})" for sample in samples])
    outcome = f"kept, with keys as near as {above:g} (cosine); --also-similar forgets them too"
    if also:
        outcome = "among these"
    count = pluralize(len(samples), "look-alike")
    return f"{count} {outcome}: ids {ids}{_describe_units(samples)}"


def _describe_units(samples: list[dict[str, Any]]) -> str:
    """List the units of samples, as the end of a phrase; empty if they have none."""
    from munkey.deploy.errors import format_first_ten

    units = sorted({sample["unit"] for sample in samples if sample["unit"]})
    if not units:
        return ""
    return f", of unit {format_first_ten(units)}"


def _describe_certificate(answer: dict[str, Any], is_dry_run: bool) -> str:
    """Describe where the certificate is, or would be."""
    file = answer["certificate"]
    if not file:
        return "none, since there is nothing to delete"
    if is_dry_run:
        return f"would be written to {file}"
    return f"{file}; readable page: {answer.get('page')}"

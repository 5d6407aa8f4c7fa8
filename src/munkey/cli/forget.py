"""The command `munkey forget`: what its words name, and what it says was done."""

import re
import secrets
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from munkey.cli import arguments as given
from munkey.cli.output import FOUND_NOTHING, AfterDeletionError, say, working
from munkey.core.console import counted, one_line

if TYPE_CHECKING:
    from munkey.deploy.deletions import DeletionPlan

OneFile = Path | None


def forget(
    directory: given.Directory,
    more: given.MoreFiles = None,
    ids: given.Ids = None,
    ids_file: Annotated[
        OneFile, typer.Option(metavar="FILE", help="Ids, one per line; - is standard input.")
    ] = None,
    files: given.Files = None,
    files_from: Annotated[
        OneFile, typer.Option(metavar="FILE", help="Source files, one per line; - as above.")
    ] = None,
    classes: given.Classes = None,
    units: given.Units = None,
    csv: Annotated[
        OneFile, typer.Option(metavar="FILE", help="Requests: id, file, class, unit, request.")
    ] = None,
    request: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="The request's; carried out once.")
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Forget what is there.")
    ] = False,
    also_identical: Annotated[
        bool, typer.Option("--also-identical", help="Forget exact copies, too.")
    ] = False,
    similar: Annotated[
        float | None,
        typer.Option(
            metavar="COSINE", help="List others with a key this near (0.95); 0: do not look."
        ),
    ] = None,
    also_similar: Annotated[
        bool, typer.Option("--also-similar", help="Forget them, too; see --dry-run.")
    ] = False,
    block_return: Annotated[
        bool, typer.Option("--block-return", help="Let `add` refuse them from now on.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be forgotten; change nothing.")
    ] = False,
    certificate: Annotated[
        OneFile,
        typer.Option(metavar="FILE", help="Purge, then write a certificate: JSON and page."),
    ] = None,
    list_ids: Annotated[
        bool, typer.Option("--list-ids", help="Let the certificate be a trace that names the ids.")
    ] = False,
    salt_file: Annotated[
        OneFile, typer.Option(metavar="FILE", help="Keep the certificate's salt there.")
    ] = None,
    wait: given.Wait = 0,
    as_json: given.AsJson = False,
) -> None:
    """Forget the named samples, or none if one is unknown. No answer rests on them once the command has returned.

    \b
    munkey forget model --ids 17,42
    munkey forget model --files 'cats/*.png' --request 2026-17 --certificate cats.json
    munkey forget model --unit 'Anna K.' --also-identical --dry-run
    munkey forget model --csv requests.csv --certificate 'receipt-{request}.json'

    Prints the head of the chain of deletions. Keep it elsewhere: `munkey verify DIR --published HEAD` then finds an
    older copy that was put back.
    """
    listed = given.list_in(files_from, "files") if files_from else []
    texts = {
        "--ids": ids,
        str(ids_file): "\n".join(given.list_in(ids_file, "ids")) if ids_file else None,
    }
    named = {
        "ids": [
            one
            for where, text in texts.items()
            if text is not None
            for one in given.ids_in(where, text)
        ],
        "files": [*given.named_files(files, more), *filter(str.strip, listed)],
        "labels": classes or [],
        "units": units or [],
    }
    lines = [{kind: names} for kind, names in named.items() if names]
    for sentence, wrong in {
        "name what to forget: --ids, --ids-file, --files, --files-from, --class, --unit; or a --csv": bool(
            lines
        )
        == (csv is not None),
        "--class and --unit: both, or either? Name one; or both in a line of a CSV, for what is both": classes
        and units,
        "--request does not go with --csv, whose column `request` has the numbers": csv
        and request is not None,
        "--list-ids and --salt-file need a certificate: --certificate FILE": (list_ids or salt_file)
        and not certificate,
    }.items():
        if wrong:
            raise ValueError(sentence)
    requests = {request: lines} if csv is None else _requests_in(csv, as_json)

    from munkey.deploy.certificate import Certificate, write_certificate, write_new
    from munkey.deploy.deletions import CertificateOrder, DeletionRequest

    wanted = DeletionRequest(
        requests,
        ignore_missing=ignore_missing,
        also_identical=also_identical,
        similar=similar,
        also_similar=also_similar,
        block_return=block_return,
    )
    done: list[dict[str, Any]] = []

    def deliver(answer: dict[str, Any], made: Certificate) -> None:
        file = written[answer["request"]]
        answer.update({"page": str(write_certificate(made, file)), "certificate": str(file)})

    try:
        with given.model(directory, writer=not dry_run, wait=wait) as predictor:
            plan = predictor.plan(wanted)
            new = [number for number, planned in plan.deletions.items() if not planned.earlier]
            written, salt_files = _files(certificate, new), _files(salt_file, new)
            given.require_certificates(directory, written.values(), salt_files.values())
            if dry_run:
                answers = predictor.preview(plan)
            else:
                salts = {
                    number: secrets.token_bytes(16)
                    for number in written
                    if len(plan.deletions[number].ids)
                }
                for number in salts.keys() & salt_files.keys():
                    write_new(salt_files[number], f"{salts[number].hex()}\n", 0o600)
                order = CertificateOrder(
                    salts, deliver, tell_salts=not salt_file, list_ids=list_ids
                )
                with working("forgetting"):
                    answers = predictor.delete(plan, certificates=order, answers=done)
            for answer in answers:
                answer.update(plan.deletions[answer["request"]].look_alikes)
                for file in _files(certificate, [answer["request"]]).values():
                    _say_certificate(answer, file, directory)
            head = predictor.head
        if unpurged := answers[0].get("unpurged"):
            print(f"munkey: {unpurged}", file=sys.stderr)
        end = _words_about_names(plan)
        if any(
            answer.get("deleted") and not (answer["purged"] or answer["repeated"] or unpurged)
            for answer in done
        ):
            end.append(
                f"names of source files and units stay in the directory until `munkey purge {directory}`"
            )
        end.append("nothing was changed" if dry_run else f"head of the chain: {head}")
        value = answers[0] if csv is None else {"requests": answers, "left": answers[-1]["left"]}
        value |= {"missing": plan.missing, "head": head}
        say("\n".join([*(_worded(answer, directory) for answer in answers), *end]), value, as_json)
    except (Exception, KeyboardInterrupt) as error:
        if not done:
            raise
        later = "`munkey certificate DIR FILE --deletion NUMBER` certifies it later"
        said = [
            *(_worded(answer, directory) for answer in done),
            f"head of the chain: {done[-1]['head']}",
            later,
        ]
        raise AfterDeletionError(error, "\n".join(said), done) from error
    _exit_if_one_found_nothing(answers)


def _exit_if_one_found_nothing(answers: list[dict[str, Any]]) -> None:
    if any(answer["found_nothing"] for answer in answers):
        raise typer.Exit(FOUND_NOTHING)


def _requests_in(file: Path, as_json: bool) -> dict[str | None, list[dict[str, list[Any]]]]:
    """The requests of a CSV file. Where there are none, as on a day without any, the command says so and ends."""
    requests = given.requests_in(file)
    if not requests:
        say(f"{file}: no requests, so nothing was changed", {"requests": []}, as_json)
        raise typer.Exit
    return requests


def _files(file: OneFile, numbers: Iterable[str | None]) -> dict[str | None, Path]:
    """The file of each request, by its number; none where no file is given."""
    names = {number: re.sub(r"[/\x00-\x1f]", "-", number or "") for number in numbers if file}
    return {number: Path(str(file).replace("{request}", name)) for number, name in names.items()}


def _say_certificate(answer: dict[str, Any], file: Path, directory: Path) -> None:
    """Put into the answer where its certificate lies or would; for a repeated request without it, what writes it."""
    repeated = answer.get("repeated")
    there = file.exists() if repeated else answer.get("would_delete")
    answer.setdefault("certificate", str(file) if there else None)
    if repeated and answer["deleted"] and not there:
        words = ["munkey", "certificate", f"{directory}", f"{file}", "--request", answer["request"]]
        answer["certify"] = shlex.join(words)


def _look_alikes(above: float, also: bool, samples: list[dict[str, Any]]) -> str:
    """How many there are, which, and whether they are kept."""
    from munkey.deploy.errors import first_ten

    ids = first_ten([f"{each['id']} ({each['cosine']:.2f})" for each in samples])
    units = sorted({each["unit"] for each in samples if each["unit"]})
    kept = f"kept, with keys as near as {above:g} (cosine); --also-similar forgets them too"
    which = f"ids {ids}" + (f", of unit {first_ten(units)}" if units else "")
    return f"{counted(len(samples), 'look-alike')} {'among these' if also else kept}: {which}"


def _words_about_names(plan: "DeletionPlan") -> list[str]:
    """The names that no sample has, and the held names that are near them."""
    from munkey.deploy.errors import HELD, first_ten

    lines = []
    if plan.missing:
        lines.append(f"not in the memory, {HELD}: {first_ten(plan.missing)}")
    if plan.hint:
        lines.append(one_line(plan.hint))
    return lines


def _worded(answer: dict[str, Any], directory: Path) -> str:
    """What was done for a request, or would be."""
    from munkey.deploy.errors import first_ten

    name = f"request {one_line(answer['request'])}: " if answer["request"] else ""
    if answer.get("repeated"):
        certify = (
            f"\nno certificate is there: `{one_line(answer['certify'])}` writes it"
            if "certify" in answer
            else ""
        )
        if answer["found_nothing"]:
            return f"{name}found nothing on {answer['when']}; deleted nothing"
        return f"{name}carried out on {answer['when']}, so nothing was changed{certify}"
    if dry_run := "would_delete" in answer:
        classes = ", ".join(f"{each} {count:,}" for each, count in answer["classes"].items())
        said = f"would forget {counted(len(answer['would_delete']), 'sample')}{classes and f' ({classes})'} and keep"
        lines = [f"{name}{said} {answer['left']:,}"]
        lines += [f"ids {first_ten(answer['would_delete'])}"] if answer["would_delete"] else []
    else:
        numbers = (
            f"; numbers {answer['first']} to {answer['last']} of the chain"
            if answer["deleted"]
            else ""
        )
        lines = [
            f"{name}forgot {counted(answer['deleted'], 'sample')}, {answer['left']:,} left{numbers}"
        ]
    if answer["found_nothing"]:
        done = "would delete" if dry_run else "deleted"
        why = "nothing that it names is held: forgotten earlier, see `munkey log`, or never in this memory"
        lines = [f"{name}found nothing now; {done} nothing, {answer['left']:,} left", why]
    if copies := answer["copies"]:
        ids, units = (
            [copy["id"] for copy in copies],
            sorted({copy["unit"] for copy in copies if copy["unit"]}),
        )
        which = f"ids {first_ten(ids)}" + (f", of unit {first_ten(units)}" if units else "")
        request = " --request NEW" if answer["request"] else ""
        again = f"`munkey forget {shlex.quote(str(directory))} --ids {','.join(map(str, ids))}{request}`"
        way = f"{'--also-identical' if dry_run else again} forgets them too"
        stay = f"exact copies of these stay: {which}; {way}"
        lines.append(
            stay
            if answer["identical"]
            else f"{len(ids):,} of these are exact copies of the named: {which}"
        )
    if (near := answer.get("similar")) and near["samples"]:
        lines.append(_look_alikes(**near))
    if emptied := answer.get("emptied"):
        lines.append(
            f"no sample is left of {first_ten(emptied)}; `predict --only-held-classes` never answers it"
        )
    if "certificate" in answer:
        file = answer["certificate"]
        place = (
            f"would be written to {file}"
            if dry_run
            else f"{file}; readable page: {answer.get('page')}"
        )
        lines.append(f"certificate: {place if file else 'none, since there is nothing to delete'}")
    if "salt" in answer:
        lines.append(f"salt of its ids, stored in no file: {answer['salt']}")
    return "\n".join(lines)

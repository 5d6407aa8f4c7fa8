"""The commands that look into a model and maintain it: list, log, inspect, verify, purge, compact, certificate."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from munkey.cli import arguments as given
from munkey.cli.output import NotVerifiedError, say, table, working
from munkey.core.console import counted


def list_(
    directory: given.Directory,
    more: given.MoreFiles = None,
    files: given.Files = None,
    classes: given.Classes = None,
    units: given.Units = None,
    ids: given.Ids = None,
    no_unit: Annotated[
        bool, typer.Option("--no-unit", help="The samples that belong to no unit.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV, which `forget --csv` takes.")
    ] = False,
    as_json: given.AsJson = False,
) -> None:
    """List the samples that a memory holds: id, class, source file, unit, and when each was added.

    \b
    munkey list model --class cat
    munkey list model --files 'pets/1*.png' --unit 'Anna K.' --csv
    munkey list model --no-unit

    Every filter must hold; of one that is given several times, any.
    """
    from munkey.deploy import json_answers
    from munkey.deploy.errors import UnknownNamesError

    wanted = None if ids is None else set(given.ids_in("--ids", ids))
    with given.model(directory) as predictor:
        unknown = [str(one) for one in sorted((wanted or set()).difference(predictor.ids.tolist()))]
        if unknown:
            raise UnknownNamesError(unknown)
        wanted_units: list[str | None] = list(units or [])
        if no_unit:
            wanted_units.append(None)
        rows = predictor.rows(
            labels=classes or [], units=wanted_units, files=given.named_files(files, more)
        )
        samples = json_answers.samples(row for row in rows if wanted is None or row.id in wanted)
    lines = [
        ["id", "class", "file", "unit", "added"],
        *[list(sample.values()) for sample in samples],
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for line in lines:
        writer.writerow([given.cell_of(cell) if isinstance(cell, str) else cell for cell in line])
    listing = f"{table(lines)}\n{counted(len(samples), 'sample')}"
    say(text.getvalue().rstrip("\n") if as_csv else listing, {"samples": samples}, as_json)


def log(directory: given.Directory, as_json: given.AsJson = False) -> None:
    """Say which deletions there were: numbers in the chain, when, the number of the request, how many samples, head.

    \b
    munkey log model --json
    """
    from munkey.deploy import json_answers

    with given.model(directory) as predictor:
        entries = json_answers.log(predictor.log())
    shown = ("first", "last", "when", "request", "deleted", "head")
    deletions = table([list(shown), *[[entry[name] for name in shown] for entry in entries]])
    say(deletions if entries else "no deletion so far", {"log": entries}, as_json)


def inspect(directory: given.Directory, as_json: given.AsJson = False) -> None:
    """Say what a model is, and what its memory holds.

    \b
    munkey inspect model
    """
    with given.model(directory) as predictor:
        manifest, summary = predictor.manifest, predictor.summary()
        facts: dict[str, object] = {
            "directory": str(directory),
            "bytes": summary["bytes"],
            "classes": manifest.names,
            "encoder": manifest.encoder.settings.encoder
            if manifest.encoder
            else "none: rows are embeddings",
            "architecture": manifest.architecture or manifest.family,
            "inference": manifest.inference.model_dump()
            if manifest.inference
            else manifest.settings,
            "samples": summary["samples"],
            **predictor.memory_facts(),
            "head": summary["head"],
            "provenance": manifest.provenance.model_dump()
            if manifest.provenance
            else "an estimator",
        }
    say("\n".join(f"{name}: {_worded(value)}" for name, value in facts.items()), facts, as_json)


def _worded(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_worded(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def verify(
    directory: given.Directory,
    published: Annotated[
        str | None,
        typer.Option(
            metavar="HEAD",
            help="A head that `forget` printed, all 64 digits: it must be in the chain.",
        ),
    ] = None,
    as_json: given.AsJson = False,
) -> None:
    """Recompute the chain of deletions; check every row and all checksums.

    \b
    munkey verify model
    munkey verify model --published HEAD

    Exits with 1 if something is not as it must be, and with 2 if the model is too damaged to be opened at all.
    """
    from munkey.deploy import json_answers

    with given.model(directory) as predictor:
        with working("verifying"):
            report = predictor.verify(published)
        if not report.sound:
            raise NotVerifiedError(str(report))
    say(str(report), json_answers.verification(report), as_json)


def purge(directory: given.Directory, wait: given.Wait = 0, as_json: given.AsJson = False) -> None:
    """Leave no byte of what was forgotten in any file of the directory.

    \b
    munkey purge model

    Exits with 1 if files lie there that are not the model's: they stay, and may hold what was forgotten.
    """
    with given.model(directory, writer=True, wait=wait) as predictor:
        with working("purging"):
            foreign = predictor.purge()
        _require_nothing_foreign(directory, foreign)
        said = "purged: no byte of what was forgotten is in any file of the directory"
        say(said, predictor.summary() | {"foreign": foreign}, as_json)


def _require_nothing_foreign(directory: Path, foreign: Sequence[str]) -> None:
    """Raises NotVerifiedError where files lie in the directory that are not the model's, and that may hold anything."""
    if foreign:
        said = f"{directory}: the model's own files are purged, but nobody looked into {', '.join(foreign)}"
        raise NotVerifiedError(
            f"{said}: what was forgotten may be in there. Move them elsewhere, and purge again"
        )


def compact(
    directory: given.Directory, wait: given.Wait = 0, as_json: given.AsJson = False
) -> None:
    """Purge, and free the space of what was forgotten.

    \b
    munkey compact model
    """
    with given.model(directory, writer=True, wait=wait) as predictor:
        with working("compacting"):
            foreign = predictor.compact()
        left = predictor.summary()
        _require_nothing_foreign(directory, foreign)
    say(f"compacted: {counted(left['samples'], 'sample')}, {left['bytes']:,} bytes", left, as_json)


def certificate(
    directory: given.Directory,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The certificate, JSON.", show_default=False)
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Check it: look for its deletion in the chain.")
    ] = False,
    deletion: Annotated[
        int | None, typer.Option(metavar="N", help="Of the deletion with this sequence number.")
    ] = None,
    request: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Of the deletion for this request.")
    ] = None,
    ids: given.Ids = None,
    salt: Annotated[
        str | None, typer.Option(metavar="HEX", help="The salt that `forget` printed for the ids.")
    ] = None,
    salt_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The same, in a file.")
    ] = None,
    as_json: given.AsJson = False,
) -> None:
    """Write a certificate of the last deletion, or check one. No file is overwritten.

    \b
    munkey certificate model receipt.json                    also writes receipt.html, a readable page
    munkey certificate model receipt.json --check
    munkey certificate model receipt.json --check --ids 17,42 --salt 0f3c…

    With ids and salt, anyone can prove that the certificate names these samples; that they are those of the deletion is
    the word of who wrote it, since the chain knows no ids. The check finds ids that the memory still holds.

    A check exits with 1 if the memory contradicts the certificate, and with 2 if the file is none or was changed.
    """
    from munkey.deploy import certificate as certificates

    if check and (deletion is not None or request is not None):
        raise ValueError(
            "--deletion and --request do not go with --check: the certificate itself says what it is of"
        )
    if (ids is None) != (salt is None and salt_file is None):
        raise ValueError("--ids and --salt go together: a certificate holds one hash of both")
    secret = given.salt_of(salt, salt_file)
    numbers = None if ids is None else given.ids_in("--ids", ids)
    if not check:
        given.require_certificates(directory, [file])
    with given.model(directory) as predictor:
        if not check:
            made = predictor.certificate(deletion, request)
            if numbers is not None:
                there = predictor.select(ids=numbers, ignore_missing=True).ids
                if len(there) or len(set(numbers)) != made.rows:
                    said = f"{len(set(numbers))} ids, {len(there)} of them in the memory, cannot be the deletion's"
                    raise ValueError(f"--ids: {said} {counted(made.rows, 'sample')}")
                made = certificates.with_ids(made, numbers, secret, later=True)
            page = certificates.write_certificate(made, file)
            text = f"{file}: {counted(made.rows, 'sample')} deleted on {made.deleted}; readable page: {page}"
            say(text, made.model_dump(mode="json"), as_json)
            return
        made = certificates.read_certificate(file)
        exact = predictor.digests(anew=True) if made.exact else None
        faults = predictor.certificate_faults(made, numbers, secret, exact)
    if faults:
        raise NotVerifiedError(f"{file}: NOT VERIFIED: {'; '.join(faults)}")
    hashed = "; its hash is that of the given ids and salt, as who wrote it chose them"
    meant = hashed if numbers is not None else ""
    held = (
        f"the deletion of {counted(made.rows, 'sample')} on {made.deleted}, between the same heads"
    )
    unconfirmed = certificates.unconfirmed_fields(made, exact)
    if made.exact and "exact" not in unconfirmed:
        held += "; what answered equals, to the bit, a fit to the rows that are left"
    doubts = ", ".join(unconfirmed.values())
    text = f"{file}: verified: the chain holds {held}{meant}; the chain cannot confirm: {doubts}"
    facts = {
        "sound": True,
        "said": text,
        "unconfirmed": list(unconfirmed),
        "certificate": made.model_dump(mode="json"),
    }
    say(text, facts, as_json)

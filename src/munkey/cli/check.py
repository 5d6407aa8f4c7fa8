"""Commands that check and maintain a model: list, log, inspect, verify, purge, certificate."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from munkey.cli import arguments
from munkey.cli.output import NotVerifiedError, format_table, print_result, show_spinner
from munkey.core.console import pluralize

if TYPE_CHECKING:
    from munkey.deploy.certificate import Certificate
    from munkey.deploy.predictor import Predictor


def list_(
    directory: arguments.Directory,
    more_files: arguments.MoreFiles = None,
    files: arguments.Files = None,
    globs: arguments.Globs = None,
    classes: arguments.Classes = None,
    units: arguments.Units = None,
    ids: arguments.Ids = None,
    no_unit: Annotated[
        bool, typer.Option("--no-unit", help="List samples that belong to no unit.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV for `munkey forget --csv`.")
    ] = False,
    as_json: arguments.AsJson = False,
) -> None:
    """List the samples in the memory, with id, class, source file, unit and date.

    \b
    munkey list model --class cat
    munkey list model --glob 'pets/1*.png' --unit 'Anna K.' --csv
    munkey list model --no-unit

    Lists the samples that match all filters. A filter with several values matches any of them.
    """
    from munkey.deploy import json_format
    from munkey.deploy.errors import UnknownNamesError

    id_filter = None
    if ids is not None:
        id_filter = set(arguments.parse_ids("--ids", ids))
    unit_filter: list[str | None] = list(units or [])
    if no_unit:
        unit_filter.append(None)
    with arguments.open_model(directory) as predictor:
        if id_filter is not None:
            unknown_ids = sorted(id_filter.difference(predictor.ids.tolist()))
            if unknown_ids:
                raise UnknownNamesError([str(unknown_id) for unknown_id in unknown_ids])
        rows = predictor.rows(
            labels=classes or [],
            units=unit_filter,
            files=arguments.join_files(files, more_files, globs),
        )
        if id_filter is not None:
            rows = [row for row in rows if row.id in id_filter]
        samples = json_format.format_samples(rows)
    table = [["id", "class", "file", "unit", "added"]]
    table += [list(sample.values()) for sample in samples]
    if as_csv:
        text = _format_csv(table)
    else:
        text = f"{format_table(table)}\n{pluralize(len(samples), 'sample')}"
    print_result(text, {"samples": samples}, as_json)


def _format_csv(rows: Sequence[Sequence[object]]) -> str:
    """Format rows as CSV that is safe to open in a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        cells = []
        for value in row:
            cells.append(arguments.encode_cell(value) if isinstance(value, str) else value)
        writer.writerow(cells)
    return text.getvalue().rstrip("\n")


def log(directory: arguments.Directory, as_json: arguments.AsJson = False) -> None:
    """List all deletions with their chain numbers, time, request, number of samples, and head.

    \b
    munkey log model --json
    """
    from munkey.deploy import json_format

    with arguments.open_model(directory) as predictor:
        deletions = json_format.format_log(predictor.log())
    columns = ["first", "last", "when", "request", "deleted", "head"]
    table = [columns]
    for deletion in deletions:
        table.append([deletion[name] for name in columns])
    if deletions:
        text = format_table(table)
    else:
        text = "no deletions so far"
    print_result(text, {"log": deletions}, as_json)


def inspect(directory: arguments.Directory, as_json: arguments.AsJson = False) -> None:
    """Show a model's classes, encoder, architecture, inference settings, memory, and provenance.

    \b
    munkey inspect model
    """
    with arguments.open_model(directory) as predictor:
        manifest = predictor.manifest
        summary = predictor.summary()
        # Listed in the order of the output. The values of an encoder, inference settings and
        # provenance are those of an estimator's model; others replace them below.
        facts: dict[str, object] = {
            "directory": str(directory),
            "bytes": summary["bytes"],
            "classes": predictor.classes.texts,
            "encoder": "none: rows are embeddings",
            "architecture": manifest.architecture or manifest.family,
            "inference": manifest.settings,
            "samples": summary["samples"],
            **predictor.memory_facts(),
            "head": summary["head"],
            "provenance": "an estimator",
        }
    if manifest.encoder:
        facts["encoder"] = manifest.encoder.settings.encoder
    if manifest.inference:
        facts["inference"] = manifest.inference.model_dump()
    if manifest.provenance:
        facts["provenance"] = manifest.provenance.model_dump()
    lines = [f"{name}: {_format_value(value)}" for name, value in facts.items()]
    print_result("\n".join(lines), facts, as_json)


def _format_value(value: object) -> str:
    """Format a value, dictionary or list on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format_value(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def verify(
    directory: arguments.Directory,
    published: Annotated[
        str | None,
        typer.Option(
            metavar="HEAD",
            help="A head that `forget` printed (64 digits); the chain must contain it.",
        ),
    ] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Verify the chain of deletions, every row, and all checksums.

    \b
    munkey verify model
    munkey verify model --published HEAD

    Exits with 1 if a check fails, and with 2 if the model is too damaged to open.
    """
    from munkey.deploy import json_format

    with arguments.open_model(directory) as predictor:
        with show_spinner("verifying"):
            report = predictor.verify(published)
        if not report.sound:
            raise NotVerifiedError(str(report))
    print_result(str(report), json_format.format_report(report), as_json)


def purge(
    directory: arguments.Directory,
    wait: arguments.Wait = arguments.DEFAULT_WAIT_S,
    as_json: arguments.AsJson = False,
) -> None:
    """Erase all remaining traces of forgotten samples from the model's files.

    \b
    munkey purge model

    Exits with 1 if the directory contains files that do not belong to the model. The command does
    not change them, and they may contain forgotten samples.
    """
    with arguments.open_model(directory, wait=wait) as predictor:
        with show_spinner("purging"):
            foreign_files = predictor.purge()
        _require_no_foreign_files(directory, foreign_files)
        text = "purged: no file in the directory contains any byte of a forgotten sample"
        print_result(text, predictor.summary() | {"foreign": foreign_files}, as_json)


def _require_no_foreign_files(directory: Path, foreign_files: Sequence[str]) -> None:
    """Raise NotVerifiedError if the directory contains files that do not belong to the model."""
    if foreign_files:
        raise NotVerifiedError(
            f"{directory}: the model's files are purged, but these files do not belong to the model"
            f" and were not checked: {', '.join(foreign_files)}. They may contain forgotten samples."
            " Move them elsewhere, and purge again"
        )


def keygen(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The new private key (PEM).", show_default=False),
    ],
    as_json: arguments.AsJson = False,
) -> None:
    """Make a key with which `munkey forget --sign` signs certificates. No file is overwritten.

    \b
    munkey keygen ~/keys/certificates              also writes certificates.pub, the public key

    The private key has no password: keep it where only you can read it. Publish the public key, or
    its fingerprint.
    """
    from munkey.deploy.signatures import create_key, get_public_path

    fingerprint = create_key(file)
    public_file = get_public_path(file)
    text = f"{file}: a new private key; its public key is {public_file}, fingerprint {fingerprint}"
    facts = {"private": str(file), "public": str(public_file), "fingerprint": fingerprint}
    print_result(text, facts, as_json)


def certificate(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="An exported model; may be omitted with --check --key.",
            show_default=False,
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="The certificate (JSON).", show_default=False),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check a certificate instead."),
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY.pub",
            help="Check that the owner of this public key signed the certificate.",
        ),
    ] = None,
    sign: arguments.SigningKey = None,
    deletion: Annotated[
        int | None,
        typer.Option(metavar="N", help="Certify the deletion with this number in the chain."),
    ] = None,
    request: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Certify the deletion of this request.")
    ] = None,
    ids: arguments.Ids = None,
    salt: Annotated[
        str | None, typer.Option(metavar="HEX", help="The salt that `forget` printed.")
    ] = None,
    salt_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the salt.")
    ] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Write a certificate of the last deletion, or check one. No file is overwritten.

    \b
    munkey certificate model certificate.json                    also writes certificate.html, a readable page
    munkey certificate model certificate.json --check
    munkey certificate model certificate.json --check --ids 17,42 --salt 0f3c…
    munkey certificate certificate.json --check --key certificates.pub             without the model

    With ids and salt, the check also verifies that the certificate was written for these samples,
    and fails if any of them is still in the memory. It cannot prove that they are the deleted
    samples, because the chain contains no ids.

    A check exits with 1 if the memory or the signature contradicts the certificate, and with 2 if
    the file is not a certificate or was modified.
    """
    if key is not None and not check:
        raise ValueError("--key checks a signature: give --check as well, or --sign to sign")
    if sign is not None and check:
        raise ValueError("--sign cannot be combined with --check, which writes nothing")
    if file is None and key is None:
        raise ValueError(
            "give the model's folder and the certificate: munkey certificate DIR FILE; or check the"
            " certificate's signature alone: munkey certificate FILE --check --key KEY.pub"
        )
    if check and (deletion is not None or request is not None):
        raise ValueError(
            "--deletion and --request cannot be combined with --check, because the certificate"
            " itself states which deletion it certifies"
        )
    has_salt = salt is not None or salt_file is not None
    if (ids is not None) != has_salt:
        raise ValueError(
            "--ids and --salt must be given together, because a certificate contains one hash of both"
        )
    salt_bytes = arguments.read_salt(salt, salt_file)
    id_list = None
    if ids is not None:
        id_list = arguments.parse_ids("--ids", ids)
    if file is None:
        assert key is not None
        text, facts = _check_signature(directory, key, id_list, salt_bytes)
    elif check:
        text, facts = _check_with_model(directory, file, key, id_list, salt_bytes)
    else:
        arguments.require_certificates(directory, [file])
        sign_certificate = arguments.make_signer(sign)
        with arguments.open_model(directory) as predictor:
            document = predictor.certificate(deletion, request)
            if id_list is not None:
                document = _add_ids(predictor, document, id_list, salt_bytes)
        text, facts = _write_certificate(sign_certificate(document), file)
    print_result(text, facts, as_json)


def _add_ids(
    predictor: "Predictor", document: "Certificate", ids: list[int], salt: bytes
) -> "Certificate":
    """Return a certificate with the hash of the given ids. Raises ValueError if they cannot be its."""
    from munkey.deploy.certificate import add_ids

    present_ids = predictor.select(ids=ids, ignore_missing=True).ids
    distinct_count = len(set(ids))
    if len(present_ids) or distinct_count != document.rows:
        raise ValueError(
            f"--ids: lists {pluralize(distinct_count, 'id')}, {len(present_ids)} of them still in"
            f" the memory, but the deletion has {pluralize(document.rows, 'sample')}"
        )
    return add_ids(document, ids, salt, added_later=True)


def _write_certificate(document: "Certificate", file: Path) -> tuple[str, dict[str, Any]]:
    """Write a certificate and its page. Returns the command's result, as text and as JSON."""
    from munkey.deploy.certificate import write_certificate

    page = write_certificate(document, file)
    text = (
        f"{file}: {pluralize(document.rows, 'sample')} deleted on {document.deleted}; readable"
        f" page: {page}"
    )
    return text, document.model_dump(mode="json")


def _check_signature(
    file: Path, key_file: Path, ids: list[int] | None, salt: bytes
) -> tuple[str, dict[str, Any]]:
    """Return the result of a check without the model. Raises NotVerifiedError if it failed."""
    from munkey.deploy.certificate import hash_ids, read_certificate
    from munkey.deploy.signatures import find_signature_fault, read_public_key

    key = read_public_key(key_file)
    document = read_certificate(file)
    fault = find_signature_fault(document, file, key)
    if fault is None and ids is not None and document.ids_sha256 != hash_ids(ids, salt):
        fault = "it was not issued for these ids with this salt"
    if fault is not None:
        raise NotVerifiedError(f"{file}: NOT VERIFIED: {fault}")
    text = (
        f"{file}: signed by the key {document.signed_by}: {pluralize(document.rows, 'sample')}"
        f" deleted on {document.deleted}"
    )
    if ids is not None:
        text += "; its hash matches these ids and this salt, which its issuer chose"
    text += "; the signature does not prove that this is true"
    facts = {"sound": True, "said": text, "certificate": document.model_dump(mode="json")}
    return text, facts


def _check_with_model(
    directory: Path, file: Path, key: Path | None, ids: list[int] | None, salt: bytes
) -> tuple[str, dict[str, Any]]:
    """Return the result of a check of the deletion, and of the signature if there is a key."""
    signature_text = None
    if key is not None:
        signature_text, _ = _check_signature(file, key, ids, salt)
    with arguments.open_model(directory) as predictor:
        text, facts = _check_certificate(predictor, file, ids, salt)
    if signature_text is not None:
        text = f"{signature_text}\n{text}"
    elif facts["certificate"].get("signed_by") is not None:
        text += "\nIts signature was not checked: pass --key KEY.pub"
    return text, facts | {"said": text, "signature_checked": signature_text is not None}


def _check_certificate(
    predictor: "Predictor", file: Path, ids: list[int] | None, salt: bytes
) -> tuple[str, dict[str, Any]]:
    """Return the result of a check, as text and as JSON. Raises NotVerifiedError if it failed."""
    from munkey.deploy.certificate import describe_unconfirmed_fields, read_certificate

    document = read_certificate(file)
    digests = None
    if document.exact:
        digests = predictor.digests(recompute=True)
    faults = predictor.find_certificate_faults(document, ids, salt, digests)
    if faults:
        raise NotVerifiedError(f"{file}: NOT VERIFIED: {'; '.join(faults)}")
    confirmation = (
        f"the deletion of {pluralize(document.rows, 'sample')} on {document.deleted}, between the"
        " same heads"
    )
    unconfirmed_fields = describe_unconfirmed_fields(document, digests)
    if document.exact and "exact" not in unconfirmed_fields:
        confirmation += (
            "; what the model is computed from equals, bit for bit, what the remaining rows give"
        )
    if ids is not None:
        confirmation += "; its hash matches these ids and this salt, which its issuer chose"
    doubts = ", ".join(unconfirmed_fields.values())
    text = (
        f"{file}: verified: the chain contains {confirmation}; the chain cannot confirm: {doubts}"
    )
    facts = {
        "sound": True,
        "said": text,
        "unconfirmed": list(unconfirmed_fields),
        "certificate": document.model_dump(mode="json"),
    }
    return text, facts

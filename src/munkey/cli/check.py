"""The commands that check and maintain a model: inspect, verify, purge, compact, certificate."""

from pathlib import Path
from typing import Annotated

import typer

from munkey.cli.arguments import AsJson, Directory, Ids, model, require_certificate, wanted_ids
from munkey.cli.output import NotVerifiedError, say, working
from munkey.core.console import counted


def inspect(directory: Directory, as_json: AsJson = False) -> None:
    """Say what a model is, what its memory holds, and how it is searched: exactly, or by an index.

    \b
    munkey inspect model
    """
    with model(directory) as predictor:
        manifest, state, summary = predictor.manifest, predictor.store.state, predictor.summary()
        facts: dict[str, object] = {
            "directory": str(directory),
            "bytes": summary["bytes"],
            "classes": manifest.classes,
            "encoder": manifest.encoder.settings.encoder,
            "architecture": manifest.architecture,
            "inference": manifest.inference.model_dump(),
            "search": predictor.search.described(),
            "samples": summary["samples"],
            "deleted, space not freed": len(predictor.store.view.live) - summary["samples"],
            "deletions": predictor.store.deletions,
            "key width": state.key_width,
            "token width": state.token_width,
            "memory": state.store.hex(),
            "head": summary["head"],
            "provenance": manifest.provenance.model_dump(),
        }
    say("\n".join(f"{name}: {_worded(value)}" for name, value in facts.items()), facts, as_json)


def _worded(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_worded(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


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
    from munkey.deploy import json_answers

    with model(directory) as predictor:
        with working("verifying"):
            report = predictor.verify(published)
        if not report.sound:
            raise NotVerifiedError(str(report))
        search = predictor.search.described()
    say(f"{report}\nsearch: {search}", json_answers.verified(report, search), as_json)


def purge(directory: Directory, as_json: AsJson = False) -> None:
    """Leave no byte of what was forgotten in any file of the directory.

    \b
    munkey purge model
    """
    with model(directory, writer=True) as predictor:
        with working("purging"):
            foreign = predictor.purge()
        besides = f"; not part of it, and not looked at: {', '.join(foreign)}" if foreign else ""
        said = f"purged: no byte of what was forgotten is in any file of the model{besides}"
        say(said, predictor.summary() | {"foreign": foreign}, as_json)


def compact(directory: Directory, as_json: AsJson = False) -> None:
    """Purge, free the space of what was forgotten, and add new samples to the index, if there is one.

    \b
    munkey compact model
    """
    with model(directory, writer=True) as predictor:
        with working("compacting"):
            predictor.compact()
        left = predictor.summary()
    say(f"compacted: {counted(left['samples'], 'sample')}, {left['bytes']:,} bytes", left, as_json)


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
    from munkey.deploy import certificate as certificates

    if not check and (ids is not None or salt is not None):
        raise ValueError("--ids and --salt go with --check: a certificate written from the chain knows no ids")
    if check and deletion is not None:
        raise ValueError("--deletion does not go with --check: the certificate itself says which deletion it is of")
    if (ids is None) != (salt is None):
        raise ValueError("--ids and --salt go together: a certificate holds one hash of both")
    if not check:
        require_certificate(directory, file)
        with model(directory) as predictor:
            made = certificates.certify(predictor.store, certificates.receipt_of(predictor.store, deletion))
        page = certificates.write_certificate(made, file)
        text = f"{file}: {counted(made.rows, 'sample')} deleted on {made.deleted}; readable page: {page}"
        say(text, made.model_dump(mode="json"), as_json)
        return
    with model(directory) as predictor:
        made = certificates.read_certificate(file)
        faults = certificates.faults(made, predictor.store)
    try:
        salt_bytes = bytes.fromhex(salt or "")
    except ValueError:
        raise ValueError("--salt: not hexadecimal; it is what `forget --certificate` printed") from None
    if ids is not None and made.ids_sha256 != certificates.salted(wanted_ids(ids, None), salt_bytes):
        faults.append("it was not made for these ids with this salt")
    if faults:
        raise NotVerifiedError(f"{file}: NOT VERIFIED: {'; '.join(faults)}")
    meant = "; it was made for exactly the given ids" if ids is not None else ""
    held = f"the deletion of {counted(made.rows, 'sample')} on {made.deleted}, between the same heads"
    text = f"{file}: verified: the chain holds {held}{meant}"
    say(text, {"sound": True, "said": text, "certificate": made.model_dump(mode="json")}, as_json)

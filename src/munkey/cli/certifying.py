"""`munkey certificate`."""

from collections.abc import Sequence
from pathlib import Path

from munkey.cli.output import NotVerifiedError, say
from munkey.core.console import counted
from munkey.deploy import certificate
from munkey.deploy.store.store import Store


def require_fitting(check: bool, deletion: int | None, ids: str | None, salt: str | None) -> None:
    """Raise ValueError where an option would be silently ignored."""
    if not check and (ids is not None or salt is not None):
        raise ValueError("--ids and --salt go with --check: a certificate written from the chain knows no ids")
    if check and deletion is not None:
        raise ValueError("--deletion does not go with --check: the certificate itself says which deletion it is of")
    if (ids is None) != (salt is None):
        raise ValueError("--ids and --salt go together: a certificate holds one hash of both")


def write(store: Store, file: Path, deletion: int | None, as_json: bool) -> None:
    """Write the certificate of an earlier deletion, from the chain."""
    made = certificate.certify(store, certificate.receipt_of(store, deletion))
    page = certificate.write_certificate(made, file)
    text = f"{file}: {counted(made.rows, 'sample')} deleted on {made.deleted}; readable page: {page}"
    say(text, made.model_dump(mode="json"), as_json)


def check(store: Store, file: Path, ids: Sequence[int], salt: str | None, as_json: bool) -> None:
    """Check that the memory does not contradict a certificate and, where ids are given, that it is of these."""
    made = certificate.read_certificate(file)
    found = certificate.faults(made, store)
    try:
        salt_bytes = bytes.fromhex(salt or "")
    except ValueError:
        raise ValueError("--salt: not hexadecimal; it is what `forget --certificate` printed") from None
    if ids and made.ids_sha256 != certificate.salted(ids, salt_bytes):
        found.append("it was not made for these ids with this salt")
    if found:
        raise NotVerifiedError(f"{file}: NOT VERIFIED: {'; '.join(found)}")
    meant = "; it was made for exactly the given ids" if ids else ""
    held = f"the deletion of {counted(made.rows, 'sample')} on {made.deleted}, between the same heads"
    text = f"{file}: verified: the chain holds {held}{meant}"
    say(text, {"sound": True, "said": text, "certificate": made.model_dump(mode="json")}, as_json)

"""`munkey forget`."""

import secrets
import sys
from pathlib import Path

from munkey.cli.choice import Choice
from munkey.cli.outcome import say, working
from munkey.core.console import counted
from munkey.memory.store.errors import LockedMemoryError
from munkey.serve import certificate, said
from munkey.serve.predictor import Predictor

NO_CERTIFICATE = "\ncertificate: none, since there is nothing to delete"


def describe(predictor: Predictor, chosen: Choice, file: Path | None, as_json: bool) -> None:
    """What would be forgotten, and where the certificate would be."""
    ids, left = chosen.ids.tolist(), len(predictor.ids) - len(chosen.ids)
    text = f"would forget {counted(len(ids), 'sample')} and keep {left}; nothing was changed{_missing(chosen)}"
    if file is not None:
        text += f"\ncertificate: would be written to {file}" if ids else NO_CERTIFICATE
    say(text, {"would_delete": ids, "missing": chosen.missing, "left": left, "head": predictor.head}, as_json)


def forget(predictor: Predictor, chosen: Choice, file: Path | None, list_ids: bool, as_json: bool) -> None:
    """Forget, and say so; with a file, purge and write the certificate."""
    before = certificate.snapshot(predictor.store)
    with working("forgetting"):
        receipt = predictor.forget(chosen.ids)
    value = said.forgotten(receipt) | {"missing": chosen.missing, "left": len(predictor.ids)}
    text = f"forgot {counted(len(chosen.ids), 'sample')}, {value['left']:,} left{_missing(chosen)}"
    text += f"\nhead of the chain: {receipt.after}"
    if file is not None and not receipt.sequences:
        value |= {"certificate": None}
        text += NO_CERTIFICATE
    elif file is not None:
        salt = secrets.token_bytes(16)
        _purge(predictor)
        made = certificate.naming(certificate.certify(predictor.store, receipt, before), chosen.ids.tolist(), salt)
        page = _written(certificate.listing(made, chosen.ids.tolist()) if list_ids else made, file)
        value |= {"certificate": str(file), "page": str(page), "salt": salt.hex()}
        text += f"\ncertificate: {file}, for people: {page}\nsalt of its ids, in no file: {salt.hex()}"
    say(text, value, as_json)


def _purge(predictor: Predictor) -> None:
    """Zeros on the disk before the certificate says so; where a reader is in the way of the rest, say that."""
    try:
        predictor.purge()
    except LockedMemoryError as error:
        print(f"munkey: {error}", file=sys.stderr)


def _written(made: certificate.Certificate, file: Path) -> Path:
    try:
        return certificate.write(made, file)
    except OSError as error:
        done = f"the samples are forgotten, and the head of the chain is {made.after.head}, but the certificate"
        raise OSError(f"{done} cannot be written ({error}); `munkey certificate` writes it later") from error


def _missing(chosen: Choice) -> str:
    return f"; not there: {', '.join(chosen.missing)}" if chosen.missing else ""

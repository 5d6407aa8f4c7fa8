"""`munkey forget`."""

import secrets
import sys
from pathlib import Path

from munkey.cli.output import say, working
from munkey.cli.which_samples import Choice
from munkey.core.console import counted
from munkey.deploy import certificate, json_answers
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.errors import LockedMemoryError

NO_CERTIFICATE = "\ncertificate: none, since there is nothing to delete"


def describe(predictor: Predictor, chosen: Choice, file: Path | None, as_json: bool) -> None:
    """What would be forgotten, and where the certificate would be."""
    ids, left = chosen.ids.tolist(), len(predictor.ids) - len(chosen.ids)
    text = f"would forget {counted(len(ids), 'sample')} and keep {left:,}; nothing was changed{_missing(chosen)}"
    if file is not None:
        text += f"\ncertificate: would be written to {file}" if ids else NO_CERTIFICATE
    say(text, {"would_delete": ids, "missing": chosen.missing, "left": left, "head": predictor.head}, as_json)


def forget(predictor: Predictor, chosen: Choice, file: Path | None, list_ids: bool, as_json: bool) -> None:
    """Forget, and say so; with a file, purge and write the certificate. purged: whether no byte is left in any file."""
    before = certificate.snapshot(predictor.store)
    with working("forgetting"):
        receipt = predictor.forget(chosen.ids)
    value = json_answers.forgotten(receipt) | {"purged": False, "missing": chosen.missing, "left": len(predictor.ids)}
    text = f"forgot {counted(len(chosen.ids), 'sample')}, {value['left']:,} left{_missing(chosen)}"
    text += f"\nhead of the chain: {receipt.after}"
    if file is not None and not receipt.sequences:
        value |= {"certificate": None}
        text += NO_CERTIFICATE
    elif file is not None:
        salt = secrets.token_bytes(16)
        purged = _purged(predictor)
        certified = certificate.certify(predictor.store, receipt, before, purged=purged)
        made = certificate.naming(certified, chosen.ids.tolist(), salt)
        page = _written(certificate.listing(made, chosen.ids.tolist()) if list_ids else made, file)
        value |= {"purged": purged, "certificate": str(file), "page": str(page), "salt": salt.hex()}
        text += f"\ncertificate: {file}; readable page: {page}\nsalt of its ids, stored in no file: {salt.hex()}"
    say(text, value, as_json)


def _purged(predictor: Predictor) -> bool:
    """Purge, and whether that was possible: where a reader is in the way, zeros are on the disk, but names may stay."""
    try:
        predictor.purge()
    except LockedMemoryError as error:
        print(f"munkey: {error}; until then, names of source files may be left in it", file=sys.stderr)
        return False
    return True


def _written(made: certificate.Certificate, file: Path) -> Path:
    try:
        return certificate.write_certificate(made, file)
    except OSError as error:
        done = f"the samples are forgotten, and the head of the chain is {made.after.head}, but the certificate"
        later = "`munkey certificate` writes one later, which cannot say which samples they were"
        raise OSError(f"{done} cannot be written ({error}); {later}") from error


def _missing(chosen: Choice) -> str:
    return f"; not in the memory: {', '.join(chosen.missing)}" if chosen.missing else ""

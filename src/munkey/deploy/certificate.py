"""A receipt for a deletion: what was deleted and when, where it stands in the chain, and what it does not claim.

It is JSON that carries the SHA-256 of its own canonical form, and a page that says the same to a person. Ids are left
out unless they are asked for, since a receipt that lists them is itself a trace of them. In their place stands a hash
with a salt that is not part of it: who holds salt and ids can show that these were deleted, and nobody can guess them.
"""

import hashlib
import importlib.metadata
import os
import platform
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, NonNegativeInt, PositiveInt, ValidationError

from munkey.core.console import counted
from munkey.core.files import UnwritableFileError, atomic
from munkey.core.templates import rendered
from munkey.deploy.model.manifest import self_digest
from munkey.deploy.store import disk
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.ledger import MEMORY_FORMAT
from munkey.deploy.store.rows import checked_ids
from munkey.deploy.store.store import Store

TEMPLATE = Path(__file__).parent / "certificate.html.j2"
NOT_CLAIMED = (
    "Anything about copies: pictures and data sets that the memory was made from, other exports, results and earlier"
    " versions in DVC or MLflow, backups, snapshots, answers that were given before.",
    "Anything about what lies below the file system: blocks that an SSD remapped, copy-on-write, swap.",
    "Who asked, who deleted, or that the clock of the machine was right.",
    "A signature: whoever can write this file can write another one. What binds it is the head of the chain, if it was"
    " published where the owner of the memory cannot change it.",
)
WEIGHTS = (
    "That the weights of the model forgot: deletion does not change them. The audits of this project measure what can"
    " be left of a sample in weights that were trained with it."
)
SETTINGS = (
    "That settings and encoder are what they would be without the samples, or that nobody can tell who went: with the"
    " rows that are left and the weights or digests of before, a guess can be tested."
)
GIVEN_LATER = "That the ids behind `ids_sha256` are those of the deletion: they were given later, to who wrote this."
A_TRACE = "That nothing names the deleted samples: this certificate lists their ids, so it is itself a trace of them."


UNCHAINED = {
    "written": "when it was written",
    "versions": "the versions of the programs",
    "rows_zeroed": "whether the rows were overwritten with zeros",
    "purged": "whether the memory was purged",
    "identical": "how many exact copies stayed",
    "ids": "that the ids in it are those of the deletion",
    "ids_sha256": "that the ids behind its salted hash are those of the deletion",
    "live": "how many samples were left",
    "exact": "the digests of what answered: they are not of the rows that the memory holds now",
}


class CertificateError(ValueError):
    """A file is not a certificate, or was changed after it was written."""


class Certificate(BaseModel, frozen=True, extra="forbid"):
    """What a deletion left in the chain. memory: the name of the store, hexadecimal; times: ISO 8601, UTC.

    rows: how many; first: sequence number of the first; before, head: of the chain, before and after it; live:
    rows that the memory held afterwards, if that was recorded; rows_zeroed: whether zeros were found in place of their
    keys, tokens, ids and labels, and known to be on the disk; purged: whether it was known that no byte of them, or of
    the names of their source files and units, was left in any file of the memory; ids_sha256: SHA-256(salt ‖ ids,
    ascending, 8 bytes each, little-endian); identical: exact copies that stayed in the memory; exact: of a family that
    deletes exactly, what answered when this was written (`FittedModel.digests`): it equals what a fit gives that never
    saw the deleted rows, as `faults` checks; sha256: of all the rest (`manifest.self_digest`).
    """

    kind: Literal["munkey deletion certificate"] = "munkey deletion certificate"
    format: Literal[5] = 5
    memory: str
    request: str | None = None
    rows: PositiveInt
    ids: tuple[NonNegativeInt, ...] | None = None
    ids_sha256: str | None = None
    deleted: str
    written: str
    first: PositiveInt
    before: str
    head: str
    live: NonNegativeInt | None = None
    rows_zeroed: bool
    purged: bool
    identical: NonNegativeInt | None = None
    exact: dict[str, str] | None = None
    versions: dict[str, str]
    not_claimed: tuple[str, ...]
    sha256: str = ""

    @property
    def sequences(self) -> range:
        """The sequence numbers of its rows."""
        return range(self.first, self.first + self.rows)

    def sealed(self) -> "Certificate":
        return self.model_copy(update={"sha256": self_digest(self)})


def salted(ids: Iterable[int], salt: bytes) -> str:
    """The hash that stands for ids in a certificate."""
    return hashlib.sha256(salt + np.unique(checked_ids(list(ids))).tobytes()).hexdigest()


def certify(
    store: Store,
    receipt: Receipt,
    *,
    live: int | None = None,
    purged: bool = False,
    exact: dict[str, str] | None = None,
) -> Certificate:
    """The certificate of a deletion. live: rows after it, from who deleted; purged: whether there was a purge since;
    exact: `Predictor.digests`.

    From the chain alone, neither of the first two can be known. Raises CertificateError where nothing was deleted.
    """
    if not receipt.sequences:
        raise CertificateError("nothing was deleted, so there is nothing to certify")
    return Certificate(
        memory=receipt.store,
        request=receipt.request,
        rows=len(receipt.sequences),
        deleted=receipt.when.isoformat(timespec="microseconds"),
        written=datetime.now(UTC).isoformat(timespec="seconds"),
        first=receipt.sequences.start,
        before=receipt.before,
        head=receipt.after,
        live=live,
        rows_zeroed=store.are_zero(receipt.sequences),
        purged=purged,
        identical=None if live is None or receipt.identical is None else len(receipt.identical),
        versions={
            "munkey": importlib.metadata.version("munkey"),
            "memory format": str(MEMORY_FORMAT),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        },
        exact=exact,
        not_claimed=(SETTINGS if exact else WEIGHTS, *NOT_CLAIMED),
    ).sealed()


def receipt_of(store: Store, sequence: int | None = None, request: str | None = None) -> Receipt:
    """The receipt of an earlier deletion, by the number of any of its rows or of its request; by default the last one.

    Raises CertificateError where there is none.
    """
    entries = [
        entry for entry in store.log() if entry.sequences and request in (None, entry.request)
    ]
    if request is None and sequence is not None:
        entries = [entry for entry in entries if sequence in entry.sequences]
    if not entries:
        which = f"the request {request!r}" if request is not None else f"the number {sequence}"
        which = "" if request is None and sequence is None else f", and none has {which}"
        raise CertificateError(f"the chain has {counted(store.deletions, 'deleted sample')}{which}")
    return entries[-1]


def with_ids(
    certificate: Certificate,
    ids: Iterable[int],
    salt: bytes,
    *,
    listed: bool = False,
    later: bool = False,
) -> Certificate:
    """The same, with the salted hash of the ids that were deleted.

    listed: with the ids themselves too; it then says of itself that it is a trace of them. later: somebody gave the ids
    after the deletion, and nothing shows that they are right; it says that, too.
    """
    changes: dict[str, object] = {"ids_sha256": salted(ids, salt)}
    if listed:
        changes["ids"] = tuple(sorted(set(ids)))
    not_claimed = (*certificate.not_claimed, *[A_TRACE] * listed, *[GIVEN_LATER] * later)
    return certificate.model_copy(update=changes | {"not_claimed": not_claimed}).sealed()


def _differing(said: dict[str, str] | None, exact: dict[str, str] | None) -> list[str] | None:
    """Which digests are not as said; None where the memory does not hold the rows any more that these are of."""
    if not said or not exact or any(said.get(one) != exact[one] for one in ("head", "live")):
        return None
    return [name for name, digest in exact.items() if said.get(name) != digest]


def faults(
    certificate: Certificate,
    store: Store,
    ids: Iterable[int] | None = None,
    salt: bytes = b"",
    exact: dict[str, str] | None = None,
) -> list[str]:
    """How this memory, or the ids and the salt that somebody gave, contradict the certificate, one sentence each.

    exact: `Predictor.digests` of it, made anew: what a fit gives to the rows that are left.
    """
    name = store.state.store
    found = ["it was not made for these ids with this salt"]
    given = None if ids is None else list(ids)
    if given is None or certificate.ids_sha256 == salted(given, salt):
        found = []
    if certificate.sha256 != self_digest(certificate):
        found.append("it was changed after it was written: its SHA-256 is not the one in it")
    if other := _differing(certificate.exact, exact):
        found.append(
            f"a fit to the rows that are left has other {' and '.join(other)}: what answered had a row too many or too"
            " few, or was altered (weights alone also differ between processors and versions of torch)"
        )
    if certificate.memory != name.hex():
        return [
            *found,
            f"the certificate is of the memory {certificate.memory}, but this is {name.hex()}",
        ]
    if certificate.ids is not None and len(set(certificate.ids)) != certificate.rows:
        found.append(f"it says {counted(certificate.rows, 'row')}, and its ids say otherwise")
    found += store.chain_faults()
    if given is not None:
        found += _ids_faults(certificate, store, given)
    last, deleted = certificate.sequences[-1], store.deletions
    if last > deleted:
        return [
            *found,
            f"the certificate ends in deleted sample {last}, and the chain of this memory has {deleted}: this"
            " is an older copy, e.g. a restored backup, and what it shows as deleted may be back",
        ]
    there = receipt_of(store, last)
    said = (
        certificate.sequences,
        certificate.before,
        certificate.head,
        certificate.request,
        certificate.deleted,
    )
    at = there.when.isoformat(timespec="microseconds")
    if said != (there.sequences, there.before, there.after, there.request, at):
        found.append(
            "the chain of this memory has another deletion in its place: its history is not the certificate's"
        )
    return found + _moment_faults(certificate, store)


def _ids_faults(certificate: Certificate, store: Store, ids: list[int]) -> list[str]:
    """Why these ids cannot be those of the deletion. The chain has none; what the memory holds contradicts some."""
    faults: list[str] = []
    if len(set(ids)) != certificate.rows:
        faults.append(
            f"it says {counted(certificate.rows, 'row')}, and {len(set(ids))} ids were given"
        )
    view = store.view
    deleted = _microseconds(certificate.deleted)
    # An id that came back under its number is another row.
    were_there = (
        view.live & np.isin(view.ids, checked_ids(ids)) & (view.records["added"] <= deleted)
    )
    if were_there.any():
        kept = ", ".join(map(str, view.ids[were_there][:10]))
        faults.append(f"the memory holds samples of the given ids: {kept}")
    return faults


def _moment_faults(certificate: Certificate, store: Store) -> list[str]:
    """Why the memory never held the rows that the digests in `exact` say that they are of."""
    if not certificate.exact:
        return []
    head, live = certificate.exact.get("head", ""), certificate.exact.get("live", "")
    heads = {entry.after for entry in store.log() if entry.sequences}
    if head not in heads:
        return ["its digests of what answered are of a head that the chain does not have"]
    if head != store.head:
        return []  # rows went since
    view = store.view
    added = np.sort(view.records["added"][view.live])
    # Since this head rows only came, each at a time of its own or together with others.
    possible = {int(count) for count in np.searchsorted(added, added, side="left")} | {len(added)}
    least = int(np.searchsorted(added, _microseconds(certificate.deleted), side="right"))
    if not live.isdecimal() or int(live) not in possible or int(live) < least:
        return [
            f"its digests of what answered are of {live} rows, which the memory did not hold at that head"
        ]
    return []


def _microseconds(at: str) -> int:
    """A time in a certificate as the memory has it. Of what is no time, 0: it contradicts the chain anyway."""
    try:
        return round(datetime.fromisoformat(at).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return 0


def unconfirmed(certificate: Certificate, exact: dict[str, str] | None = None) -> dict[str, str]:
    """Its fields that nothing confirms, each in words: the chain has no record.

    Ids are among them, whatever the salt: who writes a certificate chooses both.
    """
    is_compared = _differing(certificate.exact, exact) is not None
    return {
        name: said
        for name, said in UNCHAINED.items()
        if getattr(certificate, name) is not None and not (name == "exact" and is_compared)
    }


def read_certificate(path: str | Path) -> Certificate:
    """A certificate from its file. Raises CertificateError where the file is not one, or was changed."""
    try:
        certificate = Certificate.model_validate_json(Path(path).read_bytes())
    except (OSError, ValidationError) as error:
        why = (
            error.strerror
            if isinstance(error, OSError)
            else "it is not what `munkey` writes as one"
        )
        raise CertificateError(f"{path}: not a certificate ({why})") from error
    if certificate.sha256 != self_digest(certificate):
        raise CertificateError(
            f"{path}: was changed after it was written: its SHA-256 is not the one in it"
        )
    return certificate


def write_certificate(certificate: Certificate, path: str | Path) -> Path:
    """Write it as JSON to `path`, and the page beside it, whose path is returned: both or neither, and on the disk.

    Killed in between, it leaves the JSON alone. Raises as `page_of` does, and OSError.
    """
    page, path, readable = page_of(path), Path(path), html(certificate)
    write_new(path, certificate.model_dump_json(indent=2) + "\n")
    try:
        write_new(page, readable)
    except BaseException:
        path.unlink()
        raise
    disk.sync_folder(page.parent)
    return page


def write_new(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a file that is not there yet. On Linux it has no name until it is whole, so that a kill leaves nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, mode)
    except (AttributeError, OSError):  # another system, or a file system without nameless files
        with atomic(path, mode) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
            # which follows the link, given any folder
            os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle)
    except OSError as error:
        raise UnwritableFileError(
            error.errno, f"cannot be written ({error.strerror})", str(path)
        ) from error


def page_of(path: str | Path) -> Path:
    """Where the page of a new certificate will lie.

    Raises CertificateError where that is the certificate itself, and where either exists already: what a certificate
    says may be known from nowhere else, so none is ever overwritten.
    """
    page = Path(path).with_suffix(".html")
    if page == Path(path):
        raise CertificateError(
            f"{path}: give the name of the JSON file; the page is written beside it, as .html"
        )
    for file in (Path(path), page):
        if os.path.lexists(file):
            raise CertificateError(
                f"{file}: exists already, and no certificate is overwritten; give a new name"
            )
    return page


def html(certificate: Certificate) -> str:
    """The page: one file, no scripts, nothing loaded from elsewhere."""
    values = {"it": certificate, "text": certificate.model_dump_json(indent=2)}
    return rendered(TEMPLATE, values)

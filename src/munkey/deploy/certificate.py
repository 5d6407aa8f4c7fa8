"""Deletion certificates: how many samples were deleted, when, and what this does not prove.

A certificate is a JSON file with the SHA-256 of its canonical form, and an HTML page with the same
content. It may contain a hash of the deleted ids together with a secret salt. Whoever has the salt
and the ids can show that these samples were deleted; without the salt, the ids cannot be guessed.
Ids are listed only on request, because a list of deleted ids is itself a trace of them.
"""

import hashlib
import importlib.metadata
import os
import platform
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from munkey.core.console import pluralize
from munkey.core.files import UnwritableFileError, open_temporary, sync_folder
from munkey.core.ids import NO_NEIGHBOR
from munkey.core.templates import render_template
from munkey.data.intake.unit_names import normalize_name
from munkey.deploy.model.manifest import compute_digest, format_canonical
from munkey.memory.chain import Receipt
from munkey.memory.memory import Memory
from munkey.memory.memory_file import MEMORY_FORMAT, MemoryFile, Snapshot
from munkey.memory.rows import check_ids

TEMPLATE = Path(__file__).parent / "certificate.html.j2"
UNSIGNED_LIMIT = (
    "A signature: anyone who can write this file can write another one. Only the head of the chain"
    " binds it, if it was published where the owner of the memory cannot change it."
)
SIGNED_LIMIT = (
    "That what it says is true: the signature shows that whoever has the private key wrote this"
    " certificate, not that the samples were deleted, when it was signed, or that nobody else has"
    " the key. The head of the chain binds it to the memory, if it was published where the owner of"
    " the memory cannot change it."
)
# The limits of every certificate: what it does not claim.
NOT_CLAIMED = (
    "Anything about copies: the pictures and data sets that the memory was built from, other"
    " exports, results and earlier versions in DVC or MLflow, backups, snapshots, earlier"
    " predictions.",
    "Anything below the file system: blocks that an SSD remapped, copy-on-write, swap.",
    "Who requested the deletion, who carried it out, or that the machine's clock was right.",
    UNSIGNED_LIMIT,
)
# Further limits, of some certificates.
WEIGHTS_LIMIT = (
    "That the model's weights forgot the samples: deletion does not change them. This project's"
    " audits measure how much of a sample can remain in weights that were trained on it."
)
ENCODER_LIMIT = (
    "That the encoder is the same as it would be without the samples, or that nobody can find out"
    " whose samples were deleted: anyone with the remaining rows and earlier weights or digests"
    " can test a guess."
)
CONSTANTS_LIMIT = (
    "That {} would have been chosen without the samples: a deletion recomputes only constants that"
    " are set to `auto`."
)
LATER_IDS_LIMIT = (
    "That the ids behind `ids_sha256` are those of the deletion: they were supplied afterwards, when"
    " this certificate was written."
)
LISTED_IDS_LIMIT = (
    "That no trace of the deleted ids is left: this certificate lists them, so it is itself a trace"
    " of them."
)

# Fields that the chain does not record, and what each of them states.
UNCHAINED = {
    "written": "when it was written",
    "versions": "the versions of the programs",
    "purged_at": "when the memory was purged",
    "identical": "how many exact copies stayed",
    "ids": "that the ids in it are those of the deletion",
    "ids_sha256": "that the ids behind its salted hash are those of the deletion",
    "live": "how many samples were left",
    "exact": "the digests of the model: they are not of the rows that the memory holds now",
}


class CertificateError(ValueError):
    """A certificate cannot be issued, read, or written."""


class UnknownDeletionError(CertificateError):
    """The chain has no deletion with this number or request."""


class Certificate(BaseModel, frozen=True, extra="forbid"):
    """A deletion and its place in the chain.

    Attributes
    ----------
    memory : str
        The name of the memory, in hexadecimal.
    request : str or None
        The request number, if the deletion has one.
    rows : int
        Number of deleted samples.
    ids : tuple of int or None
        Their ids; None unless the list was requested.
    ids_sha256 : str or None
        SHA-256(salt || ids), with the ids in ascending order, 8 bytes each, little-endian.
    deleted, written : str
        When the samples were deleted, and when the certificate was written: ISO 8601, UTC.
    first : int
        Sequence number of the first deleted sample in the chain.
    before, head : str
        Heads of the chain before and after the deletion, in hexadecimal.
    live : int or None
        Number of samples in the memory after the deletion, if known.
    purged_at : str or None
        When the memory was purged since: from then on, none of its files contained a byte of the
        samples, or of the names of their source files and units. None if a purge was still due.
    identical : int or None
        Number of exact copies that stayed in the memory, if known.
    exact : dict of str to str or None
        Only for families that delete exactly: digests of the sums and rows from which the model
        computes its answers, when the certificate was written (`FittedModel.digests`). They equal
        those of a model that never saw the deleted rows; `find_faults` checks this.
    versions : dict of str to str
        Versions of the programs, by name.
    not_claimed : tuple of str
        What the certificate does not claim, one sentence each.
    signed_by : str or None
        SHA-256 of the public key of the signature, in hexadecimal; None if it is not signed.
    signature : str or None
        Ed25519 signature of `format_signed_fields`, in hexadecimal.
    sha256 : str
        SHA-256 of all other fields (`manifest.compute_digest`).
    """

    kind: Literal["munkey deletion certificate"] = "munkey deletion certificate"
    format: Literal[6] = 6
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
    purged_at: str | None = None
    identical: NonNegativeInt | None = None
    exact: dict[str, str] | None = None
    versions: dict[str, str]
    not_claimed: tuple[str, ...]
    signed_by: str | None = None
    signature: str | None = None
    sha256: str = ""

    @model_serializer(mode="wrap")
    def _omit_missing_signature(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write an unsigned certificate as before there were signatures."""
        values: dict[str, Any] = serialize(self)
        for name in ("signed_by", "signature"):
            if values.get(name) is None:
                values.pop(name, None)
        return values

    @property
    def sequences(self) -> range:
        """The sequence numbers of the deleted samples in the chain."""
        return range(self.first, self.first + self.rows)

    def seal(self) -> "Certificate":
        """Return the certificate with the SHA-256 of its current fields."""
        return self.model_copy(update={"sha256": compute_digest(self)})

    def format_signed_fields(self) -> bytes:
        """Return all fields but `sha256` and `signature` as canonical JSON (`compute_digest`)."""
        return format_canonical(self, exclude={"sha256", "signature"})

    def format_file(self) -> str:
        """Return the content of the certificate's file."""
        return self.model_dump_json(indent=2) + "\n"


def hash_ids(ids: Iterable[int], salt: bytes) -> str:
    """Return the salted hash of ids, as a certificate contains it (`Certificate.ids_sha256`)."""
    ascending_ids = np.unique(check_ids(list(ids)))
    return hashlib.sha256(salt + ascending_ids.tobytes()).hexdigest()


def certify(
    receipt: Receipt,
    *,
    live: int | None = None,
    identical: int | None = None,
    purged_at: str | None = None,
    exact: dict[str, str] | None = None,
    constants: Sequence[str] = (),
) -> Certificate:
    """Certify a deletion.

    The chain does not record these: live, the number of rows after the deletion; identical, the
    number of exact copies that stayed; purged_at, when the memory was purged since. exact: from
    `Predictor.digests`. constants: from `Predictor.constants`. Raises CertificateError if nothing was deleted.
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
        purged_at=purged_at,
        identical=identical,
        versions={
            "munkey": importlib.metadata.version("munkey"),
            "memory format": str(MEMORY_FORMAT),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
        },
        exact=exact,
        not_claimed=(*_list_limits(exact, constants), *NOT_CLAIMED),
    ).seal()


def _list_limits(exact: dict[str, str] | None, constants: Sequence[str]) -> list[str]:
    """List the limits of a certificate that depend on the model."""
    if not exact:
        return [WEIGHTS_LIMIT]
    if not constants:
        return [ENCODER_LIMIT]
    return [CONSTANTS_LIMIT.format(" and ".join(constants)), ENCODER_LIMIT]


def find_receipt(
    log: Sequence[Receipt], sequence: int | None = None, request: str | None = None
) -> Receipt:
    """Find the receipt of an earlier deletion; by default, of the last one.

    log: the receipts of all deletions. sequence: the sequence number of any of its rows, ignored if
    `request` is given. request: its request number. Raises CertificateError if no deletion matches.
    """
    receipts = [receipt for receipt in log if receipt.sequences]
    deleted_count = sum(len(receipt.sequences) for receipt in receipts)
    if request is not None:
        number = normalize_name(request)
        receipts = [receipt for receipt in receipts if receipt.request == number]
        reason = f", and none has the request {request!r}"
    elif sequence is not None:
        receipts = [receipt for receipt in receipts if sequence in receipt.sequences]
        reason = f", and none has the number {sequence}"
    else:
        reason = ""
    if not receipts:
        count = pluralize(deleted_count, "deleted sample")
        raise UnknownDeletionError(f"the chain has {count}{reason}")
    return receipts[-1]


def add_ids(
    certificate: Certificate,
    ids: Iterable[int],
    salt: bytes,
    *,
    list_ids: bool = False,
    added_later: bool = False,
) -> Certificate:
    """Return a certificate with the salted hash of the deleted ids.

    list_ids: also list the ids. added_later: whether the user supplied the ids after the deletion.
    The certificate states the limit of either.
    """
    changes: dict[str, object] = {"ids_sha256": hash_ids(ids, salt)}
    not_claimed = list(certificate.not_claimed)
    if list_ids:
        changes["ids"] = tuple(sorted(set(ids)))
        not_claimed.append(LISTED_IDS_LIMIT)
    if added_later:
        not_claimed.append(LATER_IDS_LIMIT)
    changes["not_claimed"] = tuple(not_claimed)
    return certificate.model_copy(update=changes).seal()


def _compare_digests(
    certified: dict[str, str] | None, exact: dict[str, str] | None
) -> list[str] | None:
    """Return the names of the digests that differ; None if they cannot be compared."""
    if not certified or not exact:
        return None
    # Digests of different states of the memory cannot be compared.
    if certified.get("head") != exact["head"] or certified.get("live") != exact["live"]:
        return None
    # Earlier certificates also have a digest of weights, whose last bits depend on the machine.
    shared_names = exact.keys() & certified.keys() - {"head", "live"}
    if not shared_names:
        return None
    return sorted(name for name in shared_names if certified[name] != exact[name])


def find_faults(
    certificate: Certificate,
    file: MemoryFile,
    ids: Iterable[int] | None = None,
    salt: bytes = b"",
    exact: dict[str, str] | None = None,
) -> list[str]:
    """Describe each fault of a certificate: how this memory, or ids and salt, contradict it.

    exact: the digests of a fit to the remaining rows, from `Predictor.digests(recompute=True)`.
    """
    faults: list[str] = []
    snapshot = file.snapshot()
    memory_name = snapshot.state.store.hex()
    id_list = None
    if ids is not None:
        id_list = list(ids)
        if certificate.ids_sha256 != hash_ids(id_list, salt):
            faults.append("it was not issued for these ids with this salt")
    if certificate.sha256 != compute_digest(certificate):
        faults.append(
            "it was changed after it was written: its SHA-256 does not match its other fields"
        )
    different_digests = _compare_digests(certificate.exact, exact)
    if different_digests:
        faults.append(
            f"the remaining rows give different {' and '.join(different_digests)}: the model had a"
            " row too many or too few, or was altered"
        )
    if certificate.memory != memory_name:
        faults.append(
            f"the certificate is for the memory {certificate.memory}, but this is {memory_name}"
        )
        return faults  # nothing else in it can be compared
    if certificate.ids is not None:
        listed_count = len(set(certificate.ids))
        if listed_count != certificate.rows:
            count = pluralize(certificate.rows, "row")
            faults.append(f"it is for {count}, but lists {pluralize(listed_count, 'id')}")
    faults += file.find_chain_faults()
    if id_list is not None:
        faults += _find_id_faults(certificate, snapshot.memory, id_list)
    last_sequence = certificate.sequences[-1]
    deleted_count = snapshot.sequence
    if last_sequence > deleted_count:
        faults.append(
            f"the certificate ends with deleted sample {last_sequence}, but the chain of this memory"
            f" has only {deleted_count}: this is an older copy, such as a restored backup, and the"
            " deleted samples may be back"
        )
        return faults
    log = file.log()
    faults += _compare_with_receipt(certificate, find_receipt(log, last_sequence))
    faults += _find_digest_faults(certificate, snapshot, log)
    return faults


def _compare_with_receipt(certificate: Certificate, receipt: Receipt) -> list[str]:
    """Describe how a certificate differs from the receipt of its deletion in the chain."""
    chained_fields = (
        receipt.sequences,
        receipt.before,
        receipt.after,
        receipt.request,
        receipt.when.isoformat(timespec="microseconds"),
    )
    certified_fields = (
        certificate.sequences,
        certificate.before,
        certificate.head,
        certificate.request,
        certificate.deleted,
    )
    if certified_fields == chained_fields:
        return []
    return [
        "the chain of this memory has another deletion in its place: its history differs from the"
        " certificate's"
    ]


def _find_id_faults(certificate: Certificate, memory: Memory, ids: list[int]) -> list[str]:
    """Describe why these ids cannot be those of the deletion, whose ids the chain does not record."""
    faults: list[str] = []
    distinct_count = len(set(ids))
    if distinct_count != certificate.rows:
        count = pluralize(certificate.rows, "row")
        faults.append(f"it is for {count}, not for {pluralize(distinct_count, 'id')}")
    rows = memory.find_rows(np.unique(check_ids(ids)))
    rows = rows[rows != NO_NEIGHBOR]
    # A row that was added after the deletion is another one, even if it has the same id.
    remaining_rows = rows[memory.columns.added[rows] <= _parse_microseconds(certificate.deleted)]
    if len(remaining_rows):
        first_ids = ", ".join(map(str, memory.ids[remaining_rows][:10]))
        faults.append(f"the memory holds samples of the given ids: {first_ids}")
    return faults


def _find_digest_faults(
    certificate: Certificate, snapshot: Snapshot, log: Sequence[Receipt]
) -> list[str]:
    """Describe why the digests in `exact` cannot belong to the memory at any earlier time."""
    if not certificate.exact:
        return []
    head = certificate.exact.get("head", "")
    live = certificate.exact.get("live", "")
    heads = {receipt.after for receipt in log if receipt.sequences}
    if head not in heads:
        return ["its digests of the model belong to a head that is not in the chain"]
    if head != snapshot.head.hex():
        return []  # rows were deleted since, so nothing more can be checked
    memory = snapshot.memory
    added_times = np.sort(memory.columns.added[memory.live_rows])
    # At this head, rows were only added, one or several at a time. So before each of these times,
    # the memory held the rows that were added earlier; now it holds all of them.
    counts_before_additions = np.searchsorted(added_times, added_times).tolist()
    possible_counts = {*counts_before_additions, len(added_times)}
    # It never held fewer rows than right after the deletion.
    deletion_time = _parse_microseconds(certificate.deleted)
    least_count = int(np.searchsorted(added_times, deletion_time, side="right"))
    is_possible = live.isdecimal() and int(live) in possible_counts and int(live) >= least_count
    if not is_possible:
        return [
            f"its digests of the model are for {live} rows, but the memory never had that many at"
            " that head"
        ]
    return []


def _parse_microseconds(at: str) -> int:
    """Convert a time in a certificate to microseconds since 1970; 0 if it is not a time."""
    try:
        return round(datetime.fromisoformat(at).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return 0


def describe_unconfirmed_fields(
    certificate: Certificate, exact: dict[str, str] | None = None
) -> dict[str, str]:
    """Describe each field of a certificate that the chain does not confirm, by field name.

    exact: as for `find_faults`. Digests that can be compared with it are left out.
    """
    fields = {}
    for name, description in UNCHAINED.items():
        if getattr(certificate, name) is not None:
            fields[name] = description
    if _compare_digests(certificate.exact, exact) is not None:
        fields.pop("exact", None)
    return fields


def read_certificate(path: str | Path) -> Certificate:
    """Read a certificate. Raises CertificateError if the file is not one, or was changed."""
    try:
        certificate = Certificate.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise CertificateError(f"{path}: not a certificate ({error.strerror})") from error
    except ValidationError as error:
        raise CertificateError(
            f"{path}: not a certificate (its fields are not those that `munkey` writes)"
        ) from error
    if certificate.sha256 != compute_digest(certificate):
        raise CertificateError(
            f"{path}: was changed after it was written: its SHA-256 does not match its other fields"
        )
    return certificate


def write_certificate(certificate: Certificate, path: str | Path) -> Path:
    """Write a certificate as JSON, and its page next to it, and return the path of the page.

    Both are on disk when this returns; if the page cannot be written, neither is. Raises
    CertificateError as `get_page_path` does, and OSError if a file cannot be written.
    """
    page = get_page_path(path)
    page_text = render_page(certificate)
    path = Path(path)
    write_new_file(path, certificate.format_file())
    try:
        write_new_file(page, page_text)
    except BaseException:
        path.unlink()
        raise
    sync_folder(page.parent)
    return page


def write_new_file(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a new file and sync it to disk. It gets its name once it is complete.

    Raises FileExistsError if there is such a file, and UnwritableFileError if it cannot be written.
    mode: the permissions of the file, before the umask is applied.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write_new_file(path, text, mode)
    except FileExistsError as error:
        message = "already exists; choose another name"
        raise FileExistsError(error.errno, message, str(path)) from None
    except OSError as error:
        raise UnwritableFileError(
            error.errno, f"cannot be written ({error.strerror})", str(path)
        ) from error


def _write_new_file(path: Path, text: str, mode: int) -> None:
    temporary = None
    try:
        # On Linux, the file has no name at first, so a killed process leaves nothing.
        handle = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, mode)
    except (AttributeError, OSError):  # another system, or a file system without nameless files
        temporary, handle = open_temporary(path, mode)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
            if temporary is not None:
                os.link(temporary, path)
            else:
                # The source path is absolute, so `src_dir_fd` does not change it. But Python calls
                # `linkat`, which follows the link in /proc to the nameless file, only if it is set.
                os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle)
    finally:
        if temporary is not None:
            temporary.unlink()


def get_page_path(path: str | Path) -> Path:
    """Return the path for the page of a new certificate.

    Raises CertificateError if this is the path of the certificate itself, or if either file exists:
    a certificate may be the only record of a deletion, so it is never overwritten.
    """
    page = Path(path).with_suffix(".html")
    if page == Path(path):
        raise CertificateError(
            f"{path}: give the name of the JSON file; the page is written next to it, as .html"
        )
    for file in (Path(path), page):
        if os.path.lexists(file):
            raise CertificateError(
                f"{file}: exists already, and certificates are never overwritten; choose a new name"
            )
    return page


def render_page(certificate: Certificate) -> str:
    """Render the page: a single file without scripts, which loads nothing from elsewhere."""
    values = {"it": certificate, "text": certificate.model_dump_json(indent=2)}
    return render_template(TEMPLATE, values)

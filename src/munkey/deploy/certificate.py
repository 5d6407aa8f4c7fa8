"""Certificates of deletions: the number of samples, the time, the place in the chain, and limits.

A certificate is JSON with the SHA-256 of its canonical form, and a page that tells a person the
same. It lists ids only on demand, since a list of deleted ids is itself a trace of them. Instead it
has a salted hash; the salt is not part of it. Whoever holds salt and ids can show that these were
deleted, and no one else can guess them.
"""

import hashlib
import importlib.metadata
import os
import platform
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, NonNegativeInt, PositiveInt, ValidationError

from munkey.core.console import pluralize
from munkey.core.files import UnwritableFileError, atomic
from munkey.core.templates import render_template
from munkey.deploy.model.manifest import compute_digest
from munkey.deploy.store import disk
from munkey.deploy.store.chain import Receipt
from munkey.deploy.store.ledger import MEMORY_FORMAT
from munkey.deploy.store.rows import check_ids
from munkey.deploy.store.store import Store

TEMPLATE = Path(__file__).parent / "certificate.html.j2"
NOT_CLAIMED = (
    "Anything about copies: pictures and data sets that the memory was made from, other exports,"
    " results and earlier versions in DVC or MLflow, backups, snapshots, answers that were given"
    " before.",
    "Anything about what lies below the file system: blocks that an SSD remapped, copy-on-write,"
    " swap.",
    "Who asked, who deleted, or that the clock of the machine was right.",
    "A signature: whoever can write this file can write another one. What binds it is the head of"
    " the chain, if it was published where the owner of the memory cannot change it.",
)
WEIGHTS = (
    "That the weights of the model forgot: deletion does not change them. The audits of this"
    " project measure what can be left of a sample in weights that were trained with it."
)
ENCODER = (
    "That the encoder is what it would be without the samples, or that nobody can tell who went:"
    " with the rows that are left and the weights or digests of before, a guess can be tested."
)
CONSTANTS = (
    "That {} would have been chosen without the samples: a deletion recomputes only constants that"
    " say `auto`."
)
LATER_IDS = (
    "That the ids behind `ids_sha256` are those of the deletion: they were given later, to who"
    " wrote this."
)
LISTED_IDS = (
    "That nothing names the deleted samples: this certificate lists their ids, so it is itself a"
    " trace of them."
)

# Fields that the chain has no record of, in words.
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
    """A deletion and its place in the chain.

    Attributes
    ----------
    memory : str
        The name of the memory, hexadecimal.
    request : str or None
        The number of the request.
    rows : int
        How many samples were deleted.
    ids : tuple of int or None
        Their ids, only on demand.
    ids_sha256 : str or None
        SHA-256(salt || ids, ascending, 8 bytes each, little-endian).
    deleted, written : str
        When the samples were deleted, and when this was written: ISO 8601, UTC.
    first : int
        Sequence number of the first deleted sample in the chain.
    before, head : str
        Heads of the chain before and after the deletion.
    live : int or None
        How many samples the memory held afterwards, if that was recorded.
    rows_zeroed : bool
        Whether zeros were found in place of keys, tokens, ids and labels, and known to be on the
        disk.
    purged : bool
        Whether it was known that no file of the memory held a byte of the samples, or of the names
        of their source files and units.
    identical : int or None
        How many exact copies stayed in the memory.
    exact : dict of str to str or None
        Only for families that delete exactly: digests of the sums, weights or rows that answered
        when this was written (`FittedModel.digests`). They equal those of a fit that never saw the
        deleted rows; `find_faults` checks that.
    sha256 : str
        Of all other fields (`manifest.compute_digest`).
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

    def seal(self) -> "Certificate":
        return self.model_copy(update={"sha256": compute_digest(self)})


def hash_ids(ids: Iterable[int], salt: bytes) -> str:
    """Hash ids with a salt, as a certificate does."""
    ascending_ids = np.unique(check_ids(list(ids)))
    return hashlib.sha256(salt + ascending_ids.tobytes()).hexdigest()


def certify(
    store: Store,
    receipt: Receipt,
    *,
    live: int | None = None,
    purged: bool = False,
    exact: dict[str, str] | None = None,
    constants: Sequence[str] = (),
) -> Certificate:
    """Certify a deletion.

    live: rows after it. purged: whether there was a purge since. The chain tells neither of them.
    exact: `Predictor.digests`. constants: `Predictor.constants`. Raises CertificateError if nothing
    was deleted.
    """
    identical = None
    if live is not None and receipt.identical is not None:
        identical = len(receipt.identical)
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
        return [WEIGHTS]
    if not constants:
        return [ENCODER]
    return [CONSTANTS.format(" and ".join(constants)), ENCODER]


def find_receipt(store: Store, sequence: int | None = None, request: str | None = None) -> Receipt:
    """Find the receipt of an earlier deletion; by default, the last one.

    sequence: the number of any of its rows. request: the number of its request. Raises
    CertificateError if there is none.
    """
    receipts = [receipt for receipt in store.log() if receipt.sequences]
    reason = ""
    if request is not None:
        receipts = [receipt for receipt in receipts if receipt.request == request]
        reason = f", and none has the request {request!r}"
    elif sequence is not None:
        receipts = [receipt for receipt in receipts if sequence in receipt.sequences]
        reason = f", and none has the number {sequence}"
    if not receipts:
        count = pluralize(store.deletions, "deleted sample")
        raise CertificateError(f"the chain has {count}{reason}")
    return receipts[-1]


def add_ids(
    certificate: Certificate,
    ids: Iterable[int],
    salt: bytes,
    *,
    list_ids: bool = False,
    added_later: bool = False,
) -> Certificate:
    """Add the salted hash of the deleted ids to a certificate.

    list_ids: add the ids, too; the certificate then calls itself a trace of them. added_later:
    whether the user named the ids after the deletion, so that nothing shows that they are right;
    the certificate then says that, too.
    """
    changes: dict[str, object] = {"ids_sha256": hash_ids(ids, salt)}
    not_claimed = list(certificate.not_claimed)
    if list_ids:
        changes["ids"] = tuple(sorted(set(ids)))
        not_claimed.append(LISTED_IDS)
    if added_later:
        not_claimed.append(LATER_IDS)
    changes["not_claimed"] = tuple(not_claimed)
    return certificate.model_copy(update=changes).seal()


def _compare_digests(
    certified: dict[str, str] | None, exact: dict[str, str] | None
) -> list[str] | None:
    """List the names of digests that differ.

    Returns None if there are none, or they belong to another state of the memory.
    """
    if not certified or not exact:
        return None
    if certified.get("head") != exact["head"] or certified.get("live") != exact["live"]:
        return None
    return [name for name, digest in exact.items() if certified.get(name) != digest]


def find_faults(
    certificate: Certificate,
    store: Store,
    ids: Iterable[int] | None = None,
    salt: bytes = b"",
    exact: dict[str, str] | None = None,
) -> list[str]:
    """List how this memory, or ids and salt, contradict a certificate, a sentence each.

    exact: `Predictor.digests(recompute=True)`, the digests of a fit to the remaining rows.
    """
    faults: list[str] = []
    memory_name = store.state.store.hex()
    id_list = None
    if ids is not None:
        id_list = list(ids)
    if id_list is not None and certificate.ids_sha256 != hash_ids(id_list, salt):
        faults.append("it was not made for these ids with this salt")
    if certificate.sha256 != compute_digest(certificate):
        faults.append("it was changed after it was written: its SHA-256 is not the one in it")
    different_digests = _compare_digests(certificate.exact, exact)
    if different_digests:
        faults.append(
            f"a fit to the remaining rows has other {' and '.join(different_digests)}: the model had a row"
            " too many or too few, or was altered (weights alone also differ between processors and"
            " versions of torch)"
        )
    if certificate.memory != memory_name:
        faults.append(
            f"the certificate is of the memory {certificate.memory}, but this is {memory_name}"
        )
        return faults  # nothing else in it can be compared
    if certificate.ids is not None and len(set(certificate.ids)) != certificate.rows:
        count = pluralize(certificate.rows, "row")
        faults.append(f"it says {count}, and its ids say otherwise")
    faults += store.find_chain_faults()
    if id_list is not None:
        faults += _find_id_faults(certificate, store, id_list)
    last_sequence = certificate.sequences[-1]
    deleted_count = store.deletions
    if last_sequence > deleted_count:
        faults.append(
            f"the certificate ends in deleted sample {last_sequence}, and the chain of this memory has"
            f" {deleted_count}: this is an older copy, e.g. a restored backup, and what it shows as"
            " deleted may be back"
        )
        return faults
    receipt = find_receipt(store, last_sequence)
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
    if certified_fields != chained_fields:
        faults.append(
            "the chain of this memory has another deletion in its place: its history is not the"
            " certificate's"
        )
    return faults + _find_digest_faults(certificate, store)


def _find_id_faults(certificate: Certificate, store: Store, ids: list[int]) -> list[str]:
    """Find reasons why these ids cannot be those of the deletion, e.g. they are in the memory.

    The chain itself has no record of ids.
    """
    faults: list[str] = []
    distinct_count = len(set(ids))
    if distinct_count != certificate.rows:
        count = pluralize(certificate.rows, "row")
        faults.append(f"it says {count}, and {distinct_count} ids were given")
    view = store.view
    deletion_time = _parse_microseconds(certificate.deleted)
    # An id that was added again later is another row.
    is_earlier = view.records["added"] <= deletion_time
    is_still_there = view.live & np.isin(view.ids, check_ids(ids)) & is_earlier
    if is_still_there.any():
        first_ids = ", ".join(map(str, view.ids[is_still_there][:10]))
        faults.append(f"the memory holds samples of the given ids: {first_ids}")
    return faults


def _find_digest_faults(certificate: Certificate, store: Store) -> list[str]:
    """Find reasons why the memory never held the rows of the digests in `exact`."""
    if not certificate.exact:
        return []
    head = certificate.exact.get("head", "")
    live = certificate.exact.get("live", "")
    heads = {receipt.after for receipt in store.log() if receipt.sequences}
    if head not in heads:
        return ["its digests of what answered are of a head that the chain does not have"]
    if head != store.head:
        return []  # rows were deleted since
    view = store.view
    added_times = np.sort(view.records["added"][view.live])
    # Since this head rows were only added, one or several at a time. So the memory held as many
    # rows as were added before each of those times, or as many as now.
    counts_before_additions = np.searchsorted(added_times, added_times).tolist()
    possible_counts = {*counts_before_additions, len(added_times)}
    # It cannot hold fewer than it held at the time of the deletion.
    deletion_time = _parse_microseconds(certificate.deleted)
    least_count = int(np.searchsorted(added_times, deletion_time, side="right"))
    is_possible = live.isdecimal() and int(live) in possible_counts and int(live) >= least_count
    if not is_possible:
        return [
            f"its digests of what answered are of {live} rows, which the memory did not hold at"
            " that head"
        ]
    return []


def _parse_microseconds(at: str) -> int:
    """Parse a time in a certificate to microseconds since 1970, as the memory stores it.

    Any other text becomes 0, which fits no chain.
    """
    try:
        return round(datetime.fromisoformat(at).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return 0


def describe_unconfirmed_fields(
    certificate: Certificate, exact: dict[str, str] | None = None
) -> dict[str, str]:
    """Return a description, by field name, of each field that the chain has no record of.

    Ids are always among them: the writer of a certificate chooses both ids and salt.
    """
    fields = {}
    for name, words in UNCHAINED.items():
        if getattr(certificate, name) is not None:
            fields[name] = words
    if _compare_digests(certificate.exact, exact) is not None:
        fields.pop("exact", None)  # they were compared
    return fields


def read_certificate(path: str | Path) -> Certificate:
    """Read a certificate. Raises CertificateError if the file is not one, or was changed."""
    try:
        certificate = Certificate.model_validate_json(Path(path).read_bytes())
    except OSError as error:
        raise CertificateError(f"{path}: not a certificate ({error.strerror})") from error
    except ValidationError as error:
        raise CertificateError(
            f"{path}: not a certificate (it is not what `munkey` writes as one)"
        ) from error
    if certificate.sha256 != compute_digest(certificate):
        raise CertificateError(
            f"{path}: was changed after it was written: its SHA-256 is not the one in it"
        )
    return certificate


def write_certificate(certificate: Certificate, path: str | Path) -> Path:
    """Write a certificate as JSON, and its page beside it: both or neither, and on the disk.

    Returns the path of the page. If the process is killed in between, only the JSON exists. Raises
    the same errors as `get_page_path`, and OSError.
    """
    page = get_page_path(path)
    page_text = render_page(certificate)
    path = Path(path)
    write_new_file(path, certificate.model_dump_json(indent=2) + "\n")
    try:
        write_new_file(page, page_text)
    except BaseException:
        path.unlink()
        raise
    disk.sync_folder(page.parent)
    return page


def write_new_file(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a new file. On Linux it gets its name only when it is complete: a kill leaves no part."""
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
            # `src_dir_fd` is not used, since the path is absolute. But only with it does Python call
            # `linkat` so that it follows the link in /proc to the nameless file.
            os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle)
    except OSError as error:
        raise UnwritableFileError(
            error.errno, f"cannot be written ({error.strerror})", str(path)
        ) from error


def get_page_path(path: str | Path) -> Path:
    """Return the path of the page of a new certificate.

    Raises CertificateError if that is the certificate itself, or if either exists: a certificate
    may be the only record of a deletion, so it is never overwritten.
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


def render_page(certificate: Certificate) -> str:
    """Render the page: one file, no scripts, nothing loaded from elsewhere."""
    values = {"it": certificate, "text": certificate.model_dump_json(indent=2)}
    return render_template(TEMPLATE, values)

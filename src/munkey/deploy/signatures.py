"""Signatures of certificates: Ed25519 (RFC 8032), by the library `cryptography`."""

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from munkey.deploy.certificate import (
    SIGNED_LIMIT,
    UNSIGNED_LIMIT,
    Certificate,
    write_new_file,
)


class KeyFileError(ValueError):
    """A file is not a key that `munkey keygen` writes."""


def create_key(path: Path) -> str:
    """Write a new private key to a new file, and its public key next to it, as FILE.pub, both in PEM.

    Only the owner may read the private key. Returns the public key's fingerprint. Raises
    FileExistsError if either file exists, and OSError if one cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    private_text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    public_text = (
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    )
    write_new_file(path, private_text, 0o600)
    try:
        write_new_file(get_public_path(path), public_text)
    except BaseException:
        path.unlink()
        raise
    return compute_fingerprint(key.public_key())


def get_public_path(path: Path) -> Path:
    """Return the path of the public key of a private key's file."""
    return path.with_name(f"{path.name}.pub")


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key. Raises KeyFileError if the file does not have one."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise KeyFileError(f"{path}: not a private key ({error.strerror})") from error
    except (ValueError, TypeError) as error:
        raise KeyFileError(
            f"{path}: not a private key without a password; make one with `munkey keygen`"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path}: not an Ed25519 key; make one with `munkey keygen`")
    return key


def read_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key. Raises KeyFileError if the file does not have one."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise KeyFileError(f"{path}: not a public key ({error.strerror})") from error
    except ValueError as error:
        raise KeyFileError(
            f"{path}: not a public key; give the file that ends in .pub, from `munkey keygen`"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(f"{path}: not an Ed25519 key, with which certificates are signed")
    return key


def compute_fingerprint(key: Ed25519PublicKey) -> str:
    """Return the SHA-256 of a public key's 32 bytes, in hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def sign(certificate: Certificate, key: Ed25519PrivateKey) -> Certificate:
    """Return the certificate with a signature, which covers all other fields but `sha256`.

    Later changes make it invalid, so sign last.
    """
    limits = []
    for limit in certificate.not_claimed:
        limits.append(SIGNED_LIMIT if limit == UNSIGNED_LIMIT else limit)
    changes = {"signed_by": compute_fingerprint(key.public_key()), "not_claimed": tuple(limits)}
    signed = certificate.model_copy(update=changes)
    signature = key.sign(signed.format_signed_fields()).hex()
    return signed.model_copy(update={"signature": signature}).seal()


def find_signature_fault(certificate: Certificate, path: Path, key: Ed25519PublicKey) -> str | None:
    """Describe why the signature of a certificate, read from `path`, is not by the owner of a key.

    Every byte of the file counts: it must be the one that `write_certificate` writes.
    """
    fingerprint = compute_fingerprint(key)
    if certificate.signature is None or certificate.signed_by is None:
        return "it is not signed"
    if certificate.signed_by != fingerprint:
        return (
            f"it is signed by the key {certificate.signed_by}, and the given one is {fingerprint}"
        )
    try:
        signature = bytes.fromhex(certificate.signature)
        key.verify(signature, certificate.format_signed_fields())
    except (InvalidSignature, ValueError):
        return "it was changed after it was signed: its signature does not match its other fields"
    is_as_written = path.read_bytes() == certificate.format_file().encode()
    if certificate.signature != signature.hex() or not is_as_written:
        return (
            "it was changed after it was signed: it has other spaces or line breaks than `munkey`"
            " writes"
        )
    return None

"""Signed certificates: who signed them, that no byte of the file can change, and what stays as without a key."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from munkey.deploy import certificate, signatures
from munkey.deploy.certificate import NOT_CLAIMED, SIGNED_LIMIT, UNSIGNED_LIMIT
from munkey.deploy.signatures import KeyFileError
from tests.memory.inputs import create, raw

IDS = raw(12)[0]


@pytest.fixture
def unsigned(tmp_path):
    with create(tmp_path / "memory.db") as file:
        receipt = file.delete(IDS[:2])
        yield certificate.add_ids(certificate.certify(receipt, live=10), IDS[:2].tolist(), b"salt")


@pytest.fixture
def key_file(tmp_path) -> Path:
    path = tmp_path / "key"
    signatures.create_key(path)
    return path


@pytest.fixture
def signed_file(unsigned, key_file, tmp_path) -> Path:
    path = tmp_path / "certificate.json"
    signed = signatures.sign(unsigned, signatures.read_private_key(key_file))
    certificate.write_certificate(signed, path)
    return path


def find_fault(path: Path, key_file: Path) -> str | None:
    key = signatures.read_public_key(signatures.get_public_path(key_file))
    return signatures.find_signature_fault(certificate.read_certificate(path), path, key)


def test_a_signed_certificate_names_its_key_and_passes(signed_file, key_file):
    signed = certificate.read_certificate(signed_file)
    public_key = signatures.read_public_key(signatures.get_public_path(key_file))
    assert signed.signed_by == signatures.compute_fingerprint(public_key)
    assert find_fault(signed_file, key_file) is None
    page = signed_file.with_suffix(".html").read_text()
    assert signed.signed_by in page
    assert "--check --key" in page


def test_a_file_with_any_byte_altered_fails(signed_file, key_file, tmp_path):
    content = signed_file.read_bytes()
    altered_file = tmp_path / "altered.json"
    for position in range(len(content)):
        altered = bytearray(content)
        altered[position] ^= 1
        altered_file.write_bytes(altered)
        try:
            fault = find_fault(altered_file, key_file)
        except certificate.CertificateError:
            continue
        assert fault is not None, (position, content[position - 20 : position + 20])


def test_a_signature_in_other_letters_fails(signed_file, key_file):
    signed = certificate.read_certificate(signed_file)
    for signature in (signed.signature.upper(), f"{signed.signature[:2]} {signed.signature[2:]}"):
        changed = signed.model_copy(update={"signature": signature}).seal()
        signed_file.write_text(changed.format_file())
        assert "changed after it was signed" in find_fault(signed_file, key_file)


def test_a_change_of_a_signed_certificate_and_its_hash_fails(signed_file, key_file):
    signed = certificate.read_certificate(signed_file)
    for changes in ({"rows": 3}, {"not_claimed": ()}, {"ids_sha256": "0" * 64}):
        changed = signed.model_copy(update=changes).seal()
        signed_file.write_text(changed.format_file())
        assert "changed after it was signed" in find_fault(signed_file, key_file)


def test_another_key_and_a_certificate_without_signature_fail(
    signed_file, unsigned, key_file, tmp_path
):
    other_file = tmp_path / "other"
    other_fingerprint = signatures.create_key(other_file)
    assert other_fingerprint in find_fault(signed_file, other_file)
    certificate.write_certificate(unsigned, tmp_path / "unsigned.json")
    assert find_fault(tmp_path / "unsigned.json", key_file) == "it is not signed"


def test_a_certificate_without_signature_has_no_field_of_one(unsigned, tmp_path):
    path = tmp_path / "certificate.json"
    certificate.write_certificate(unsigned, path)
    assert "sign" not in path.read_text().replace(UNSIGNED_LIMIT, "")
    assert unsigned.not_claimed[-len(NOT_CLAIMED) :] == NOT_CLAIMED
    assert certificate.read_certificate(path) == unsigned


def test_a_signed_certificate_says_what_its_signature_does_not_prove(signed_file):
    signed = certificate.read_certificate(signed_file)
    assert SIGNED_LIMIT in signed.not_claimed
    assert UNSIGNED_LIMIT not in signed.not_claimed


def test_openssl_accepts_the_signature(signed_file, key_file, tmp_path):
    signed = certificate.read_certificate(signed_file)
    (tmp_path / "fields").write_bytes(signed.format_signed_fields())
    (tmp_path / "signature").write_bytes(bytes.fromhex(signed.signature))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-rawin"]
    files = ["-inkey", f"{key_file}.pub", "-in", "fields", "-sigfile", "signature"]
    try:
        result = subprocess.run(
            [*command, *files], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("nameless_files", [True, False])
def test_a_private_key_can_be_read_by_its_owner_alone_and_is_not_replaced(
    tmp_path, monkeypatch, nameless_files
):
    if not nameless_files:  # as on many network file systems
        monkeypatch.delattr(os, "O_TMPFILE")
    key_file = tmp_path / "key"
    signatures.create_key(key_file)
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    content = key_file.read_bytes()
    with pytest.raises(FileExistsError, match=r"already exists.*key"):
        signatures.create_key(key_file)
    assert key_file.read_bytes() == content
    key_file.unlink()
    with pytest.raises(FileExistsError, match=r"key\.pub"):
        signatures.create_key(key_file)
    assert [path.name for path in tmp_path.iterdir()] == ["key.pub"]


@pytest.mark.parametrize("content", [b"", b"no key", b"\0\xff"])
def test_a_file_that_is_no_key_is_refused(content, key_file, tmp_path):
    path = tmp_path / "wrong"
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match="wrong: not a private key"):
        signatures.read_private_key(path)
    with pytest.raises(KeyFileError, match="wrong: not a public key"):
        signatures.read_public_key(path)
    with pytest.raises(KeyFileError, match="missing: not a private key"):
        signatures.read_private_key(tmp_path / "missing")
    with pytest.raises(KeyFileError, match="not a public key"):
        signatures.read_public_key(key_file)

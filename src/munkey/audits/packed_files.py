"""Contents of compressed files, even if nested: zip (also .npz and .pt), gzip, bzip2, xz, zlib."""

import bz2
import gzip
import lzma
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

# The errors that reading a damaged or encrypted file raises.
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error, RuntimeError)
# The module for each compressed format, by the bytes that its files start with.
STREAMS = {b"\x1f\x8b\x08": gzip, b"BZh": bz2, b"\xfd7zXZ\0": lzma}


def unpack(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield a file as it is, then each of its decompressed contents, recursively.

    Each must be read before the next is requested. Raises one of the UNREADABLE errors if the
    content is damaged.
    """
    start = file.read(6)
    file.seek(0)
    yield file
    file.seek(0)
    members: list[IO[bytes]] = []
    for magic, module in STREAMS.items():
        if start.startswith(magic):
            members.append(module.open(file))
    if start.startswith(b"PK\3\4"):
        archive = zipfile.ZipFile(file)
        members = list(map(archive.open, archive.infolist()))
    for member in members:
        with member:
            yield from unpack(member)
    # The headers of zlib streams with a 32 KB window, for the four levels of compression.
    if start.startswith((b"x\x01", b"x\x5e", b"x\x9c", b"x\xda")):
        inflate = zlib.decompressobj()
        with tempfile.TemporaryFile() as inside:
            with suppress(zlib.error):  # other formats may start with the same two bytes
                while chunk := file.read(1 << 16):  # inflates to at most about 64 MB
                    inside.write(inflate.decompress(chunk))
            inside.seek(0)
            yield from unpack(inside)

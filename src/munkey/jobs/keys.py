"""Keys from the frozen encoder (sec. 3.2), and each sample's nearest neighbors in a memory."""

import hashlib
import shutil
from functools import partial
from pathlib import Path

from munkey.core.console import progress
from munkey.core.ids import rows_of
from munkey.data import forget_sets, prepared
from munkey.data.source import SourceError
from munkey.encoders.keys import Keys, extract, read, write
from munkey.encoders.registry import find
from munkey.memory.neighbors import nearest
from munkey.memory.neighbors import write as write_neighbors
from munkey.settings import EncoderSettings


def keys(
    images: Path, keyfile: Path, settings: EncoderSettings, device: str, code: str = "", weights: str | None = None
) -> None:
    """Extract the key of every sample with the frozen encoder. A job that was killed goes on from its finished blocks.

    code, weights: what tells the code and the encoder's weights from others; blocks of others are not used.
    """
    dataset, size = prepared.load(images.parent), settings.batch_size
    encode = find(settings.encoder).build(settings, device)
    show_progress = partial(progress, what="batch", unit="images", each=size)
    identity = f"{settings} {code} {weights} {keyfile} {images.stat().st_mtime_ns} {device}"
    blocks = Path("cache") / "keys" / hashlib.sha256(identity.encode()).hexdigest()[:16]
    write(keyfile, dataset.ids, extract(encode, dataset.images, size, device, show_progress, blocks))
    shutil.rmtree(blocks)


def neighbors(
    images: Path, keyfile: Path, neighbors: Path, depth: int, forget: Path | None = None, absent: Path | None = None
) -> None:
    """Look up the nearest neighbors of every sample in a memory: of all training samples, or of the retain set."""
    members = forget_sets.split(prepared.load(images.parent), forget, absent).retain
    if len(members) < depth:
        raise SourceError("too little data", [f"{len(members)} samples to retain; keys.depth wants {depth}"])
    queries = read(keyfile)
    memory = Keys(members, queries.keys[rows_of(queries.ids, members)])
    write_neighbors(neighbors, queries.ids, nearest(queries, memory, depth))
    print(f"{depth} nearest of {len(members)} members for {len(queries.ids)} samples")

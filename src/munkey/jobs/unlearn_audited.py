"""Unlearning in an audit: only the answers of what a method leaves are kept, so one job unlearns and asks."""

from pathlib import Path

from munkey.jobs.evaluate import answer
from munkey.jobs.unlearn import unlearn
from munkey.models.training_inputs import Sections


def unlearn_audited(
    images: Path,
    original: Path,
    forget: Path,
    absent: Path,
    logits: Path,
    record: Path,
    method: str,
    dataset: str,
    seed: int,
    rate: str,
    settings: Sections,
    device: str,
    neighbors: Path | None = None,
    keyfile: Path | None = None,
    resident_share: float = 0.5,
) -> None:
    """Apply a method and ask what it leaves about the pool, `forget` and `absent`: the arguments of both jobs."""
    left = unlearn(
        images, original, forget, record, method, dataset, seed, rate, settings, device, absent, resident_share
    )
    answer(left, images, logits, settings, device, neighbors, keyfile, [forget, absent])

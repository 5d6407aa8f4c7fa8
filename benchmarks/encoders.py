"""CPU time per picture of each encoder, on one core: `python -m benchmarks.encoders`.

`munkey plan` uses these times for its estimates.
"""

import time

import numpy as np
import torch
from tabulate import tabulate

from munkey.core.device import keep_freed_memory
from munkey.encoders.parts import build
from munkey.encoders.registry import find
from munkey.settings import EncoderSettings

BATCH = 64  # pictures
BATCHES = 5
ENCODERS = (
    ("efficientnet-lite0", 64),
    ("efficientnet-lite0", 96),
    ("efficientnet-lite0", 160),
    ("efficientnet-lite0", 224),
    ("efficientnet-lite1", 96),
    ("efficientnet-lite1", 192),
    ("efficientnet-lite2", 160),
    ("efficientnet-lite2", 224),
)


@torch.inference_mode()
def measure_encoder(name: str, side: int) -> list[object]:
    """Return a row of the table.

    It contains the name, the side, the median milliseconds per picture with quartiles, and the
    floating-point operations per second.
    """
    settings = EncoderSettings(encoder=name, revision=None, image_size=side, batch_size=BATCH)
    operations_of = find(name).operations
    assert operations_of is not None, f"{name} does not count its operations"
    encoder = build(settings, "cpu")
    pictures = torch.rand(BATCH, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    encoder(pictures)  # the first batch is slower and is not counted
    milliseconds = []
    for _ in range(BATCHES):
        start = time.process_time()
        encoder(pictures)
        milliseconds.append(1000 * (time.process_time() - start) / BATCH)
    low, middle, high = np.percentile(milliseconds, [25, 50, 75])
    speed = operations_of(settings) / middle / 1e6  # operations per ms / 10^6 = GFLOP/s
    return [name, side, f"{middle:.2f} ({low:.2f} – {high:.2f})", f"{speed:.0f}"]


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()  # as extraction does
    rows = [measure_encoder(name, side) for name, side in ENCODERS]
    print(tabulate(rows, ["encoder", "side", "CPU ms a picture", "GFLOP/s"], tablefmt="github"))


if __name__ == "__main__":
    main()

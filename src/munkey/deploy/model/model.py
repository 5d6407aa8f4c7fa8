"""The frozen parts of a model: its network and encoder. Loading runs no code from the directory."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load as load_tensors

from munkey.core import gpu
from munkey.data.image_set import ImageSet
from munkey.deploy.errors import UnreadableModelError, translate_read_errors
from munkey.deploy.model.manifest import WEIGHTS, Manifest, read_static_file
from munkey.encoders.keys import MIN_BATCH, extract
from munkey.encoders.parts import build, find_part_entries
from munkey.encoders.registry import Encoder, EncoderEntry, MissingEncoderError
from munkey.memory.errors import ClosedMemoryError
from munkey.memory.exemplars import ExemplarMemory, compute_fusion_weights
from munkey.memory.neighbors import Neighbors
from munkey.models.family import FAMILIES, Retrieval, System
from munkey.models.networks.munkey import NETWORKS
from munkey.settings import EncoderSettings

# The minimum cosine of two keys that the same encoder computed for the same picture, even on
# different machines or in half precision.
MIN_PROBE_COSINE = 0.999

# A fixed picture. Its key identifies an encoder.
PROBE = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), dtype=np.uint8)


def choose_device(name: str) -> str:
    """Return the name of a device. `auto` becomes `cuda` if torch finds a GPU, otherwise `cpu`."""
    if name != "auto":
        return name
    return "cuda" if gpu.is_available() else "cpu"


def find_encoders(settings: EncoderSettings) -> list[EncoderEntry]:
    """Find the registry entry of each encoder in the settings.

    Raises MissingEncoderError if no installed package registers one of them.
    """
    try:
        return find_part_entries(settings)
    except (KeyError, ValueError) as error:
        why = f"{error.args[0]}. If it is a plug-in, install its package here; nothing was changed"
        raise MissingEncoderError(why) from error


def build_encoder(settings: EncoderSettings, device: str) -> Encoder:
    """Load an encoder.

    Raises MissingEncoderError if it cannot be loaded, whatever its code raises. Only an OSError,
    such as for a missing file, stays as it is.
    """
    find_encoders(settings)
    try:
        return build(settings, device)
    except OSError:  # such as MissingEncoderError, whose message is clear already
        raise
    except Exception as error:
        why = f"the encoder {settings.encoder} cannot be loaded here ({type(error).__name__}: {error})"
        if isinstance(error, ModuleNotFoundError):
            why += "; `pip install 'munkey[experiment]'` installs what munkey's own encoders need"
        raise MissingEncoderError(f"{why}; nothing was changed") from error


@cache
def get_first_process() -> int:
    """Return the id of the process that first called this function.

    The id is cached, so a forked child inherits it and can tell that it was forked. In such a
    child, torch would wait for threads that do not exist.
    """
    return os.getpid()


def hide_progress(batch_starts: Sequence[int]) -> Sequence[int]:
    """Return the batches unchanged, so that an extraction prints no progress."""
    return batch_starts


class KeyEncoder:
    """The encoder that computed the keys of a memory.

    Raises UnreadableModelError if its key of the probe differs from the one in the manifest,
    MissingEncoderError if it is not installed or cannot be loaded, and ClosedMemoryError in a
    process that was forked after an encoder was loaded.
    """

    def __init__(self, directory: Path, manifest: Manifest, device: str) -> None:
        if get_first_process() != os.getpid():
            raise ClosedMemoryError(
                f"{directory}: forked after a prediction, so torch would hang; start the process with"
                " `spawn`, or fork it before the first prediction"
            )
        reference = manifest.encoder
        assert reference is not None, "the model takes embeddings, so it has no encoder"
        self.batch_size = reference.settings.batch_size
        self.device = device
        self.encode = build_encoder(reference.settings, device)
        probe = self.compute_keys(PROBE)[0]
        expected = np.array(reference.probe, dtype=np.float32)
        is_same_encoder = False
        if probe.shape == expected.shape:
            cosine_times_norm = probe @ expected  # `probe` has norm 1, but `expected` may not
            is_same_encoder = cosine_times_norm > MIN_PROBE_COSINE * np.linalg.norm(expected)
        if not is_same_encoder:
            why = (
                f"not created with the encoder {reference.settings.encoder} that is installed here"
            )
            raise UnreadableModelError(directory, why)

    def compute_keys(self, images: np.ndarray) -> np.ndarray:
        """Compute keys (N, d) of images (N, H, W, 3) uint8, as the pipeline does.

        Raises ValueError if a key is unusable, such as one that is not finite.
        """
        return extract(
            self.encode, images, self.batch_size, self.device, show_progress=hide_progress
        )


def compute_probe_key(settings: EncoderSettings, encode: Encoder, device: str) -> list[float]:
    """Compute the key of the probe, for a manifest."""
    [key] = extract(encode, PROBE, settings.batch_size, device, show_progress=hide_progress)
    return [float(number) for number in key]


class LoadedNetwork:
    """MUNKEY's network, which classifies pictures with the tokens of their neighbors.

    classes: the number of classes. Raises UnreadableModelError if the weights are damaged or do not
    match the manifest.
    """

    def __init__(self, directory: Path, manifest: Manifest, classes: int, device: str) -> None:
        self.manifest = manifest
        self.device = device
        path = directory / WEIGHTS
        content = read_static_file(directory, manifest, WEIGHTS)
        with translate_read_errors(path):
            weights = load_tensors(content)
            assert manifest.model and manifest.architecture
            self.architecture = manifest.make_network(classes)
            # The weights of block i have names that start with `blocks.i.`.
            blocks = {name.split(".")[1] for name in weights if name.startswith("blocks.")}
            if len(blocks) != manifest.model.depth:
                raise UnreadableModelError(
                    path, f"has {len(blocks)} blocks, but its manifest has {manifest.model.depth}"
                )
            # The "meta" device allocates nothing. `assign=True` below inserts the loaded weights.
            with torch.device("meta"):
                model = NETWORKS[manifest.architecture](self.architecture)
            for name, tensor in weights.items():
                if tensor.dtype != torch.float32 or not tensor.isfinite().all():
                    raise UnreadableModelError(path, f"{name} must hold finite float32 numbers")
            model.load_state_dict(weights, assign=True)
        self.model = model.eval().to(device)

    def compute_logits(
        self, images: np.ndarray, memory: ExemplarMemory, neighbors: Neighbors
    ) -> np.ndarray:
        """Compute logits (N, C) of images (N, H, W, 3) uint8.

        memory: the tokens of all neighbors. neighbors: the neighbors of each image, with K per image.
        """
        count = len(images)
        # Pad the batch to a multiple of MIN_BATCH by repeating the last picture: a smaller batch
        # would use another kernel, whose results differ in the last bits.
        padding = np.repeat(images[-1:], -count % MIN_BATCH, axis=0)
        padded_images = np.concatenate([images, padding])
        rows = np.arange(len(padded_images))
        unused_labels = np.zeros(len(padded_images), dtype=np.int64)
        samples = ImageSet(padded_images, rows=rows, ids=rows.copy(), labels=unused_labels)
        system = System("munkey", self.architecture, self.model, memory)
        padded_neighbors = neighbors.select(np.minimum(rows, count - 1))
        retrieval = Retrieval(padded_neighbors, self.manifest.inference)
        assert self.manifest.data
        logits = FAMILIES["munkey"].predict_logits(
            system, samples, self.manifest.data, self.device, retrieval
        )
        return logits[:count]

    def weigh_neighbors(self, neighbors: Neighbors) -> np.ndarray:
        """Return the fusion weight of each neighbor (N, K); 0 for a missing neighbor."""
        inference = self.manifest.inference
        assert inference
        present = torch.from_numpy(neighbors.ids >= 0)
        cosines = torch.from_numpy(neighbors.cosines)
        return compute_fusion_weights(
            cosines, present, inference.fusion, inference.temperature
        ).numpy()

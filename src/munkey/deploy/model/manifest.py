"""`manifest.json`, which describes an exported model. It contains no paths within the directory."""

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, get_args

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from munkey.core.files import atomic
from munkey.deploy.errors import OTHER_VERSION, UnreadableModelError, translate_read_errors
from munkey.settings import (
    Count,
    DataSettings,
    EncoderSettings,
    InferenceSettings,
    ModelSettings,
    Pixels,
    Section,
    White,
    Width,
)

if TYPE_CHECKING:
    from munkey.models.networks.munkey import MunkeyArchitecture

MODEL_FORMAT = 7  # version of the directory's format
MANIFEST_NAME = "manifest.json"
MEMORY = "memory.db"
WEIGHTS: Final = "weights.safetensors"
CARD: Final = "README.md"
# Files that never change. The manifest contains their SHA-256.
StaticFile: TypeAlias = Literal["weights.safetensors", "README.md"]
ExportedFamily: TypeAlias = Literal["munkey", "knn", "lda", "ncm", "ranpac", "krr"]
# Families whose systems can be exported.
EXPORTED_FAMILIES: tuple[str, ...] = get_args(ExportedFamily)
# Limits of a manifest.
MAX_BYTES = 64 * 2**20  # size of the file
MAX_SIZE = 4096  # batch_size, k, and the side of the encoder's input
MAX_PATCHES_PER_SIDE = 256
ID_LIMIT = 2**62  # all ids are below

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=10_000)]


def compute_digest(model: BaseModel) -> str:
    """Return the SHA-256 of the canonical form of a pydantic model, without its field `sha256`.

    The file of the model contains this digest, which reveals accidental changes.
    """
    return hashlib.sha256(format_canonical(model, exclude={"sha256"})).hexdigest()


def format_canonical(model: BaseModel, exclude: set[str]) -> bytes:
    """Return a pydantic model, without some fields, as JSON in UTF-8 with sorted keys and no spaces."""
    value = model.model_dump(mode="json", exclude=exclude)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


class PictureSize(Section):
    """The size of the pictures in the data set. Other pictures are resized to it, without cropping.

    white: the brightest value of 16-bit gray in the data set; None means 65,535.
    """

    height: Pixels
    width: Pixels
    white: White | None = None

    @model_serializer(mode="wrap")
    def _omit_default_white(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `white` if it is None, so that the digest of an older manifest stays the same."""
        fields: dict[str, Any] = serialize(self)
        if fields.get("white") is None:
            fields.pop("white", None)
        return fields


class EncoderReference(Section):
    """The frozen encoder.

    weights: a string from the registry that identifies its weights. probe: its key of a fixed
    picture (`munkey.deploy.model.model.PROBE`), which reveals any other encoder.
    """

    settings: EncoderSettings
    weights: Text | None
    probe: Annotated[list[float], Field(min_length=1, max_length=65_536)]


class MemoryReference(Section):
    """The memory.

    store: its name, in hexadecimal. first_new_id: ids of rows that were added later are not smaller.
    """

    store: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    first_new_id: Annotated[int, Field(ge=0, le=ID_LIMIT)]


class ModelOrigin(Section):
    """The origin of a model: its place in the results, and the commit, device, and versions."""

    configuration: Text
    dataset: Text
    seed: Annotated[int, Field(ge=0)]
    subset: Text
    system: Text
    commit: Text
    device: Text
    versions: dict[Text, Text]


class EstimatorReference(Section):
    """Additional entries for the model of an estimator.

    features: column names. params: parameters of the estimator, without the settings of the family.
    has_forgotten: whether rows were forgotten before the model was saved, which the chain of
    deletions does not know.
    """

    features: list[str] | None = None
    params: dict[str, str | bool | int | float | list[int] | None] = Field(default_factory=dict)
    has_forgotten: bool = False

    @model_serializer(mode="wrap")
    def _omit_default(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit `has_forgotten` if it is false, so that the digest of an older manifest stays the same."""
        fields: dict[str, Any] = serialize(self)
        if not self.has_forgotten:
            fields.pop("has_forgotten", None)
        return fields

    @property
    def bound(self) -> float | None:
        """The divisor of rows that keep their length; None if rows are scaled to unit norm."""
        bound = self.params.get("bound")
        if isinstance(bound, int | float) and bound > 0:
            return float(bound)
        return None


class Manifest(Section):
    """Everything that predictions need besides weights and memory. It never changes.

    The names of the classes are in the memory, because one of them may have to be forgotten.

    Attributes
    ----------
    family : str
        The family of the model.
    stored : PictureSize or None
        Size of the pictures; None if the rows are embeddings.
    encoder : EncoderReference or None
        The encoder of the pictures; None if the rows are embeddings.
    data, model, architecture, inference
        Settings of MUNKEY. A fitted family may only have `data`.
    token_dim : int
        Width of a token.
    head : dict or None
        Settings of MUNKEY's head, if it has one. They include its family, unless that is LDA.
    settings : dict or None
        Settings of a fitted family, from its section of params.yaml; None for MUNKEY.
    memory : MemoryReference
        The memory that belongs to the model.
    source : str or None
        The folder of the source files, if known.
    provenance : ModelOrigin or None
        The origin of the model; None if the rows are embeddings.
    estimator : EstimatorReference or None
        Additional entries, if an estimator wrote the model.
    files : dict
        SHA-256 of the static files, by name.
    sha256 : str or None
        SHA-256 of all other fields (`compute_digest`); `write` sets it.
    """

    format: Literal["munkey model"]
    version: Count
    family: ExportedFamily
    stored: PictureSize | None = None
    data: DataSettings | None = None
    encoder: EncoderReference | None = None
    model: ModelSettings | None = None
    architecture: Text | None = None
    token_dim: Width
    inference: InferenceSettings | None = None
    head: dict[Text, float | int | Text] | None = None
    settings: dict[Text, float | int | Text | list[float]] | None = None
    memory: MemoryReference
    source: Text | None = None
    provenance: ModelOrigin | None = None
    estimator: EstimatorReference | None = None
    files: dict[StaticFile, Digest] = Field(default_factory=dict)
    sha256: Digest | None = None

    @model_validator(mode="after")
    def _require_settings_of_its_family(self) -> Self:
        """Require network settings for MUNKEY, and `settings` for a fitted family."""
        if self.family == "munkey":
            required = (self.model, self.architecture, self.inference, self.encoder, self.data)
            is_consistent = None not in required and self.settings is None
        else:
            is_consistent = self.settings is not None and not self.head
        has_known_head = not self.head or self.head.get("family", "lda") in ("lda", "krr")
        if not is_consistent or not has_known_head:
            raise ValueError("its settings do not match its family")
        return self

    @model_validator(mode="after")
    def _require_entries_in_pairs(self) -> Self:
        """Require encoder and picture size together, and network and `inference` together."""
        message = "it has no encoder, no picture size, or no inference settings"
        if (self.encoder is None) != (self.stored is None):
            raise ValueError(message)
        if (self.model is None) != (self.inference is None):
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _require_bounded_sizes(self) -> Self:
        """Reject sizes that would overload a machine, because anyone can write a manifest."""
        message = "batch_size, k, or a number of pixels is too large"
        if self.inference and self.inference.k > MAX_SIZE:
            raise ValueError(message)
        if self.encoder:
            encoder_settings = self.encoder.settings
            if max(encoder_settings.batch_size, encoder_settings.image_size or 0) > MAX_SIZE:
                raise ValueError(message)
        if self.data and self.model:
            patches_per_side = self.data.image_size / self.model.patch_size
            if patches_per_side > MAX_PATCHES_PER_SIDE:
                raise ValueError(message)
        return self

    @property
    def static_files(self) -> tuple[StaticFile, ...]:
        """Names of the static files.

        A fitted family has no weights, and a model that takes embeddings has no card either.
        """
        if self.settings is None:
            return (WEIGHTS, CARD)
        if self.provenance:
            return (CARD,)
        return ()

    def make_network(self, classes: int) -> "MunkeyArchitecture":
        """Return the architecture of MUNKEY's network, without the head, which is fitted to the memory."""
        from munkey.models.networks.munkey import MunkeyArchitecture

        assert self.model and self.architecture and self.data, "not the manifest of a network"
        return MunkeyArchitecture(
            classes=classes,
            image_size=self.data.image_size,
            architecture=self.architecture,
            token_dim=self.token_dim,
            **self.model.model_dump(),
        )

    def write(self, directory: Path) -> None:
        """Write the manifest with its digest, atomically."""
        manifest = self.model_copy(update={"sha256": compute_digest(self)})
        with atomic(directory / MANIFEST_NAME) as temporary:
            temporary.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_plain_file(path: Path, largest: int | None = None) -> bytes:
    """Read a regular file.

    largest: maximum size in bytes. Raises UnreadableModelError if the file is not a regular file,
    such as a symbolic link or a folder, or is larger or unreadable.
    """
    # O_NOFOLLOW refuses a symbolic link. Without O_NONBLOCK, opening a pipe would block.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableModelError(path, f"cannot be opened ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableModelError(path, "is not a regular file")
        if largest is not None and status.st_size > largest:
            raise UnreadableModelError(
                path, f"has {status.st_size:,} bytes, more than the allowed {largest:,}"
            )
        return file.read()


def read_manifest(directory: Path, family: str | None = None) -> Manifest:
    """Read the manifest of a directory.

    family: the family that it must have; by default, any. Raises UnreadableModelError if the
    manifest is missing, invalid, of another version or family, or was changed after it was written.
    """
    path = directory / MANIFEST_NAME
    if not path.exists() and not path.is_symlink():
        raise UnreadableModelError(
            directory, f"is not an exported model: it has no {MANIFEST_NAME}"
        )
    with translate_read_errors(path):
        content = json.loads(read_plain_file(path, MAX_BYTES))
        if not isinstance(content, dict) or content.get("format") != "munkey model":
            raise UnreadableModelError(path, "is not the manifest of a model")
        if content.get("version") != MODEL_FORMAT:
            model_format = json.dumps(content.get("version"))[:20]
            why = f"of format {model_format}, while this munkey reads format {MODEL_FORMAT}"
            raise UnreadableModelError(path, why, OTHER_VERSION)
        try:
            manifest = Manifest.model_validate_json(json.dumps(content))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"]))[:100]
            raise UnreadableModelError(path, f"is invalid ({field}: {first['msg']})") from error
        if manifest.sha256 != compute_digest(manifest):
            raise UnreadableModelError(
                path,
                "was changed after it was written: its SHA-256 does not match its other entries",
            )
        if family not in (None, manifest.family):
            raise UnreadableModelError(
                directory, f'holds the family "{manifest.family}", not {family}', "load that"
            )
        return manifest


def read_static_file(directory: Path, manifest: Manifest, name: StaticFile) -> bytes:
    """Read a static file.

    Raises UnreadableModelError if it has changed since the export, is not a regular file, or cannot
    be read, or if the manifest does not list it.
    """
    expected_digest = manifest.files.get(name)
    if expected_digest is None:
        raise UnreadableModelError(directory / MANIFEST_NAME, f"has no SHA-256 of {name}")
    content = read_plain_file(directory / name)
    if hashlib.sha256(content).hexdigest() != expected_digest:
        raise UnreadableModelError(
            directory / name, f"is damaged: its SHA-256 does not match {MANIFEST_NAME}"
        )
    return content

"""What a model's directory says about itself: `manifest.json`. It names no path inside of the directory."""

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
from munkey.deploy.errors import OTHER_VERSION, UnreadableModelError, understood
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

MODEL_FORMAT = 6  # the version of the format of the directory
NAME, MEMORY = "manifest.json", "memory"
WEIGHTS: Final = "weights.safetensors"
CARD: Final = "README.md"
# what nothing changes: the manifest has its SHA-256
Static: TypeAlias = Literal["weights.safetensors", "README.md"]
Exported: TypeAlias = Literal["munkey", "knn", "lda", "ncm"]
# the families whose systems can be used on their own
EXPORTED: tuple[str, ...] = get_args(Exported)
LARGEST = 64 * 2**20  # bytes of a manifest

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Text = Annotated[str, Field(max_length=10_000)]


def self_digest(model: BaseModel) -> str:
    """SHA-256 of a model's canonical form: JSON in UTF-8, keys sorted, no spaces, without `sha256` itself.

    It stands in the file that the model is written to, so that a change that was not meant, or not hidden, is found.
    """
    value = model.model_dump(mode="json", exclude={"sha256"})
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class PictureSize(Section):
    """How the data set keeps its pictures: others are resized to it, without cropping.

    white: the brightest value of its gray of 16 bits, None: 65535.
    """

    height: Pixels
    width: Pixels
    white: White | None = None

    @model_serializer(mode="wrap")
    def _as_before(self, serialized: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without a white that nobody set: the digest of an older manifest stays what it is."""
        return {
            name: value
            for name, value in serialized(self).items()
            if name != "white" or value is not None
        }


class EncoderReference(Section):
    """The frozen encoder. weights: what tells its weights from others, as its registry says.

    probe: the key of a fixed picture (`munkey.deploy.model.model.PROBE`), so that another encoder is noticed
    wherever it is.
    """

    settings: EncoderSettings
    weights: Text | None
    probe: Annotated[list[float], Field(min_length=1, max_length=65_536)]


class MemoryReference(Section):
    """The memory. store: its name, hexadecimal; rows: how many it held at first; first_new_id: of what is added."""

    store: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    rows: Annotated[int, Field(ge=0)]
    first_new_id: Annotated[int, Field(ge=0, lt=2**62)]


class ModelOrigin(Section):
    """Where a model comes from: its place in the results, and commit, device and versions as in its record."""

    configuration: Text
    dataset: Text
    seed: Annotated[int, Field(ge=0)]
    subset: Text
    system: Text
    commit: Text
    device: Text
    versions: dict[Text, Text]


class EstimatorReference(Section):
    """What an estimator needs beside it. dtype: of the classes; features: names of the columns; params: those that are
    no setting of the family.
    """

    dtype: Annotated[str, Field(pattern=r"^[<>|=]?[OUiufb]\d*$")]
    features: list[str] | None = None
    params: dict[str, str | bool | int | float | None] = Field(default_factory=dict)

    @property
    def bound(self) -> float | None:
        """What rows are divided by, where they keep their length; None: they are brought to unit norm."""
        bound = self.params.get("bound")
        return float(bound) if isinstance(bound, int | float) and bound > 0 else None


class Manifest(Section):
    """All that is needed to answer as the run did, besides weights and memory. source: folder of the source files.

    classes: by the number in a row's label; None where an estimator has no row of it left. stored, encoder: None where
    the rows are embeddings, of which there are no pictures. model, architecture, inference, data: of MUNKEY; head: of
    LDA, if it has one; settings: of a family that is fitted, its own section of params.yaml. sha256: of all the rest
    (`self_digest`); `write` puts it in.
    """

    format: Literal["munkey model"]
    version: Count
    family: Exported
    classes: Annotated[
        list[Text | bool | int | float | None], Field(min_length=1, max_length=25_000)
    ]
    stored: PictureSize | None = None
    data: DataSettings | None = None
    encoder: EncoderReference | None = None
    model: ModelSettings | None = None
    architecture: Text | None = None
    token_dim: Width
    inference: InferenceSettings | None = None
    head: dict[Text, float] | None = None
    settings: dict[Text, float | int | Text] | None = None
    memory: MemoryReference
    source: Text | None = None
    provenance: ModelOrigin | None = None
    estimator: EstimatorReference | None = None
    files: dict[Static, Digest] = Field(default_factory=dict)
    sha256: Digest | None = None

    @model_validator(mode="after")
    def _moderate(self) -> Self:
        """What is larger could only keep a machine busy."""
        network = (self.model, self.architecture, self.inference, self.encoder, self.data)
        unfit = self.head if self.settings is not None else None in network
        if (self.family == "munkey") != (self.settings is None) or unfit:
            raise ValueError("its settings are not those of its family")
        if (self.encoder is None) != (self.stored is None) or (self.model is None) != (
            self.inference is None
        ):
            raise ValueError(
                "it lacks the encoder, the size of its pictures, or settings of inference"
            )
        k, of_keys = (
            self.inference.k if self.inference else 0,
            self.encoder.settings if self.encoder else None,
        )
        patches = self.data.image_size / self.model.patch_size if self.data and self.model else 1
        if (
            max(of_keys.batch_size if of_keys else 0, k, (of_keys and of_keys.image_size) or 0)
            > 4096
            or patches > 2**8
        ):
            raise ValueError("batch_size, k or a number of pixels is too large")
        return self

    @property
    def static_files(self) -> tuple[Static, ...]:
        """The static files that it has: a family that is fitted has no weights, embeddings have no card."""
        return (WEIGHTS, CARD) if self.settings is None else (CARD,) if self.provenance else ()

    @property
    def names(self) -> list[str]:
        """The classes as texts."""
        return ["" if one is None else str(one) for one in self.classes]

    @property
    def network(self) -> "MunkeyArchitecture":
        """What the weights belong to, without the head, which follows from the memory."""
        from munkey.models.networks.munkey import MunkeyArchitecture

        assert self.model and self.architecture and self.data
        return MunkeyArchitecture(
            classes=len(self.classes),
            image_size=self.data.image_size,
            architecture=self.architecture,
            token_dim=self.token_dim,
            **self.model.model_dump(),
        )

    def write(self, directory: Path) -> None:
        """Write it, sealed."""
        sealed = self.model_copy(update={"sha256": self_digest(self)})
        with atomic(directory / NAME) as temporary:
            temporary.write_text(sealed.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_plain_file(path: Path, largest: int | None = None) -> bytes:
    """The content of a plain file that is not a link. Raises UnreadableModelError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableModelError(path, f"cannot be opened ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableModelError(path, "is not a plain file")
        if largest is not None and status.st_size > largest:
            raise UnreadableModelError(
                path, f"has {status.st_size:,} bytes, more than a model's can have"
            )
        return file.read()


def read_manifest(directory: Path, family: str | None = None) -> Manifest:
    """The manifest of a directory. Raises UnreadableModelError where there is none, or it is not what was written.

    family: what it must be of, if not of any.
    """
    path = directory / NAME
    if not path.exists() and not path.is_symlink():
        raise UnreadableModelError(directory, f"is not an exported model: it has no {NAME}")
    with understood(path):
        content = json.loads(read_plain_file(path, LARGEST))
        if not isinstance(content, dict) or content.get("format") != "munkey model":
            raise UnreadableModelError(path, "is not the manifest of a model")
        if content.get("version") != MODEL_FORMAT:
            said = f"of format {json.dumps(content.get('version'))[:20]}, while this munkey reads format {MODEL_FORMAT}"
            raise UnreadableModelError(path, said, OTHER_VERSION)
        try:
            manifest = Manifest.model_validate_json(json.dumps(content))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))[:100]
            raise UnreadableModelError(path, f"makes no sense ({place}: {first['msg']})") from error
        if manifest.sha256 != self_digest(manifest):
            raise UnreadableModelError(
                path, "was changed after it was written: its SHA-256 is not the one in it"
            )
        if family not in (None, manifest.family):
            raise UnreadableModelError(
                directory, f'holds the family "{manifest.family}", not {family}', "load that"
            )
        return manifest


def read_static_file(directory: Path, manifest: Manifest, name: Static) -> bytes:
    """A static file, as it was exported. Raises UnreadableModelError where it is another one."""
    content = read_plain_file(directory / name)
    if hashlib.sha256(content).hexdigest() != manifest.files.get(name):
        raise UnreadableModelError(
            directory / name, f"is not the file whose SHA-256 stands in {NAME}"
        )
    return content

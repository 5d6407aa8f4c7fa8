"""What a request holds: how much it may be, and what its JSON or its query means."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from fastapi import HTTPException, Request
from pydantic import BaseModel, FailFast, Field, model_validator

from munkey.data.decoding.picture_files import PictureLimits, TooManyPixelsError
from munkey.deploy.certificate import Certificate
from munkey.deploy.model.images import LIMITS, read_pictures
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.sources import SPECIAL


@dataclass(frozen=True)
class RequestLimits:
    """Of one request. pixels: of all its pictures together, before they are decoded; seconds: until all of it is there.

    decoding: seconds of computing until all its pictures are; predictions: requests for one that are under way at once.
    """

    bytes: int = 8 * 2**20
    pictures: int = 64
    pixels: int = 25_000_000
    seconds: float = 30
    decoding: float = 10
    predictions: int = 32


MOST_NAMES = 1000  # of a kind in a request
MOST_PATTERNS = 32  # in a request: each is compared with every source file
Name = Annotated[str, Field(max_length=1024)]
Names = Annotated[list[Name], FailFast(), Field(max_length=MOST_NAMES)]


def require_few_patterns(files: Sequence[str]) -> None:
    """Raises ValueError."""
    patterns = [name for name in files if SPECIAL & set(name)]
    if len(patterns) > MOST_PATTERNS:
        said = f"{len(patterns):,} names with *, ? or ["
        raise ValueError(f"{said}; a request may have {MOST_PATTERNS}: send several, or name ids")


class Question(BaseModel, extra="forbid", strict=True, val_json_bytes="base64"):
    """What /predict takes as JSON. images: picture files in base64, or rows: embeddings, where the model is of these;
    the rest as for the command `predict`.
    """

    images: Annotated[list[bytes], FailFast()] = []
    rows: Annotated[list[Annotated[list[float], FailFast()]], FailFast()] = []
    explain: bool = False
    only_held_classes: bool = False


class Order(BaseModel, extra="forbid", strict=True):
    """What /forget takes, as the command `forget` does. certificate: purge, and answer with the certificate.

    similar: cosine of look-alikes to list; 0: nobody looks.
    """

    ids: Annotated[list[int], FailFast()] = []
    files: Names = []
    classes: Names = []
    units: Names = []
    ignore_missing: bool = False
    dry_run: bool = False
    request: Name | None = None
    also_identical: bool = False
    similar: Annotated[float, Field(ge=0, le=1)] = 0
    also_similar: bool = False
    block_return: bool = False
    certificate: bool = False

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.model_fields_set & {"ids", "files", "classes", "units"}:
            raise ValueError("name what to forget: ids, files, classes or units")
        require_few_patterns(self.files)
        return self


class Check(BaseModel, extra="forbid", strict=True):
    """What /certificate/check takes. salt: of the certificate, hexadecimal, if it is to be checked that ids are its."""

    certificate: Certificate
    ids: Annotated[list[int], FailFast()] = []
    salt: Annotated[str, Field(pattern="^([0-9a-fA-F]{2}){16,}$")] | None = None

    @model_validator(mode="after")
    def _ids_and_salt(self) -> Self:
        if bool(self.ids) != (self.salt is not None):
            raise ValueError("ids and salt go together: a certificate holds one hash of both")
        return self


class RowFilter(BaseModel, extra="forbid"):
    """What /rows takes: filters as for the command `list`, each repeatable; at most `limit` samples after an id."""

    after: int = -1
    limit: int = Field(100, ge=1, le=1000)
    classes: Names = Field([], alias="class")
    unit: Names = []
    file: Names = []

    @model_validator(mode="after")
    def _few_patterns(self) -> Self:
        require_few_patterns(self.file)
        return self


async def body_of(request: Request, limits: RequestLimits) -> bytes:
    """What was sent. Of what is too long, the rest is read and dropped, so that the client hears why."""
    content, size = bytearray(), 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                size += len(part)
                content += part if size <= limits.bytes else b""
    except TimeoutError:
        sentence = f"the request was not there after {limits.seconds:g} s"
        raise HTTPException(408, sentence, {"Connection": "close"}) from None
    if size > limits.bytes:
        raise HTTPException(413, f"a request may have at most {limits.bytes:,} bytes")
    return bytes(content)


async def question_of(request: Request, limits: RequestLimits, **options: bool) -> Question:
    """What /predict was asked: JSON, or one picture, with options from the query."""
    body = await body_of(request, limits)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type.startswith("image/"):
        return Question.model_validate({"images": [body], **options})
    if media_type == "application/json":
        return Question.model_validate_json(body)
    sentence = "send one picture as image/png, image/jpeg, …, or JSON with pictures in base64"
    raise HTTPException(415, f"{sentence} as application/json")


def asked_about(question: Question, limits: RequestLimits) -> list[bytes] | np.ndarray:
    """What is to be classified: picture files, or rows. Raises HTTPException."""
    if not question.rows:
        count = len(question.images)
        if not 1 <= count <= limits.pictures:
            raise HTTPException(422, f"{count} pictures; a request takes 1 to {limits.pictures}")
        return question.images
    if question.images or len(question.rows) > limits.pictures or len({*map(len, question.rows)}) > 1:
        raise HTTPException(422, f"send images, or at most {limits.pictures} rows of one length")
    return np.array(question.rows)


def decoded(files: Sequence[bytes], stored: PictureSize, limits: RequestLimits) -> np.ndarray:
    """The pictures of a request, (N, H, W, 3) uint8. Raises HTTPException, PictureError."""
    names = [f"images.{number}" for number in range(len(files))]
    bounds = PictureLimits(LIMITS.pixels, limits.decoding, limits.pixels)
    try:
        return np.stack(read_pictures(files, names, (stored.width, stored.height), bounds))
    except TooManyPixelsError as error:
        sentence = f"{error} up to {names[error.number]}; a request may have {limits.pixels:,}"
        raise HTTPException(413, sentence) from error

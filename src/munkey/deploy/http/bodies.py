"""Request bodies and queries, and their limits."""

import asyncio
import base64
import binascii
import codecs
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from fastapi import HTTPException, Request
from pydantic import BaseModel, BeforeValidator, FailFast, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from munkey.data.decoding.decoder import decoder
from munkey.data.decoding.picture_files import (
    PictureLimits,
    RefusedPictureError,
    TooManyPixelsError,
)
from munkey.deploy.certificate import Certificate
from munkey.deploy.deletions import DeletionRequest, Selector
from munkey.deploy.errors import PictureError
from munkey.deploy.model.find import DEFAULT_COUNT, MAX_COUNT
from munkey.deploy.model.images import LIMITS
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.samples import require_one_kind
from munkey.deploy.model.sources import is_pattern


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request.

    Attributes
    ----------
    bytes : int
        Maximum size of the body.
    pixels : int
        Maximum number of pixels of all pictures together, checked before they are decoded.
    seconds : float
        Maximum time until the whole body has arrived.
    decoding : float
        Maximum CPU time to decode all pictures, in seconds.
    predictions : int
        Maximum number of predictions in progress, over all requests.
    """

    bytes: int = 8 * 2**20
    pixels: int = 25_000_000
    seconds: float = 30
    decoding: float = 10
    predictions: int = 32


BodyT = TypeVar("BodyT", bound=BaseModel)
PicturesBodyT = TypeVar("PicturesBodyT", bound="PicturesRequest")
# Limits of a request.
MAX_PICTURES = 64  # pictures or rows
MAX_NAMES = 1000  # names of one kind
MAX_PATTERNS = 32  # patterns, each of which is compared with every source file
GZIP = b"\x1f\x8b"  # the first bytes of a compressed body
URL_SAFE = str.maketrans("-_", "+/")
DATA_URI = re.compile(r"\s*data:[^,]{0,200};base64,")  # browsers put this before the base64
JSON_KEY = re.compile(rb'"(\w+)"\s*:')
Name = Annotated[str, Field(max_length=1024)]
Names = Annotated[list[Name], FailFast(), Field(max_length=MAX_NAMES)]


def require_few_patterns(files: Sequence[str]) -> None:
    """Raise ValueError if these names contain more patterns than a request may have."""
    pattern_count = sum(map(is_pattern, files))
    if pattern_count > MAX_PATTERNS:
        raise ValueError(
            f"{pattern_count:,} patterns; a request may have {MAX_PATTERNS}: send several requests,"
            " or give ids"
        )


def decode_base64(value: object) -> object:
    """Decode a picture in base64, also with line breaks or as a data URI. Leaves bytes unchanged.

    Raises PydanticCustomError if the text is not base64.
    """
    if not isinstance(value, str):
        return value
    text = "".join(DATA_URI.sub("", value, count=1).split())
    try:
        return base64.b64decode(text.translate(URL_SAFE), validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: a letter that is not ASCII
        raise PydanticCustomError("base64", "must be base64") from error


class PicturesRequest(BaseModel, extra="forbid", strict=True):
    """A request with pictures, or with rows if the model takes embeddings."""

    images: Annotated[
        list[
            Annotated[
                bytes,
                BeforeValidator(decode_base64),
                WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
            ]
        ],
        FailFast(),
        Field(max_length=MAX_PICTURES, description="Picture files, in base64."),
    ] = []
    rows: Annotated[
        list[Annotated[list[float], FailFast()]],
        FailFast(),
        Field(max_length=MAX_PICTURES, description="Embeddings, all of the same length."),
    ] = []

    @model_validator(mode="after")
    def _require_images_or_rows(self) -> Self:
        """Require either images or rows, and rows of the same length."""
        has_one_kind = bool(self.images) != bool(self.rows)
        widths = {len(row) for row in self.rows}
        if not has_one_kind or len(widths) > 1:
            raise ValueError(
                f"send 1 to {MAX_PICTURES} images, or 1 to {MAX_PICTURES} rows of the same length"
            )
        return self

    @property
    def inputs(self) -> list[bytes] | np.ndarray:
        """The contents of the picture files, or the rows (N, d)."""
        if self.rows:
            return np.array(self.rows)
        return self.images


class PredictRequest(PicturesRequest):
    """Pictures or rows to classify."""

    explain: bool = Field(
        False, description="Also return the neighbors that each prediction is based on."
    )
    only_held_classes: bool = Field(False, description="Never predict a class without samples.")


class FindRequest(PicturesRequest):
    """Pictures or rows to look up in the memory."""

    count: int = Field(
        DEFAULT_COUNT,
        ge=1,
        le=MAX_COUNT,
        description="How many samples to list for each picture or row.",
    )
    above: float = Field(
        -1.0, ge=-1, le=1, description="The least cosine; exact copies are listed anyway."
    )


class ForgetRequest(BaseModel, extra="forbid", strict=True):
    """Samples to forget, by ids, files, classes, or units, with the options of `munkey forget`."""

    ids: Annotated[list[int], FailFast(), Field(examples=[[10, 12]])] = []
    files: Annotated[
        Names, Field(description="Files, folders, or patterns: `glob:cats/*.png`.")
    ] = []
    classes: Names = []
    units: Annotated[
        Names, Field(description="Units, such as persons or lesions: all of their samples.")
    ] = []
    ignore_missing: bool = Field(False, description="Skip names that match no sample.")
    dry_run: bool = Field(False, description="Only list what would be deleted.")
    request: Name | None = Field(
        None,
        description="A number that you choose. Sent again, it changes nothing and returns the earlier"
        " response.",
    )
    also_identical: bool = Field(False, description="Also forget exact copies.")
    block_return: bool = Field(
        False, description="Refuse these pictures when they are added again."
    )
    certificate: bool = Field(False, description="Purge, and return the certificate and its salt.")

    def to_deletion_request(self) -> DeletionRequest:
        """Convert the body to a request to the model."""
        selectors: list[Selector] = [
            {"ids": self.ids},
            {"files": self.files},
            {"labels": self.classes},
            {"units": self.units},
        ]
        return DeletionRequest(
            {self.request: selectors},
            ignore_missing=self.ignore_missing,
            also_identical=self.also_identical,
            block_return=self.block_return,
        )

    @model_validator(mode="after")
    def _require_names(self) -> Self:
        if not self.model_fields_set & {"ids", "files", "classes", "units"}:
            raise ValueError("name what to forget: ids, files, classes, or units")
        require_one_kind({"files": self.files, "classes": self.classes, "units": self.units})
        require_few_patterns(self.files)
        return self


class CheckRequest(BaseModel, extra="forbid", strict=True):
    """A certificate to check. If ids and salt are given, it must have been issued for these ids."""

    certificate: Annotated[
        Certificate,
        WithJsonSchema({"type": "object", "description": "As the service returned it."}),
    ]
    ids: Annotated[list[int], FailFast(), Field(examples=[[10, 12]])] = []
    salt: (
        Annotated[
            str,
            Field(
                pattern="^([0-9a-fA-F]{2}){16,}$",
                description="The salt of the certificate, hexadecimal.",
            ),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _require_ids_with_salt(self) -> Self:
        """Require both ids and salt, or neither."""
        has_ids = len(self.ids) > 0
        has_salt = self.salt is not None
        if has_ids != has_salt:
            raise ValueError("ids and salt go together: a certificate holds one hash of both")
        return self


class RowFilter(BaseModel, extra="forbid"):
    """The query of /rows: a page, and the filters of the command `list`, which may be repeated."""

    after: int = Field(-1, description="List only samples with larger ids.")
    limit: int = Field(100, ge=1, le=1000, description="Maximum number of samples to list.")
    classes: Names = Field([], alias="class")
    unit: Names = []
    file: Names = []

    @model_validator(mode="after")
    def _check_patterns(self) -> Self:
        require_few_patterns(self.file)
        return self


class Refusal(BaseModel):
    """The response to a request that was not carried out."""

    error: str = Field(
        description="What is wrong, in a sentence.", examples=["2 of 3 are unknown: 13, 15"]
    )
    unknown: list[str] = Field([], description="The first ten names that match no sample.")
    unknown_count: int = 0


async def read_body(request: Request, limits: RequestLimits) -> bytes:
    """Read the body of a request.

    Raises HTTPException if it is too long, arrives too slowly, or is compressed.

    FastAPI's `max_body_size` responds in plain text, and neither FastAPI nor uvicorn limits how
    long a body may take.
    """
    content = bytearray()
    size = 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                size += len(chunk)
                # If the body is too long, read it to its end but drop it: many clients do not read
                # the response before they have sent everything.
                if size <= limits.bytes:
                    content += chunk
    except TimeoutError:
        sentence = f"the request did not arrive within {limits.seconds:g} s"
        raise HTTPException(408, sentence, {"Connection": "close"}) from None
    if size > limits.bytes:
        raise HTTPException(413, f"a request may have at most {limits.bytes:,} bytes")
    if content.startswith(GZIP):
        raise HTTPException(415, "the body is compressed with gzip; send it uncompressed")
    return bytes(content)


def parse_json(model: type[BodyT], body: bytes) -> BodyT:
    """Parse a body as JSON, with or without a byte order mark.

    Raises ValidationError for an invalid body, and HTTPException if a key is repeated: most parsers
    would use only the last value, so that some of the named samples would stay.
    """
    body = body.removeprefix(codecs.BOM_UTF8)
    parsed = model.model_validate_json(body)
    # In JSON, a quotation mark within a text has a backslash before it, so this finds only keys.
    key_counts = Counter(JSON_KEY.findall(body))
    for name in model.model_fields:
        # A certificate has keys of its own, and checking it changes nothing.
        if key_counts[name.encode()] > 1 and not isinstance(parsed, CheckRequest):
            raise HTTPException(422, f"the body has the key {name!r} twice; send one list")
    return parsed


async def read_picture_body(
    model: type[PicturesBodyT],
    request: Request,
    limits: RequestLimits,
    **options: bool | int | float,
) -> PicturesBodyT:
    """Read the body of /predict or /find: JSON, or one picture, with options from the query.

    Raises HTTPException for another media type, or as `read_body` does, and ValidationError for an
    invalid body.
    """
    body = await read_body(request, limits)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type.startswith("image/"):
        return model.model_validate({"images": [body], **options})
    if media_type == "application/json":
        return parse_json(model, body)
    sentence = "send one picture as image/png, image/jpeg, …, or JSON with pictures in base64"
    raise HTTPException(415, f"{sentence} as application/json")


def make_json_body(
    model: type[BodyT], limits: RequestLimits
) -> Callable[[Request], Awaitable[BodyT]]:
    """Make a dependency that reads the body as JSON, once the role has been checked.

    If the body were a parameter of the endpoint, FastAPI would parse it before checking the token,
    and with json.loads, which takes seconds for 8 MiB of empty lists. pydantic stops at the first
    of them.
    """

    async def parse(request: Request) -> BodyT:
        return parse_json(model, await read_body(request, limits))

    return parse


def make_body_schema(model: type[BaseModel], **others: dict[str, Any]) -> dict[str, Any]:
    """Describe a JSON body for `openapi_extra`. others: schemas of other accepted media types."""
    content = {"application/json": {"schema": model.model_json_schema()}} | others
    return {"requestBody": {"content": content, "required": True}}


def decode_pictures(
    files: Sequence[bytes], picture_size: PictureSize, limits: RequestLimits
) -> np.ndarray:
    """Decode the picture files of a request to (N, H, W, 3) uint8.

    Raises HTTPException for too many pixels, and PictureError for a file that cannot be read.
    """
    names = [f"images.{number}" for number in range(len(files))]
    size = (picture_size.width, picture_size.height)
    picture_limits = PictureLimits(LIMITS.pixels, limits.pixels, picture_size.white)
    try:
        pictures = decoder.read(files, picture_limits, limits.decoding, size)
    except TooManyPixelsError as error:
        sentence = f"{error} up to {names[error.number]}; a request may have {limits.pixels:,}"
        raise HTTPException(413, sentence) from error
    except RefusedPictureError as error:
        raise PictureError(f"{names[error.number]}: {error}") from error
    return np.stack([picture.pixels for picture in pictures])

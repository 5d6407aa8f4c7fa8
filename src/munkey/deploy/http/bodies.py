"""The bodies and queries of requests, and their limits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from fastapi import HTTPException, Request
from pydantic import BaseModel, FailFast, Field, WithJsonSchema, model_validator

from munkey.data.decoding.picture_files import PictureLimits, TooManyPixelsError
from munkey.deploy.certificate import Certificate
from munkey.deploy.deletions import DeletionRequest, Line
from munkey.deploy.model.find import COUNT, MOST
from munkey.deploy.model.images import LIMITS, read_pictures
from munkey.deploy.model.manifest import PictureSize
from munkey.deploy.model.sources import SPECIAL


@dataclass(frozen=True)
class RequestLimits:
    """Limits of one request.

    Attributes
    ----------
    bytes : int
        Of its body.
    pixels : int
        Of all its pictures together, before they are decoded.
    seconds : float
        Until all of it has arrived.
    decoding : float
        Seconds of computing for all its pictures.
    predictions : int
        Requests for predictions that are under way at once.
    """

    bytes: int = 8 * 2**20
    pixels: int = 25_000_000
    seconds: float = 30
    decoding: float = 10
    predictions: int = 32


Body = TypeVar("Body", bound=BaseModel)
PictureBody = TypeVar("PictureBody", bound="QuestionOfPictures")
MOST_PICTURES = 64  # or rows, in a request
MOST_NAMES = 1000  # of one kind in a request
MOST_PATTERNS = 32  # in a request: each is compared with every source file
Name = Annotated[str, Field(max_length=1024)]
Names = Annotated[list[Name], FailFast(), Field(max_length=MOST_NAMES)]


def require_few_patterns(files: Sequence[str]) -> None:
    """Raise ValueError for more patterns than a request may have."""
    patterns = [name for name in files if SPECIAL & set(name)]
    if len(patterns) > MOST_PATTERNS:
        raise ValueError(
            f"{len(patterns):,} names with *, ? or [; a request may have {MOST_PATTERNS}: send"
            " several, or name ids"
        )


class QuestionOfPictures(BaseModel, extra="forbid", strict=True, val_json_bytes="base64"):
    """A question about pictures, or about rows if the model is of embeddings."""

    images: Annotated[
        list[Annotated[bytes, WithJsonSchema({"type": "string", "contentEncoding": "base64"})]],
        FailFast(),
        Field(max_length=MOST_PICTURES, description="Picture files, in base64."),
    ] = []
    rows: Annotated[
        list[Annotated[list[float], FailFast()]],
        FailFast(),
        Field(max_length=MOST_PICTURES, description="Embeddings, all of one length."),
    ] = []

    @model_validator(mode="after")
    def _images_or_rows(self) -> Self:
        widths = {len(row) for row in self.rows}
        if bool(self.images) == bool(self.rows) or len(widths) > 1:
            raise ValueError(
                f"send 1 to {MOST_PICTURES} images, or 1 to {MOST_PICTURES} rows of one length"
            )
        return self

    @property
    def inputs(self) -> list[bytes] | np.ndarray:
        """Picture files, or rows."""
        return np.array(self.rows) if self.rows else self.images


class Question(QuestionOfPictures):
    """Pictures or rows to classify."""

    explain: bool = Field(
        False, description="Answer with the neighbors that each prediction rests on."
    )
    only_held_classes: bool = Field(False, description="Answer no class without samples.")


class LookUp(QuestionOfPictures):
    """Pictures or rows whose nearest samples are looked up."""

    count: int = Field(
        COUNT, ge=1, le=MOST, description="At most so many samples for each picture or row."
    )
    above: float = Field(
        -1.0, ge=-1, le=1, description="The least cosine; exact copies are listed anyway."
    )


class Order(BaseModel, extra="forbid", strict=True):
    """Samples to forget, by ids, files, classes or units, with options of `munkey forget`."""

    ids: Annotated[list[int], FailFast(), Field(examples=[[10, 12]])] = []
    files: Annotated[Names, Field(description="Names, folders or patterns, as of a shell.")] = []
    classes: Names = []
    units: Annotated[Names, Field(description="Persons, lesions, …, of whom all samples go.")] = []
    ignore_missing: bool = Field(False, description="Pass over what names no sample.")
    dry_run: bool = Field(False, description="Only say what would be deleted.")
    request: Name | None = Field(
        None,
        description="A number of your own. Asked again, nothing changes, and the earlier answer comes.",
    )
    also_identical: bool = Field(False, description="Forget exact copies, too.")
    similar: Annotated[
        float, Field(ge=0, le=1, description="List look-alikes of at least this cosine; 0: none.")
    ] = 0
    also_similar: bool = Field(False, description="Forget these look-alikes, too.")
    block_return: bool = Field(
        False, description="Refuse these pictures when they are added again."
    )
    certificate: bool = Field(
        False, description="Purge, and answer with the certificate and its salt."
    )

    def deletion_request(self) -> DeletionRequest:
        """The request to the model."""
        lines: list[Line] = [
            {"ids": self.ids},
            {"files": self.files},
            {"labels": self.classes},
            {"units": self.units},
        ]
        return DeletionRequest(
            {self.request: lines},
            ignore_missing=self.ignore_missing,
            also_identical=self.also_identical,
            similar=self.similar,
            also_similar=self.also_similar,
            block_return=self.block_return,
        )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.model_fields_set & {"ids", "files", "classes", "units"}:
            raise ValueError("name what to forget: ids, files, classes or units")
        require_few_patterns(self.files)
        return self


class Check(BaseModel, extra="forbid", strict=True):
    """A certificate to check; with ids and its salt, also whether it was made for these."""

    certificate: Annotated[
        Certificate, WithJsonSchema({"type": "object", "description": "As it was answered."})
    ]
    ids: Annotated[list[int], FailFast(), Field(examples=[[10, 12]])] = []
    salt: (
        Annotated[
            str,
            Field(
                pattern="^([0-9a-fA-F]{2}){16,}$", description="Of the certificate, hexadecimal."
            ),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _ids_and_salt(self) -> Self:
        if bool(self.ids) != (self.salt is not None):
            raise ValueError("ids and salt go together: a certificate holds one hash of both")
        return self


class RowFilter(BaseModel, extra="forbid"):
    """The query of /rows: filters as for the command `list`, each repeatable."""

    after: int = Field(-1, description="An id: samples behind it are listed.")
    limit: int = Field(100, ge=1, le=1000, description="At most so many samples.")
    classes: Names = Field([], alias="class")
    unit: Names = []
    file: Names = []

    @model_validator(mode="after")
    def _few_patterns(self) -> Self:
        require_few_patterns(self.file)
        return self


class Refusal(BaseModel):
    """The answer to a request that cannot be carried out."""

    error: str = Field(
        description="What is wrong, in a sentence.", examples=["2 of 3 are unknown: 13, 15"]
    )
    unknown: list[str] = Field([], description="Of what names no sample, the first ten.")
    unknown_count: int = 0


async def body_of(request: Request, limits: RequestLimits) -> bytes:
    """Read the body of a request. If it is too long, the rest is dropped and the client told why.

    FastAPI's `max_body_size` answers in plain text, and neither FastAPI nor uvicorn ends a slow
    body.
    """
    content = bytearray()
    size = 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for part in request.stream():
                size += len(part)
                if size <= limits.bytes:
                    content += part
    except TimeoutError:
        sentence = f"the request was not there after {limits.seconds:g} s"
        raise HTTPException(408, sentence, {"Connection": "close"}) from None
    if size > limits.bytes:
        raise HTTPException(413, f"a request may have at most {limits.bytes:,} bytes")
    return bytes(content)


async def question_of(
    model: type[PictureBody], request: Request, limits: RequestLimits, **options: bool | int | float
) -> PictureBody:
    """Read the body of /predict or /find: JSON, or one picture with options from the query."""
    body = await body_of(request, limits)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type.startswith("image/"):
        return model.model_validate({"images": [body], **options})
    if media_type == "application/json":
        return model.model_validate_json(body)
    sentence = "send one picture as image/png, image/jpeg, …, or JSON with pictures in base64"
    raise HTTPException(415, f"{sentence} as application/json")


def json_body(model: type[Body], limits: RequestLimits) -> Callable[[Request], Awaitable[Body]]:
    """Make a dependency that reads the body as JSON, after those of roles.

    FastAPI would parse a model that is a parameter of an endpoint before it looks at any token, and
    with json.loads: 8 MiB of empty lists then stop the service for seconds. pydantic refuses the
    first of them.
    """

    async def parse(request: Request) -> Body:
        return model.model_validate_json(await body_of(request, limits))

    return parse


def body_schema(model: type[BaseModel], **others: dict[str, Any]) -> dict[str, Any]:
    """For `openapi_extra`: a body of this model as JSON. others: further media types."""
    content = {"application/json": {"schema": model.model_json_schema()}} | others
    return {"requestBody": {"content": content, "required": True}}


def decode_pictures(
    files: Sequence[bytes], stored: PictureSize, limits: RequestLimits
) -> np.ndarray:
    """Decode the pictures of a request: (N, H, W, 3) uint8. Raises HTTPException, PictureError."""
    names = [f"images.{number}" for number in range(len(files))]
    bounds = PictureLimits(LIMITS.pixels, limits.decoding, limits.pixels, stored.white)
    try:
        return np.stack(read_pictures(files, names, (stored.width, stored.height), bounds))
    except TooManyPixelsError as error:
        sentence = f"{error} up to {names[error.number]}; a request may have {limits.pixels:,}"
        raise HTTPException(413, sentence) from error

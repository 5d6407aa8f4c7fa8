"""A model behind HTTP: POST /predict, POST /forget, GET /verify, GET /health (docs/serving.md).

Every refusal is JSON that says in a sentence what is wrong. Deleting needs the token.
"""

import asyncio
import hmac
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, FailFast, ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from munkey.deploy import json_answers
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.http.request_queue import RequestQueue
from munkey.deploy.model.images import undecoded
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.errors import ClosedMemoryError, UnknownIdsError, UnreadableMemoryError

if TYPE_CHECKING:
    from PIL.Image import Image

ENDPOINTS = "POST /predict, POST /forget, GET /verify, GET /health"
SENTENCES = {
    404: f"there is no such path; there are {ENDPOINTS}",
    405: f"this path takes another method; there are {ENDPOINTS}",
}


@dataclass(frozen=True)
class RequestLimits:
    """Of one request. pixels: of all its pictures together, before they are decoded."""

    bytes: int = 8 * 2**20
    pictures: int = 64
    pixels: int = 25_000_000


class Question(BaseModel):
    """What /predict takes as JSON. images: picture files in base64; explain: name the neighbors."""

    model_config = ConfigDict(extra="forbid", strict=True, val_json_bytes="base64")
    images: Annotated[list[bytes], FailFast()]
    explain: bool = False


class Order(BaseModel):
    """What /forget takes."""

    model_config = ConfigDict(extra="forbid", strict=True)
    ids: Annotated[list[int], FailFast()]
    ignore_missing: bool = False


def application(predictor: Predictor, token: str, limits: RequestLimits) -> FastAPI:
    """The service. It closes the predictor when it ends."""
    queue = RequestQueue(predictor)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        settling = asyncio.create_task(queue.settle_when_idle())
        yield
        settling.cancel()
        await asyncio.to_thread(predictor.close)

    app = FastAPI(title="munkey", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    for kind in (
        StarletteHTTPException,
        RequestValidationError,
        UnknownIdsError,
        ClosedMemoryError,
        ValueError,
        OSError,
    ):
        app.add_exception_handler(kind, refusal)

    @app.post("/predict")
    async def predict(request: Request, explain: bool = False) -> JSONResponse:
        body = await _body(request, limits)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type.startswith("image/"):
            question = Question(images=[body], explain=explain)
        elif media_type == "application/json":
            question = Question.model_validate_json(body)
        else:
            sentence = "send one picture as image/png, image/jpeg, …, or JSON with pictures in base64"
            raise HTTPException(415, f"{sentence} as application/json")
        pictures = await asyncio.to_thread(undecoded_pictures, question.images, limits)
        return JSONResponse(json_answers.predicted(await queue.predict(pictures), explain=question.explain))

    @app.post("/forget")
    async def forget(request: Request) -> JSONResponse:
        _require_token(request, token)
        order = Order.model_validate_json(await _body(request, limits))
        receipt = await queue.forget(order.ids, ignore_missing=order.ignore_missing)
        return JSONResponse(json_answers.forgotten(receipt))

    @app.get("/verify")
    async def verify(published: str | None = None) -> JSONResponse:
        return JSONResponse(await queue.verify(published))

    @app.get("/health")
    def health() -> JSONResponse:
        return JSONResponse({"status": "ok", "samples": len(predictor.ids), "head": predictor.head})

    return app


async def _body(request: Request, limits: RequestLimits) -> bytes:
    """What was sent. Of what is too long, the rest is read and dropped, so that the client hears why."""
    content, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        content += part if size <= limits.bytes else b""
    if size > limits.bytes:
        raise HTTPException(413, f"a request may have at most {limits.bytes:,} bytes")
    return bytes(content)


def undecoded_pictures(files: Sequence[bytes], limits: RequestLimits) -> "list[Image]":
    """Pictures that are not decoded yet, but known to be small enough. Raises HTTPException, PictureError."""
    if not 1 <= len(files) <= limits.pictures:
        raise HTTPException(422, f"{len(files)} pictures; a request takes 1 to {limits.pictures}")
    pictures: list[Image] = []
    pixels = 0
    for number, content in enumerate(files):
        picture = undecoded(io.BytesIO(content), f"images.{number}")
        pixels += picture.width * picture.height
        if pixels > limits.pixels:  # the rest is not even opened
            raise HTTPException(413, f"{pixels:,} pixels up to images.{number}; a request may have {limits.pixels:,}")
        pictures.append(picture)
    return pictures


def _require_token(request: Request, token: str) -> None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), token.encode()):
        sentence = "deleting needs the token: send the header `Authorization: Bearer TOKEN`"
        raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})


def refusal(_: Request, error: Exception) -> JSONResponse:
    """The answer to what failed: a sentence, with the status of its kind."""
    match error:
        case StarletteHTTPException():
            sentence = SENTENCES.get(error.status_code, error.detail)
            return JSONResponse({"error": sentence}, error.status_code, error.headers)
        case UnknownIdsError():
            return JSONResponse({"error": str(error), "unknown": error.ids}, 404)
        case ValidationError() | RequestValidationError():
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the body"
            return JSONResponse({"error": f"{place}: {first['msg']}"}, 422)
        case UnreadableModelError() | UnreadableMemoryError() | ClosedMemoryError() | OSError():
            return JSONResponse({"error": f"the memory cannot be used now: {error}"}, 503)
        case _:  # a ValueError, PictureError among them
            return JSONResponse({"error": str(error)}, 422)

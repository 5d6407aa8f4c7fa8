"""A model behind HTTP: POST /predict, POST /forget, GET /verify, GET /health (docs/service.md).

Every refusal is JSON that says in a sentence what is wrong. Deleting needs the token.
"""

import asyncio
import base64
import binascii
import hmac
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException as StarletteHTTPException

from munkey.deploy import json_answers
from munkey.deploy.errors import PictureError, UnreadableModelError
from munkey.deploy.http.request_queue import Desk
from munkey.deploy.model.images import undecoded
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError, UnreadableMemoryError

if TYPE_CHECKING:
    from PIL.Image import Image

PATIENCE_S = 30  # for the head of a request to arrive, and again for the rest
ENDPOINTS = "POST /predict, POST /forget, GET /verify, GET /health"
SENTENCES = {
    404: f"there is no such path; there are {ENDPOINTS}",
    405: f"this path takes another method; there are {ENDPOINTS}",
}

Asked = TypeVar("Asked", bound=BaseModel)


@dataclass(frozen=True)
class Limits:
    """Of one request. pixels: of all its pictures together, before they are decoded."""

    bytes: int = 8 * 2**20
    pictures: int = 64
    pixels: int = 25_000_000


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Question(Strict):
    """What /predict takes as JSON. images: picture files in base64; explain: name the neighbors."""

    images: list[str]
    explain: bool = False


@dataclass(frozen=True)
class Sent:
    """A question with the bytes of its picture files."""

    files: list[bytes]
    explain: bool


class Order(Strict):
    """What /forget takes."""

    ids: list[int]
    ignore_missing: bool = False


def application(predictor: Predictor, token: str, limits: Limits) -> FastAPI:
    """The service. It closes the predictor when it ends."""
    desk = Desk(predictor)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        settling = asyncio.create_task(desk.settle_when_idle())
        yield
        settling.cancel()
        await asyncio.to_thread(predictor.close)

    app = FastAPI(title="munkey", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    for error, handler in REFUSALS.items():
        app.add_exception_handler(error, handler)

    @app.post("/predict")
    async def predict(request: Request) -> JSONResponse:
        question = await _question(request, limits)
        pictures = await asyncio.to_thread(_pictures, question.files, limits)
        return JSONResponse(json_answers.predicted(await desk.predict(pictures), explain=question.explain))

    @app.post("/forget")
    async def forget(request: Request) -> JSONResponse:
        _require_token(request, token)
        order = _parsed(Order, await _body(request, limits))
        receipt = await desk.forget(order.ids, ignore_missing=order.ignore_missing)
        return JSONResponse(json_answers.forgotten(receipt))

    @app.get("/verify")
    async def verify(published: str | None = None) -> JSONResponse:
        return JSONResponse(await desk.verify(published))

    @app.get("/health")
    def health() -> JSONResponse:
        return JSONResponse({"status": "ok", "samples": len(predictor.ids), "head": predictor.head})

    return app


async def _body(request: Request, limits: Limits) -> bytes:
    """What was sent. Of what is too long, the rest is read and dropped, so that the client hears why."""
    content, size = bytearray(), 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for part in request.stream():
                size += len(part)
                content += part if size <= limits.bytes else b""
    except TimeoutError:
        raise HTTPException(408, f"the rest of the request did not arrive within {PATIENCE_S} s") from None
    if size > limits.bytes:
        raise HTTPException(413, f"a request may have at most {limits.bytes:,} bytes")
    return bytes(content)


def _parsed(kind: type[Asked], body: bytes) -> Asked:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise HTTPException(422, f"{place}: {first['msg']}") from None


async def _question(request: Request, limits: Limits) -> Sent:
    """What a request to /predict asks: JSON, or the bytes of one picture."""
    body = await _body(request, limits)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith("image/"):
        return Sent([body], request.query_params.get("explain", "false") == "true")
    if kind != "application/json":
        sentence = "send one picture as image/png, image/jpeg, …, or JSON with pictures in base64 as application/json"
        raise HTTPException(415, sentence)
    question = _parsed(Question, body)
    return Sent([_decoded(number, text) for number, text in enumerate(question.images)], question.explain)


def _decoded(number: int, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise HTTPException(422, f"images.{number}: is not base64") from None


def _pictures(files: Sequence[bytes], limits: Limits) -> "list[Image]":
    """Pictures that are not decoded yet, but known to be small enough."""
    if not 1 <= len(files) <= limits.pictures:
        raise HTTPException(422, f"{len(files)} pictures; a request takes 1 to {limits.pictures}")
    opened: list[Image] = []
    pixels = 0
    for number, content in enumerate(files):
        picture = undecoded(io.BytesIO(content), f"images.{number}")
        pixels += picture.width * picture.height
        if pixels > limits.pixels:  # the rest is not even opened
            raise HTTPException(413, f"{pixels:,} pixels up to images.{number}; a request may have {limits.pixels:,}")
        opened.append(picture)
    return opened


def _require_token(request: Request, token: str) -> None:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode("latin-1"), token.encode()):
        sentence = "deleting needs the token: send the header `Authorization: Bearer TOKEN`"
        raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})


def _refused(status: int, sentence: str, **more: object) -> JSONResponse:
    return JSONResponse({"error": sentence} | more, status)


def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    refused = _refused(error.status_code, SENTENCES.get(error.status_code, error.detail))
    refused.headers.update(error.headers or {})
    return refused


def _unknown(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, UnknownIdsError)
    return _refused(404, str(error), unknown=error.ids)


def _bad(_: Request, error: Exception) -> JSONResponse:
    return _refused(422, str(error))


def _broken(_: Request, error: Exception) -> JSONResponse:
    return _refused(503, f"the memory cannot be used now: {error}")


REFUSALS = {
    StarletteHTTPException: _http,
    UnknownIdsError: _unknown,
    PictureError: _bad,
    ValueError: _bad,
    UnreadableModelError: _broken,
    UnreadableMemoryError: _broken,
    LockedMemoryError: _broken,
    ClosedMemoryError: _broken,
    OSError: _broken,
}

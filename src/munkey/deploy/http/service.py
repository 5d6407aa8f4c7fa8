"""A model behind HTTP (docs/serving.md): `ENDPOINTS` lists what it answers.

Every refusal is JSON that says in a sentence what is wrong. What names or counts samples, or deletes, needs a token.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from munkey.deploy import json_answers
from munkey.deploy.errors import UnreadableModelError
from munkey.deploy.http.bodies import Order, RequestLimits, body_of, question_of, undecoded_pictures
from munkey.deploy.http.request_queue import FullQueueError, RequestQueue
from munkey.deploy.http.roles import require, role_of
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.errors import (
    ClosedMemoryError,
    LockedMemoryError,
    UnknownIdsError,
    UnreadableMemoryError,
)

ENDPOINTS = "POST /predict, /forget, /purge; GET /verify, /health, /metrics"
SENTENCES = {
    404: f"there is no such path; there are {ENDPOINTS}",
    405: f"this path takes another method; there are {ENDPOINTS}",
}
NAMED = 10  # of what is unknown


def application(predictor: Predictor, tokens: Mapping[str, str], limits: RequestLimits) -> FastAPI:
    """The service. It closes the predictor when it ends. tokens: of each role that has one, `forget` among them."""
    queue = RequestQueue(predictor, limits.predictions)
    answered: Counter[str] = Counter()  # pictures, and requests by the status of their refusal

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        maintaining = asyncio.create_task(queue.maintain())
        yield
        maintaining.cancel()
        if queue.unpurged:
            with suppress(LockedMemoryError):
                await queue.purge()
        await asyncio.to_thread(predictor.close)

    def refuse(_: Request, error: Exception) -> JSONResponse:
        answer = refusal(error)
        answered[str(answer.status_code)] += 1
        return answer

    app = FastAPI(
        title="munkey", lifespan=lifespan, redirect_slashes=False, docs_url=None, redoc_url=None, openapi_url=None
    )
    for kind in (
        HTTPException,
        RequestValidationError,
        ClientDisconnect,
        UnknownIdsError,
        FullQueueError,
        ClosedMemoryError,
        ValueError,
        OSError,
        Exception,  # and uvicorn writes its traceback
    ):
        app.add_exception_handler(kind, refuse)

    @app.post("/predict")
    async def predict(request: Request, explain: bool = False) -> JSONResponse:
        require(request, tokens, "predict")
        with queue.place():
            question = await question_of(request, explain, limits)
            if question.explain:
                require(request, tokens, "verify")
            pictures = await asyncio.to_thread(undecoded_pictures, question.images, limits)
            prediction = await queue.predict(pictures, request.is_disconnected)
        if prediction is None:
            raise ClientDisconnect
        answered["pictures"] += len(prediction)
        return JSONResponse(json_answers.predicted(prediction, explain=question.explain))

    @app.post("/forget")
    async def forget(request: Request) -> JSONResponse:
        require(request, tokens, "forget")
        order = Order.model_validate_json(await body_of(request, limits))
        receipt = await queue.delete(lambda model: model.forget(order.ids, ignore_missing=order.ignore_missing))
        return JSONResponse(json_answers.forgotten(receipt) | {"purged": False})

    @app.post("/purge")
    async def purge(request: Request) -> JSONResponse:
        require(request, tokens, "forget")
        await queue.purge()
        return JSONResponse(_purged(queue))

    @app.get("/verify")
    async def verify(request: Request, published: str | None = None) -> JSONResponse:
        require(request, tokens, "verify")
        return JSONResponse(
            await queue.beside(lambda model: json_answers.verified(model.verify(published), model.search.described()))
        )

    @app.get("/health")
    async def health(request: Request) -> JSONResponse:
        head = predictor.head  # raises where the memory cannot be used
        facts = {"samples": len(predictor.ids), "head": head} | _purged(queue)
        return JSONResponse({"status": "ok"} | (facts if role_of(request, tokens) in ("verify", "forget") else {}))

    @app.get("/metrics")
    async def metrics(request: Request) -> PlainTextResponse:
        require(request, tokens, "verify")
        values = {
            "samples gauge": len(predictor.ids),
            "deletions_total counter": predictor.store.deletions,
            "pictures_total counter": answered["pictures"],
            "predictions_waiting gauge": queue.waiting,
            "unpurged gauge": int(queue.unpurged),
            "purged_timestamp_seconds gauge": queue.purged_at.timestamp() if queue.purged_at else 0,
        }
        lines = []
        for name, value in values.items():
            lines += [f"# TYPE munkey_{name}", f"munkey_{name.split()[0]} {value}"]
        lines.append("# TYPE munkey_refusals_total counter")
        for status in sorted(answered.keys() - {"pictures"}):
            lines.append(f'munkey_refusals_total{{status="{status}"}} {answered[status]}')
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    return app


def _purged(queue: RequestQueue) -> json_answers.Json:
    """Whether every trace of what was deleted is gone, and when the last purge since the start ended."""
    at = queue.purged_at
    return {"purged": not queue.unpurged, "purged_at": at and at.isoformat(timespec="microseconds")}


def refusal(error: Exception) -> JSONResponse:
    """The answer to what failed: a sentence, with the status of its kind."""
    more: json_answers.Json = {}
    headers: Mapping[str, str] | None = None
    match error:
        case HTTPException():
            status, sentence, headers = error.status_code, SENTENCES.get(error.status_code, error.detail), error.headers
        case ClientDisconnect():
            status, sentence = 499, "the client left"  # nobody reads it
        case UnknownIdsError():
            status, sentence = 404, str(error)
            more = {"unknown": error.ids[:NAMED], "unknown_count": len(error.ids)}
        case ValidationError() | RequestValidationError():
            first = error.errors()[0]
            status, sentence = 422, f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}"
        case FullQueueError() | LockedMemoryError():
            status, sentence, headers = 503, str(error), {"Retry-After": "1"}
        case UnreadableModelError() | UnreadableMemoryError() | ClosedMemoryError() | OSError():
            status, sentence = 503, f"the memory cannot be used now: {error}"
        case ValueError():  # PictureError among them
            status, sentence = 422, str(error)
        case _:
            status, sentence = 500, f"an error of the service itself: {type(error).__name__}"
    return JSONResponse({"error": sentence} | more, status, headers)

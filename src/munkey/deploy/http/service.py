"""A model behind HTTP (docs/serving.md): `ENDPOINTS` lists what it answers.

Every refusal is JSON that says in a sentence what is wrong. What names or counts samples, or deletes, needs a token.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from munkey.deploy import json_answers
from munkey.deploy.errors import UnknownNamesError, UnreadableModelError
from munkey.deploy.http import deletions
from munkey.deploy.http.audit import audit_router
from munkey.deploy.http.bodies import Order, RequestLimits, body_of, question_of, undecoded_pictures
from munkey.deploy.http.request_queue import FullQueueError, RequestQueue
from munkey.deploy.http.roles import ROLES, Tokens
from munkey.deploy.json_answers import Json
from munkey.deploy.model.predictor import Predictor
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError, UnknownIdsError

ENDPOINTS = (
    "POST /predict, /forget, /purge, /certificate/check; GET /rows, /log, /certificate, /verify, /metrics, /health"
)
SENTENCES = {
    404: f"there is no such path; there are {ENDPOINTS}",
    405: f"this path takes another method; there are {ENDPOINTS}",
}
REFUSED: tuple[type[Exception], ...] = (
    *(HTTPException, RequestValidationError, ClientDisconnect, UnknownIdsError, UnknownNamesError, FullQueueError),
    *(ClosedMemoryError, ValueError, OSError, Exception),  # of the last one, uvicorn writes the traceback, too
)


def application(predictor: Predictor, tokens: Mapping[str, str], limits: RequestLimits) -> FastAPI:
    """The service. It closes the predictor when it ends. tokens: of each role that has one, `forget` among them."""
    queue, access = RequestQueue(predictor, limits.predictions), Tokens(tokens)
    answered: Counter[str] = Counter()  # pictures, and refusals by their status

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
    for kind in REFUSED:
        app.add_exception_handler(kind, refuse)
    may = {role: [Depends(partial(access.require, role))] for role in ROLES}
    app.include_router(audit_router(queue, answered, limits), dependencies=may["verify"])

    @app.post("/predict", dependencies=may["predict"])
    async def predict(request: Request, explain: bool = False, only_held_classes: bool = False) -> Json:
        with queue.place():
            question = await question_of(request, limits, explain=explain, only_held_classes=only_held_classes)
            if question.explain:
                access.require("verify", request)
            pictures = await asyncio.to_thread(undecoded_pictures, question.images, limits)
            held = question.only_held_classes
            prediction = await queue.predict(pictures, request.is_disconnected, only_held_classes=held)
        if prediction is None:
            raise ClientDisconnect
        answered["pictures"] += len(prediction)
        return json_answers.predicted(prediction, explain=question.explain)

    @app.post("/forget", dependencies=may["forget"])
    async def forget(request: Request) -> Json:
        order = Order.model_validate_json(await body_of(request, limits))
        do = queue.alone if order.dry_run else queue.delete
        return await do(lambda model: deletions.carry_out(model, order))

    @app.post("/purge", dependencies=may["forget"])
    async def purge() -> Json:
        await queue.purge()
        return queue.purged()

    @app.get("/health")
    def health(request: Request) -> Json:  # in a thread: a purge may keep the memory for seconds
        head = predictor.head  # raises where the memory cannot be used
        if access.role(request) in (None, "predict"):
            return {"status": "ok"}
        return {"status": "ok", "samples": len(predictor.ids), "head": head} | queue.purged()

    return app


def refusal(error: Exception) -> JSONResponse:
    """The answer to what failed: a sentence, with the status of its kind."""
    more: Json = {}
    headers: Mapping[str, str] | None = None
    match error:
        case HTTPException():
            status, sentence, headers = error.status_code, SENTENCES.get(error.status_code, error.detail), error.headers
        case ClientDisconnect():
            status, sentence = 499, "the client left"  # nobody reads it
        case UnknownIdsError() | UnknownNamesError():
            status, sentence = 404, str(error)
            unknown = error.ids if isinstance(error, UnknownIdsError) else error.missing
            more = {"unknown": unknown[: deletions.NAMED], "unknown_count": len(unknown)}
        case ValidationError() | RequestValidationError():
            first = error.errors()[0]
            status, sentence = 422, f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}"
        case FullQueueError() | LockedMemoryError():
            status, sentence, headers = 503, str(error), {"Retry-After": "1"}
        case UnreadableModelError() | ClosedMemoryError() | OSError():
            status, sentence = 503, f"the memory cannot be used now: {error}"
        case ValueError():  # PictureError among them
            status, sentence = 422, str(error)
        case _:
            status, sentence = 500, f"an error of the service itself: {type(error).__name__}"
    return JSONResponse({"error": sentence} | more, status, headers)

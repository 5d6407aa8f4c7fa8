"""A model behind HTTP (docs/serving.md): `ENDPOINTS` lists what it answers.

Every refusal is JSON that says in a sentence what is wrong. What names or counts samples, or deletes, needs a token.
FastAPI describes all of it at /docs and /openapi.json.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from munkey.deploy import json_answers
from munkey.deploy.certificate import unconfirmed_fields
from munkey.deploy.deletions import CertificateOrder, DeletionPlan
from munkey.deploy.errors import EmptyModelError, UnknownNamesError, UnreadableModelError
from munkey.deploy.http.bodies import (
    Check,
    LookUp,
    Order,
    Question,
    Refusal,
    RequestLimits,
    RowFilter,
    described,
    json_body,
    question_of,
)
from munkey.deploy.http.request_queue import RequestQueue
from munkey.deploy.http.roles import Tokens
from munkey.deploy.json_answers import Json
from munkey.deploy.model.find import COUNT
from munkey.deploy.predictor import Predictor
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError

ENDPOINTS = (
    "POST /predict, /find, /forget, /purge, /certificate/check;"
    " GET /rows, /log, /certificate, /verify, /metrics, /health, /docs"
)
DESCRIPTION = """\
Predicts, forgets, and proves what was forgotten. Each role has its own token and may do what the roles before it may:
`predict`, `verify`, `forget`. Where `predict` has none, predicting is open; where `verify` has none, it takes that of
`forget`. Every refusal is JSON.
"""
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "A token is missing, or is none of this service."},
    403: {"model": Refusal, "description": "The token is that of a lesser role."},
    422: {"model": Refusal, "description": "What was sent is not what is needed."},
    503: {
        "model": Refusal,
        "description": "The memory cannot be used now. With Retry-After: try again.",
    },
}
OF_BODIES: dict[int | str, dict[str, Any]] = {
    408: {"model": Refusal, "description": "The body took too long."},
    413: {"model": Refusal, "description": "The body is too large."},
}
NO_PICTURE: dict[str, Any] = {"model": Refusal, "description": "Neither JSON nor a picture."}
ONE_PICTURE = {"image/*": {"schema": {"type": "string", "format": "binary"}}}
MOST_FAULTS = 1000  # pydantic makes a list of all before it names the first: seconds for 8 MiB of unknown fields
NAMED = 10  # of what is unknown
HELP = {
    "samples": "Samples that the memory holds.",
    "deleted_samples_total": "Samples deleted since the memory was made.",
    "predictions_waiting": "Requests for predictions that are under way.",
    "unpurged": "1 if traces of what was deleted may be in the directory.",
    "purged_timestamp_seconds": "When the last purge that left nothing ended, 0 if none since the start.",
    "pictures_total": "Pictures answered since the start.",
    "refusals_total": "Refusals since the start, by status.",
}
REFUSED: tuple[type[Exception], ...] = (
    *(
        HTTPException,
        RequestValidationError,
        ClientDisconnect,
        UnknownNamesError,
        ClosedMemoryError,
    ),
    *(ValueError, OSError, Exception),  # of the last one, uvicorn writes the traceback, too
)


def application(predictor: Predictor, tokens: Mapping[str, str], limits: RequestLimits) -> FastAPI:
    """The service. It closes the predictor when it ends. tokens: of each role that has one, `forget` among them."""
    queue = RequestQueue(predictor, limits)
    access = Tokens(tokens)
    answered = Counter(pictures_total=0)

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
        answered[f'refusals_total{{status="{answer.status_code}"}}'] += 1
        return answer

    app = FastAPI(
        title="munkey",
        summary="A classifier that can forget.",
        description=DESCRIPTION,
        version=version("munkey"),
        lifespan=lifespan,
        responses=REFUSALS,
        redirect_slashes=False,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    for kind in REFUSED:
        app.add_exception_handler(kind, refuse)
    verify_role = access.at_least("verify")
    preview_role = access.at_least("verify", but=", and to forget without dry_run that of 'forget'")
    app.include_router(verifier(queue, answered, limits), dependencies=[Depends(verify_role)])

    @app.post(
        "/predict",
        dependencies=[Depends(access.at_least("predict"))],
        openapi_extra=described(Question, **ONE_PICTURE),
        responses=OF_BODIES | {415: NO_PICTURE},
        response_description="predictions: class, probabilities; to explain, also neighbors, and in `basis`, how.",
    )
    async def predict(
        request: Request,
        role: Annotated[str | None, Depends(access.role)],
        explain: bool = False,
        only_held_classes: bool = False,
    ) -> Json:
        """Classify pictures: JSON, or the bytes of one, whose options are in the query. To explain needs `verify`."""
        with queue.place():
            question = await question_of(
                Question, request, limits, explain=explain, only_held_classes=only_held_classes
            )
            if question.explain:
                access.require("verify", role)
            held = question.only_held_classes
            prediction = await queue.predict(
                question.asked, request.is_disconnected, only_held_classes=held
            )
        if prediction is None:
            raise ClientDisconnect
        answered["pictures_total"] += len(prediction)
        return json_answers.prediction(prediction, explain=question.explain)

    @app.post(
        "/forget",
        openapi_extra=described(Order),
        responses=OF_BODIES
        | {404: {"model": Refusal, "description": "Names no sample. Nothing was deleted."}},
        response_description="As `munkey forget --json`, with the certificate and its salt where asked for.",
    )
    async def forget(
        role: Annotated[str | None, Depends(preview_role)],
        order: Annotated[Order, Depends(json_body(Order, limits))],
        response: Response,
    ) -> Json:
        """Forget samples, all that are named or none. With `dry_run`, which needs `verify` only, say which."""
        if not order.dry_run:
            access.require("forget", role)
        plan = await queue.look_up(lambda model: model.plan(order.deletion_request()))
        if order.dry_run:
            [answer] = await queue.look_up(lambda model: model.preview(plan))
            answer |= passed_over(plan) | queue.purged()
        else:
            answer = await queue.delete(lambda model: carried_out(model, order, plan))
        return found_nothing(answer, plan, response) if answer["found_nothing"] else answer

    @app.post("/purge", dependencies=[Depends(access.at_least("forget"))])
    async def purge() -> Json:
        """Leave no byte of what was deleted in any file. `foreign` lists files that are not the model's."""
        await queue.purge()
        return queue.purged()

    @app.get("/health")
    def health(
        role: Annotated[str | None, Depends(access.role)],
    ) -> Json:  # in a thread: a purge may keep the memory
        """Whether it can answer; to the role `verify` also how much is held, and whether it is purged."""
        head = predictor.head  # raises where the memory cannot be used
        if role in (None, "predict"):
            return {"status": "ok"}
        return {"status": "ok", "samples": len(predictor.ids), "head": head} | queue.purged()

    return app


def verifier(queue: RequestQueue, answered: Counter[str], limits: RequestLimits) -> APIRouter:
    """What the role `verify` may ask. answered: since the start, pictures and refusals by the name of the metric."""
    router = APIRouter()
    predictor = queue.predictor

    @router.post(
        "/find",
        openapi_extra=described(LookUp, **ONE_PICTURE),
        responses=OF_BODIES | {415: NO_PICTURE},
        response_description="pictures, as `munkey find --json`: of each, samples with cosine, copy, id, unit, file.",
    )
    async def find(request: Request, count: int = COUNT, above: float = -1.0) -> Json:
        """Look samples up by pictures: JSON, or the bytes of one, whose options are in the query."""
        with queue.place():
            wanted = await question_of(LookUp, request, limits, count=count, above=above)
            found = await queue.answer(
                wanted.asked,
                request.is_disconnected,
                lambda asked: predictor.find(asked, count=wanted.count, above=wanted.above),
            )
        if found is None:
            raise ClientDisconnect
        return {"pictures": json_answers.near_samples(found)}

    @router.get(
        "/rows",
        response_description="samples, as `munkey list --json`; total; next: the `after` to go on.",
    )
    async def rows(asked: Annotated[RowFilter, Query()]) -> Json:
        """List samples, by pages."""
        found = await queue.beside(
            lambda model: model.rows(labels=asked.classes, units=asked.unit, files=asked.file)
        )
        later = [row for row in found if row.id > asked.after]
        more = later[asked.limit - 1].id if len(later) > asked.limit else None
        return {
            "samples": json_answers.samples(later[: asked.limit]),
            "total": len(found),
            "next": more,
        }

    @router.get("/log")
    async def log() -> Json:
        """List deletions: numbers in the chain, time, request, how many, head; no ids."""
        return {"log": json_answers.log(await queue.alone(Predictor.log))} | queue.purged()

    @router.get("/certificate")
    async def certificate(
        deletion: Annotated[int | None, Query(ge=1)] = None,
        request: Annotated[str | None, Query(alias="request")] = None,
    ) -> Json:
        """The certificate of a deletion, by its number in the chain or by its request; else of the last one."""

        def made(model: Predictor) -> Json:
            return model.certificate(deletion, request, purged=not queue.unpurged).model_dump(
                mode="json"
            )

        return await queue.alone(made)

    @router.post("/certificate/check", openapi_extra=described(Check), responses=OF_BODIES)
    async def check(asked: Annotated[Check, Depends(json_body(Check, limits))]) -> Json:
        """Check a certificate against the memory."""
        made, ids, salt = asked.certificate, asked.ids or None, bytes.fromhex(asked.salt or "")
        exact = await queue.beside(lambda model: model.digests(anew=True)) if made.exact else None
        faults = await queue.beside(lambda model: model.certificate_faults(made, ids, salt, exact))
        fields = [*unconfirmed_fields(made, exact)]
        return {
            "sound": not faults,
            "faults": faults,
            "ids_checked": ids is not None,
            "unconfirmed": fields,
        }

    @router.get("/verify")
    async def verify(published: str | None = None) -> Json:
        """Read the whole memory and check it; with `published`, a head, also that it is no older copy."""
        return await queue.beside(lambda model: json_answers.verification(model.verify(published)))

    @router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> PlainTextResponse:  # in a thread: a purge may keep the memory for seconds
        """Counts in Prometheus' text format."""
        values = {
            "samples": len(predictor.ids),
            "deleted_samples_total": predictor.deletions,
            "predictions_waiting": queue.waiting,
            "unpurged": int(queue.unpurged),
            "purged_timestamp_seconds": queue.purged_at.timestamp() if queue.purged_at else 0,
        }
        lines = [f"# HELP munkey_{name} {text}\n" for name, text in HELP.items()]
        lines += [f"munkey_{name} {value}\n" for name, value in (values | answered).items()]
        return PlainTextResponse("".join(lines), media_type="text/plain; version=0.0.4")

    return router


def carried_out(model: Predictor, order: Order, plan: DeletionPlan) -> Json:
    """Forget. Whatever fails after the deletion, the answer says that it is done."""
    wanted = None
    if order.certificate:
        salts = {order.request: secrets.token_bytes(16)}
        wanted = CertificateOrder(
            salts, lambda answer, made: answer.update(certificate=made.model_dump(mode="json"))
        )
    done: list[Json] = []
    try:
        model.delete(plan, certificates=wanted, answers=done)
    except Exception as error:
        if not done:
            raise
        why = str(error).partition(". Nothing was changed")[0]  # which is not true any more
        done[0]["error"] = f"forgotten, but not purged or certified: {why}"
    return ({"certificate": None} if order.certificate else {}) | done[0] | passed_over(plan)


def found_nothing(answer: Json, plan: DeletionPlan, response: Response) -> Json:
    """The answer to a request that names no sample, with a status that never reads as carried out."""
    response.status_code = 404
    when = f"on {answer['when']}" if answer.get("repeated") else "now"
    hint = f". {plan.hint}" if plan.hint else ""  # who may forget may list all names
    refused = {
        "error": f"found nothing {when}; deleted nothing{hint}",
        "unknown": answer["missing"],
    }
    return answer | refused | {"unknown_count": answer["missing_count"]}


def passed_over(plan: DeletionPlan) -> Json:
    """Of an answer: what names no sample, and what looks like those that are meant."""
    [deletion] = plan.deletions.values()
    return {
        "missing": plan.missing[:NAMED],
        "missing_count": len(plan.missing),
    } | deletion.look_alikes


def refusal(error: Exception) -> JSONResponse:
    """The answer to what failed: a sentence, with the status of its kind."""
    more: Json = {}
    headers: Mapping[str, str] | None = None
    match error:
        case HTTPException():
            status, sentence, headers = error.status_code, error.detail, error.headers
            if status in (404, 405):
                sentence = f"there is no such path or method; there are {ENDPOINTS}"
        case ClientDisconnect():
            status, sentence = 499, "the client left"  # nobody reads it
        case UnknownNamesError():
            status, sentence = 404, str(error)
            more = {"unknown": error.missing[:NAMED], "unknown_count": len(error.missing)}
        case ValidationError() if error.error_count() > MOST_FAULTS:
            status, sentence = (
                422,
                f"the body: {error.error_count():,} faults, such as fields that do not exist",
            )
        case ValidationError() | RequestValidationError():
            first = error.errors()[0]
            status, sentence = (
                422,
                f"{'.'.join(map(str, first['loc'])) or 'the body'}: {first['msg']}",
            )
        case LockedMemoryError():
            status, sentence, headers = 503, str(error), {"Retry-After": "1"}
        case UnreadableModelError() | ClosedMemoryError() | EmptyModelError() | OSError():
            status, sentence = 503, f"the memory cannot be used now: {error}"
        case ValueError():  # PictureError among them
            status, sentence = 422, str(error)
        case _:
            status, sentence = 500, f"an error of the service itself: {type(error).__name__}"
    return JSONResponse({"error": sentence} | more, status, headers)

"""A model behind HTTP (docs/serving.md), with the paths in `ENDPOINTS`.

Every refusal is JSON with a sentence that names the fault. Requests that name or count samples, or
delete them, need a token. FastAPI documents all of it at /docs and /openapi.json.
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
from munkey.deploy.certificate import Certificate, describe_unconfirmed_fields
from munkey.deploy.deletions import CertificateOrder, DeletionPlan
from munkey.deploy.errors import EmptyModelError, UnknownNamesError, UnreadableModelError
from munkey.deploy.http.bodies import (
    CheckRequest,
    FindRequest,
    ForgetRequest,
    PredictRequest,
    Refusal,
    RequestLimits,
    RowFilter,
    make_body_schema,
    make_json_body,
    read_picture_body,
)
from munkey.deploy.http.request_queue import RequestQueue
from munkey.deploy.http.roles import Tokens
from munkey.deploy.json_answers import Json
from munkey.deploy.model.find import DEFAULT_COUNT
from munkey.deploy.predictor import Predictor
from munkey.deploy.store.errors import ClosedMemoryError, LockedMemoryError

ENDPOINTS = (
    "POST /predict, /find, /forget, /purge, /certificate/check;"
    " GET /rows, /log, /certificate, /verify, /metrics, /health, /docs"
)
DESCRIPTION = """\
Predicts, forgets, and proves what was forgotten. Each role has its own token and may do everything that the roles
before it may: `predict`, `verify`, `forget`. Without a token for `predict`, predicting is open; without one for
`verify`, that of `forget` is needed. Every refusal is JSON.
"""
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "The token is missing or unknown."},
    403: {"model": Refusal, "description": "The role of the token does not allow this."},
    422: {"model": Refusal, "description": "The request is not valid."},
    503: {
        "model": Refusal,
        "description": "The memory cannot be used now. With Retry-After: try again.",
    },
}
BODY_REFUSALS: dict[int | str, dict[str, Any]] = {
    408: {"model": Refusal, "description": "The body took too long."},
    413: {"model": Refusal, "description": "The body is too large."},
}
NO_PICTURE: dict[str, Any] = {"model": Refusal, "description": "Neither JSON nor a picture."}
ONE_PICTURE = {"image/*": {"schema": {"type": "string", "format": "binary"}}}
# pydantic lists all faults before it names the first: seconds for 8 MiB of unknown fields.
MAX_FAULTS = 1000
MAX_UNKNOWN_NAMES = 10  # unknown names in an answer
METRIC_HELP = {
    "samples": "Samples that the memory holds.",
    "deleted_samples_total": "Samples deleted since the memory was made.",
    "predictions_waiting": "Predictions in progress.",
    "unpurged": "1 if traces of deleted samples may be in the directory.",
    "purged_timestamp_seconds": "Time of the last complete purge, 0 if there was none since the start.",
    "pictures_total": "Pictures answered since the start.",
    "refusals_total": "Refusals since the start, by status.",
}
HANDLED_ERRORS: tuple[type[Exception], ...] = (
    HTTPException,
    RequestValidationError,
    ClientDisconnect,
    UnknownNamesError,
    ClosedMemoryError,
    ValueError,
    OSError,
    Exception,  # for this one, uvicorn also writes the traceback
)


def create_app(predictor: Predictor, tokens: Mapping[str, str], limits: RequestLimits) -> FastAPI:
    """Make the service. It closes the predictor when it ends.

    tokens: of each role that has one; `forget` must have one.
    """
    queue = RequestQueue(predictor, limits)
    access = Tokens(tokens)
    counts = Counter(pictures_total=0)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Maintain the memory while the service runs; purge and close it when it ends.
        maintenance = asyncio.create_task(queue.maintain())
        yield
        maintenance.cancel()
        if queue.unpurged:
            with suppress(LockedMemoryError):
                await queue.purge()
        await asyncio.to_thread(predictor.close)

    def refuse(_: Request, error: Exception) -> JSONResponse:
        answer = make_refusal(error)
        counts[f'refusals_total{{status="{answer.status_code}"}}'] += 1
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
    for kind in HANDLED_ERRORS:
        app.add_exception_handler(kind, refuse)
    verify_role = access.make_role_check("verify")
    preview_role = access.make_role_check(
        "verify", exception=", and to forget without dry_run that of 'forget'"
    )
    app.include_router(
        make_verify_router(queue, counts, limits), dependencies=[Depends(verify_role)]
    )

    @app.post(
        "/predict",
        dependencies=[Depends(access.make_role_check("predict"))],
        openapi_extra=make_body_schema(PredictRequest, **ONE_PICTURE),
        responses=BODY_REFUSALS | {415: NO_PICTURE},
        response_description=(
            "predictions: class, probabilities; to explain, also neighbors, and in `basis`, how."
        ),
    )
    async def predict(
        request: Request,
        role: Annotated[str | None, Depends(access.identify_role)],
        explain: bool = False,
        only_held_classes: bool = False,
    ) -> Json:
        """Classify pictures: JSON, or the bytes of one with options in the query.

        `explain` needs the role `verify`.
        """
        with queue.reserve_place():
            question = await read_picture_body(
                PredictRequest,
                request,
                limits,
                explain=explain,
                only_held_classes=only_held_classes,
            )
            if question.explain:
                access.require_role("verify", role)
            prediction = await queue.predict(
                question.inputs,
                request.is_disconnected,
                only_held_classes=question.only_held_classes,
            )
        if prediction is None:
            raise ClientDisconnect
        counts["pictures_total"] += len(prediction)
        return json_answers.format_prediction(prediction, explain=question.explain)

    @app.post(
        "/forget",
        openapi_extra=make_body_schema(ForgetRequest),
        responses=BODY_REFUSALS
        | {404: {"model": Refusal, "description": "Names no sample. Nothing was deleted."}},
        response_description=(
            "As `munkey forget --json`, with the certificate and its salt if requested."
        ),
    )
    async def forget(
        role: Annotated[str | None, Depends(preview_role)],
        order: Annotated[ForgetRequest, Depends(make_json_body(ForgetRequest, limits))],
        response: Response,
    ) -> Json:
        """Forget all named samples, or none. `dry_run` only says which; it needs `verify`."""
        if not order.dry_run:
            access.require_role("forget", role)
        plan = await queue.look_up_names(lambda model: model.plan(order.to_deletion_request()))
        if order.dry_run:
            [answer] = await queue.look_up_names(lambda model: model.preview(plan))
            answer |= list_unmatched_names(plan) | queue.describe_purge()
        else:
            answer = await queue.delete(lambda model: delete_samples(model, order, plan))
        if answer["found_nothing"]:
            response.status_code = 404  # never to be read as carried out
            answer = make_not_found_answer(answer, plan)
        return answer

    @app.post("/purge", dependencies=[Depends(access.make_role_check("forget"))])
    async def purge() -> Json:
        """Leave no byte of deleted samples in any file. `foreign` lists files of other owners."""
        await queue.purge()
        return queue.describe_purge()

    @app.get("/health")
    def health(
        role: Annotated[str | None, Depends(access.identify_role)],
    ) -> Json:  # in a thread: a purge may keep the memory
        """Whether the service can answer. For the role `verify`, also its samples and purge state."""
        head = predictor.head  # raises an error if the memory cannot be used
        if role in (None, "predict"):
            return {"status": "ok"}
        return {
            "status": "ok",
            "samples": len(predictor.ids),
            "head": head,
        } | queue.describe_purge()

    return app


def make_verify_router(
    queue: RequestQueue, counts: Counter[str], limits: RequestLimits
) -> APIRouter:
    """Make the paths of the role `verify`.

    counts: pictures and refusals since the start, by metric.
    """
    router = APIRouter()
    predictor = queue.predictor

    @router.post(
        "/find",
        openapi_extra=make_body_schema(FindRequest, **ONE_PICTURE),
        responses=BODY_REFUSALS | {415: NO_PICTURE},
        response_description=(
            "pictures, as `munkey find --json`: for each, samples with cosine, copy, id, unit, file."
        ),
    )
    async def find(request: Request, count: int = DEFAULT_COUNT, above: float = -1.0) -> Json:
        """Find samples near pictures: JSON, or the bytes of one with options in the query."""
        with queue.reserve_place():
            look_up = await read_picture_body(
                FindRequest, request, limits, count=count, above=above
            )
            near_samples = await queue.answer(
                look_up.inputs,
                request.is_disconnected,
                lambda inputs: predictor.find(inputs, count=look_up.count, above=look_up.above),
            )
        if near_samples is None:
            raise ClientDisconnect
        return {"pictures": json_answers.format_near_samples(near_samples)}

    @router.get(
        "/rows",
        response_description="samples, as `munkey list --json`; total; next: the `after` to go on.",
    )
    async def rows(query: Annotated[RowFilter, Query()]) -> Json:
        """List samples, by pages."""
        all_rows = await queue.run_with_reader(
            lambda model: model.rows(labels=query.classes, units=query.unit, files=query.file)
        )
        later_rows = [row for row in all_rows if row.id > query.after]
        page = later_rows[: query.limit]
        next_after = None
        if len(later_rows) > query.limit:
            next_after = page[-1].id
        return {
            "samples": json_answers.format_samples(page),
            "total": len(all_rows),
            "next": next_after,
        }

    @router.get("/log")
    async def log() -> Json:
        """List deletions: numbers in the chain, time, request, how many, head; no ids."""
        deletions = await queue.run_exclusively(Predictor.log)
        return {"log": json_answers.format_log(deletions)} | queue.describe_purge()

    @router.get("/certificate")
    async def certificate(
        deletion: Annotated[int | None, Query(ge=1)] = None,
        request: Annotated[str | None, Query(alias="request")] = None,
    ) -> Json:
        """Certify a deletion, by its number in the chain or its request; by default, the last."""

        def certify(model: Predictor) -> Json:
            certificate = model.certificate(deletion, request, purged=not queue.unpurged)
            return certificate.model_dump(mode="json")

        return await queue.run_exclusively(certify)

    @router.post(
        "/certificate/check", openapi_extra=make_body_schema(CheckRequest), responses=BODY_REFUSALS
    )
    async def check(
        body: Annotated[CheckRequest, Depends(make_json_body(CheckRequest, limits))],
    ) -> Json:
        """Check a certificate against the memory."""
        certificate = body.certificate
        ids = body.ids or None
        salt = bytes.fromhex(body.salt or "")
        digests = None
        if certificate.exact:
            digests = await queue.run_with_reader(lambda model: model.digests(recompute=True))
        faults = await queue.run_with_reader(
            lambda model: model.find_certificate_faults(certificate, ids, salt, digests)
        )
        return {
            "sound": not faults,
            "faults": faults,
            "ids_checked": ids is not None,
            "unconfirmed": list(describe_unconfirmed_fields(certificate, digests)),
        }

    @router.get("/verify")
    async def verify(published: str | None = None) -> Json:
        """Read and check the whole memory. `published`, a head, reveals an older copy."""
        return await queue.run_with_reader(
            lambda model: json_answers.format_report(model.verify(published))
        )

    @router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> PlainTextResponse:  # in a thread: a purge may keep the memory for seconds
        """Counts in Prometheus' text format."""
        purged_timestamp: float = 0
        if queue.purged_at:
            purged_timestamp = queue.purged_at.timestamp()
        values = {
            "samples": len(predictor.ids),
            "deleted_samples_total": predictor.deletions,
            "predictions_waiting": queue.pending_predictions,
            "unpurged": int(queue.unpurged),
            "purged_timestamp_seconds": purged_timestamp,
        }
        lines = [f"# HELP munkey_{name} {text}\n" for name, text in METRIC_HELP.items()]
        values |= counts
        lines += [f"munkey_{name} {value}\n" for name, value in values.items()]
        return PlainTextResponse("".join(lines), media_type="text/plain; version=0.0.4")

    return router


def delete_samples(model: Predictor, order: ForgetRequest, plan: DeletionPlan) -> Json:
    """Carry out a request to forget.

    If anything fails after the deletion, the answer says that the deletion is done.
    """
    certificates = None
    answer: Json = {}
    if order.certificate:
        answer["certificate"] = None
        salts = {order.request: secrets.token_bytes(16)}
        certificates = CertificateOrder(salts, add_certificate)
    answers: list[Json] = []
    try:
        model.delete(plan, certificates=certificates, answers=answers)
    except Exception as error:
        if not answers:
            raise
        why = str(error).partition(". Nothing was changed")[0]  # no longer true
        answers[0]["error"] = f"forgotten, but not purged or certified: {why}"
    return answer | answers[0] | list_unmatched_names(plan)


def add_certificate(answer: Json, certificate: Certificate) -> None:
    """Put a certificate into the answer."""
    answer["certificate"] = certificate.model_dump(mode="json")


def make_not_found_answer(answer: Json, plan: DeletionPlan) -> Json:
    """Make the answer to a request that names no sample."""
    when = "now"
    if answer.get("repeated"):
        when = f"on {answer['when']}"
    hint = ""
    if plan.hint:
        hint = f". {plan.hint}"  # it reveals names, but who may forget may list all of them
    return answer | {
        "error": f"found nothing {when}; deleted nothing{hint}",
        "unknown": answer["missing"],
        "unknown_count": answer["missing_count"],
    }


def list_unmatched_names(plan: DeletionPlan) -> Json:
    """List the names without samples, and the look-alikes, for an answer."""
    [deletion] = plan.deletions.values()
    return {
        "missing": plan.missing[:MAX_UNKNOWN_NAMES],
        "missing_count": len(plan.missing),
    } | deletion.look_alikes


def make_refusal(error: Exception) -> JSONResponse:
    """Make the answer to an error: a sentence, with the status of its kind."""
    details: Json = {}
    headers: Mapping[str, str] | None = None
    match error:
        case HTTPException():
            status = error.status_code
            sentence = error.detail
            headers = error.headers
            if status in (404, 405):
                sentence = f"no such path or method; there are {ENDPOINTS}"
        case ClientDisconnect():
            status = 499
            sentence = "the client disconnected"  # for the log: the client does not read it
        case UnknownNamesError():
            status = 404
            sentence = str(error)
            details = {
                "unknown": error.missing[:MAX_UNKNOWN_NAMES],
                "unknown_count": len(error.missing),
            }
        case ValidationError() if error.error_count() > MAX_FAULTS:
            status = 422
            count = f"{error.error_count():,}"
            sentence = f"the body: {count} faults, such as fields that do not exist"
        case ValidationError() | RequestValidationError():
            status = 422
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the body"
            sentence = f"{place}: {first['msg']}"
        case LockedMemoryError():
            status = 503
            sentence = str(error)
            headers = {"Retry-After": "1"}
        case UnreadableModelError() | ClosedMemoryError() | EmptyModelError() | OSError():
            status = 503
            sentence = f"the memory cannot be used now: {error}"
        case ValueError():  # such as PictureError
            status = 422
            sentence = str(error)
        case _:
            status = 500
            sentence = f"internal error: {type(error).__name__}"
    return JSONResponse({"error": sentence} | details, status, headers)

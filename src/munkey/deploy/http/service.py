"""The HTTP service of a model (docs/serving.md), with the paths in `ENDPOINTS`.

Every refusal is JSON, with a sentence that explains the fault. Requests that list, count, or delete
samples need a token. FastAPI documents all paths at /docs and /openapi.json.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect

from munkey.deploy import json_format
from munkey.deploy.certificate import (
    Certificate,
    UnknownDeletionError,
    describe_unconfirmed_fields,
)
from munkey.deploy.deletions import CertificateOrder, Deletion, DeletionPlan
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
from munkey.deploy.http.connections import RequestGate
from munkey.deploy.http.request_queue import PURGE_LATEST_S, RequestQueue
from munkey.deploy.http.roles import Tokens
from munkey.deploy.json_format import Json
from munkey.deploy.model.find import DEFAULT_COUNT
from munkey.deploy.predictor import Predictor
from munkey.memory.errors import ClosedMemoryError, LockedMemoryError

ENDPOINTS = (
    "POST /predict, /find, /forget, /purge, /certificate/check;"
    " GET /rows, /log, /certificate, /verify, /metrics, /health, /docs"
)
DESCRIPTION = """\
Predicts, forgets, and proves what was forgotten. There are three roles, each with its own token and all permissions of
the roles before it: `predict`, `verify`, `forget`. Without a token for `predict`, predicting is open; without one for
`verify`, the token of `forget` is needed. Every refusal is JSON.
"""
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "The token is missing or unknown."},
    403: {"model": Refusal, "description": "The role of the token does not allow this."},
    422: {"model": Refusal, "description": "The request is not valid."},
    503: {
        "model": Refusal,
        "description": "The memory cannot be used now. If Retry-After is set, try again.",
    },
}
BODY_REFUSALS: dict[int | str, dict[str, Any]] = {
    408: {"model": Refusal, "description": "The body took too long."},
    413: {"model": Refusal, "description": "The body is too large."},
}
NO_PICTURE: dict[str, Any] = {"model": Refusal, "description": "Neither JSON nor a picture."}
ONE_PICTURE = {"image/*": {"schema": {"type": "string", "format": "binary"}}}
# If a body has more faults, only their number is reported: pydantic formats all of them before it
# returns the first, which takes seconds for 8 MiB of unknown fields.
MAX_FAULTS = 1000
MAX_UNKNOWN_NAMES = 10  # maximum number of unknown names in a response
METRIC_HELP = {
    "samples": "Samples in the memory.",
    "deleted_samples_total": "Samples deleted since the memory was created.",
    "predictions_waiting": "Predictions in progress.",
    "unpurged": "1 if traces of deleted samples may be in the directory.",
    "purged_timestamp_seconds": "Time of the last purge if it was complete, else 0.",
    "maintenance_failed": "1 if the last attempt to purge failed; the log and /health say why.",
    "pictures_total": "Pictures classified since the start.",
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
    Exception,  # for any other error; uvicorn also logs its traceback
)


def create_app(
    predictor: Predictor,
    tokens: Mapping[str, str],
    limits: RequestLimits,
    purge_within: float = PURGE_LATEST_S,
) -> FastAPI:
    """Create the service, which closes the predictor on shutdown.

    tokens: the token of each role that has one; `forget` must have one. purge_within: seconds after
    a deletion within which the service purges.
    """
    queue = RequestQueue(predictor, limits, purge_within)
    access = Tokens(tokens)
    counts = Counter(pictures_total=0)  # by metric: pictures and refusals since the start

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Maintain the memory while the service runs. On shutdown, purge and close it.
        async with queue.maintaining():
            yield
        with suppress(OSError):  # the next process purges then
            if predictor.is_purge_due:
                await queue.purge()
        await asyncio.to_thread(predictor.close)

    def refuse(_: Request, error: Exception) -> JSONResponse:
        response = make_refusal(error)
        counts[f'refusals_total{{status="{response.status_code}"}}'] += 1
        return response

    app = FastAPI(
        title="munkey",
        summary="A classifier that can forget.",
        description=DESCRIPTION,
        version=version("munkey"),
        lifespan=lifespan,
        responses=REFUSALS,
        redirect_slashes=False,
        middleware=[Middleware(RequestGate, refuse=refuse)],
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    for error_type in HANDLED_ERRORS:
        app.add_exception_handler(error_type, refuse)
    verify_role = access.make_role_check("verify")
    preview_role = access.make_role_check(
        "verify", suffix=", and to forget without dry_run that of 'forget'"
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
            "The class and probabilities of each picture; with `explain`, also its neighbors and the"
            " basis of the prediction."
        ),
    )
    async def predict(
        request: Request,
        role: Annotated[str | None, Depends(access.identify_role)],
        explain: bool = False,
        only_held_classes: bool = False,
    ) -> Json:
        """Classify pictures. Send JSON, or the bytes of one picture with options in the query.

        `explain` needs the role `verify`.
        """
        with queue.reserve_place():
            body = await read_picture_body(
                PredictRequest,
                request,
                limits,
                explain=explain,
                only_held_classes=only_held_classes,
            )
            if body.explain:
                access.require_role("verify", role)
            prediction = await queue.predict(
                body.inputs,
                request.is_disconnected,
                only_held_classes=body.only_held_classes,
            )
        if prediction is None:
            raise ClientDisconnect
        counts["pictures_total"] += len(prediction)
        return json_format.format_prediction(prediction, explain=body.explain)

    @app.post(
        "/forget",
        openapi_extra=make_body_schema(ForgetRequest),
        responses=BODY_REFUSALS
        | {404: {"model": Refusal, "description": "No such samples. Nothing was deleted."}},
        response_description=(
            "As `munkey forget --json`, with the certificate and its salt if requested."
        ),
    )
    async def forget(
        role: Annotated[str | None, Depends(preview_role)],
        body: Annotated[ForgetRequest, Depends(make_json_body(ForgetRequest, limits))],
        response: Response,
    ) -> Json:
        """Forget all named samples, or none. `dry_run` only lists them, and needs `verify`."""
        if not body.dry_run:
            access.require_role("forget", role)
        plan = await queue.look_up_names(lambda model: model.plan(body.to_deletion_request()))
        if body.dry_run:
            [preview] = await queue.look_up_names(lambda model: model.preview(plan))
            result = format_answer(preview)
            result |= await asyncio.to_thread(queue.describe_purge)
        else:
            result = await queue.delete(lambda model: delete_samples(model, body, plan))
        if result["found_nothing"]:
            response.status_code = 404  # so that the caller does not mistake it for a deletion
            result = describe_not_found(result, plan)
        return result

    @app.post("/purge", dependencies=[Depends(access.make_role_check("forget"))])
    async def purge() -> Json:
        """Remove all traces of deleted samples. `foreign` lists files that are not the model's."""
        return await queue.purge()

    @app.get("/health")
    def health(
        role: Annotated[str | None, Depends(access.identify_role)],
    ) -> Json:
        """Check that the service works. `verify` and `forget` also get details of the memory."""
        # Not a coroutine, so FastAPI runs it in a thread: it reads the memory.
        head = predictor.head  # raises an error if the memory cannot be used
        if role in ("verify", "forget"):
            return {
                "status": "ok",
                "samples": len(predictor.ids),
                "head": head,
            } | queue.describe_purge()
        return {"status": "ok"}

    return app


def make_verify_router(
    queue: RequestQueue, counts: Counter[str], limits: RequestLimits
) -> APIRouter:
    """Create the endpoints that need the role `verify`.

    counts: pictures and refusals since the start, by metric; it may change later.
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
        """Find the samples nearest to pictures. Send pictures as to `/predict`."""
        with queue.reserve_place():
            body = await read_picture_body(FindRequest, request, limits, count=count, above=above)
            near_samples = await queue.run_in_turn(
                body.inputs,
                request.is_disconnected,
                lambda inputs: predictor.find(inputs, count=body.count, above=body.above),
            )
        if near_samples is None:
            raise ClientDisconnect
        return {"pictures": json_format.format_near_samples(near_samples)}

    @router.get(
        "/rows",
        response_description="samples, as `munkey list --json`; total; next: `after` of the next page.",
    )
    async def rows(query: Annotated[RowFilter, Query()]) -> Json:
        """List samples, page by page."""
        all_rows = await queue.look_up_names(
            lambda model: model.rows(labels=query.classes, units=query.unit, files=query.file)
        )
        later_rows = [row for row in all_rows if row.id > query.after]
        page = later_rows[: query.limit]
        next_after = None
        if len(later_rows) > query.limit:
            next_after = page[-1].id
        return {
            "samples": json_format.format_samples(page),
            "total": len(all_rows),
            "next": next_after,
        }

    @router.get("/log")
    async def log() -> Json:
        """List deletions: numbers in the chain, time, request, count, and heads, without ids."""
        deletions = await queue.look_up_names(Predictor.log)
        purge_state = await asyncio.to_thread(queue.describe_purge)
        return {"log": json_format.format_log(deletions)} | purge_state

    @router.get(
        "/certificate", responses={404: {"model": Refusal, "description": "No such deletion."}}
    )
    async def certificate(
        deletion: Annotated[int | None, Query(ge=1)] = None,
        request: Annotated[str | None, Query(alias="request")] = None,
    ) -> Json:
        """Certify a deletion, by its number in the chain or its request; by default, the last."""

        def certify(model: Predictor) -> Json:
            return model.certificate(deletion, request).model_dump(mode="json")

        return await queue.check(certify)

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
            digests = await queue.check(lambda model: model.digests(recompute=True))
        faults = await queue.check(
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
        """Read and check the whole memory. A `published` head reveals an older copy."""
        return await queue.check(lambda model: json_format.format_report(model.verify(published)))

    @router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
    def metrics() -> PlainTextResponse:
        """Return metrics in the Prometheus text format."""
        # Not a coroutine, so FastAPI runs it in a thread: it reads the memory.
        purge_state = queue.describe_purge()
        purged_timestamp: float = 0
        if purge_state["purged_at"]:
            purged_timestamp = datetime.fromisoformat(purge_state["purged_at"]).timestamp()
        values = {
            "samples": len(predictor.ids),
            "deleted_samples_total": predictor.deletions,
            "predictions_waiting": queue.pending_predictions,
            "unpurged": int(not purge_state["purged"]),
            "purged_timestamp_seconds": purged_timestamp,
            "maintenance_failed": int(queue.maintenance_error is not None),
        }
        lines = [f"# HELP munkey_{name} {text}\n" for name, text in METRIC_HELP.items()]
        values |= counts
        lines += [f"munkey_{name} {value}\n" for name, value in values.items()]
        return PlainTextResponse("".join(lines), media_type="text/plain; version=0.0.4")

    return router


def delete_samples(model: Predictor, body: ForgetRequest, plan: DeletionPlan) -> Json:
    """Carry out a request to forget, and return its result.

    If anything fails after the deletion, the result still reports the deletion, and the error.
    """
    extra_fields: Json = {}
    certificates = None
    salt = secrets.token_bytes(16)
    if body.certificate:
        extra_fields["certificate"] = None

        def deliver(_: Deletion, certificate: Certificate) -> None:
            extra_fields["certificate"] = certificate.model_dump(mode="json")

        certificates = CertificateOrder({body.request: salt}, deliver)
    results: list[Deletion] = []
    try:
        model.delete(plan, certificates=certificates, results=results)
    except Exception as error:
        if not results:
            raise
        why = str(error).partition(". Nothing was changed")[0]  # drop that part: it is not true
        extra_fields["error"] = f"forgotten, but not purged or certified: {why}"
    [deletion] = results
    if certificates and len(deletion):
        extra_fields["salt"] = salt.hex()
    return format_answer(deletion) | extra_fields


def format_answer(deletion: Deletion) -> Json:
    """Format a deletion, with at most `MAX_UNKNOWN_NAMES` of the names that match no sample."""
    return json_format.format_deletion(deletion) | list_missing_names(deletion.missing)


def describe_not_found(result: Json, plan: DeletionPlan) -> Json:
    """Return the result of a request that matched no sample, with an error."""
    if result.get("repeated"):
        when = f"on {result['when']}"
    else:
        when = "now"
    # The hint reveals names, but the caller is allowed to list all of them anyway.
    hint = ""
    if plan.hint:
        hint = f". {plan.hint}"
    return result | {"error": f"found nothing {when}; deleted nothing{hint}"}


def list_missing_names(names: Sequence[str]) -> Json:
    """Return fields for a response: the names that match no sample."""
    return {"missing": names[:MAX_UNKNOWN_NAMES], "missing_count": len(names)}


def make_refusal(error: Exception) -> JSONResponse:
    """Convert an error to a JSON response: a status code, and a sentence that explains the fault."""
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
            details = list_missing_names(error.missing)
        case UnknownDeletionError():
            status = 404
            sentence = str(error)
        case ValidationError() if error.error_count() > MAX_FAULTS:
            status = 422
            count = f"{error.error_count():,}"
            sentence = f"the body: {count} faults, such as unknown fields"
        case ValidationError() | RequestValidationError():
            status = 422
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])) or "the body"
            sentence = f"{field}: {first['msg']}"
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

"""What the role `verify` may ask: rows, log, certificates, checks, metrics."""

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from munkey.deploy import certificate as certificates
from munkey.deploy import json_answers
from munkey.deploy.http import deletions
from munkey.deploy.http.bodies import Check, Page, RequestLimits, RowFilter, body_of
from munkey.deploy.http.request_queue import RequestQueue
from munkey.deploy.json_answers import Json
from munkey.deploy.model.predictor import Predictor


def audit_router(queue: RequestQueue, answered: Counter[str], limits: RequestLimits) -> APIRouter:
    """answered: `pictures`, and refusals by their status, since the start."""
    router, predictor = APIRouter(), queue.predictor

    @router.get("/rows")
    async def rows(asked: Annotated[RowFilter, Query()]) -> Json:
        found = await queue.beside(lambda model: model.rows(labels=asked.classes, units=asked.unit, files=asked.file))
        later = [row for row in found if row.id > asked.after]
        more = later[asked.limit - 1].id if len(later) > asked.limit else None
        return {"samples": json_answers.samples(later[: asked.limit]), "total": len(found), "next": more}

    @router.get("/log")
    async def log(asked: Annotated[Page, Query()]) -> Json:
        found = await queue.alone(Predictor.log)
        end = asked.after + 1 + asked.limit
        page, more = json_answers.log(found[asked.after + 1 : end]), end - 1 if len(found) > end else None
        return {"log": page, "total": len(found), "next": more} | queue.purged()

    @router.get("/certificate")
    async def certificate(
        deletion: int | None = None, request: Annotated[str | None, Query(alias="request")] = None
    ) -> Json:
        def made(model: Predictor) -> Json:
            receipt = certificates.receipt_of(model.store, deletion, request)
            return certificates.certify(model.store, receipt, purged=not queue.unpurged).model_dump(mode="json")

        return await queue.alone(made)

    @router.post("/certificate/check")
    async def check(request: Request) -> Json:
        asked = Check.model_validate_json(await body_of(request, limits))
        return await queue.alone(lambda model: deletions.checked(model, asked))

    @router.get("/verify")
    async def verify(published: str | None = None) -> Json:
        return await queue.beside(
            lambda model: json_answers.verified(model.verify(published), model.search.described())
        )

    @router.get("/metrics")
    def metrics() -> PlainTextResponse:  # in a thread: a purge may keep the memory for seconds
        values = {
            "samples gauge": len(predictor.ids),
            "deletions_total counter": predictor.store.deletions,
            "pictures_total counter": answered["pictures"],
            "predictions_waiting gauge": queue.waiting,
            "unpurged gauge": int(queue.unpurged),
            "purged_timestamp_seconds gauge": queue.purged_at.timestamp() if queue.purged_at else 0,
        }
        lines = [f"# TYPE munkey_{name}\nmunkey_{name.split()[0]} {value}" for name, value in values.items()]
        refusals = sorted(answered.keys() - {"pictures"})
        lines.append("# TYPE munkey_refusals_total counter")
        lines += [f'munkey_refusals_total{{status="{status}"}} {answered[status]}' for status in refusals]
        return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")

    return router

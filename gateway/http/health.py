"""`/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from fastapi import Response
from fastapi.responses import StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST

from entrepot.domain.access.model import Action
from entrepot.domain.background import background
from entrepot.domain.cluster import control_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.bodies import json_answer, json_response
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.metrics import Scrapes
from entrepot.gateway.http.rights import Open, cluster
from entrepot.gateway.http.routes import Router

_GOOD = b'{"status":"ok"}'
_HEALTH: Final = Open("open_health", cluster(Action.GET))
_METRICS: Final = Open("open_metrics", cluster(Action.GET))


def health_routes(context: HttpContext) -> Router:
    """The routes of health and metrics."""
    router = Router(["health"])
    store = context.store
    scrapes = Scrapes(context)

    @router.get("/healthz", _HEALTH, summary="Check that the process lives and its store works")
    async def healthz() -> Response:
        if store.condition.failure is not None:
            raise store.condition.failure
        if store.condition.damage:  # stay alive: a restart would not repair it
            return json_answer({"status": "damaged", "problems": store.condition.damage})
        failing = background().failing
        if failing:  # it is begun again and again; a restart might help, and is not for a probe to decide
            problems = [f"{work}: {reason}" for work, reason in failing.items()]
            return json_answer({"status": "degraded", "problems": problems})
        return json_response(_GOOD)

    @router.get("/readyz", _HEALTH, summary="Check that requests are accepted")
    async def readyz() -> Response:
        if store.condition.failure is not None:
            raise store.condition.failure
        if not context.is_ready():
            raise EntrepotError(Code.UNAVAILABLE, "not ready: the server is starting or stopping")
        operations = control_of(store)
        if operations is not None and not operations.is_available:
            raise EntrepotError(Code.UNAVAILABLE, "not ready: no broker is available")
        if operations is not None and operations.confirm_problem:
            raise EntrepotError(Code.UNAVAILABLE, f"not ready: {operations.confirm_problem}")
        return json_response(_GOOD)

    @router.get("/metrics", _METRICS, summary="Get metrics in Prometheus' text format")
    async def metrics() -> Response:
        text = await scrapes.text()
        length = str(sum(map(len, text)))
        return StreamingResponse(_turns(text), headers={"content-type": CONTENT_TYPE_LATEST, "content-length": length})

    return router


async def _turns(pieces: list[bytes]) -> AsyncIterator[bytes]:
    """The pieces of an answer, each sent once the one before has left the buffer."""
    for piece in pieces:
        if piece:
            yield piece

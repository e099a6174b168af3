"""`/api/v1/overview`: now, its history, and a stream of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import orjson
from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from entrepot.domain.access.model import Action
from entrepot.domain.errors import EntrepotError
from entrepot.gateway.http.access import HttpAccess
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.overview.history import SPANS
from entrepot.gateway.http.overview.overview import FRESH_SECONDS, Overview
from entrepot.gateway.http.rights import check_rights, cluster
from entrepot.gateway.http.routes import Router
from entrepot.gateway.http.streaming.server_sent_events import MEDIA_TYPE, STREAM_HEADERS, Streams
from entrepot.gateway.operations.operation import PREFIX
from entrepot.gateway.operations.problem import bad_request

MAX_WATCHERS: Final = 1000
_SEES: Final = cluster(Action.LIST)
_ANSWER: Final = {
    200: {
        "description": "An overview as the data of each event",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": 'event: overview\ndata: {"doors": []}\n\n'}},
    }
}


class _Watch:
    """One browser's stream."""

    def __init__(self) -> None:
        self.end = asyncio.Event()

    def close(self) -> None:
        self.end.set()

    async def wait(self, seconds: float) -> None:
        """Wait for the end, for so long at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.end.wait()


def overview_routes(context: HttpContext, access: HttpAccess, overview: Overview) -> Router:
    """The routes of the overview."""
    router = Router(["overview"], PREFIX)
    streams = Streams(MAX_WATCHERS)
    context.on_drain.append(streams.end)

    @router.get("/overview", _SEES, summary="Get rates, lag, alarms and the state of every part of the cluster")
    async def get_overview() -> Response:
        return json_answer(await overview.get())

    @router.get("/overview/history", _SEES, summary="Get rates, latency and lag of the last five minutes or hour")
    async def get_history(
        span: int = Query(3600, description="Length of the history in seconds", json_schema_extra={"enum": [*SPANS]}),
    ) -> Response:
        if span not in SPANS:
            raise bad_request(f"span: must be {' or '.join(map(str, SPANS))} seconds")
        return json_answer(await overview.history(span))

    @router.get(
        "/overview:watch",
        _SEES,
        summary="Stream the overview as server-sent events",
        response_class=StreamingResponse,
        responses=_ANSWER,
    )
    async def watch_overview(
        request: Request,
        every: int = Query(round(FRESH_SECONDS), ge=round(FRESH_SECONDS), le=60, description="Interval in seconds"),
    ) -> StreamingResponse:
        async def may_see() -> bool:
            try:
                await check_rights(context, access, request, _SEES)
            except EntrepotError:
                return False
            return True

        streams.enter()

        async def body() -> AsyncIterator[bytes]:
            watch = _Watch()
            with streams.held(watch):
                yield b"retry: 2000\n\n"
                while not watch.end.is_set() and await may_see():
                    yield b"event: overview\ndata: " + orjson.dumps(await overview.get()) + b"\n\n"
                    await watch.wait(every)

        return StreamingResponse(body(), media_type=MEDIA_TYPE, headers=STREAM_HEADERS)

    return router

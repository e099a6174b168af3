"""The overview as operations: `/api/v1/overview`, its history, and a stream of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.gateway.operations.overview.history import SPANS
from entrepot.gateway.operations.overview.overview import FRESH_SECONDS, Overview
from entrepot.gateway.operations.overview.shapes import ClusterOverviewShown, HistoryShown
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Pieces, Query
from entrepot.gateway.operations.row.streams import MEDIA_TYPE, RETRY, event_of, streamed

if TYPE_CHECKING:
    from entrepot.gateway.operations.row.streams import Streams

MAX_WATCHERS: Final = 1000
_SEES: Final = cluster(Action.LIST)


class HistoryAsked(Query, frozen=True):
    span: Annotated[int, Meta(description="Length of the history in seconds", extra_json_schema={"enum": [*SPANS]})] = (
        3600
    )


class OverviewAsked(Query, frozen=True):
    every: Annotated[int, Meta(ge=round(FRESH_SECONDS), le=60, description="Interval in seconds")] = round(
        FRESH_SECONDS
    )


OVERVIEW: Final = Noun("overview", "/overview")


class Overviews:
    """The operations of the overview."""

    def __init__(self, overview: Overview, streams: Streams) -> None:
        self._overview, self._streams = overview, streams

    @OVERVIEW.get("", "getClusterOverview", "Get rates, lag, alarms and the state of every part of the cluster", _SEES)
    async def show(self) -> ClusterOverviewShown:
        return await self._overview.get()

    @OVERVIEW.get("/history", "getClusterHistory", "Get rates, latency and lag of the last five minutes or hour", _SEES)
    async def history(self, query: HistoryAsked) -> HistoryShown:
        if query.span not in SPANS:
            raise bad_request(f"span: must be {' or '.join(map(str, SPANS))} seconds")
        return await self._overview.history(query.span)

    @OVERVIEW.get(
        ":watch",
        "watchClusterOverview",
        "Stream the overview as server-sent events",
        _SEES,
        outcome="Server-sent events, without an end",
        shows={MEDIA_TYPE: 'event: overview\ndata: {"doors": []}\n\n'},
    )
    async def watch(self, asked: Asked, query: OverviewAsked) -> Pieces:
        self._streams.enter()
        return streamed(self._events(asked, query.every))

    async def _events(self, asked: Asked, every: int) -> AsyncIterator[bytes]:
        watch, may_go_on = _Watch(), asked.may_go_on
        assert may_go_on is not None
        with self._streams.held(watch):
            yield RETRY
            while not watch.end.is_set() and await may_go_on():
                yield event_of("overview", await self._overview.get())
                await watch.wait(every)


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

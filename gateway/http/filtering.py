"""Event filters in a query: `filters`, as in the Subscriptions API, and `cesql`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import orjson
from fastapi import Query

from entrepot.domain.delivery import Delivery
from entrepot.domain.expression.event_filter import NO_FILTERS, EventFilters
from entrepot.domain.expression.event_filter_json import parse_event_filters, parse_sql_filter
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import split_name
from entrepot.domain.ports import PopRequest, Store
from entrepot.gateway.events.webhooks.dispatcher import typed_attributes
from entrepot.gateway.messaging.release import release
from entrepot.gateway.operations.problem import bad_request
from entrepot.protocols.cloudevents.mapping import to_event

MAX_FILTERS_LENGTH: Final = 16_384
MAX_CESQL_LENGTH: Final = 4_096

FiltersQuery = Annotated[
    str | None,
    Query(
        max_length=MAX_FILTERS_LENGTH,
        description="Filters in JSON as in a subscription; other events are skipped",
        examples=['[{"prefix": {"subject": "line1/"}}]'],
    ),
]
CesqlQuery = Annotated[
    str | None,
    Query(
        max_length=MAX_CESQL_LENGTH,
        description="Further filter: a CESQL expression that must be true",
        examples=["type = 'reading' AND level > 2"],
    ),
]


def filters_in(filters: str | None, cesql: str | None) -> EventFilters:
    """Parse a query's filters.  Raises BAD_REQUEST, EventFilterError."""
    found = NO_FILTERS
    if filters is not None:
        try:
            document = orjson.loads(filters)
        except orjson.JSONDecodeError as error:
            raise bad_request(f"filters: is not JSON: {error}") from None
        found = parse_event_filters(document)
    if cesql is not None:
        found = EventFilters((*found.filters, parse_sql_filter(cesql, "cesql")))
    return found


def wants(filters: EventFilters, message: StoredMessage, default_type: str) -> bool:
    """True if a message, as an event, matches."""
    if not filters.filters:
        return True
    return filters.matches(typed_attributes(to_event(message, split_name(message.topic)[0], default_type)))


async def pop_wanted(store: Store, request: PopRequest, filters: EventFilters, default_type: str) -> Sequence[Delivery]:
    """Pop matching messages; acknowledge the others, and wait on for the remaining time."""
    if not filters.filters:
        return await store.consumption.pop(request)
    loop = asyncio.get_running_loop()
    end = loop.time() + request.wait_ms / 1000
    while True:
        left_ms = max(int((end - loop.time()) * 1000), 0)
        popped = await store.consumption.pop(replace(request, wait_ms=left_ms))
        wanted = [each for each in popped if wants(filters, each.message, default_type)]
        others = [each for each in popped if each not in wanted]
        try:
            if others:
                await store.consumption.acknowledge(request.topic, request.group, others)
        except BaseException:  # the client has gone, or gets an error: others get the matching messages
            release(store, request.topic, request.group, wanted)
            raise
        if wanted or not popped:
            return wanted

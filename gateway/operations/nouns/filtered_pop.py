"""Pops that a query's filters narrow: what does not match is acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from entrepot.domain.names import split_name
from entrepot.gateway.events.webhooks.dispatcher import typed_attributes
from entrepot.gateway.messaging.release import release
from entrepot.protocols.cloudevents.mapping import to_event

if TYPE_CHECKING:
    from entrepot.domain.delivery import Delivery
    from entrepot.domain.event_filters.event_filter import EventFilters
    from entrepot.domain.message import StoredMessage
    from entrepot.domain.ports import PopRequest, Store


def wants(filters: EventFilters, message: StoredMessage, default_type: str) -> bool:
    """True if a message, as an event, matches."""
    if not filters.filters:
        return True
    return filters.matches(typed_attributes(to_event(message, split_name(message.topic)[0], default_type)))


async def pop_wanted(store: Store, request: PopRequest, filters: EventFilters, default_type: str) -> Sequence[Delivery]:
    """Pop matching messages; acknowledge the others, and wait on for the remaining time."""
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

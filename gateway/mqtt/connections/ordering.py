"""Ordering: SUBSCRIBE and UNSUBSCRIBE take effect in the order of the same connection's publishes.

A publish is live once the store has it and the hub has delivered it.  A change of subscriptions waits for earlier
publishes that match it.  A publish waits for an earlier subscription without full effect: its queues are not followed,
or its group does not exist yet.  Later events wait too; nothing else does, so plain publishing pays nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from entrepot.domain.routing.topic_filter import is_valid_filter
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.publishing import Publishing
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.connections.subscribing import Subscribing
from entrepot.gateway.mqtt.topics.names import REPLAY, SHARE, parse_share
from entrepot.protocols.mqtt.connection_events import Publishes
from entrepot.protocols.mqtt.packets import Subscribe, Unsubscribe

MAX_LATER: Final = 64
"""Maximum number of waiting events; with more, reading pauses."""
ORDER_SECONDS: Final = 5.0
"""Longest wait of one event, in seconds: then a broker is away, and the connection goes on without it."""

Later = Publishes | Subscribe | Unsubscribe

log = structlog.get_logger(__name__)


class Ordering:
    """One connection's waiting events.  `done`: called when none is left."""

    __slots__ = ("_client", "_done", "_is_handing_over", "_later", "_publishing", "_subscribing", "_task")

    def __init__(
        self,
        services: MqttServices,
        client: MqttClient,
        publishing: Publishing,
        subscribing: Subscribing,
        done: Callable[[], None],
    ) -> None:
        self._client, self._publishing, self._subscribing, self._done = client, publishing, subscribing, done
        self._later: deque[Later] = deque()
        self._is_handing_over = False
        self._task = services.tasks.spawn(self._go_on())

    def put_off(self, event: Later) -> None:
        """Handle an event in its turn."""
        self._later.append(event)
        if len(self._later) > MAX_LATER and self._client.driver is not None:
            self._client.driver.pause_reading(self)

    def finish(self) -> None:
        """Handle all waiting events at once, because the connection is over; drop those after the event that ended
        it."""
        if self._is_handing_over:
            self._later.clear()
            return
        self._task.cancel()
        while self._later:
            self._deal_with(self._later.popleft())

    async def _go_on(self) -> None:
        try:
            while self._later:
                with suppress(TimeoutError):
                    async with asyncio.timeout(ORDER_SECONDS):
                        await self._wait_for_turn(self._later[0])
                self._is_handing_over = True
                self._deal_with(self._later.popleft())
                self._is_handing_over = False
        except Exception as error:
            log.exception("a conversation failed", seldom=type(error).__name__)
            if self._client.driver is not None:
                self._client.driver.abort()
        finally:
            self._done()
        if self._client.driver is not None:
            self._client.driver.resume_reading(self)

    async def _wait_for_turn(self, event: Later) -> None:
        if isinstance(event, Publishes):
            await self._subscribing.settled()
        else:
            await self._publishing.passed(filters_of(event))

    def _deal_with(self, event: Later) -> None:
        if isinstance(event, Publishes):
            self._publishing.take(event.packets)
        else:
            self._subscribing.change(event)


def filters_of(change: Subscribe | Unsubscribe) -> list[str]:
    """Return the filters whose publishes must be ordered with the change.  A replay reads from the log, and leaving a
    share takes nothing from its group: neither counts."""
    if isinstance(change, Subscribe):
        texts = [wanted.filter for wanted in change.subscriptions]
        shares = [parse_share(text) for text in texts if text.startswith(SHARE)]
        found = [share.filter for share in shares if share is not None]
    else:
        texts, found = change.filters, []
    found += [text for text in texts if not text.startswith((SHARE, REPLAY))]
    return [text for text in found if is_valid_filter(text)]

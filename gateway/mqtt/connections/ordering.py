"""Ordering: SUBSCRIBE and UNSUBSCRIBE take effect in the order of the same connection's publishes.

A publish is live once the store has it and the hub has handed it out, so a change of subscriptions that matches what is
on its way there waits for it.  A publish waits for a subscription before it that has no full effect yet: its queues are
not followed, or its group is not there.  What comes behind waits, too; nothing else does, so plain publishing pays
nothing.
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
from entrepot.gateway.mqtt.names import REPLAY, SHARE, parse_share
from entrepot.protocols.mqtt.connection_events import Publishes
from entrepot.protocols.mqtt.packets import Subscribe, Unsubscribe

MAX_LATER: Final = 64
"""Runs of publishes and changes that may wait: with more, no more is read."""
ORDER_SECONDS: Final = 5.0
"""Longest wait of one of them: then a broker is away, and the connection goes on without it."""

Later = Publishes | Subscribe | Unsubscribe

log = structlog.get_logger(__name__)


class Ordering:
    """What waits in one connection, while anything does.  `done`: called when nothing does any more."""

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
        """Deal with it when its turn has come."""
        self._later.append(event)
        if len(self._later) > MAX_LATER and self._client.driver is not None:
            self._client.driver.pause_reading(self)

    def finish(self) -> None:
        """The connection is over: what waits is dealt with at once.  Behind what ended it, nothing is."""
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
    """The filters whose messages the change has to do with, from its place in the order on.  A replay gets what is in
    the log, and leaving a share takes nothing from its group."""
    if isinstance(change, Subscribe):
        texts = [wanted.filter for wanted in change.subscriptions]
        shares = [parse_share(text) for text in texts if text.startswith(SHARE)]
        found = [share.filter for share in shares if share is not None]
    else:
        texts, found = change.filters, []
    found += [text for text in texts if not text.startswith((SHARE, REPLAY))]
    return [text for text in found if is_valid_filter(text)]

"""Ordering: SUBSCRIBE and UNSUBSCRIBE take effect in the order of the same connection's publishes.

A publish is live once the store has it and the hub has handed it out, so a change of subscriptions that matches what is
on its way there waits for it.  A publish waits for a subscription before it that has no full effect yet: its queues are
not followed, or its group is not there.  What comes behind waits, too; nothing else does, so plain publishing pays
nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from domain.routing.topic_filter import is_valid_filter
from gateway.mqtt.connections.names import REPLAY, SHARE, parse_share
from protocols.mqtt.connection_events import Publishes
from protocols.mqtt.packets import Subscribe, Unsubscribe

if TYPE_CHECKING:
    from gateway.mqtt.connections.conversation import MqttConversation

MAX_LATER: Final = 64
"""Runs of publishes and changes that may wait: with more, no more is read."""
ORDER_SECONDS: Final = 5.0
"""Longest wait of one of them: then a broker is away, and the connection goes on without it."""

Later = Publishes | Subscribe | Unsubscribe

log = structlog.get_logger(__name__)


class Ordering:
    """What waits in one connection, while anything does."""

    __slots__ = ("_conversation", "_is_handing_over", "_later", "_task")

    def __init__(self, conversation: MqttConversation) -> None:
        self._conversation = conversation
        self._later: deque[Later] = deque()
        self._is_handing_over = False
        self._task = conversation.frontend.tasks.spawn(self._go_on())

    def put_off(self, event: Later) -> None:
        """Deal with it when its turn has come."""
        self._later.append(event)
        if self.is_full and self._conversation.driver is not None:
            self._conversation.driver.pause_reading()

    @property
    def is_full(self) -> bool:
        """Whether no more is to be read."""
        return len(self._later) > MAX_LATER

    def finish(self) -> None:
        """The connection is over: what waits is dealt with at once.  Behind what ended it, nothing is."""
        if self._is_handing_over:
            self._later.clear()
            return
        self._task.cancel()
        while self._later:
            deal_with(self._conversation, self._later.popleft())

    async def _go_on(self) -> None:
        conversation = self._conversation
        try:
            while self._later:
                with suppress(TimeoutError):
                    async with asyncio.timeout(ORDER_SECONDS):
                        await self._wait_for_turn(self._later[0])
                self._is_handing_over = True
                deal_with(conversation, self._later.popleft())
                self._is_handing_over = False
        except Exception as error:
            log.exception("a conversation failed", seldom=type(error).__name__)
            if conversation.driver is not None:
                conversation.driver.abort()
        finally:
            conversation.ordering = None
        conversation.resume_reading()

    async def _wait_for_turn(self, event: Later) -> None:
        if isinstance(event, Publishes):
            await self._conversation.subscribing.settled()
        else:
            await self._conversation.publishing.passed(filters_of(event))


def put_off(conversation: MqttConversation, event: Later) -> None:
    """Let something wait for what came before it."""
    if conversation.ordering is None:
        conversation.ordering = Ordering(conversation)
    conversation.ordering.put_off(event)


def deal_with(conversation: MqttConversation, event: Later) -> None:
    """It is its turn."""
    if isinstance(event, Publishes):
        conversation.publishing.take(event.packets)
    elif isinstance(event, Subscribe):
        conversation.subscribing.subscribe(event)
    else:
        conversation.subscribing.unsubscribe(event)


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

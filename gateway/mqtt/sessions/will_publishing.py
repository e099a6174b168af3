"""WillPublishing: publishing of will messages."""

from __future__ import annotations

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import SystemProperty
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender, first_refusal
from entrepot.gateway.mqtt.sessions.record import SessionRecord, WillRecord
from entrepot.gateway.mqtt.topics.names import DELAYED, parse_delayed
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.protocols.mqtt.mapping import to_message
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId

log = structlog.get_logger(__name__)


class WillPublishing:
    """A publisher of wills, without state of its own."""

    def __init__(self, routes: Routes, retained: RetainedMessages, sender: Sender, clock: Clock) -> None:
        self._routes, self._retained, self._sender, self._clock = routes, retained, sender, clock

    async def publish(self, record: SessionRecord, will: WillRecord) -> None:
        """Publish a will.  A refused one is logged and dropped: its client is gone."""
        properties = {PropertyId(key): value for key, value in will.properties.items()}
        delayed = parse_delayed(will.topic) if will.topic.startswith(DELAYED) else None
        name, now_ms = will.topic if delayed is None else delayed.topic, self._clock.now_ms()
        publish = Publish(name, will.payload, will.qos, 0, will.retain, False, properties)
        message = to_message(publish, *self._routes.of(name), now_ms)
        if will.retain and delayed is None:
            message.system = {**message.system, SystemProperty.RETAIN: "1"}
        if delayed is not None:
            message.system = {**message.system, SystemProperty.DELIVER_AT_MS: now_ms + delayed.seconds * 1000}
        try:
            problem = first_refusal(await self._retained.publish([message], self._sender))
        except EntrepotError as error:
            problem = error
        if problem is not None:
            log.warning("a will was not kept", topic=will.topic, reason=problem.message)

"""Publishing: one client's publishes, answered in their order (4.6.0-2, -3).

A run of PUBLISH packets that came together becomes one `send`, answered when the store confirms.  For QoS 2 in a
persistent session, the record maps each identifier to its message before that is stored.  So after a crash the next
gateway can ask the store for the message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from entrepot.domain.errors import PASSING, Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.routing.topic_filter import matches
from entrepot.gateway.messaging.answer import Answer
from entrepot.gateway.messaging.partly_stored import store_the_rest
from entrepot.gateway.messaging.send import Refusals, minted_at_ms
from entrepot.gateway.mqtt.connections.accepted_publish import message_of, refusal_of
from entrepot.gateway.mqtt.connections.answers import WORDS, Answers, Passed, Refused, Sent
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.retained_delivery import RetainedDelivery
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.protocols.mqtt import mapping
from entrepot.protocols.mqtt.encoder import PUBREC_WORD
from entrepot.protocols.mqtt.errors import REASON_OF_CODE
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.reason_codes import ReasonCode

log = structlog.get_logger(__name__)

MAX_GATED: Final = 64
"""Maximum number of runs that wait for earlier durable writes; with more, reading pauses.  A run is one socket read."""
MAX_COMPARED: Final = 10_000
"""Maximum number of comparisons (messages times filters) for one SUBSCRIBE; with more, every message counts as
matching."""
_BEHIND: Final = "the store is behind"
_GATE_FULL: Final = "too much waits for what has to be durable first"
"""Reasons to pause reading."""
SETTLE_SECONDS: Final = 8.0
"""Longest wait of a closing connection for its publishes, in seconds."""


class Publishing:
    """One connection's publishes."""

    __slots__ = (
        "_answers",
        "_client",
        "_gate",
        "_gated",
        "_is_relief_asked",
        "_retained",
        "_services",
    )

    def __init__(self, services: MqttServices, client: MqttClient, retained: RetainedDelivery) -> None:
        self._services, self._client, self._retained = services, client, retained
        self._answers = Answers(services, client)
        self._answers.on_broken_off = self.give_up
        self._gated: deque[Sent] | None = None
        self._gate: asyncio.Task[None] | None = None
        self._is_relief_asked = False

    def take(self, packets: list[Publish]) -> None:
        """Accept a run of publishes."""
        services, answers = self._services, self._answers
        now_ms, route_of, to_message = services.clock.now_ms(), services.routes.of, mapping.to_message
        publisher = self._client.client_id if self._client.wants_no_local else ""
        is_plain = services.access.is_open and not publisher
        deep = services.settings.max_topic_levels
        sent: Sent | None = None
        for packet in packets:
            name = packet.topic
            # a name has at least as many characters as levels
            if is_plain and not packet.retain and not packet.properties and name[0] != "$" and len(name) < deep:
                if sent is None:
                    sent = answers.in_turn(Sent(answers))
                sent.messages.append(to_message(packet, *route_of(name), now_ms))
                sent.words.append(WORDS[packet.qos] | packet.packet_id)
                continue
            refusal = refusal_of(services, self._client.principal, packet)
            message = message_of(services, packet, now_ms, publisher) if refusal is None else None
            if message is not None and packet.retain:
                over = services.retained.refusal(message)
                refusal = None if over is None else (ReasonCode.QUOTA_EXCEEDED, over.message)
            if message is None or refusal is not None:
                assert refusal is not None
                if sent is not None:
                    self._send(sent)
                    sent = None
                answers.in_turn(Refused(answers, packet, *refusal))(None, None)
                continue
            if sent is None:
                sent = answers.in_turn(Sent(answers))
            sent.add(packet, message)
        if sent is not None:
            self._send(sent)
        if services.sender.is_full(self):
            self._pause()

    def on_the_way(self, filters: Sequence[str]) -> list[Message]:
        """Messages accepted and not known to be stored that may match one of the filters."""
        messages = self._answers.messages()
        found = [message for message in messages if SystemProperty.DELIVER_AT_MS not in message.system]
        if len(found) * len(filters) > MAX_COMPARED:
            return found
        return [message for message in found if any(matches(each, message.sub_topic) for each in filters)]

    async def passed(self, filters: Sequence[str]) -> None:
        """Wait until earlier publishes that may match the filters are stored and delivered here."""
        before = self.on_the_way(filters)
        if before:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._answers.in_turn(Passed(self._answers, told))(None, None)
            await told
            await self._services.hub.handed_over({(each.topic, each.queue_id) for each in before})

    def _pause(self) -> None:
        if (driver := self._client.driver) is not None:
            driver.pause_reading(_BEHIND)
            if not self._is_relief_asked:
                self._is_relief_asked = True
                self._services.sender.when_relieved(self._relieved, self)

    def _relieved(self) -> None:
        self._is_relief_asked = False
        self._resume_reading(_BEHIND)

    def _resume_reading(self, reason: str) -> None:
        if self._client.driver is not None:
            self._client.driver.resume_reading(reason)

    # -- durable writes first --------------------------------------------------------------------------------------

    def _send(self, sent: Sent) -> None:
        """Send a run, behind earlier ones that wait for their record or for retained messages."""
        if self._answers.is_broken_off:
            return
        session = self._client.session
        needs_record = session is not None and session.persists and sent.has_qos_2
        if not needs_record and sent.retained is None and self._gated is None:
            self._go(sent)
            return
        if self._gated is None:
            self._gated = deque((sent,))
            self._gate = self._services.tasks.spawn(self._pass_gate())
        else:
            self._gated.append(sent)
            if len(self._gated) > MAX_GATED and self._client.driver is not None:
                self._client.driver.pause_reading(_GATE_FULL)

    def _go(self, sent: Sent, kept: Sequence[Message] = ()) -> None:
        self._answers.under_way += 1
        sender = self._services.sender
        if sender.provenance.topics:
            sender.provenance.mark(sent.messages, "mqtt", self._client.client_id, self._client.principal)
        if not kept:
            sender.send(sent.messages, sent, self)
            return
        sending: Answer[Refusals] = Answer()
        sender.send(sent.messages, sending, self)
        self._services.tasks.spawn(self._tell_in_order(sent, kept, sending))

    async def _tell_in_order(self, sent: Sent, kept: Sequence[Message], sending: Answer[Refusals]) -> None:
        """Answer a run with retained messages, once those of the log's order are kept."""
        failure: EntrepotError | None = None
        refusals: Refusals = None
        try:
            refusals = await self._services.retained.published(sent.messages, kept, sending)
        except EntrepotError as error:
            failure = error
        except Exception:  # a fault of our own: the client must get an answer
            log.exception("a retained message could not be kept")
            failure = EntrepotError(Code.INTERNAL_ERROR, "the retained message could not be kept")
        sent(failure, refusals)

    async def _pass_gate(self) -> None:
        gated, client = self._gated, self._client
        assert gated is not None
        try:
            while gated:
                sent = gated[0]
                session = client.session
                if session is not None and session.persists and sent.has_qos_2:
                    await self._record(sent)
                    await self._drop_stored(sent)
                kept = sent.retained or ()
                if kept:
                    await self._retained.passed([each.sub_topic for each in kept])
                    await self._services.retained.keep_first(kept, self._services.sender)
                gated.popleft()
                self._go(sent, kept)
                if len(gated) <= MAX_GATED // 2:
                    self._resume_reading(_GATE_FULL)
        except EntrepotError as error:
            client.close(ReasonCode.UNSPECIFIED_ERROR, error.message)
        finally:
            self._gated = self._gate = None

    def give_up(self) -> None:
        """Stop sending runs that wait for their record, because another connection has the session, or an earlier
        publish failed."""
        if self._gate is not None:
            self._gate.cancel()

    def let_go(self) -> None:
        """Break reference cycles, because the connection is over."""
        self._answers.on_broken_off = None
        self._answers.forget()

    async def settle(self) -> None:
        """Wait until accepted publishes are stored or given up, for a limited time.  After that the session's next
        owner asks the store for them."""
        session = self._client.session
        if session is None or not session.persists:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                if self._gate is not None:
                    await asyncio.wait((self._gate,))
                await self._answers.settled()

    async def _record(self, sent: Sent) -> None:
        """Write the identifiers' message ids to the record; return when they are durable."""
        session = self._client.session
        assert session is not None
        is_new = False
        for place, word in enumerate(sent.words):
            packet_id = word & 0xFFFF
            if word < PUBREC_WORD:
                continue
            known = session.message_ids.get(packet_id)
            if known is None:
                known = session.message_ids[packet_id] = self._services.sender.new_message_id()
                is_new = True
            sent.messages[place].message_id = known
            _time_by_id(sent.messages[place])
        if is_new:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            session.after_durable(lambda: None if future.done() else future.set_result(None), window=True)
            await future

    async def _drop_stored(self, sent: Sent) -> None:
        """Drop messages that an earlier connection had stored without an answer.  The rest of a partly stored one is
        stored first."""
        session = self._client.session
        assert session is not None
        for place in reversed(range(len(sent.words))):
            packet_id = sent.words[place] & 0xFFFF
            if sent.words[place] >= PUBREC_WORD and packet_id in session.doubtful:
                session.doubtful.discard(packet_id)
                if await self._is_stored(sent.messages[place]):
                    if SystemProperty.RETAIN in sent.messages[place].system:
                        await self._services.retained.order.check([sent.messages[place]])
                    sent.note_stored(place)
                else:  # an earlier gateway may be about to send it: the broker decides
                    sent.put_in_doubt(place)

    async def _is_stored(self, message: Message) -> bool:
        """True if a message of this id is stored or scheduled.  Raises UNAVAILABLE where that cannot be known now."""
        services = self._services
        store, at_ms = services.store, message.time_ms(SystemProperty.DELIVER_AT_MS)
        if at_ms is not None:
            try:
                await store.timers.retime(message.topic, message.message_id, at_ms, at_ms)
            except EntrepotError as error:
                if error.code not in (Code.OFFSET_NOT_FOUND, Code.TOPIC_NOT_FOUND, Code.ILLEGAL_DELIVERY_TIME):
                    raise
            else:
                return True
        found = await store.finder.messages_by_id(message.message_id, everywhere=True)
        if found:
            try:
                await store_the_rest(store, services.sender, message, found)
            except EntrepotError as error:
                if error.code in PASSING:
                    raise
                # each try would end the same; what is stored of it stays
                why = f"the rest of a message that is stored in part: {error.message}"
                services.counters.refuse(self._client, message.sub_topic, why, REASON_OF_CODE[error.code])
        return bool(found)


def _time_by_id(message: Message) -> None:
    """Count a delay from the creation of the message's id, so that a resent message has the same delivery time."""
    at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
    if at_ms is not None:
        delay_ms = at_ms - message.born_time_ms
        made_ms = minted_at_ms(message.message_id)
        message.system = {**message.system, SystemProperty.DELIVER_AT_MS: made_ms + delay_ms}

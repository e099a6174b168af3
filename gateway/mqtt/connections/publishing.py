"""Publishing: what one client publishes, and the answers it gets, in the order of its publishes (4.6.0-2, -3).

A run of PUBLISH packets that came together becomes one `send`; its answers are written when the store confirms.  Of
QoS 2 in a session that outlives the connection, the record says which message each identifier became before that is
stored; so who goes on after a crash can ask the store whether it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from domain.errors import Code, EntrepotError
from domain.message import Message, SystemProperty
from domain.routing.topic_filter import matches
from gateway.messaging.partly_stored import store_the_rest
from gateway.messaging.send import minted_at_ms
from gateway.mqtt.connections.answers import WORDS, Awaited, Passed, Refused, Sent
from gateway.mqtt.connections.names import DELAYED, parse_delayed, published_name, unpublishable
from protocols.mqtt import mapping
from protocols.mqtt.encoder import PUBREC_WORD
from protocols.mqtt.packets import Publish
from protocols.mqtt.properties import PropertyId
from protocols.mqtt.reason_codes import ReasonCode

if TYPE_CHECKING:
    from gateway.mqtt.connections.conversation import MqttConversation

log = structlog.get_logger(__name__)

Refusal = tuple[ReasonCode, str]
MAX_GATED: Final = 64
"""Runs of publishes that may wait for what has to be durable first: with more, no more is read.  A run is one read of
the socket."""
MAX_COMPARED: Final = 10_000
"""Messages times filters that are compared for one SUBSCRIBE; with more, each message may match."""
SETTLE_SECONDS: Final = 8.0
"""Longest wait of a connection's end for what it published."""
_AwaitedT = TypeVar("_AwaitedT", bound=Awaited)


class Publishing:
    """One connection's."""

    __slots__ = (
        "_conversation",
        "_first",
        "_gate",
        "_gated",
        "_idle",
        "_is_gate_full",
        "_is_relief_asked",
        "_last",
        "_under_way",
    )

    def __init__(self, conversation: MqttConversation) -> None:
        self._conversation = conversation
        self._first: Awaited | None = None
        self._last: Awaited | None = None
        self._gated: deque[Sent] | None = None
        self._gate: asyncio.Task[None] | None = None
        self._is_relief_asked = self._is_gate_full = False
        self._under_way = 0
        self._idle: asyncio.Future[None] | None = None

    def take(self, packets: list[Publish]) -> None:
        """Send a run of publishes on its way."""
        conversation = self._conversation
        frontend = conversation.frontend
        now_ms, route_of, to_message = frontend.clock.now_ms(), frontend.routes.of, mapping.to_message
        is_plain, deep = frontend.access.is_open and not conversation.wants_no_local, frontend.max_topic_levels
        sent: Sent | None = None
        for packet in packets:
            name = packet.topic
            # what has too many levels has at least as many characters
            if is_plain and not packet.retain and not packet.properties and name[0] != "$" and len(name) < deep:
                if sent is None:
                    sent = self._in_turn(Sent(conversation))
                sent.messages.append(to_message(packet, *route_of(name), now_ms))
                sent.words.append(WORDS[packet.qos] | packet.packet_id)
                continue
            refusal = self._refusal(packet)
            message = self._message(packet, now_ms) if refusal is None else None
            if message is not None and packet.retain:
                over = frontend.retained.refusal(message)
                refusal = None if over is None else (ReasonCode.QUOTA_EXCEEDED, over.message)
            if message is None or refusal is not None:
                assert refusal is not None
                if sent is not None:
                    self._send(sent)
                    sent = None
                self._in_turn(Refused(conversation, packet, *refusal))(None, None)
                continue
            if sent is None:
                sent = self._in_turn(Sent(conversation))
            sent.add(packet, message)
        if sent is not None:
            self._send(sent)
        if frontend.sender.backlogged:
            self._pause()

    def on_the_way(self, filters: Sequence[str]) -> list[Message]:
        """What was taken and is not known to be stored, as far as one of the filters may match it."""
        found: list[Message] = []
        awaited = self._first
        while awaited is not None:
            found += awaited.messages
            awaited = awaited.following
        found = [message for message in found if SystemProperty.DELIVER_AT_MS not in message.system]
        if len(found) * len(filters) > MAX_COMPARED:
            return found
        return [message for message in found if any(matches(each, message.sub_topic) for each in filters)]

    async def passed(self, filters: Sequence[str]) -> None:
        """Return when what was taken before, and one of the filters may match, is stored and was handed out here."""
        before = self.on_the_way(filters)
        if before:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._in_turn(Passed(self._conversation, told))(None, None)
            await told
            await self._conversation.frontend.hub.handed_over({(each.topic, each.queue_id) for each in before})

    def _refusal(self, packet: Publish) -> Refusal | None:
        """Why a publish is not taken, or None."""
        frontend, name = self._conversation.frontend, packet.topic
        if name[0] == "$":
            problem = unpublishable(name)
            if problem is not None:
                return problem
        if name.count("/") >= frontend.max_topic_levels:
            return ReasonCode.TOPIC_NAME_INVALID, f"{name[:80]!r} has too many levels"
        if not frontend.access.may_publish(self._conversation.principal, published_name(name)):
            return ReasonCode.NOT_AUTHORIZED, f"not authorized to publish to {name[:80]!r}"
        if packet.properties and frontend.checks_payload_format and not _is_as_declared(packet):
            return ReasonCode.PAYLOAD_FORMAT_INVALID, "the payload is not UTF-8, as it was said to be"
        return None

    def _message(self, packet: Publish, now_ms: int) -> Message:
        conversation = self._conversation
        deliver_at_ms: int | None = None
        if packet.topic.startswith(DELAYED):
            delayed = parse_delayed(packet.topic)
            assert delayed is not None
            packet.topic, deliver_at_ms = delayed.topic, now_ms + delayed.seconds * 1000
        message = mapping.to_message(packet, *conversation.frontend.routes.of(packet.topic), now_ms)
        if packet.retain or deliver_at_ms is not None or conversation.wants_no_local:
            system = dict(message.system)
            if deliver_at_ms is not None:
                system[SystemProperty.DELIVER_AT_MS] = deliver_at_ms  # and is not retained
                message.born_time_ms = now_ms
            elif packet.retain:
                system[SystemProperty.RETAIN] = "1"
            if conversation.wants_no_local:
                system[SystemProperty.PUBLISHER] = conversation.client_id
            message.system = system
        return message

    def _pause(self) -> None:
        conversation = self._conversation
        if conversation.driver is not None:
            conversation.driver.pause_reading()
            if not self._is_relief_asked:
                self._is_relief_asked = True
                conversation.frontend.sender.when_relieved(self._relieved)

    @property
    def is_paused(self) -> bool:
        """Whether more is published than the store takes in just now."""
        return self._is_relief_asked or self._is_gate_full

    def _relieved(self) -> None:
        self._is_relief_asked = False
        self._conversation.resume_reading()

    # -- what has to be durable first ----------------------------------------------------------------------------

    def _send(self, sent: Sent) -> None:
        """Send a run, behind those that wait for their record, or for what is retained."""
        session = self._conversation.session
        needs_record = session is not None and session.persists and sent.has_qos_2
        if not needs_record and sent.retained is None and self._gated is None:
            self._go(sent)
            return
        if self._gated is None:
            self._gated = deque((sent,))
            self._gate = self._conversation.frontend.tasks.spawn(self._pass_gate())
        else:
            self._gated.append(sent)
            if len(self._gated) > MAX_GATED and self._conversation.driver is not None:
                self._is_gate_full = True
                self._conversation.driver.pause_reading()

    def _go(self, sent: Sent) -> None:
        self._under_way += 1
        self._conversation.frontend.sender.send(sent.messages, sent)

    def arrived(self) -> None:
        """A run that was sent is stored, or was refused."""
        self._under_way -= 1
        if not self._under_way and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _pass_gate(self) -> None:
        gated, conversation = self._gated, self._conversation
        assert gated is not None
        try:
            while gated:
                sent = gated[0]
                session = conversation.session
                if session is not None and session.persists and sent.has_qos_2:
                    await self._record(sent)
                    await self._drop_stored(sent)
                if sent.retained is not None:  # before it is live: who subscribes in between misses neither
                    await conversation.subscribing.retained.passed([each.sub_topic for each in sent.retained])
                    await conversation.frontend.retained.keep_and_wait(sent.retained)
                gated.popleft()
                self._go(sent)
                if self._is_gate_full and len(gated) <= MAX_GATED // 2:
                    self._is_gate_full = False
                    conversation.resume_reading()
        except EntrepotError as error:
            conversation.close(ReasonCode.UNSPECIFIED_ERROR, error.message)
        finally:
            self._gated = self._gate = None

    def give_up(self) -> None:
        """The session is another connection's: what waits for its record is sent by nobody here."""
        if self._gate is not None:
            self._gate.cancel()

    async def settle(self) -> None:
        """Return when what was taken is stored or given up, or that takes too long: who goes on with the session asks
        the store for it."""
        session = self._conversation.session
        if session is None or not session.persists:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                if self._gate is not None:
                    await asyncio.wait((self._gate,))
                if self._under_way:
                    self._idle = asyncio.get_running_loop().create_future()
                    await self._idle

    async def _record(self, sent: Sent) -> None:
        """Note which messages the identifiers become; return when that is durable."""
        session = self._conversation.session
        assert session is not None
        is_new = False
        for place, word in enumerate(sent.words):
            packet_id = word & 0xFFFF
            if word < PUBREC_WORD:
                continue
            known = session.message_ids.get(packet_id)
            if known is None:
                known = session.message_ids[packet_id] = self._conversation.frontend.sender.new_message_id()
                is_new = True
            sent.messages[place].message_id = known
            _time_by_id(sent.messages[place])
        if is_new:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            session.after_durable(lambda: None if future.done() else future.set_result(None), window=True)
            await future

    async def _drop_stored(self, sent: Sent) -> None:
        """Leave out what an earlier connection had stored before it could say so.  Of what was stored in part, the rest
        is stored first."""
        session = self._conversation.session
        assert session is not None
        for place in reversed(range(len(sent.words))):
            packet_id = sent.words[place] & 0xFFFF
            if sent.words[place] >= PUBREC_WORD and packet_id in session.doubtful:
                session.doubtful.discard(packet_id)
                if await self._is_stored(sent.messages[place]):
                    sent.note_stored(place)

    async def _is_stored(self, message: Message) -> bool:
        """Whether a message of this id is in its queues, or waits for its time.  Raises UNAVAILABLE where that cannot
        be known now."""
        frontend = self._conversation.frontend
        store, at_ms = frontend.store, message.time_ms(SystemProperty.DELIVER_AT_MS)
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
            await store_the_rest(store, frontend.sender, message, found)
        return bool(found)

    def let_go(self, departed: MqttConversation) -> None:
        """Nothing of its conversation is needed any more."""
        self._first = self._last = None
        self._conversation = departed

    # -- answers -------------------------------------------------------------------------------------------------

    def _in_turn(self, awaited: _AwaitedT) -> _AwaitedT:
        """Whatever is told of it, and whenever: answers have the order of the publishes."""
        if self._last is None:
            self._first = awaited
        else:
            self._last.following = awaited
        self._last = awaited
        return awaited

    def tell_in_turn(self) -> None:
        """Tell the client what is known, as far as nothing before it is unknown."""
        while self._first is not None and self._first.outcome is not None:
            awaited = self._first
            self._first = awaited.following
            if self._first is None:
                self._last = None
            if self._conversation.driver is not None:
                awaited.tell()
        self._conversation.flush()


def _time_by_id(message: Message) -> None:
    """Let a delay begin when the message's id was made: it is waited for at the same time when it is sent again."""
    at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
    if at_ms is not None:
        delay_ms = at_ms - message.born_time_ms
        made_ms = minted_at_ms(message.message_id)
        message.system = {**message.system, SystemProperty.DELIVER_AT_MS: made_ms + delay_ms}


def _is_as_declared(packet: Publish) -> bool:
    if packet.properties.get(PropertyId.PAYLOAD_FORMAT_INDICATOR) != 1:
        return True
    try:
        packet.payload.decode()
    except UnicodeDecodeError:
        return False
    return True

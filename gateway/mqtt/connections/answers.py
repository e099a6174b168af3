"""Answers: what one client's publishes are answered with, once their outcome is known and it is their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from domain.errors import EntrepotError
from domain.message import Message, SystemProperty
from gateway.messaging.send import Refusals
from protocols.mqtt.encoder import PUBACK_WORD, PUBREC_WORD
from protocols.mqtt.errors import REASON_OF_CODE
from protocols.mqtt.packets import Publish
from protocols.mqtt.reason_codes import ReasonCode

if TYPE_CHECKING:
    from gateway.mqtt.connections.conversation import MqttConversation
    from gateway.mqtt.connections.listeners import Listeners

WORDS: Final = (0, PUBACK_WORD, PUBREC_WORD)
"""Answer to a publish of each QoS, without the identifier."""

log = structlog.get_logger(__name__)


class Awaited:
    """Publishes whose outcome is awaited: one small object per run, a list of them per connection."""

    __slots__ = ("conversation", "following", "outcome")

    messages: Sequence[Message] = ()

    def __init__(self, conversation: MqttConversation) -> None:
        self.conversation = conversation
        self.following: Awaited | None = None
        self.outcome: tuple[EntrepotError | None, Refusals] | None = None

    def __call__(self, failure: EntrepotError | None, refusals: Refusals) -> None:
        self.outcome = (failure, refusals)
        self.conversation.publishing.tell_in_turn()

    def tell(self) -> None:
        """Its turn has come, and its outcome is known."""
        raise NotImplementedError


class Sent(Awaited):
    """A run of publishes that were sent.  `words`: the answer to each, 0 at QoS 0."""

    __slots__ = ("_stored", "messages", "retained", "words")

    def __init__(self, conversation: MqttConversation) -> None:
        super().__init__(conversation)
        self.messages: list[Message] = []
        self.words: list[int] = []
        self.retained: list[Message] | None = None
        self._stored: list[int] | None = None

    def add(self, packet: Publish, message: Message) -> None:
        self.words.append(WORDS[packet.qos] | packet.packet_id)
        self.messages.append(message)
        if SystemProperty.RETAIN in message.system:
            self.retained = [*(self.retained or ()), message]

    def __call__(self, failure: EntrepotError | None, refusals: Refusals) -> None:
        self.conversation.publishing.arrived()
        super().__call__(failure, refusals)

    @property
    def has_qos_2(self) -> bool:
        return max(self.words, default=0) >= PUBREC_WORD

    def note_stored(self, place: int) -> None:
        """One of them need not be sent any more, only answered: first, as those after it were not told of."""
        self._stored = [self.words.pop(place), *(self._stored or ())]
        message = self.messages.pop(place)
        if self.retained is not None:  # it was kept before it was stored: since then others may have been
            self.retained = [each for each in self.retained if each is not message] or None

    def tell(self) -> None:
        assert self.outcome is not None
        failure, refusals = self.outcome
        conversation = self.conversation
        if failure is not None:
            conversation.close(ReasonCode.UNSPECIFIED_ERROR, failure.message)
            return
        if self._stored:
            conversation.machine.confirm(self._stored)
        if refusals is not None:
            self._tell_refusals(refusals)
            return
        words = self.words if all(self.words) else [word for word in self.words if word]
        if words:
            listeners = conversation.frontend.listeners
            if listeners is None or conversation.version != 5:
                conversation.machine.confirm(words)
            else:
                self._tell_each(listeners)

    def _tell_each(self, listeners: Listeners) -> None:
        """Say of each whether anybody is subscribed to it."""
        machine = self.conversation.machine
        for word, message in zip(self.words, self.messages, strict=True):
            if not word:
                continue
            if listeners.has_any(message):
                machine.confirm([word])
            else:
                machine.confirm_unheard(word)

    def _tell_refusals(self, refusals: Sequence[EntrepotError | None]) -> None:
        conversation = self.conversation
        first = next(refusal for refusal in refusals if refusal is not None)
        kind = f"mqtt {first.code.name}"
        log.info("publishes refused", seldom=kind, client_id=conversation.client_id, reason=first.message)
        for word, refusal in zip(self.words, refusals, strict=True):
            if refusal is None:
                if word:
                    conversation.machine.confirm([word])
                continue
            reason = REASON_OF_CODE[refusal.code]
            if conversation.version != 5:  # no word for a refusal: never confirm what was not kept
                conversation.close(reason, refusal.message)
                return
            if word:
                _refuse(conversation, word & 0xFFFF, 2 if word >= PUBREC_WORD else 1, reason, refusal.message)


class Passed(Awaited):
    """Nothing that is published: the place behind what was."""

    __slots__ = ("_told",)

    def __init__(self, conversation: MqttConversation, told: asyncio.Future[None]) -> None:
        super().__init__(conversation)
        self._told = told

    def tell(self) -> None:
        if not self._told.done():
            self._told.set_result(None)


class Refused(Awaited):
    """A publish that is not taken."""

    __slots__ = ("_packet", "_reason", "_text")

    def __init__(self, conversation: MqttConversation, packet: Publish, reason: ReasonCode, text: str) -> None:
        super().__init__(conversation)
        self._packet, self._reason, self._text = packet, reason, text

    def tell(self) -> None:
        conversation, packet = self.conversation, self._packet
        conversation.frontend.count_refused(conversation, packet.topic, self._text, self._reason)
        if conversation.version == 5 and packet.qos:
            _refuse(conversation, packet.packet_id, packet.qos, self._reason, self._text)
        elif packet.qos:  # version 3 has no word: closing is the one that does not say it was taken (3.3.5-2 there)
            conversation.close(self._reason, self._text)


def _refuse(conversation: MqttConversation, packet_id: int, qos: int, reason: ReasonCode, text: str) -> None:
    """PUBACK or PUBREC with a reason; an identifier of QoS 2 is then free again."""
    session = conversation.session
    if qos == 2 and session is not None and session.message_ids.pop(packet_id, None) is not None:
        session.note_finished()
    conversation.machine.refuse_publish(packet_id, qos, reason, text)

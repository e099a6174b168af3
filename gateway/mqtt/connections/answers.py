"""Answers: what one client's publishes are answered with, once their outcome is known and it is their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import structlog

from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.messaging.send import Refusals
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.connections.subscriber_presence import SubscriberPresence
from entrepot.protocols.mqtt.encoder import PUBACK_WORD, PUBREC_WORD
from entrepot.protocols.mqtt.errors import REASON_OF_CODE
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.reason_codes import ReasonCode

WORDS: Final = (0, PUBACK_WORD, PUBREC_WORD)
"""Answer to a publish of each QoS, without the identifier."""

log = structlog.get_logger(__name__)


class Awaited:
    """Publishes whose outcome is awaited: one small object per run, a list of them per connection."""

    __slots__ = ("answers", "following", "outcome")

    messages: Sequence[Message] = ()

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.following: Awaited | None = None
        self.outcome: tuple[EntrepotError | None, Refusals] | None = None

    def __call__(self, failure: EntrepotError | None, refusals: Refusals) -> None:
        self.outcome = (failure, refusals)
        self.answers.tell_in_turn()

    def tell(self) -> None:
        """Its turn has come, and its outcome is known."""
        raise NotImplementedError


class Sent(Awaited):
    """A run of publishes that were sent.  `words`: the answer to each, 0 at QoS 0."""

    __slots__ = ("_stored", "messages", "retained", "words")

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
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
        self.outcome = (failure, refusals)
        self.answers.arrived()
        self.answers.tell_in_turn()

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
        client = self.answers.client
        if failure is not None:
            client.close(ReasonCode.UNSPECIFIED_ERROR, failure.message)
            return
        if self._stored:
            client.machine.confirm(self._stored)
        if refusals is not None:
            self._tell_refusals(refusals)
            return
        words = self.words if all(self.words) else [word for word in self.words if word]
        if words:
            presence = self.answers.services.presence
            if presence is None or client.machine.version != 5:
                client.machine.confirm(words)
            else:
                self._tell_each(presence)

    def _tell_each(self, presence: SubscriberPresence) -> None:
        """Say of each whether anybody is subscribed to it."""
        machine = self.answers.client.machine
        for word, message in zip(self.words, self.messages, strict=True):
            if not word:
                continue
            if presence.has_any(message):
                machine.confirm([word])
            else:
                machine.confirm_unheard(word)

    def _tell_refusals(self, refusals: Sequence[EntrepotError | None]) -> None:
        client = self.answers.client
        first = next(refusal for refusal in refusals if refusal is not None)
        kind = f"mqtt {first.code.name}"
        log.info("publishes refused", seldom=kind, client_id=client.client_id, reason=first.message)
        for word, refusal in zip(self.words, refusals, strict=True):
            if refusal is None:
                if word:
                    client.machine.confirm([word])
                continue
            reason = REASON_OF_CODE[refusal.code]
            if client.machine.version != 5:  # no word for a refusal: never confirm what was not kept
                client.close(reason, refusal.message)
                return
            if word:
                _refuse(client, word & 0xFFFF, 2 if word >= PUBREC_WORD else 1, reason, refusal.message)


class Passed(Awaited):
    """Nothing that is published: the place behind what was."""

    __slots__ = ("_told",)

    def __init__(self, answers: Answers, told: asyncio.Future[None]) -> None:
        super().__init__(answers)
        self._told = told

    def tell(self) -> None:
        if not self._told.done():
            self._told.set_result(None)


class Refused(Awaited):
    """A publish that is not taken."""

    __slots__ = ("_packet", "_reason", "_text")

    def __init__(self, answers: Answers, packet: Publish, reason: ReasonCode, text: str) -> None:
        super().__init__(answers)
        self._packet, self._reason, self._text = packet, reason, text

    def tell(self) -> None:
        client, packet = self.answers.client, self._packet
        self.answers.services.counters.refuse(client, packet.topic, self._text, self._reason)
        if client.machine.version == 5 and packet.qos:
            _refuse(client, packet.packet_id, packet.qos, self._reason, self._text)
        elif packet.qos:  # version 3 has no word: closing is the one that does not say it was taken (3.3.5-2 there)
            client.close(self._reason, self._text)


def _refuse(client: MqttClient, packet_id: int, qos: int, reason: ReasonCode, text: str) -> None:
    """PUBACK or PUBREC with a reason; an identifier of QoS 2 is then free again."""
    session = client.session
    if qos == 2 and session is not None and session.message_ids.pop(packet_id, None) is not None:
        session.note_finished()
    client.machine.refuse_publish(packet_id, qos, reason, text)


AwaitedT = TypeVar("AwaitedT", bound=Awaited)


class Answers:
    """One connection's, in the order of its publishes (4.6.0-2, -3)."""

    __slots__ = ("_first", "_idle", "_last", "client", "services", "under_way")

    def __init__(self, services: MqttServices, client: MqttClient) -> None:
        self.services, self.client = services, client
        self._first: Awaited | None = None
        self._last: Awaited | None = None
        self.under_way = 0
        """Runs that were sent and are neither stored nor refused."""
        self._idle: asyncio.Future[None] | None = None

    def in_turn(self, awaited: AwaitedT) -> AwaitedT:
        """Give it the place behind all before it: whenever its outcome is known, it is told of in its turn."""
        if self._last is None:
            self._first = awaited
        else:
            self._last.following = awaited
        self._last = awaited
        return awaited

    def messages(self) -> Iterator[Message]:
        """What was taken and is not known to be stored."""
        awaited = self._first
        while awaited is not None:
            yield from awaited.messages
            awaited = awaited.following

    def tell_in_turn(self) -> None:
        """Tell the client what is known, as far as nothing before it is unknown."""
        while self._first is not None and self._first.outcome is not None:
            awaited = self._first
            self._first = awaited.following
            if self._first is None:
                self._last = None
            if self.client.driver is not None:
                awaited.tell()
        if self.client.driver is not None:
            self.client.driver.flush()

    def arrived(self) -> None:
        """A run that was sent is stored, or was refused."""
        self.under_way -= 1
        if not self.under_way and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def forget(self) -> None:
        """The connection is over, and nobody is told any more."""
        self._first = self._last = None

    async def settled(self) -> None:
        """Return when nothing is under way."""
        if self.under_way:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

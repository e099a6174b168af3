"""Answers: PUBACKs and PUBRECs to one client's publishes, sent in order as their outcomes become known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty, in_doubt
from entrepot.gateway.messaging.send import Refusals
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.connections.subscriber_presence import SubscriberPresence
from entrepot.protocols.mqtt.encoder import PUBACK_WORD, PUBREC_WORD
from entrepot.protocols.mqtt.errors import REASON_OF_CODE
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.reason_codes import ReasonCode

WORDS: Final = (0, PUBACK_WORD, PUBREC_WORD)
"""Answer to a publish of each QoS, without the packet identifier."""
REFUSED_FOR_EVER: Final = frozenset((ReasonCode.NOT_AUTHORIZED, ReasonCode.TOPIC_NAME_INVALID))
"""Refusals that version 3 confirms and drops, as it has no code for them (3.3.5-2 there): the client would come again
with the same message."""


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
        """Answer the client; called in turn, with the outcome known."""
        raise NotImplementedError


class Sent(Awaited):
    """A run of sent publishes.  `words`: the answer to each, 0 at QoS 0."""

    __slots__ = ("_stored", "is_withdrawn", "messages", "retained", "words")

    def __init__(self, answers: Answers) -> None:
        super().__init__(answers)
        self.messages: list[Message] = []
        self.words: list[int] = []
        self.retained: list[Message] | None = None
        self._stored: list[int] | None = None
        self.is_withdrawn = False
        """True if it must not be stored any more, because an earlier publish will come again."""

    def add(self, packet: Publish, message: Message) -> None:
        self.words.append(WORDS[packet.qos] | packet.packet_id)
        self.messages.append(message)
        if SystemProperty.RETAIN in message.system:
            self.retained = [*(self.retained or ()), message]

    def __call__(self, failure: EntrepotError | None, refusals: Refusals) -> None:
        self.outcome = (failure, refusals)
        if refusals is not None:
            client, counters = self.answers.client, self.answers.services.counters
            for message, refusal in zip(self.messages, refusals, strict=True):
                if refusal is not None:  # also for a client that is gone: the operator sees it
                    counters.refuse(client, message.sub_topic, refusal.message, REASON_OF_CODE[refusal.code])
        if failure is not None or (refusals is not None and any(map(self._ends_with, self.words, refusals))):
            self.answers.break_off()
        self.answers.arrived()
        self.answers.tell_in_turn()

    def _ends_with(self, word: int, refusal: EntrepotError | None) -> bool:
        """True if the connection ends at a publish without its answer, so that its client sends it again: version 3 has
        no code for a refusal, and no version has one for a publish that may be stored."""
        if refusal is None:
            return False
        return self.answers.client.machine.version != 5 or (word > 0 and refusal.code is Code.OUTCOME_UNKNOWN)

    @property
    def has_qos_2(self) -> bool:
        return max(self.words, default=0) >= PUBREC_WORD

    def note_stored(self, place: int) -> None:
        """Note a publish stored earlier, which is only answered.  Its answer goes first: later ones were not sent
        yet."""
        self._stored = [self.words.pop(place), *(self._stored or ())]
        message = self.messages.pop(place)
        if self.retained is not None:  # a later one may have replaced it since it was kept
            self.retained = [each for each in self.retained if each is not message] or None

    def put_in_doubt(self, place: int) -> None:
        """Have a publish taken only if the store lacks it."""
        message = self.messages[place]
        self.messages[place] = doubtful = in_doubt(message)
        if self.retained is not None:
            self.retained = [doubtful if each is message else each for each in self.retained]

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
        """Answer each publish, with the reason code for no matching subscribers where it applies."""
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
        for word, refusal in zip(self.words, refusals, strict=True):
            if refusal is None:
                if word:
                    client.machine.confirm([word])
                continue
            reason = REASON_OF_CODE[refusal.code]
            if self._ends_with(word, refusal):
                client.close(reason, refusal.message)
                return
            if word:
                _refuse(client, word & 0xFFFF, 2 if word >= PUBREC_WORD else 1, reason, refusal.message)


class Passed(Awaited):
    """A marker after earlier publishes, without a publish of its own."""

    __slots__ = ("_told",)

    def __init__(self, answers: Answers, told: asyncio.Future[None]) -> None:
        super().__init__(answers)
        self._told = told

    def tell(self) -> None:
        if not self._told.done():
            self._told.set_result(None)


class Refused(Awaited):
    """A refused publish."""

    __slots__ = ("_packet", "_reason", "_text")

    def __init__(self, answers: Answers, packet: Publish, reason: ReasonCode, text: str) -> None:
        super().__init__(answers)
        self._packet, self._reason, self._text = packet, reason, text
        answers.services.counters.refuse(answers.client, packet.topic, text, reason)

    def tell(self) -> None:
        client, packet = self.answers.client, self._packet
        if not packet.qos:
            return
        if client.machine.version == 5:
            _refuse(client, packet.packet_id, packet.qos, self._reason, self._text)
        elif self._reason in REFUSED_FOR_EVER:
            client.machine.confirm([WORDS[packet.qos] | packet.packet_id])
        else:  # it may be accepted later: the client keeps what is not confirmed
            client.close(self._reason, self._text)


def _refuse(client: MqttClient, packet_id: int, qos: int, reason: ReasonCode, text: str) -> None:
    """Send PUBACK or PUBREC with a reason; an identifier of QoS 2 is then free again."""
    session = client.session
    if qos == 2 and session is not None and session.message_ids.pop(packet_id, None) is not None:
        session.note_finished()
    client.machine.refuse_publish(packet_id, qos, reason, text)


AwaitedT = TypeVar("AwaitedT", bound=Awaited)


class Answers:
    """One connection's answers, in the order of its publishes (4.6.0-2, -3)."""

    __slots__ = ("_first", "_idle", "_last", "client", "is_broken_off", "on_broken_off", "services", "under_way")

    def __init__(self, services: MqttServices, client: MqttClient) -> None:
        self.services, self.client = services, client
        self._first: Awaited | None = None
        self._last: Awaited | None = None
        self.under_way = 0
        """Number of sent runs that are neither stored nor refused yet."""
        self._idle: asyncio.Future[None] | None = None
        self.is_broken_off = False
        self.on_broken_off: Callable[[], None] | None = None

    def break_off(self) -> None:
        """Let nothing more of the connection be stored: its client sends the failed publish again, and what follows in
        the same order (4.4.0-1, 4.6.0-1).  The connection ends once the earlier ones are answered."""
        self.is_broken_off = True
        awaited = self._first
        while awaited is not None:
            if isinstance(awaited, Sent):
                awaited.is_withdrawn = True
            awaited = awaited.following
        if self.on_broken_off is not None:
            self.on_broken_off()

    def in_turn(self, awaited: AwaitedT) -> AwaitedT:
        """Append an answer to the queue: it is sent in its turn, whenever its outcome is known."""
        if self._last is None:
            self._first = awaited
        else:
            self._last.following = awaited
        self._last = awaited
        return awaited

    def messages(self) -> Iterator[Message]:
        """Messages accepted from the client and not known to be stored."""
        awaited = self._first
        while awaited is not None:
            yield from awaited.messages
            awaited = awaited.following

    def tell_in_turn(self) -> None:
        """Send the known answers, up to the first unknown one."""
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
        """Note that a sent run is stored or refused."""
        self.under_way -= 1
        if not self.under_way and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def forget(self) -> None:
        """Drop all answers, because the connection is over."""
        self._first = self._last = None

    async def settled(self) -> None:
        """Wait until no run is under way."""
        if self.under_way:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

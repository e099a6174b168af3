"""SessionClient: a client with a session, whose handshakes go exactly as far as the test says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self
from uuid import uuid4

from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Will,
)
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.mqtt.client import RawClient
from tests.support.waiting import PATIENCE_SECONDS

EXPIRY_SECONDS = 600


class SessionClient(RawClient):
    """A connection that keeps its session; version 3 by clean_session=0."""

    def __init__(self, port: int, client_id: str, version: int = 5) -> None:
        super().__init__(port, version, acknowledges=False)
        self.client_id = client_id

    def __enter__(self) -> Self:
        return self

    def open(
        self,
        *,
        clean: bool = False,
        expiry: int = EXPIRY_SECONDS,
        receive_maximum: int = 0,
        will: Will | None = None,
        keep_alive: int = 0,
    ) -> Connack:
        """CONNECT, and its answer, which must be that it is accepted."""
        properties = {}
        if self.version == 5:
            properties[PropertyId.SESSION_EXPIRY_INTERVAL] = expiry
            if receive_maximum:
                properties[PropertyId.RECEIVE_MAXIMUM] = receive_maximum
        self.say(Connect(self.client_id, self.version, clean, keep_alive, will, properties=properties))
        answer = self.expect(Connack)
        assert answer.reason == 0, answer
        return answer

    def subscribe_to(self, *subscriptions: Subscription, identifier: int = 0) -> Suback:
        """SUBSCRIBE with options, and its answer."""
        properties = {PropertyId.SUBSCRIPTION_IDENTIFIER: [identifier]} if identifier else {}
        self.say(Subscribe(1, list(subscriptions), properties))
        return self.expect(Suback)

    def next_delivery(self, timeout: float = PATIENCE_SECONDS) -> Publish:
        return self.expect_deliveries(1, timeout)[0]

    def take(self, count: int, timeout: float = PATIENCE_SECONDS) -> list[bytes]:
        """The payloads of the next messages, each acknowledged as its QoS wants: at QoS 2 with the whole handshake."""
        taken: list[bytes] = []
        deadline = time.monotonic() + timeout
        while len(taken) < count:
            assert deadline > time.monotonic(), f"{len(taken)} of {count}"
            taken += self.take_what_is_there(deadline - time.monotonic())
        assert len(taken) == count, f"{len(taken)} instead of {count}"
        return taken

    def take_what_is_there(self, timeout: float = PATIENCE_SECONDS) -> list[bytes]:
        """The payloads of some next messages, acknowledged; fails where the connection ends."""
        if not self.deliveries and not self._waiting:
            assert self.read(timeout), "closed where deliveries were expected"
        found, self.deliveries = self.deliveries, []
        waiting, self._waiting = self._waiting, []
        answers: list[Puback | Pubrec | Pubcomp] = [
            Puback(each.packet_id) if each.qos == 1 else Pubrec(each.packet_id) for each in found if each.qos
        ]
        for packet in waiting:
            assert isinstance(packet, Pubrel), packet
            answers.append(Pubcomp(packet.packet_id))
        if answers:
            self.say(*answers)
        return [each.payload for each in found]


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Payloads that are numbers."""
    return [str(number).encode() for number in range(start, start + count)]


def publish_all(client: RawClient, topic: str, payloads: Sequence[bytes], qos: int = 1) -> None:
    """Publish, and return when all is confirmed, handshakes of QoS 2 to their end."""
    step = 500
    for at in range(0, len(payloads), step):
        part = payloads[at : at + step]
        client.say(*[Publish(topic, body, qos, place + 1 if qos else 0) for place, body in enumerate(part)])
        if qos == 1:
            assert [client.expect(Puback).packet_id for _ in part] == list(range(1, len(part) + 1))
        elif qos == 2:
            answers = [client.expect(Pubrec) for _ in part]
            assert not any(answer.reason for answer in answers), answers
            client.say(*[Pubrel(answer.packet_id) for answer in answers])
            assert [client.expect(Pubcomp).packet_id for _ in part] == list(range(1, len(part) + 1))


def publish_from(port: int, topic: str, payloads: Sequence[bytes], qos: int = 1) -> None:
    """Publish with a connection of its own."""
    with RawClient(port, acknowledges=False) as client:
        client.connect(f"publisher-{uuid4().hex}")
        publish_all(client, topic, payloads, qos)

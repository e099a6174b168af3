"""Random clients of QoS 0, 1 and 2 against an obvious model of both directions' handshakes."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.mqtt.connection_events import Acknowledged, ConnectionLimits, Publishes
from entrepot.protocols.mqtt.encoder import encode, publish_template
from entrepot.protocols.mqtt.packets import Connect, Packet, Pingreq, Puback, Pubcomp, Publish, Pubrec, Pubrel
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.machine import Machine, word_of

LIMITS = ConnectionLimits(receive_maximum=4, max_inflight_messages=3)
ROOMY = ConnectionLimits(topic_alias_maximum=2)
"""With the least receive maximum it would matter whether publishes are confirmed before more of them are read."""
Action = tuple[int, int]
"""What is done, of `World.actions`, and a number to choose with."""


class World:
    """A client that keeps the rules, the server's store, and what each of them knows.

    Publishes of the client are named by their body; the client repeats what is not answered, as after a lost answer.
    """

    def __init__(self, version: int) -> None:
        self.machine = Machine(LIMITS, confirms=False)
        self.machine.say(Connect("c", version))
        self.version = version
        self.count = 0
        self.unanswered: dict[int, Publish] = {}
        """Of the client: PUBACK or PUBREC is due."""
        self.unreleased: list[int] = []
        """PUBREC came, PUBREL is to be sent."""
        self.uncompleted: list[int] = []
        """PUBREL was sent and PUBCOMP is due."""
        self.unconfirmed: list[Publish] = []
        """What the machine handed on and the store has not confirmed."""
        self.handed_on: Counter[bytes] = Counter()
        self.acknowledged: list[object] = []
        self.to_client: dict[int, tuple[int, int]] = {}
        """By identifier: the message's number and which packet of the client is due: its type as a number."""
        self.sent = 0
        self.refused = 0
        self.finished: list[int] = []
        self.actions = (
            *(lambda n: self.publish(0, n), lambda n: self.publish(1, n), lambda n: self.publish(2, n)),
            *(lambda n: self.publish(2, n), self.repeat, self.release, self.confirm, self.refuse),
            *(lambda n: self.deliver(1), lambda n: self.deliver(2), self.answer, self.ping),
        )

    # -- the client publishes

    @property
    def in_flight(self) -> int:
        return len(self.unanswered) + len(self.unreleased) + len(self.uncompleted)

    def publish(self, qos: int, number: int) -> None:
        if qos and self.in_flight == LIMITS.receive_maximum:
            return
        self.count += 1
        packet_id = 0
        if qos:
            used = {*self.unanswered, *self.unreleased, *self.uncompleted}
            packet_id = [each for each in range(1, 7) if each not in used][number % 2]
        packet = Publish("a", str(self.count).encode(), qos, packet_id)
        if qos:
            self.unanswered[packet_id] = packet
        self.say(packet)

    def repeat(self, number: int) -> None:
        waiting = [packet for packet in self.unanswered.values() if packet.qos == 2]
        if waiting:
            again = waiting[number % len(waiting)]
            self.say(Publish(again.topic, again.payload, 2, again.packet_id, dup=True))

    def release(self, number: int) -> None:
        if self.unreleased:
            packet_id = self.unreleased.pop(number % len(self.unreleased))
            self.uncompleted.append(packet_id)
            self.say(Pubrel(packet_id))

    def ping(self, number: int) -> None:
        self.say(Pingreq())

    # -- the store

    def confirm(self, number: int) -> None:
        """In the order of the appends, as a store does."""
        ready = self.unconfirmed[: 1 + number % 3]
        if ready:
            del self.unconfirmed[: len(ready)]
            self.machine.connection.confirm([word_of(packet) for packet in ready])
            self.read(self.machine.connection.data_to_send())

    def refuse(self, number: int) -> None:
        if self.version == 5 and self.unconfirmed:
            packet = self.unconfirmed.pop(0)
            self.machine.connection.refuse_publish(
                packet.packet_id, packet.qos, ReasonCode.QUOTA_EXCEEDED, "the store is full"
            )
            self.refused += 1
            self.read(self.machine.connection.data_to_send())

    # -- the server delivers

    def deliver(self, qos: int) -> None:
        connection = self.machine.connection
        if connection.window.room:
            self.sent += 1
            packet = connection.deliver(publish_template("b", b"", qos, version=self.version), self.sent)
            assert packet is not None
            connection.send(packet)
            self.read(connection.data_to_send())

    def answer(self, number: int) -> None:
        if not self.to_client:
            return
        packet_id = list(self.to_client)[number % len(self.to_client)]
        message, due = self.to_client.pop(packet_id)
        if due == 1:
            self.finished.append(message)
            self.say(Puback(packet_id))
        elif due == 2 and number % 5 == 0 and self.version == 5:
            self.finished.append(message)
            self.say(Pubrec(packet_id, ReasonCode.QUOTA_EXCEEDED))
        elif due == 2:
            self.to_client[packet_id] = (message, 3)
            self.say(Pubrec(packet_id))
        else:
            self.finished.append(message)
            self.say(Pubcomp(packet_id))

    # -- both ends of the wire

    def say(self, packet: Packet) -> None:
        seen = len(self.machine.events)
        out = self.machine.feed(encode(packet, self.version))
        for event in self.machine.events[seen:]:
            if isinstance(event, Publishes):
                for each in event.packets:
                    self.handed_on[each.payload] += 1
                    if each.qos:
                        self.unconfirmed.append(each)
            elif isinstance(event, Acknowledged):
                self.acknowledged += event.held
        self.read(out)

    def read(self, data: bytes) -> None:
        for packet in self.machine.read(data):
            if isinstance(packet, Puback):
                assert self.unanswered.pop(packet.packet_id).qos == 1
            elif isinstance(packet, Pubrec):
                self._read_pubrec(packet)
            elif isinstance(packet, Pubcomp):
                assert packet.reason is ReasonCode.SUCCESS
                self.uncompleted.remove(packet.packet_id)
            elif isinstance(packet, Publish):
                assert packet.packet_id not in self.to_client, "an identifier that is in use"
                self.to_client[packet.packet_id] = (self.sent, packet.qos)
            elif isinstance(packet, Pubrel):
                assert self.to_client[packet.packet_id][1] == 3
                assert packet.reason is ReasonCode.SUCCESS

    def _read_pubrec(self, packet: Pubrec) -> None:
        published = self.unanswered.pop(packet.packet_id)
        assert published.qos == 2
        if packet.reason is ReasonCode.SUCCESS:
            self.unreleased.append(packet.packet_id)

    def check(self) -> None:
        """What holds at any time."""
        connection, window = self.machine.connection, self.machine.connection.window
        assert connection.is_open, self.machine.closing
        assert connection.unconfirmed == len(self.unanswered) + len(self.unreleased)
        assert set(connection.incoming or ()) == {
            *(packet_id for packet_id, packet in self.unanswered.items() if packet.qos == 2),
            *self.unreleased,
        }
        assert set(window.held) == set(self.to_client)
        assert window.unreceived == {key for key, (_, due) in self.to_client.items() if due == 2}
        assert window.released == {key for key, (_, due) in self.to_client.items() if due == 3}
        assert 0 <= window.room <= LIMITS.max_inflight_messages
        assert self.acknowledged == self.finished
        assert self.handed_on == Counter(str(n + 1).encode() for n in range(self.count))

    def finish(self) -> None:
        while self.unconfirmed or self.unreleased:
            self.confirm(2)
            self.release(0)
        while self.to_client:
            self.answer(1)


@pytest.mark.parametrize("version", [3, 4, 5])
@given(actions=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 9)), max_size=80))
def test_both_handshakes(version: int, actions: list[Action]) -> None:
    """Each message of the client is handed on exactly once, and every place comes back."""
    world = World(version)
    world.check()
    for kind, number in actions:
        world.actions[kind](number)
        world.check()
    world.finish()
    world.check()
    connection = world.machine.connection
    assert connection.unconfirmed == 0
    assert not connection.incoming
    assert connection.window.room == LIMITS.max_inflight_messages
    assert world.in_flight == 0


def _clients_packets() -> st.SearchStrategy[list[Packet]]:
    """Any packets of a client's handshakes, right or not."""
    ids = st.integers(1, 4)
    one = st.one_of(
        st.builds(lambda n: Publish("a", b"x", 1, n), ids),
        st.builds(lambda n, dup: Publish("a", b"x", 2, n, dup=dup), ids, st.booleans()),
        st.builds(lambda n: Publish("a", b"x", properties={PropertyId.TOPIC_ALIAS: n}), ids),
        st.builds(lambda n: Publish("", b"x", properties={PropertyId.TOPIC_ALIAS: n}), ids),
        st.builds(Puback, ids),
        st.builds(Pubrec, ids, st.sampled_from([ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED])),
        st.builds(Pubrel, ids),
        st.builds(Pubcomp, ids),
        st.just(Pingreq()),
    )
    return st.lists(one, max_size=25)


@given(said=_clients_packets(), sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8), deliveries=st.integers(0, 3))
def test_the_cut_of_the_bytes_changes_nothing(said: list[Packet], sizes: list[int], deliveries: int) -> None:
    """What is handed on, what is over and what is left are the same, whole or in pieces."""
    wire = b"".join(encode(packet, 5) for packet in said)
    seen = []
    for cuts in ([len(wire) or 1], [1], sizes):
        machine = Machine(ROOMY)
        machine.say(Connect("c", 5))
        for number in range(deliveries):
            packet = machine.connection.deliver(publish_template("b", b"", 1 + number % 2), number)
            machine.connection.send(packet or b"")
        out = machine.connection.data_to_send()
        at = turn = 0
        while at < len(wire):
            out += machine.feed(wire[at : at + cuts[turn % len(cuts)]])
            at += cuts[turn % len(cuts)]
            turn += 1
        connection = machine.connection
        taken = [each for event in machine.events if isinstance(event, Publishes) for each in event.packets]
        over = [each for event in machine.events if isinstance(event, Acknowledged) for each in event.held]
        closing = machine.closing and machine.closing.reason
        left = (connection.unconfirmed, connection.incoming or {}, connection.window.held, connection.is_closed)
        seen.append((taken, sorted(map(str, over)), closing, left))
        machine.read(out)
    assert seen[0] == seen[1] == seen[2]

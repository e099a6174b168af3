"""Contract row 9 at the RocketMQ door: pop through the door beside pop of the reference store, at one clock.

The gateway may restart at any moment; several clients pop, acknowledge, change times, in any order, late and twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from entrepot.gateway.rocketmq.caller import Caller
from entrepot.gateway.rocketmq.service import RocketMqService
from entrepot.gateway.security.authentication import anonymous
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import status_of
from tests.contract_rocketmq_door.conftest import OwnListener
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

T = TypeVar("T")
TOPIC, GROUP = v2.Resource(name="t"), v2.Resource(name="g")
TIMES = st.sampled_from([1, 500, 5_000, 20_000])
CLIENTS = st.sampled_from(["a", "b", "c"])
PLACES = st.lists(st.integers(0, 20), min_size=1, max_size=4)


class DoorMachine(RuleBasedStateMachine):
    """`hands`: (receipt handle of the door, receipt handle of the model) of all that was ever popped."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.model = MemoryStore(self.clock)
        self.hands: list[tuple[str, str]] = []
        self.count = 0
        self.ask(self._open())

    async def _open(self) -> None:
        self.door = OwnListener(self.clock, 32_768)
        await self.door.security.start()
        for store in (self.model, self.door.store):
            await store.topology.put_topic(Topic("t", queues=1))
            await store.topology.put_group(ConsumerGroup("g", max_attempts=3))

    def teardown(self) -> None:
        self.ask(self.door.close())
        self.loop.close()

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(question)

    def caller(self, client: str) -> Caller:
        return Caller(client, anonymous("127.0.0.1", client), "127.0.0.1", 30_000)

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        wires = []
        for _ in range(count):
            self.count += 1
            wire = v2.Message(topic=TOPIC, body=b"%d" % self.count)
            wire.system_properties.message_id = f"01{self.count:032X}"
            wires.append(wire)
        answer = self.ask(self.door.service._sending.send(v2.SendMessageRequest(messages=wires), self.caller("p")))
        assert answer.status.code == v2.OK

        async def same() -> None:
            stored = await self.door.store.messages.read("t", 0, self.count - count, count)
            self.model.messages.append([_copy(message) for message in stored])
            await asyncio.sleep(0)

        self.ask(same())

    @rule(client=CLIENTS, count=st.integers(1, 5), invisible_ms=TIMES)
    def receive(self, client: str, count: int, invisible_ms: int) -> None:
        question = v2.ReceiveMessageRequest(group=GROUP, message_queue=v2.MessageQueue(topic=TOPIC), batch_size=count)
        question.invisible_duration.FromMilliseconds(invisible_ms)
        question.long_polling_timeout.FromMilliseconds(0)

        async def receive() -> list[v2.Message]:
            answers: list[v2.ReceiveMessageResponse] = []

            async def write(answer: v2.ReceiveMessageResponse) -> None:
                answers.append(answer)

            await self.door.service._receiving.receive(question, self.caller(client), write)
            return [answer.message for answer in answers if answer.HasField("message")]

        found = self.ask(receive())
        expected = self.ask(self.model.consumption.pop(PopRequest("t", "g", count, 0, invisible_ms)))
        assert [(each.body, each.system_properties.delivery_attempt) for each in found] == [
            (each.message.body, each.attempt) for each in expected
        ]
        for ours, theirs in zip(found, expected, strict=True):
            self.hands.append((ours.system_properties.receipt_handle, theirs.receipt_handle))

    def some(self, places: list[int]) -> tuple[list[str], list[str]]:
        chosen = {self.hands[-1 - place % len(self.hands)] for place in places}
        ours, theirs = zip(*sorted(chosen), strict=True)
        return list(ours), list(theirs)

    @precondition(lambda self: self.hands)
    @rule(client=CLIENTS, places=PLACES)
    def acknowledge(self, client: str, places: list[int]) -> None:
        ours, theirs = self.some(places)
        entries = [v2.AckMessageEntry(receipt_handle=handle) for handle in ours]
        question = v2.AckMessageRequest(group=GROUP, topic=TOPIC, entries=entries)
        answer = self.ask(self.door.service._receiving.acknowledge(question, self.caller(client)))
        expected = self.ask(self.model.consumption.acknowledge("t", "g", theirs))
        assert [entry.status.code for entry in answer.entries] == [status_of(each).code for each in expected]

    @precondition(lambda self: self.hands)
    @rule(
        client=CLIENTS,
        place=st.integers(0, 20),
        invisible_ms=st.sampled_from([0, 1, 500, 20_000]),
        suspend=st.sampled_from([None, False, True]),
    )
    def change(self, client: str, place: int, invisible_ms: int, suspend: bool | None) -> None:
        [ours], [theirs] = self.some([place])
        question = v2.ChangeInvisibleDurationRequest(group=GROUP, topic=TOPIC, receipt_handle=ours, suspend=suspend)
        question.invisible_duration.FromMilliseconds(invisible_ms)
        expected = self.ask(
            self.model.consumption.change_invisible_duration(
                "t", "g", [theirs], invisible_ms, release=invisible_ms == 0, suspend=bool(suspend)
            )
        )
        assert (
            self.code(self.door.service._receiving.change(question, self.caller(client))) == status_of(expected[0]).code
        )

    @precondition(lambda self: self.hands)
    @rule(client=CLIENTS, place=st.integers(0, 20))
    def forward(self, client: str, place: int) -> None:
        [ours], [theirs] = self.some([place])
        question = v2.ForwardMessageToDeadLetterQueueRequest(group=GROUP, topic=TOPIC, receipt_handle=ours)
        [expected] = self.ask(self.model.consumption.reject("t", "g", [theirs]))
        assert (
            self.code(self.door.service._receiving.forward(question, self.caller(client))) == status_of(expected).code
        )

    def code(self, question: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.ask(question).status.code
        except EntrepotError as error:
            return status_of(error).code

    @rule(milliseconds=st.sampled_from([1, 400, 2_000, 30_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)

    @rule()
    def the_gateway_restarts(self) -> None:
        """What it knew is gone; the store is as it was."""
        self.door.service = RocketMqService(self.door.service.frontend)

    @invariant()
    def progress_agrees(self) -> None:
        ours, theirs = (self.ask(store.topology.group_status("g")).progress for store in (self.door.store, self.model))
        assert [(each.committed_offset, each.in_flight) for each in ours if each.topic == "t"] == [
            (each.committed_offset, each.in_flight) for each in theirs if each.topic == "t"
        ]


def _copy(message: Any) -> Any:
    from entrepot.domain.message import Message

    return Message(message.topic, message.body, queue_id=0, message_id=message.message_id)


DoorMachine.TestCase.settings = settings(stateful_step_count=30)
TestPopThroughTheDoor = pytest.mark.soak(DoorMachine.TestCase)  # opens a door for each history

"""What comes in: nothing is acknowledged before it is stored, and in which order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.bridge import storing as module
from entrepot.gateway.bridge.connection import RemoteConnection
from entrepot.gateway.bridge.inbound import Inbound
from entrepot.gateway.bridge.remapping import local_name, remote_name
from entrepot.gateway.bridge.status import BridgeCounters
from entrepot.gateway.bridge.window import Window
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Refusals, Sender
from entrepot.gateway.settings import BridgeRemote, BridgeRule
from tests.support.clock import ManualClock
from tests.support.waiting import PATIENCE_SECONDS, until

REMOTE = BridgeRemote(
    name="old",
    url="mqtt://h",
    receive_maximum=4,
    rules=[BridgeRule(direction="in", filter="a/#", local_prefix="here/", remote_prefix="there/")],
)


class SteppedSender:
    """Answers when it is told to, and what."""

    def __init__(self) -> None:
        self.batches: list[list[Message]] = []
        self.answers: asyncio.Queue[Refusals | EntrepotError] = asyncio.Queue()

    async def send_and_wait(self, messages: list[Message]) -> Refusals:
        self.batches.append(messages)
        answer = await self.answers.get()
        if isinstance(answer, EntrepotError):
            raise answer
        return answer


class Connection:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.is_paused = False

    def acknowledge(self, packet_ids: list[int]) -> None:
        self.acknowledged += packet_ids

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class FixedRoutes:
    def of(self, name: str) -> tuple[str, int, int]:
        return "here", 0, 0


class World:
    def __init__(self) -> None:
        self.sender, self.connection, self.counters = SteppedSender(), Connection(), BridgeCounters()
        self.retained: list[Message] = []
        self.inbound = Inbound(
            REMOTE,
            cast(Sender, self.sender),
            cast(Routes, FixedRoutes()),
            ManualClock(),
            self.counters,
            self.publish,
        )
        self.inbound.connection = cast(RemoteConnection, self.connection)
        self.task = asyncio.create_task(self.inbound.run(cast(RemoteConnection, self.connection)))

    async def publish(self, messages: Sequence[Message], sender: Sender) -> Refusals:
        self.retained += [each for each in messages if SystemProperty.RETAIN in each.system]
        return await sender.send_and_wait(messages)

    def come(self, mid: int, name: str = "there/a/b", **options: Any) -> None:
        message = paho.MQTTMessage(mid, name.encode())
        message.qos = options.get("qos", 1)
        message.retain = options.get("retain", False)
        message.payload = str(mid).encode()
        message.properties = options.get("properties")
        self.inbound.take(message)

    def batch(self, number: int) -> list[bytes]:
        return [message.body for message in self.sender.batches[number]]


async def test_nothing_is_acknowledged_before_it_is_stored_and_all_that_waits_is_one_batch() -> None:
    world = World()
    world.come(1)
    await until(lambda: world.sender.batches, "the first")
    world.come(2, retain=True)
    world.come(3, qos=0)
    assert world.connection.acknowledged == []
    world.sender.answers.put_nowait(None)
    await until(lambda: len(world.sender.batches) == 2, "the others together")
    assert world.batch(1) == [b"2", b"3"]
    assert world.connection.acknowledged == [1]
    [retained, plain] = world.sender.batches[1]
    assert (retained.sub_topic, retained.topic) == ("here/a/b", "here")
    assert retained.system == {SystemProperty.BRIDGE: "old", SystemProperty.RETAIN: "1"}
    assert world.retained == [retained]
    assert plain.system == {SystemProperty.BRIDGE: "old"}
    world.sender.answers.put_nowait(None)
    await until(lambda: world.counters.received == 3, "all")
    assert world.connection.acknowledged == [1, 2]
    world.task.cancel()


async def test_refused_for_good_is_passed_over_and_refused_for_now_is_tried_again_in_order(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)
    world = World()
    for mid in (1, 2, 3, 4):
        world.come(mid)
    too_large = EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "too large")
    full = EntrepotError(Code.STORAGE_FULL, "full")
    world.sender.answers.put_nowait(EntrepotError(Code.UNAVAILABLE, "away"))
    world.sender.answers.put_nowait([None, too_large, full, None])
    await until(lambda: len(world.sender.batches) == 3, "again")
    assert [world.batch(n) for n in range(3)] == [[b"1", b"2", b"3", b"4"], [b"1", b"2", b"3", b"4"], [b"3", b"4"]]
    assert world.connection.acknowledged == []
    assert world.inbound.last_refusal == "full"
    world.sender.answers.put_nowait(None)
    await until(lambda: world.connection.acknowledged, "settled")
    assert world.connection.acknowledged == [1, 2, 3, 4]
    assert (world.counters.received, world.counters.refused_in) == (3, 1)
    assert world.inbound.last_refusal == ""
    world.task.cancel()


async def test_nothing_more_is_read_while_as_much_waits_as_may() -> None:
    world = World()
    for mid in range(1, REMOTE.receive_maximum + 1):
        assert not world.connection.is_paused
        world.come(mid)
    assert world.connection.is_paused
    world.sender.answers.put_nowait(None)
    await until(lambda: not world.connection.is_paused, "room again")
    world.task.cancel()


async def test_properties_wait_too_and_count() -> None:
    world, properties = World(), Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("k", "v" * 60_000)] * 100
    for mid in (1, 2, 3):
        assert not world.connection.is_paused
        world.come(mid, properties=properties)
    assert world.connection.is_paused, "without a payload, 18 MB wait"
    world.sender.answers.put_nowait(None)
    await until(lambda: not world.connection.is_paused, "room again")
    world.task.cancel()


async def test_what_no_rule_wants_any_more_is_acknowledged_and_not_stored() -> None:
    world = World()
    world.come(1, "there/other")
    await until(lambda: world.connection.acknowledged == [1], "acknowledged")
    assert world.sender.batches == []
    assert world.counters.ignored == 1
    world.task.cancel()


def test_names_both_ways() -> None:
    rule = BridgeRule(direction="both", filter="a/#", local_prefix="here/", remote_prefix="")
    assert local_name([rule], "a/b") == "here/a/b"
    assert local_name([rule], "b") is None
    assert remote_name(rule, "here/a") == "a"
    bare = BridgeRule(direction="in", filter="#", remote_prefix="there/")
    assert local_name([bare], "there/x") == "x"
    assert local_name([bare], "there/$SYS/x") is None, "a remote says nothing under names of the server"
    assert remote_name(rule, "there/a") is None
    everything = BridgeRule(direction="out", filter="#", local_prefix="here/")
    assert remote_name(everything, "here") is None, "the filter wants it, but it has no prefix to take off"
    assert remote_name(everything, "here/") is None, "nothing would be left"


async def test_the_window_is_never_more_than_full_and_nobody_waits_for_ever() -> None:
    window, out, most = Window(3), 0, 0

    async def carry() -> None:
        nonlocal out, most
        taken = await window.take(2)
        out += taken
        most = max(most, out)
        await asyncio.sleep(0)
        out -= taken
        window.give(taken)

    tasks = [asyncio.create_task(carry()) for _ in range(20)]
    await asyncio.sleep(0)
    tasks[5].cancel()  # one that waits
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE_SECONDS)
    assert most == 3
    assert await window.take(9) == 3

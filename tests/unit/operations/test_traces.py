"""Packet traces as their operations tell them: without HTTP and sockets."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.mqtt.connections.traces import MAX_TRACES
from entrepot.gateway.operations.nouns.traces import PacketsAsked, PacketTraces, TraceBody
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from tests.support.gateways.operations import NO_ANSWER, asked_by, beside, one_gateway
from tests.support.mqtt.door import MqttDoor

LINE = PlainName("line-1")


async def test_a_trace_is_begun_shown_and_ended() -> None:
    async with MqttDoor() as door:
        traces = PacketTraces(one_gateway(door.store), door.mqtt)
        asked = asked_by()
        begun = await traces.start(LINE, TraceBody(seconds=5, payloads=True), asked)
        assert (begun.target, begun.payloads, begun.packets) == ("line-1", True, [])
        assert asked.told == (("MQTT client line-1", "for 5 s, with payloads"),)
        await door.client().connect("line-1")
        shown = await traces.show(LINE, PacketsAsked())
        assert [(each["type"], each["direction"], each["gateway"]) for each in shown.packets] == [
            ("CONNECT", "in", "gw-1"),
            ("CONNACK", "out", "gw-1"),
        ]
        assert shown.packets[0]["client_id"] == "line-1", "the fields of its type are there"
        assert [each["type"] for each in (await traces.show(LINE, PacketsAsked(limit=1))).packets] == ["CONNACK"]
        assert (await traces.show(LINE, PacketsAsked(limit=0))).packets == []
        assert [(each.target, each.seen) for each in (await traces.listed()).value] == [("line-1", 2)]
        ended = asked_by()
        await traces.stop(LINE, ended)
        assert ended.told == (("MQTT client line-1", ""),)
        asked = asked_by()
        for ask in (traces.show(LINE, PacketsAsked()), traces.stop(LINE, asked)):
            with pytest.raises(MissingError, match="'line-1' is not traced"):
                await ask
        assert asked.told is None


async def test_traces_of_several_gateways_are_one() -> None:
    async with MqttDoor() as door:
        early = {"time": "2000-01-01T00:00:00.000Z", "client": "line-1", "address": "", "direction": "in", "type": "X"}
        head = {"target": "line-1", "until": "9999-01-01T00:00:00.000Z", "payloads": True, "seen": 7}
        others = {"gw-2": {**head, "packets": [early]}, "gw-3": None}
        traces = PacketTraces(beside(one_gateway(door.store), others, NO_ANSWER), door.mqtt)
        await traces.start(LINE, TraceBody(), asked_by())
        await door.client().connect("line-1")
        shown = await traces.show(LINE, PacketsAsked())
        assert [each["type"] for each in shown.packets] == ["X", "CONNECT", "CONNACK"]
        assert (shown.until, shown.payloads, shown.seen) == ("9999-01-01T00:00:00.000Z", True, 9)
        assert [each.name for each in shown.answered.missing] == ["gw-9"]


async def test_what_a_silent_gateway_may_have_is_not_said_to_be_missing() -> None:
    async with MqttDoor() as door:
        traces = PacketTraces(beside(one_gateway(door.store), {}, NO_ANSWER), door.mqtt)
        with pytest.raises(EntrepotError, match="as far as known") as refused:
            await traces.show(LINE, PacketsAsked())
        assert refused.value.code is Code.UNAVAILABLE


async def test_too_many_are_refused() -> None:
    async with MqttDoor() as door:
        traces = PacketTraces(one_gateway(door.store), door.mqtt)
        for number in range(MAX_TRACES):
            await traces.start(PlainName(str(number)), TraceBody(), asked_by())
        asked = asked_by()
        with pytest.raises(EntrepotError) as refused:
            await traces.start(LINE, TraceBody(), asked)
        assert (refused.value.code, asked.told) == (Code.TOO_MANY_REQUESTS, None)

"""What a bridge carries, which way, and under which names."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from entrepot.gateway.clock import SystemClock
from tests.e2e.bridge.conftest import bridged_process
from tests.support.gateways.bridges import await_state, bridge, remote
from tests.support.gateways.thread import GatewayThread
from tests.support.http.pull import events
from tests.support.mqtt.brokers import Amqtt, OtherBroker, Peer
from tests.support.processes.ports import ReservedPort
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import interop_only

MakeServer = Callable[..., Any]
MakeBroker = Callable[..., OtherBroker]
COUNT = 200

IN = {"direction": "in", "filter": "plant/#", "local_prefix": "here/", "remote_prefix": "there/"}
OUT = {"direction": "out", "filter": "orders/#", "local_prefix": "here/", "remote_prefix": "there/"}
BOTH = {"direction": "both", "filter": "shared/#", "local_prefix": "here/", "remote_prefix": "there/"}


@pytest.mark.parametrize("version", [5, 4])
def test_in_and_out_with_names_remapped(other_broker: MakeBroker, bridged: MakeServer, version: int) -> None:
    with other_broker() as broker, bridged(remote(broker.url, IN, OUT, version=version)) as server:
        carries_both_ways(broker, server)


@pytest.mark.interop
def test_in_and_out_with_amqtt(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with (
        Amqtt(tmp_path / "other") as broker,
        bridged_process(tmp_path, remote(broker.url, IN, OUT, version=4)) as server,
    ):
        carries_both_ways(broker, server)


def carries_both_ways(broker: OtherBroker, server: Any) -> None:
    await_state(server, "connected")
    with Peer(broker.port, "there/orders/#", version=4) as theirs, Peer(server.port("mqtt"), "here/#") as ours:
        theirs.publish_numbers("there/plant/line1", range(COUNT))
        wait_until(lambda: len(ours.messages) >= COUNT, lambda: f"in: {len(ours.messages)}")
        assert ours.payloads()[:COUNT] == [("here/plant/line1", str(n).encode()) for n in range(COUNT)]

        ours.messages.clear()
        ours.publish_numbers("here/orders/7", range(COUNT))
        wait_until(lambda: len(theirs.messages) >= COUNT, lambda: f"out: {len(theirs.messages)}")
        assert theirs.payloads() == [("there/orders/7", str(n).encode()) for n in range(COUNT)]
    wait_until(lambda: bridge(server)["sent"] == COUNT, "the last acknowledgements")
    assert bridge(server)["received"] == COUNT
    assert bridge(server)["lastError"] is None


@pytest.mark.parametrize("options", [{"version": 5}, interop_only({"version": 4, "announce_bridge": True})])
def test_nothing_goes_round_where_both_ways_share_names(
    other_broker: MakeBroker, bridged: MakeServer, options: dict[str, Any]
) -> None:
    with other_broker() as broker, bridged(remote(broker.url, BOTH, **options)) as server:
        await_state(server, "connected")
        with Peer(broker.port, "there/#") as theirs, Peer(server.port("mqtt"), "here/#") as ours:
            theirs.publish_numbers("there/shared/a", range(COUNT))
            ours.publish_numbers("here/shared/b", range(COUNT))
            wait_until(lambda: len(theirs.messages) >= 2 * COUNT, lambda: f"there: {len(theirs.messages)}")
            wait_until(lambda: len(ours.messages) >= 2 * COUNT, lambda: f"here: {len(ours.messages)}")
            # What would go round has gone round once these have come.
            theirs.publish("there/shared/a", b"-1")
            ours.publish("here/shared/b", b"-2")
            wait_until(lambda: {-1, -2} <= theirs.numbers and {-1, -2} <= ours.numbers, "the last ones")
            wait_until(lambda: bridge(server)["ignored"] == COUNT + 1, "what came in is passed over")
            assert len(theirs.messages) == len(ours.messages) == 2 * COUNT + 2
        shape = bridge(server)
        assert (shape["received"], shape["sent"]) == (COUNT + 1, COUNT + 1)


def test_properties_survive_both_ways(other_broker: MakeBroker, bridged: MakeServer) -> None:
    given = Properties(PacketTypes.PUBLISH)
    given.ContentType = "application/json"
    given.ResponseTopic = "answers/1"
    given.CorrelationData = b"\x00\x01"
    given.MessageExpiryInterval = 600
    given.PayloadFormatIndicator = 1
    given.UserProperty = [("a", "1"), ("a", "2"), ("b", "3")]
    with other_broker() as broker, bridged(remote(broker.url, IN, OUT)) as server:
        await_state(server, "connected")
        with Peer(broker.port, "there/orders/#") as theirs, Peer(server.port("mqtt"), "here/#") as ours:
            theirs.publish("there/plant/x", b"{}", properties=given)
            wait_until(lambda: ours.messages, "in")
            ours.publish("here/orders/x", b"{}", properties=given)
            wait_until(lambda: theirs.messages, "out")
            for message, extra in ((ours.messages[0], 0), (theirs.messages[0], 1)):
                found: Any = message.properties
                assert found.ContentType == "application/json"
                assert found.ResponseTopic == "answers/1"
                assert found.CorrelationData == b"\x00\x01"
                assert 590 <= found.MessageExpiryInterval <= 600
                assert found.PayloadFormatIndicator == 1
                assert found.UserProperty[:3] == [("a", "1"), ("a", "2"), ("b", "3")]
                assert len(found.UserProperty) == 3 + extra  # the mark that ends rounds


def test_retained_messages_stay_retained_from_one_remote_to_another(
    other_broker: MakeBroker, bridged: MakeServer
) -> None:
    copy = {"direction": "out", "filter": "plant/#", "local_prefix": "here/", "remote_prefix": "copy/"}
    with other_broker("a") as first, other_broker("b") as second, Peer(first.port) as theirs:
        theirs.publish("there/plant/kept", b"1", retain=True).wait_for_publish(PATIENCE_SECONDS)
        with bridged(remote(first.url, IN), remote(second.url, copy, name="new")) as server:
            wait_until(lambda: bridge(server, "new")["sent"] == 1, "the retained one")
            theirs.publish("there/plant/kept", b"2", retain=True)
            theirs.publish("there/plant/kept", b"3")
            theirs.publish("there/plant/passing", b"4")
            wait_until(lambda: bridge(server, "new")["sent"] == 4, "all")
            with Peer(second.port, "copy/#") as late:
                wait_until(lambda: late.messages, "what is retained")
                theirs.publish("there/plant/passing", b"5")
                wait_until(lambda: len(late.messages) >= 2, "what is not")
                assert late.payloads() == [("copy/plant/kept", b"2"), ("copy/plant/passing", b"5")]
                assert late.messages[0].retain


def test_what_came_over_http_goes_out_and_new_topics_are_followed(
    other_broker: MakeBroker, bridged: MakeServer
) -> None:
    everything = {"direction": "out", "filter": "#", "remote_prefix": "ours/"}
    with other_broker() as broker, bridged(remote(broker.url, everything)) as server:
        await_state(server, "connected")
        with Peer(broker.port, "ours/#") as theirs, Peer(server.port("mqtt")) as ours:
            for number in range(3):
                ours.publish(f"fresh{number}/a", str(number).encode())
            headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/me", "ce-type": "t"}
            web = urllib.request.Request(f"http://{server.address('http')}/topics/web:publish", b"9", headers)
            with urllib.request.urlopen(web, timeout=PATIENCE_SECONDS) as answer:
                assert answer.status == 200
            wait_until(lambda: len(theirs.messages) >= 4, lambda: str(theirs.payloads()))
            assert {name for name, _ in theirs.payloads()} == {
                "ours/fresh0/a",
                "ours/fresh1/a",
                "ours/fresh2/a",
                "ours/web",
            }


def test_where_a_new_rule_begins(tmp_path: Path, other_broker: MakeBroker) -> None:
    with bridged_process(tmp_path) as server, Peer(server.port("mqtt")) as ours:
        ours.publish("here/orders/1", b"1").wait_for_publish(PATIENCE_SECONDS)
        assert events(server, "here") != []
        server.stop()
    rules = [{**OUT, "remote_prefix": f"{start}/", "start": start} for start in ("earliest", "latest")]
    with (
        other_broker() as broker,
        Peer(broker.port, "earliest/#", "latest/#") as theirs,
        bridged_process(tmp_path, remote(broker.url, *rules)) as server,
    ):
        await_state(server, "connected")
        with Peer(server.port("mqtt")) as ours:
            ours.publish("here/orders/1", b"2")
            wanted = {("earliest/orders/1", b"1"), ("earliest/orders/1", b"2"), ("latest/orders/1", b"2")}
            wait_until(lambda: len(theirs.payloads()) >= len(wanted), lambda: str(theirs.payloads()))
            assert set(theirs.payloads()) == wanted


def test_two_of_us_that_bridge_to_each_other_end_the_round() -> None:
    out = {"direction": "out", "filter": "shared/#"}
    back = ReservedPort()
    with GatewayThread(
        {"bridge": {"remotes": [remote(f"mqtt://127.0.0.1:{back.number}", out, name="back")]}}, clock=SystemClock()
    ) as second:
        there = remote(f"mqtt://127.0.0.1:{second.port('mqtt')}", out, name="there")
        with GatewayThread({"bridge": {"remotes": [there]}}, clock=SystemClock(), fixed={"mqtt": back.number}) as first:
            await_state(first, "connected", "there")
            await_state(second, "connected", "back")
            with Peer(first.port("mqtt"), "shared/#") as here:
                here.publish_numbers("shared/a", range(COUNT))
                wait_until(lambda: bridge(first, "there")["ignored"] == COUNT, lambda: str(bridge(first, "there")))
                wait_until(
                    lambda: bridge(first, "there")["sent"] == bridge(second, "back")["sent"] == COUNT,
                    "all are confirmed",
                )
                wait_until(lambda: len(here.messages) == 2 * COUNT, "each comes back once")
                here.publish("shared/a", b"-1")
                wait_until(lambda: bridge(first, "there")["ignored"] == COUNT + 1, "the last one, too")
                wait_until(lambda: bridge(first, "there")["sent"] == COUNT + 1, "it is confirmed")

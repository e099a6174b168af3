"""Retained messages in etcd have a limit in bytes, at all gateways, and from their start on."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest

from entrepot.gateway.clock import SystemClock
from entrepot.protocols.mqtt.packets import Puback, Publish
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.etcd.cluster import EtcdCluster
from tests.support.http.client import http_request
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import GatewayProcess, start_all
from tests.support.rocketmq.server import RocketMqServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

MOST: Final = 20_000
BODY: Final = b"x" * 3_000


async def test_both_gateways_refuse_what_is_over_the_limit(tmp_path: Path):
    model = RocketMqServer(SystemClock())
    await model.start()
    with EtcdCluster(tmp_path) as etcd:
        gateways = [gateway_at(tmp_path, model.port, etcd, name) for name in ("one", "two")]
        try:
            await asyncio.to_thread(start_all, gateways)
            await asyncio.to_thread(limited, *gateways)
            for gateway in gateways:
                assert await asyncio.to_thread(gateway.stop) == 0
        finally:
            for gateway in gateways:
                gateway.kill()
            await model.close()


def gateway_at(directory: Path, name_server: int, etcd: EtcdCluster, name: str) -> GatewayProcess:
    settings = {
        "server.name": name,
        "rocketmq.name_servers": f'["127.0.0.1:{name_server}"]',
        "facts.url": f"etcd://{','.join(etcd.addresses)}/",
        "mqtt.max_retained_bytes": str(MOST),
    }
    return GatewayProcess(directory, [], settings, name)


def limited(one: GatewayProcess, two: GatewayProcess) -> None:
    """Fill them at one; both refuse, also right after a restart; and take again what fits."""
    taken = 0
    while published(one, f"r/{taken}", BODY) == ReasonCode.SUCCESS:
        taken += 1
    assert taken == MOST // (len(BODY) + 200), "a little more than their bodies is counted"
    wait_until(lambda: figure(two, "bytes") == figure(one, "bytes"), "the other gateway counts them, too")
    assert taken * len(BODY) < figure(one, "bytes") <= figure(one, "limit_bytes") == MOST
    assert published(two, "r/more", BODY) == ReasonCode.QUOTA_EXCEEDED
    two.kill()
    two.restart()
    assert published(two, "r/more", BODY) == ReasonCode.QUOTA_EXCEEDED, "it counts from its start on"
    with RawClient(two.port("mqtt"), version=4) as old:
        old.connect("old")
        old.say(Publish("r/more", BODY, 1, 1, True))
        assert old.read_to_end() == [], "version 3 has no code for it: the connection ends"
    assert published(two, "r/0", b"") == ReasonCode.SUCCESS, "one is deleted"
    assert published(two, "r/more", BODY) == ReasonCode.SUCCESS, "there is room again"
    with RawClient(two.port("mqtt")) as client:
        client.connect("later")
        client.subscribe("r/#")
        names = {each.topic for each in client.expect_deliveries(taken)}
    assert names == {"r/more", *(f"r/{number}" for number in range(1, taken))}


def published(gateway: GatewayProcess, name: str, body: bytes) -> int:
    """The reason code of a retained publish."""
    with RawClient(gateway.port("mqtt")) as client:
        client.connect("publisher")
        client.say(Publish(name, body, 1, 1, True))
        return client.expect(Puback).reason


def figure(gateway: GatewayProcess, name: str) -> float:
    """A gauge of retained messages."""
    text = http_request("GET", f"http://{gateway.address('http')}/metrics").text
    return float(re.findall(rf"^entrepot_mqtt_retained_{name} (\S+)$", text, re.M)[0])

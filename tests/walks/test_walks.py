"""Five ways through the code, each from the first byte to the last, as a list of the files that it goes through.

A way may get shorter, and no longer.  `ways/` shows each with one line a file: those of the main line, which a reader
follows, begin at the margin.  `ENTREPOT_WRITE_WAYS=1` writes them; `python -m tests.walks` shows them on the map.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.delivery import content_frames
from entrepot.protocols.amqp.methods_basic import BasicAck, BasicPublish
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Publish
from tests.support.amqp.machine import said
from tests.support.brokers.served_broker import ServedBroker, connect
from tests.support.clock import ManualClock
from tests.walks.recording import Way, check, common, recorded
from tests.walks.shown import MAP, shown
from tests.walks.site import RawAmqpClient, RawMqttClient, Site, asked, settings_of, turns

WARM_UP = 2
"""Rounds that make what is made once: a topic, a remembered publish."""
ROUNDS = 3
ALL = WARM_UP + ROUNDS


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    clock = ManualClock()
    broker = await Broker.open(settings_of(tmp_path / "data"), clock)
    async with Site(broker, clock).started() as made:
        yield made
    await broker.close()


@pytest.fixture
async def site_of_a_cluster(tmp_path: Path) -> AsyncIterator[Site]:
    clock = ManualClock()
    async with AsyncExitStack() as stack:
        served = await ServedBroker.open(settings_of(tmp_path / "data"), clock)
        stack.push_async_callback(served.close)
        store = await connect(served, clock=clock)
        stack.push_async_callback(store.close)
        yield await stack.enter_async_context(Site(store, clock).started())


async def walked(once: Callable[[int], Awaitable[None]]) -> Way:
    """Return the way that some rounds have in common."""
    for number in range(WARM_UP):
        await once(number)
    ways = []
    for number in range(WARM_UP, ALL):
        with recorded() as way:
            await once(number)
        ways.append(way)
    return common(ways)


async def test_a_publish_of_mqtt_to_its_puback(site: Site) -> None:
    client = RawMqttClient(site)  # type: ignore[arg-type]
    await client.connect("line-1")
    client.is_raw = True
    packets = [
        encode(Publish("factory/line1", b"21", 1, packet_id=1 + number), 5) for number in range(WARM_UP + ROUNDS)
    ]

    async def once(number: int) -> None:
        client.out = b""
        client.send(packets[number])
        await turns(lambda: client.out)

    check("mqtt_publish", await walked(once))


@pytest.fixture
async def amqp(site: Site) -> RawAmqpClient:
    client = RawAmqpClient(site)  # type: ignore[arg-type]
    await client.open()
    await client.declare("orders")
    return client


async def test_a_publish_of_amqp_to_its_confirm(site: Site, amqp: RawAmqpClient) -> None:
    await amqp.confirm()
    amqp.is_raw = True
    data = said(1, BasicPublish("", "orders", False)) + content_frames(1, ContentHeader().data, b"one", 4096)

    async def once(number: int) -> None:
        amqp.out = b""
        amqp.send(data)
        await turns(lambda: amqp.out)

    check("amqp_confirm", await walked(once))


async def test_an_acknowledgement_of_amqp_and_the_next_delivery(site: Site, amqp: RawAmqpClient) -> None:
    await amqp.fill("orders", *[b"one"] * (ALL + 1))
    await amqp.consume("orders", prefetch=1)
    await amqp.takes(1)
    amqp.is_raw, total = True, site.amqp_door.hosts.consumption.total
    acknowledgements = [said(1, BasicAck(1 + number, False)) for number in range(ALL)]

    async def once(number: int) -> None:
        settled, amqp.out = total.acknowledged, b""
        amqp.send(acknowledgements[number])
        await turns(lambda: amqp.out and total.acknowledged > settled)

    check("amqp_delivery", await walked(once))


async def pulls(site: Site) -> Way:
    app, events = (
        site.http.app.asgi,
        [{"specversion": "1.0", "id": str(number), "type": "t", "source": "/s", "data": 1} for number in range(9)],
    )
    path = "/topics/orders/eventsubscriptions/billing:receive?maxEvents=1&maxWaitTime=0"
    await asked(app, "POST", path)
    await asked(
        app, "POST", "/topics/orders:publish", json.dumps(events).encode(), b"application/cloudevents-batch+json"
    )

    async def once(number: int) -> None:
        assert len(json.loads(await asked(app, "POST", path))["value"]) == 1

    return await walked(once)


async def test_a_pull_of_http(site: Site) -> None:
    check("http_pull", await pulls(site))


async def test_a_pull_of_http_over_the_wire(site_of_a_cluster: Site) -> None:
    check("http_pull_over_the_wire", await pulls(site_of_a_cluster))


def test_the_map_shows_the_ways() -> None:
    assert shown() in MAP.read_text(), "python -m tests.walks writes it anew"

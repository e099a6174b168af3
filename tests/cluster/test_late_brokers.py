"""A site that begins anew while one broker takes longer than the others: sessions lose nothing of what it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.protocols.mqtt.packets import Connack, Connect
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.doors.load import door
from tests.support.mqtt.session_client import EXPIRY_SECONDS, SessionClient
from tests.support.processes.deployment import ClusterProcesses, start_all
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

NAMES = [f"t/{number}" for number in range(16)]


def publish(port: int, word: str) -> set[bytes]:
    """One message of each name, confirmed."""
    bodies = {f"{word} {name}".encode() for name in NAMES}
    with SessionClient(port, "publisher") as client:
        client.open(clean=True, expiry=0)
        for body in sorted(bodies):
            assert client.publish(body.decode().partition(" ")[2], body).reason == ReasonCode.SUCCESS
    return bodies


def answer(port: int, client_id: str) -> int:
    with SessionClient(port, client_id) as client:
        properties = {PropertyId.SESSION_EXPIRY_INTERVAL: EXPIRY_SECONDS}
        client.say(Connect(client_id, 5, False, properties=properties))
        return client.expect(Connack).reason


@pytest.mark.soak
@pytest.mark.xdist_group("cluster")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_in_flight", [False, True])
def test_a_session_waits_for_the_broker_that_is_late(tmp_path: Path, is_in_flight: bool) -> None:
    with ClusterProcesses(tmp_path) as cluster:
        port = cluster.port("mqtt")
        with SessionClient(port, "back") as client:
            client.open()
            client.subscribe("t/#", qos=1)
            sent = publish(port, "live")
            if is_in_flight:
                assert {each.payload for each in client.expect_deliveries(len(NAMES))} == sent  # none is acknowledged
            else:
                assert set(client.take(len(NAMES))) == sent
                sent = set()
        sent |= publish(port, "away")
        with door(cluster.gateways[0]) as http:
            brokers = http.get("/api/v1/brokers").json()["value"]
        [keeper] = [broker for broker in cluster.brokers for each in brokers if is_keeper(each, broker.broker_name)]
        [late] = [broker for broker in cluster.brokers if broker is not keeper]
        cluster.kill()
        start_all(cluster.name_servers)
        start_all([keeper])
        start_all(cluster.gateways)
        port = cluster.port("mqtt")
        if is_in_flight:
            assert answer(port, "back") == ReasonCode.SERVER_UNAVAILABLE, "what is in flight is not given up"
            start_all([late])
            wait_until(lambda: answer(port, "back") == ReasonCode.SUCCESS, "it may come")
        with SessionClient(port, "back") as client:
            assert client.open().session_present
            found: set[bytes] = set()
            if not is_in_flight:
                found |= set(client.take_what_is_there())
                start_all([late])
            while found != sent:
                try:
                    found |= set(client.take_what_is_there())
                except TimeoutError:
                    raise AssertionError(f"never came: {sorted(sent - found)}") from None
                assert found <= sent
    tell("a broker that comes late", messages=len(sent), lost=len(sent - found), faults=1)


def is_keeper(found: dict[str, object], name: str) -> bool:
    return found["name"] == name and bool(found["keepsKeyValues"])

"""Each limit of admission, exceeded at a real server while somebody else goes on as before."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from protocols.mqtt.encoder import encode
from protocols.mqtt.packets import Connack, Connect, Disconnect, Puback, Publish, Will
from protocols.mqtt.properties import PropertyId
from protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode
from tests.support.http_pull import http_json, mqtt_connections
from tests.support.mqtt_client import RawClient
from tests.support.server import ServerProcess
from tests.support.waiting import wait_until


@contextmanager
def limited(tmp_path: Path, **limits: object) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, {f"mqtt.{name}": str(value) for name, value in limits.items()}) as server:
        yield server
        assert server.stop() == 0
        assert "Traceback" not in server.log_text(), server.log_text()


@contextmanager
def other(server: ServerProcess, **credentials: object) -> Iterator[RawClient]:
    """Somebody who connected before, and whose messages come through before and after."""
    with RawClient(server.port("mqtt")) as client:
        client.connect("other", **credentials)
        client.subscribe("other/#")
        for body in (b"before", b"after"):
            assert client.publish("other/x", body).reason == ReasonCode.SUCCESS
            assert [delivery.payload for delivery in client.expect_deliveries(1)] == [body]
            if body == b"before":
                yield client


LAST_ID = 60_000


def answers_so_far(client: RawClient) -> set[int]:
    """The packet identifiers of what has been answered, without waiting for more."""
    with suppress(BlockingIOError):
        while True:
            assert client.read(timeout=0), "closed"
    return {packet.packet_id for packet in client._waiting if isinstance(packet, Puback)}


def flood(client: RawClient, count: int, size: int = 1, qos: int = 1) -> None:
    packets = (
        encode(Publish("flood/x", b"x" * size, qos, number + 1 if qos else 0), client.version)
        for number in range(count)
    )
    client.send(b"".join(packets))


@pytest.mark.parametrize(
    ("limit", "size"),
    [({"max_publishes_per_second_per_client": 50}, 1), ({"max_publish_bytes_per_second_per_client": 5000}, 100)],
)
@pytest.mark.parametrize("version", [4, 5])
def test_a_client_is_read_no_faster_than_its_rate(
    tmp_path: Path, limit: dict[str, int], size: int, version: int
) -> None:
    """A burst of a second is free; what is beyond it is waited for, and nothing is lost."""
    with limited(tmp_path, **limit) as server, other(server), RawClient(server.port("mqtt"), version) as client:
        client.connect("fast")
        started = time.monotonic()
        for _ in range(4):  # a read each
            flood(client, 25, size)
            for _ in range(25):
                client.expect(object)
        assert time.monotonic() - started > 0.4  # 100 at 50 a second, with 50 saved up, but for the last read
        flood(client, 900, size)  # 18 s of it
        client.expect(object)
        client.say(Publish("flood/x", b"last", 1, LAST_ID))
        with RawClient(server.port("mqtt")) as second:
            second.connect("second")
            assert second.publish("flood/y").reason == ReasonCode.SUCCESS
        assert LAST_ID not in answers_so_far(client)


def test_qos_0_is_slowed_like_the_rest(tmp_path: Path) -> None:
    with (
        limited(tmp_path, max_publishes_per_second_per_client=50) as server,
        other(server),
        RawClient(server.port("mqtt")) as client,
    ):
        client.connect("fast")
        started = time.monotonic()
        flood(client, 75, qos=0)
        client.publish("flood/x")  # behind them
        client.publish("flood/x")
        assert time.monotonic() - started > 0.3


@pytest.mark.parametrize("version", [4, 5])
def test_who_is_far_beyond_the_rate_is_disconnected(tmp_path: Path, version: int) -> None:
    with limited(tmp_path, max_publishes_per_second_per_client=5, publish_patience_seconds=1) as server, other(server):
        with RawClient(server.port("mqtt"), version) as client:
            client.connect("flood")
            flood(client, 500, qos=0)
            said = client.read_to_end()
        expected = [ReasonCode.MESSAGE_RATE_TOO_HIGH] if version == 5 else []
        assert [packet.reason for packet in said if isinstance(packet, Disconnect)] == expected


def test_connections_of_a_user_share_its_rate_and_are_counted(tmp_path: Path) -> None:
    limits = {"max_publishes_per_second_per_user": 20, "max_connections_per_user": 2}
    with limited(tmp_path, **limits) as server, ExitStack() as stack:
        http_json(server, "PUT", "/api/v1/users/ann", {"password": "secret-of-ann", "super": True})
        administrator = base64.b64encode(b"ann:secret-of-ann").decode()
        http_json(
            server,
            "PUT",
            "/api/v1/users/bob",
            {"password": "secret-of-bob", "super": True},
            {"authorization": f"Basic {administrator}"},
        )
        stack.enter_context(other(server, username="bob", password=b"secret-of-bob"))

        def come(client_id: str, version: int = 5) -> tuple[RawClient, Connack]:
            client = stack.enter_context(RawClient(server.port("mqtt"), version))
            return client, client.connect(client_id, username="ann", password=b"secret-of-ann")

        (first, accepted), (second, _) = come("first"), come("second")
        assert accepted.reason == ReasonCode.SUCCESS
        started = time.monotonic()
        flood(first, 20)
        for _ in range(20):
            first.expect(object)
        for _ in range(3):
            flood(second, 5)
            for _ in range(5):
                second.expect(object)
        assert time.monotonic() - started > 0.4  # 35 at 20 a second, with 20 saved up, but for the last read

        assert come("third")[1].reason == ReasonCode.QUOTA_EXCEEDED
        assert come("third", 4)[1].reason == ConnectReturnCode.SERVER_UNAVAILABLE
        assert come("second")[1].reason == ReasonCode.SUCCESS  # takes over its own place
        first.say(Disconnect())
        first.read_to_end()
        wait_until(lambda: come("third")[1].reason == ReasonCode.SUCCESS, "there is room again")


def test_sessions_that_are_kept_are_limited_and_others_are_not(tmp_path: Path) -> None:
    with limited(tmp_path, max_sessions=3) as server, other(server):

        def come(client_id: str, expiry: int) -> ReasonCode | ConnectReturnCode:
            with RawClient(server.port("mqtt")) as client:
                return client.connect(client_id, properties={PropertyId.SESSION_EXPIRY_INTERVAL: expiry}).reason

        assert [come(f"kept-{n}", 100) for n in range(4)] == [*[ReasonCode.SUCCESS] * 3, ReasonCode.QUOTA_EXCEEDED]
        assert come("kept-1", 100) == ReasonCode.SUCCESS
        assert come("fleeting", 0) == ReasonCode.SUCCESS


@pytest.mark.parametrize("version", [4, 5])
def test_connects_too_fast_are_refused(tmp_path: Path, version: int) -> None:
    with limited(tmp_path, max_connects_per_second=5) as server, other(server), ExitStack() as stack:
        answers = []
        for number in range(30):
            client = stack.enter_context(RawClient(server.port("mqtt"), version))
            client.say(Connect(f"many-{number}", version))
            answers.append(client)
        reasons = [client.expect(Connack).reason for client in answers]
        busy = ReasonCode.CONNECTION_RATE_EXCEEDED if version == 5 else ConnectReturnCode.SERVER_UNAVAILABLE
        assert set(reasons) == {0, busy}
        assert reasons.count(busy) >= 15

        def comes() -> bool:
            with RawClient(server.port("mqtt"), version) as client:
                return client.connect("later").reason == 0

        wait_until(comes, "the rate is kept again")


def test_a_client_that_comes_and_goes_is_banned_for_a_while(tmp_path: Path) -> None:
    with limited(tmp_path, max_connects_per_client=3, client_ban_seconds=1) as server, other(server):

        def come(client_id: str) -> ReasonCode | ConnectReturnCode:
            with RawClient(server.port("mqtt")) as client:
                return client.connect(client_id).reason

        assert [come("flaps") for _ in range(5)] == [
            *[ReasonCode.SUCCESS] * 3,
            *[ReasonCode.CONNECTION_RATE_EXCEEDED] * 2,
        ]
        assert come("steady") == ReasonCode.SUCCESS
        wait_until(lambda: come("flaps") == ReasonCode.SUCCESS, "the ban is over")


def test_levels_of_names_filters_and_wills(tmp_path: Path) -> None:
    with limited(tmp_path, max_topic_levels=3) as server, other(server):
        with RawClient(server.port("mqtt")) as client:
            client.connect("deep")
            invalid = ReasonCode.TOPIC_FILTER_INVALID
            assert client.subscribe("a/b/c", "a/b/c/d", "+/+/+/+", "$share/g/a/b/c", "$share/g/a/b/c/d").reasons == [
                1, invalid, invalid, 1, invalid
            ]  # fmt: skip
            assert client.publish("x/b/c").reason == ReasonCode.SUCCESS
            assert client.publish("x/b/c/d").reason == ReasonCode.TOPIC_NAME_INVALID
            client.say(Publish("x/b/c/d", b"dropped"))
            assert client.publish("x/b/c").reason == ReasonCode.SUCCESS
        with RawClient(server.port("mqtt")) as client:
            will = Will("a/b/c/d", b"x")
            assert client.connect("deep-will", will=will).reason == ReasonCode.TOPIC_NAME_INVALID


def test_connections_of_the_gateway(tmp_path: Path) -> None:
    with limited(tmp_path, max_connections=3) as server, other(server), ExitStack() as stack:
        reasons = []
        for number in range(4):
            client = stack.enter_context(RawClient(server.port("mqtt")))
            reasons.append(client.connect(f"many-{number}").reason)
        assert reasons == [*[ReasonCode.SUCCESS] * 2, *[ReasonCode.QUOTA_EXCEEDED] * 2]
        wait_until(lambda: mqtt_connections(server) == 3, "the refused are gone")

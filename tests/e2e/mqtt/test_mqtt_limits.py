"""Each limit of admission, exceeded at a real server while somebody else goes on as before."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from entrepot.domain.routing.topic_filter import MAX_LEVELS
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.gateways.thread import GatewayThread
from tests.support.http.pull import http_json, mqtt_connections
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import soak_only

Limited = Callable[..., AbstractContextManager[Any]]


@pytest.fixture(params=["in a thread", soak_only("serve")])
def limited(request: pytest.FixtureRequest, tmp_path: Path) -> Limited:
    """Makes a server with limits of its MQTT door, and a super user where `root` is given: its password."""

    @contextmanager
    def made(root: str = "", **limits: object) -> Iterator[Any]:
        settings = {"mqtt": limits}
        if root:
            settings["security"] = {
                "initial_admin": "ann",
                "initial_admin_password": root,
                **CHEAP_HASHES,
            }
        flat = {f"{part}.{name}": str(value) for part, named in settings.items() for name, value in named.items()}
        with GatewayThread(settings) if request.param == "in a thread" else ServerProcess(tmp_path, flat) as server:
            yield server
            assert server.stop() == 0
            assert "Traceback" not in server.log_text(), server.log_text()

    return made


@contextmanager
def other(server: Any, **credentials: object) -> Iterator[RawClient]:
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
    ids=["messages", "bytes"],
)
@pytest.mark.parametrize("version", [soak_only(4), 5])
def test_a_client_is_read_no_faster_than_its_rate(
    limited: Limited, limit: dict[str, int], size: int, version: int
) -> None:
    """A burst of a second is free; what is beyond it is waited for, and nothing is lost."""
    with limited(**limit) as server, other(server), RawClient(server.port("mqtt"), version) as client:
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


def test_qos_0_is_slowed_like_the_rest(limited: Limited) -> None:
    with (
        limited(max_publishes_per_second_per_client=50) as server,
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
def test_who_is_far_beyond_the_rate_is_disconnected(limited: Limited, version: int) -> None:
    with limited(max_publishes_per_second_per_client=5, publish_patience_seconds=1) as server, other(server):
        with RawClient(server.port("mqtt"), version) as client:
            client.connect("flood")
            flood(client, 500, qos=0)
            said = client.read_to_end()
        expected = [ReasonCode.MESSAGE_RATE_TOO_HIGH] if version == 5 else []
        assert [packet.reason for packet in said if isinstance(packet, Disconnect)] == expected


def test_connections_of_a_user_share_its_rate_and_are_counted(limited: Limited) -> None:
    limits = {"max_publishes_per_second_per_user": 20, "max_connections_per_user": 2}
    with limited(root="secret-of-ann", **limits) as server, ExitStack() as stack:
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


def test_sessions_that_are_kept_are_limited_and_others_are_not(limited: Limited) -> None:
    with limited(max_sessions=3) as server, other(server):

        def come(client_id: str, expiry: int) -> ReasonCode | ConnectReturnCode:
            with RawClient(server.port("mqtt")) as client:
                return client.connect(client_id, properties={PropertyId.SESSION_EXPIRY_INTERVAL: expiry}).reason

        assert [come(f"kept-{n}", 100) for n in range(4)] == [*[ReasonCode.SUCCESS] * 3, ReasonCode.QUOTA_EXCEEDED]
        assert come("kept-1", 100) == ReasonCode.SUCCESS
        assert come("fleeting", 0) == ReasonCode.SUCCESS


@pytest.mark.parametrize("version", [4, 5])
def test_connects_too_fast_are_refused(limited: Limited, version: int) -> None:
    with limited(max_connects_per_second=1) as server, other(server), ExitStack() as stack:
        answers = []
        for number in range(30):
            client = stack.enter_context(RawClient(server.port("mqtt"), version))
            client.say(Connect(f"many-{number}", version))
            answers.append(client)
        reasons = [client.expect(Connack).reason for client in answers]
        busy = ReasonCode.CONNECTION_RATE_EXCEEDED if version == 5 else ConnectReturnCode.SERVER_UNAVAILABLE
        assert {busy} <= set(reasons) <= {0, busy}
        assert reasons.count(busy) >= 15

        def comes() -> bool:
            with RawClient(server.port("mqtt"), version) as client:
                return client.connect("later").reason == 0

        wait_until(comes, "the rate is kept again")


@pytest.mark.parametrize("ban_seconds", [1000, soak_only(5)])
def test_a_client_that_comes_and_goes_is_banned_for_a_while(limited: Limited, ban_seconds: int) -> None:
    """The length, with the time passed in, is in `tests/unit/gateway/test_limits.py`."""
    with limited(max_connects_per_client=3, client_ban_seconds=ban_seconds) as server, other(server):

        def come(client_id: str) -> ReasonCode | ConnectReturnCode:
            with RawClient(server.port("mqtt")) as client:
                return client.connect(client_id).reason

        assert [come("flaps") for _ in range(5)] == [
            *[ReasonCode.SUCCESS] * 3,
            *[ReasonCode.CONNECTION_RATE_EXCEEDED] * 2,
        ]
        assert come("steady") == ReasonCode.SUCCESS
        if ban_seconds < PATIENCE_SECONDS:
            wait_until(lambda: come("flaps") == ReasonCode.SUCCESS, "the ban is over")


def test_levels_of_names_filters_and_wills(limited: Limited) -> None:
    with limited(max_topic_levels=3) as server, other(server):
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


def test_as_many_levels_as_there_may_be(limited: Limited) -> None:
    """Every way of a message takes a name of 200 levels; one more is no name, and by default 128 are the most."""
    name = "/".join(["d"] * MAX_LEVELS)
    wild, half = "/".join(["+"] * MAX_LEVELS), "/".join(["+"] * 100 + ["d"] * 99 + ["#"])
    with limited(max_topic_levels=MAX_LEVELS) as server:
        with RawClient(server.port("mqtt")) as client, RawClient(server.port("mqtt")) as member:
            member.connect("deep-member")
            assert member.subscribe(f"$share/deep/{half}").reasons == [1]
            client.connect("deep", properties={PropertyId.SESSION_EXPIRY_INTERVAL: 600})
            assert client.subscribe(name, wild, half, f"$replay/earliest/{name}").reasons == [1] * 4
            client.say(Publish(name, b"x", 1, 1, True))
            assert {each.payload for each in client.expect_deliveries(2)} == {b"x"}
            assert [each.payload for each in member.expect_deliveries(1)] == [b"x"]
            client.say(Subscribe(2, [Subscription(wild)]))
            assert [each.retain for each in client.expect_deliveries(1)] == [True]
            client.say(Publish(f"{name}/d", b"x", 1, 1))
            assert [each.reason for each in client.read_to_end() if isinstance(each, Disconnect)] == [
                ReasonCode.TOPIC_NAME_INVALID
            ]
        with RawClient(server.port("mqtt")) as again:
            again.say(Connect("deep", clean_start=False))
            assert again.expect(Connack).session_present
            assert again.publish(name, b"again").reason == ReasonCode.SUCCESS
            assert [each.payload for each in again.expect_deliveries(1)] == [b"again"]
    with limited() as server, RawClient(server.port("mqtt")) as client:
        client.connect("deep")
        assert client.publish("/".join("d" * 128)).reason == ReasonCode.SUCCESS
        assert client.publish("/".join("d" * 129)).reason == ReasonCode.TOPIC_NAME_INVALID
        assert client.subscribe(name).reasons == [ReasonCode.TOPIC_FILTER_INVALID]


def test_whether_anybody_is_subscribed(limited: Limited) -> None:
    """3.4.2.1, 3.5.2.1: connections, sessions that are away and shared subscriptions count; version 3 has no word."""
    nobody, somebody = ReasonCode.NO_MATCHING_SUBSCRIBERS, ReasonCode.SUCCESS
    with limited(tells_no_subscribers=True) as server, other(server):
        with RawClient(server.port("mqtt")) as client, RawClient(server.port("mqtt"), 4) as four:
            client.connect("asks")
            client.subscribe("here/#")
            four.connect("asks-in-3.1.1")
            assert four.publish("n/x").reason == somebody
            client.say(*[Publish(name, b"x", 1, at) for at, name in enumerate(("n/x", "here/x", "n/x"), 1)])
            assert [client.expect(Puback) for _ in range(3)] == [
                Puback(1, nobody),
                Puback(2, somebody),
                Puback(3, nobody),
            ]
            client.say(Publish("n/x", b"x", 2, 4), Publish("here/x", b"x", 2, 5))
            assert [client.expect(Pubrec) for _ in range(2)] == [Pubrec(4, nobody), Pubrec(5, somebody)]
            client.say(Pubrel(4), Pubrel(5))
            assert [client.expect(Pubcomp) for _ in range(2)] == [Pubcomp(4), Pubcomp(5)]
        with RawClient(server.port("mqtt")) as client:

            def comes_to(name: str, reason: ReasonCode) -> None:
                wait_until(lambda: client.publish(name).reason == reason, f"{name} is {reason.name}")

            client.connect("asks")
            with RawClient(server.port("mqtt"), 4) as away:
                away.connect("away", clean_start=False)
                away.subscribe("s/+", "$share/g/shared/#")
                assert client.publish("s/1").reason == client.publish("shared/1").reason == somebody
            comes_to("s/1", somebody)
            comes_to("shared/1", somebody)
            with RawClient(server.port("mqtt"), 4) as away:
                away.connect("away", clean_start=True)
                away.subscribe("$share/g/shared/+")
                comes_to("s/1", nobody)
                assert client.publish("shared/1").reason == somebody
                away.say(Unsubscribe(2, ["$share/g/shared/+"]))
                comes_to("shared/1", nobody)


def test_connections_of_the_gateway(limited: Limited) -> None:
    with limited(max_connections=3) as server, other(server), ExitStack() as stack:
        reasons = []
        for number in range(4):
            client = stack.enter_context(RawClient(server.port("mqtt")))
            reasons.append(client.connect(f"many-{number}").reason)
        assert reasons == [*[ReasonCode.SUCCESS] * 2, *[ReasonCode.QUOTA_EXCEEDED] * 2]
        wait_until(lambda: mqtt_connections(server) == 3, "the refused are gone")

"""What operators see and do over HTTP: clients, sessions, subscriptions, slow subscribers, traces; of two gateways."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from entrepot.gateway.cli.app import run
from entrepot.protocols.mqtt.packets import Connack, Connect, Disconnect, Will
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.cases import cases
from tests.support.http.pull import http_json
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import ClusterProcesses, Deploy, Deployment
from tests.support.waiting import PATIENCE_SECONDS, wait_until

API = "/api/v1"
LASTS = {PropertyId.SESSION_EXPIRY_INTERVAL: 1000}


@pytest.fixture(scope="module")
def watched(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    limits = {"mqtt.max_queued_messages": "10", "mqtt.max_inflight_messages": "5"}
    with deploy(tmp_path_factory.mktemp("operators"), limits) as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log_text(), running.log_text()


def get(server: Deployment, path: str) -> dict:
    return http_json(server, "GET", f"{API}{path}")


def status(server: Deployment, method: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", int(server.port("http")), timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, f"{API}{path}")
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_client_is_shown_as_it_is(watched: Deployment) -> None:
    with RawClient(watched.port("mqtt")) as client, RawClient(watched.port("mqtt"), 4) as old:
        client.connect("shown/1", keep_alive=30, properties=LASTS)
        client.subscribe("shown/#", "shown/+")
        client.publish("shown/x", b"12345")
        client.expect_deliveries(1)
        wait_until(lambda: get(watched, "/clients/shown%2F1")["inFlight"] == 0, "it is acknowledged")
        old.connect("shown/2")
        told = get(watched, "/clients/shown%2F1")
        assert told.pop("connectedSince").startswith("20")
        assert told.pop("address") == "{}:{}".format(*client.socket.getsockname())
        assert told.pop("bytesIn") > 50
        assert told.pop("bytesOut") > 20
        assert told.pop("answered") == {"asked": 1, "answered": 1, "missing": []}
        subscribed, session = told.pop("subscribedTo"), told.pop("session")
        assert [each["filter"] for each in subscribed] == ["shown/#", "shown/+"]
        assert (session["continued"], session["isDurable"], session["receiveMaximum"]) == (False, True, 5)
        assert (told.pop("will"), told.pop("inFlightMessages"), told.pop("halfReceived")) == (None, [], [])
        assert (told.pop("facts"), told.pop("isTraced")) == ([], False)
        assert told.pop("lastPacketSeconds") < 60
        assert told.pop("lastRefusal") is None
        assert told.pop("output")["isReadingPaused"] is False
        gateway = told.pop("gateway")
        assert told == {
            "id": "shown/1", "user": None, "version": "5", "listener": "mqtt", "tls": False, "keepAlive": 30,
            "cleanStart": True, "sessionExpiry": 1000, "subscriptions": 2, "inFlight": 0, "queued": 0, "lagging": 0,
            "dropped": 0, "refused": 0, "messagesIn": 1, "messagesOut": 1,
        }  # fmt: skip
        listed = get(watched, "/clients?prefix=shown/&limit=1")
        assert [(each["id"], each["gateway"]) for each in listed["value"]] == [("shown/1", gateway)]
        rest = get(watched, f"/clients?prefix=shown/&limit=1&after={quote(listed['next'])}")
        assert [(each["id"], each["version"]) for each in rest["value"]] == [("shown/2", "3.1.1")]
        assert rest["next"] is None
        assert get(watched, "/clients?user=nobody")["value"] == []
        assert [each["id"] for each in get(watched, "/clients?contains=wn/2")["value"]] == ["shown/2"]
        here = get(watched, "/clients?prefix=shown/&gateway=here")
        assert [each["id"] for each in here["value"]] == ["shown/1", "shown/2"]
        assert status(watched, "GET", "/clients?gateway=nobody") == 400
        assert status(watched, "GET", "/clients/absent") == 404


def test_subscriptions_by_client_and_filter(watched: Deployment) -> None:
    with RawClient(watched.port("mqtt")) as one, RawClient(watched.port("mqtt")) as two:
        one.connect("subs-1")
        two.connect("subs-2")
        one.subscribe("subs/a", "subs/b", qos=0)
        two.subscribe("subs/a")
        by_client = get(watched, "/subscriptions?client=subs-1")
        assert [(each["filter"], each["qos"]) for each in by_client["value"]] == [("subs/a", 0), ("subs/b", 0)]
        by_filter = get(watched, "/subscriptions?filter=subs/a")
        assert [(each["client"], each["qos"]) for each in by_filter["value"]] == [("subs-1", 0), ("subs-2", 1)]
        first = get(watched, "/subscriptions?filter=subs/a&limit=1")
        assert [each["client"] for each in first["value"]] == ["subs-1"]
        rest = get(watched, f"/subscriptions?filter=subs/a&limit=1&after={first['next']}")
        assert ([each["client"] for each in rest["value"]], rest["next"]) == (["subs-2"], None)
        pages, after = [], ""
        while after is not None:
            page = get(watched, f"/subscriptions?limit=1&after={after}")
            pages += [(each["client"], each["filter"]) for each in page["value"]]
            after = page["next"]
        assert pages == [("subs-1", "subs/a"), ("subs-1", "subs/b"), ("subs-2", "subs/a")]
        assert status(watched, "GET", "/subscriptions?after=%C3%A9") == 400


@cases("version", [4, 5])
def test_kicking(watched: Deployment, version: int) -> None:
    """0x98 in version 5; the will goes out, the session stays."""
    with RawClient(watched.port("mqtt")) as other, RawClient(watched.port("mqtt"), version) as client:
        other.connect("kick-other")
        other.subscribe("kick/will")
        client.connect(
            "kicked", clean_start=False, will=Will("kick/will", b"gone", 1), properties=LASTS if version == 5 else {}
        )
        assert status(watched, "DELETE", "/clients/kicked") == 204
        said = [packet.reason for packet in client.read_to_end() if isinstance(packet, Disconnect)]
        assert said == ([ReasonCode.ADMINISTRATIVE_ACTION] if version == 5 else [])
        assert [delivery.payload for delivery in other.expect_deliveries(1)] == [b"gone"]
        wait_until(lambda: not get(watched, "/sessions/kicked")["connected"], "it is away")
        assert status(watched, "DELETE", "/clients/kicked") == 404
        assert status(watched, "DELETE", "/sessions/kicked") == 204


def test_sessions_are_shown_and_ended(watched: Deployment) -> None:
    port = watched.port("mqtt")
    with RawClient(port) as client:
        client.connect("session-1", properties=LASTS)
        client.subscribe("sessions/#")
        client.say(Disconnect())
        client.read_to_end()
    wait_until(lambda: not get(watched, "/sessions/session-1")["connected"], "it is away")
    with RawClient(port) as stays:
        stays.connect("session-2", properties=LASTS, will=Will("sessions/will", b"x"))
        first = get(watched, "/sessions?prefix=session-&limit=1")
        assert [(each["id"], each["connected"]) for each in first["value"]] == [("session-1", False)]
        assert first["value"][0]["expiresAt"] is not None
        rest = get(watched, f"/sessions?prefix=session-&limit=5&after={quote(first['next'])}")
        assert [(each["id"], each["connected"], each["will"]) for each in rest["value"]] == [
            ("session-2", True, "sessions/will")
        ]
        for connected, expected in (("false", "session-1"), ("true", "session-2")):
            some = get(watched, f"/sessions?prefix=session-&connected={connected}")
            assert [each["id"] for each in some["value"]] == [expected]
        assert get(watched, "/sessions/session-1")["subscriptions"][0]["filter"] == "sessions/#"
        assert status(watched, "DELETE", "/sessions/session-1") == 204
        assert status(watched, "GET", "/sessions/session-1") == 404
        assert status(watched, "DELETE", "/sessions/session-1") == 404
        assert status(watched, "DELETE", "/sessions/session-2") == 204
        stays.read_to_end()
        wait_until(lambda: status(watched, "GET", "/sessions/session-2") == 404, "it has ended")
    for client_id in ("session-1", "session-2"):
        with RawClient(port) as again:
            assert not again.connect(client_id, clean_start=False, properties=LASTS).session_present


def test_slow_subscribers_come_first_by_how_far_they_are_behind(watched: Deployment) -> None:
    port = watched.port("mqtt")
    with RawClient(port, acknowledges=False) as slow, RawClient(port) as quick, RawClient(port) as publisher:
        slow.connect("slow-one")
        quick.connect("slow-quick")
        publisher.connect("slow-publisher")
        for client in (slow, quick):
            client.subscribe("behind/#")
        for number in range(40):
            publisher.publish("behind/x", str(number).encode())
        quick.expect_deliveries(40)

        def found() -> dict[str, dict]:
            return {each["id"]: each for each in get(watched, "/slow-subscribers")["value"]}

        wait_until(lambda: found().get("slow-one", {}).get("behind", 0) >= 25, "it is behind")
        told = found()["slow-one"]
        assert (told["inFlight"], told["queued"], told["behind"]) == (5, 10, 25)
        assert get(watched, "/slow-subscribers?limit=1")["value"][0]["id"] == "slow-one"
        assert "slow-quick" not in found()


def test_why_a_client_gets_no_more(watched: Deployment) -> None:
    """Its window is full, and more waits in memory and in the log; what is in flight is named."""
    port = watched.port("mqtt")
    with RawClient(port, acknowledges=False) as stuck, RawClient(port) as publisher:
        stuck.connect("why/stuck", properties=LASTS, will=Will("why/will", b"secret-body", 1, retain=True))
        stuck.subscribe("why/+")
        publisher.connect("why-publisher")
        for number in range(30):
            publisher.publish(f"why/{number}", b"x")

        def detail() -> dict:
            return get(watched, "/clients/why%2Fstuck")

        wait_until(lambda: len(detail()["inFlightMessages"]) == 5 and detail()["queued"] == 10, "it is full")
        told = detail()
        assert {each["kind"] for each in told["facts"]} >= {"window-full", "queue-full", "behind"}
        assert all(each["isTrouble"] for each in told["facts"])
        assert [each["name"] for each in told["inFlightMessages"]] == [f"why/{number}" for number in range(5)]
        first = told["inFlightMessages"][0]
        assert (first["qos"], first["waitsFor"], first["topic"]) == (1, "PUBACK or PUBREC is due", "why")
        assert first["offset"].isdecimal()
        assert 0 <= first["ageSeconds"] < 600
        assert told["will"] == {"topic": "why/will", "qos": 1, "retain": True, "size": 11, "delaySeconds": 0}
        assert told["output"]["queuedBytes"] > 0
        assert "secret-body" not in str(told)


def test_why_a_client_does_not_send_and_what_became_of_it(watched: Deployment) -> None:
    with RawClient(watched.port("mqtt")) as client:
        client.connect("denied-1")
        reasons = {client.publish("$SYS/mine").reason for _ in range(3)}
        assert reasons == {ReasonCode.NOT_AUTHORIZED} or reasons == {ReasonCode.TOPIC_NAME_INVALID}
        shown = get(watched, "/clients/denied-1")
        assert (shown["refused"], shown["lastRefusal"]["text"][:10]) == (3, "$SYS/mine:")
        assert shown["lastRefusal"]["reason"] in {each.name for each in reasons}
        facts = {each["kind"]: each for each in shown["facts"]}
        assert "3 times: $SYS/mine" in facts["denied"]["text"]
        assert (facts["no-subscription"]["isTrouble"], facts["denied"]["isTrouble"]) == (False, True)
        client.say(Disconnect())
        client.read_to_end()
    wait_until(lambda: status(watched, "GET", "/clients/denied-1") == 404, "it is away")
    events = get(watched, "/clients/denied-1/events")["value"]
    assert [(each["event"], each["count"]) for each in events] == [
        ("disconnected", 1), ("denied", 3), ("connected", 1),
    ]  # fmt: skip
    assert events[0]["reason"] == "NORMAL_DISCONNECTION"
    assert events[2]["version"] == "5"
    with RawClient(watched.port("mqtt")) as refused:
        refused.say(Connect("refused-1", 5, properties={PropertyId.AUTHENTICATION_METHOD: "none"}))
        assert refused.expect(Connack).reason == ReasonCode.BAD_AUTHENTICATION_METHOD
    [event] = get(watched, "/clients/refused-1/events")["value"]
    assert (event["event"], event["reason"]) == ("refused", "BAD_AUTHENTICATION_METHOD")


def test_a_trace_has_the_packets_of_its_client_alone(watched: Deployment) -> None:
    port = watched.port("mqtt")
    http_json(watched, "PUT", f"{API}/traces/traced", {"seconds": 60})
    with RawClient(port) as client, RawClient(port) as other:
        client.connect("traced", username="me", password=b"secret-word")
        other.connect("not-traced")
        client.subscribe("traced/#")
        other.publish("traced/x", b"hidden-body")
        client.expect_deliveries(1)
        wait_until(lambda: len(get(watched, "/traces/traced")["packets"]) >= 6, "all are there")
        told = get(watched, "/traces/traced")
        assert [(each["direction"], each["type"]) for each in told["packets"]] == [
            ("in", "CONNECT"), ("out", "CONNACK"), ("in", "SUBSCRIBE"), ("out", "SUBACK"),
            ("out", "PUBLISH"), ("in", "PUBACK"),
        ]  # fmt: skip
        assert {each["client"] for each in told["packets"][1:]} == {"traced"}
        publish = told["packets"][4]
        assert (publish["topic"], publish["qos"], publish["size"]) == ("traced/x", 1, 11)
        assert "secret-word" not in str(told)
        assert "hidden-body" not in str(told)
        http_json(watched, "PUT", f"{API}/traces/traced", {"seconds": 60, "payloads": True})
        other.publish("traced/x", b"shown-body")
        client.expect_deliveries(1)
        wait_until(lambda: "shown-body" in str(get(watched, "/traces/traced")), "it is traced anew")
        assert status(watched, "DELETE", "/traces/traced") == 204
        assert status(watched, "GET", "/traces/traced") == 404
        assert client.publish("traced/x").reason == ReasonCode.SUCCESS


def test_the_command_line(watched: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", f"http://127.0.0.1:{watched.port('http')}")

    def said(*arguments: str) -> str:
        assert run([*arguments, *server]) == 0
        return capsys.readouterr().out

    with RawClient(watched.port("mqtt")) as client:
        client.connect("by-hand", properties=LASTS)
        assert "by-hand" in said("client", "list", "--prefix", "by-")
        assert '"sessionExpiry": 1000' in said("client", "show", "by-hand")
        assert "by-hand" in said("session", "list", "--prefix", "by-")
        said("client", "trace", "by-hand", "--seconds", "60")
        client.publish("by/hand")
        wait_until(lambda: "PUBLISH" in said("client", "trace", "by-hand", "--show"), "it is traced")
        said("client", "trace", "by-hand", "--stop")
        assert "by-hand" in said("client", "kick", "by-hand")
        client.read_to_end()
        said("session", "delete", "by-hand", "--yes")
        assert run(["client", "show", "by-hand", *server]) == 1
        assert "not connected" in capsys.readouterr().err


@pytest.mark.soak
def test_a_client_of_another_gateway_is_kicked_and_its_session_ended(tmp_path_factory: pytest.TempPathFactory) -> None:
    with ClusterProcesses(tmp_path_factory.mktemp("two"), brokers=1, gateways=2) as cluster:
        here, there = cluster.gateways

        def delete(path: str) -> None:
            http_json(here, "DELETE", f"{API}{path}")

        with RawClient(there.port("mqtt")) as client:
            client.connect("far", properties=LASTS)
            assert http_json(here, "GET", f"{API}/sessions/far")["connected"]
            delete("/clients/far")
            (goodbye,) = client.read_to_end()
            assert isinstance(goodbye, Disconnect)
            assert goodbye.reason == ReasonCode.ADMINISTRATIVE_ACTION
        with RawClient(there.port("mqtt")) as client:
            answer: Connack = client.connect("far", clean_start=False, properties=LASTS)
            assert answer.session_present
            delete("/sessions/far")
            client.read_to_end()
        wait_until(lambda: http_json(here, "GET", f"{API}/sessions?prefix=far")["value"] == [], "the session is over")
        with RawClient(here.port("mqtt")) as client:
            assert not client.connect("far", clean_start=False, properties=LASTS).session_present
            assert client.publish("far/x").reason == ReasonCode.SUCCESS
        assert cluster.stop() == 0

"""RocketMQ clients as operators see and disconnect them over HTTP."""

from __future__ import annotations

from typing import Any

from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.telemetry import producer, push_consumer, telemetry
from tests.support.waiting import wait_until

V1 = "/api/v1/rocketmq/clients"


def listed(server: ServerProcess, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http_json(server, "GET", f"{V1}?{query}")["value"]
    return found


def test_clients_are_shown_as_they_described_themselves(server: ServerProcess, topic: str, group: str) -> None:
    address = server.address("grpc")
    with (
        GrpcClient(address, client_id=f"{group}-b") as push,
        GrpcClient(address, client_id=f"{group}-a") as sends,
        telemetry(push, push_consumer(group, topic)),
        telemetry(sends, producer(topic)),
    ):
        sends.send(sends.message(topic), sends.message(topic))
        first, second = listed(server, f"contains={group}")
        assert (first["id"], first["kind"], first["group"], first["inFlight"]) == (
            f"{group}-a", "producer", None, None,
        )  # fmt: skip
        assert first["topics"] == [{"name": topic, "filter": None}]
        assert (first["language"], first["version"], first["address"]) == ("python", "5.1", "127.0.0.1")
        assert second["topics"] == [{"name": topic, "filter": "a || b"}]
        assert (second["kind"], second["group"], second["hostname"]) == ("push-consumer", group, "host\u202e1")
        assert second["connectedSince"].startswith("20")
        assert second["gateway"]
        page = http_json(server, "GET", f"{V1}?contains={group}&limit=1")
        assert [each["id"] for each in page["value"]] == [f"{group}-a"]
        assert page["answered"] == {"asked": 1, "answered": 1, "missing": []}
        rest = http_json(server, "GET", f"{V1}?contains={group}&limit=1&after={page['next']}")
        assert ([each["id"] for each in rest["value"]], rest["next"]) == ([f"{group}-b"], None)
        for query, expected in (
            (f"group={group}", [f"{group}-b"]),
            (f"topic={topic}&kind=producer", [f"{group}-a"]),
            (f"topic={topic}&user=bob", []),
        ):
            assert [each["id"] for each in listed(server, query)] == expected
    wait_until(lambda: listed(server, f"contains={group}") == [], "they are gone")


def test_a_disconnected_push_consumer_gives_its_messages_back(server: ServerProcess, topic: str, group: str) -> None:
    address = server.address("grpc")
    with GrpcClient(address, client_id=f"{group}-1") as push, GrpcClient(address) as other:
        other.send(other.message(topic, b"held"))
        assert other.receive(topic, f"{group}-first") is not None  # the topic is readable
        with telemetry(push, push_consumer(group, topic)) as stream:
            [message] = push.receive(topic, group, wait_ms=2000, auto_renew=True)
            assert message.body == b"held"
            assert [each["inFlight"] for each in listed(server, f"contains={group}-1")] == [1]
            assert other.receive(topic, group) == []
            outcome = http_json(server, "POST", f"{V1}:disconnect", {"ids": [f"{group}-1", "nobody"]})["value"]
            assert outcome == [
                {"id": f"{group}-1", "disconnected": True},
                {"id": "nobody", "disconnected": False},
            ]
            assert stream.is_ended_by_the_server()
        [again] = other.receive(topic, group, wait_ms=2000)
        assert again.body == b"held"
    audit = http_json(server, "GET", "/api/v1/audit?limit=10")["value"]
    assert ("client disconnected", f"RocketMQ client {group}-1") in {
        (each["event"], each["resource"]) for each in audit
    }

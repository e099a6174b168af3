"""Clients of two gateways before one store, as either gateway shows and disconnects them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import httpx2
import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
import pytest

from entrepot.gateway.cli.app import run
from entrepot.protocols.mqtt.packets import Disconnect
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.amqp.load import parameters
from tests.support.http.client import http_client
from tests.support.http.event_streams import consumer_at
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import ClusterProcesses, GatewayProcess
from tests.support.processes.one_worker import keep_file_together
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.telemetry import producer, telemetry
from tests.support.waiting import PATIENCE_SECONDS, wait_until

V1 = "/api/v1"
LASTS = {PropertyId.SESSION_EXPIRY_INTERVAL: 1000}
SOCKET = "/topics/every-topic/eventsubscriptions/every-group:stream"
BOTH = {"asked": 2, "answered": 2, "missing": []}


def pytest_itemcollected(item: pytest.Item) -> None:
    keep_file_together(item)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("clients"), brokers=1, gateways=2) as running:
        for each in running.gateways:
            wait_until(lambda each=each: get(each, "/gateways")["answered"] == BOTH, "both know each other")
        yield running


@pytest.fixture
def here(cluster: ClusterProcesses) -> GatewayProcess:
    return cluster.gateways[0]


@pytest.fixture
def there(cluster: ClusterProcesses) -> GatewayProcess:
    return cluster.gateways[1]


def ask(gateway: GatewayProcess, method: str, path: str, body: object = None) -> httpx2.Response:
    with http_client(f"http://{gateway.address('http')}") as client:
        return client.request(method, path if path.startswith("/api") else V1 + path, json=body)


def get(gateway: GatewayProcess, path: str) -> Any:
    answer = ask(gateway, "GET", path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def connected(stack: ExitStack, gateway: GatewayProcess, client_id: str, *filters: str) -> RawClient:
    client = stack.enter_context(RawClient(gateway.port("mqtt")))
    client.connect(client_id, properties=LASTS)
    if filters:
        client.subscribe(*filters)
    return client


def pages(gateway: GatewayProcess, path: str, key: str) -> list[str]:
    """The keys of all pages of two rows."""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = get(gateway, f"{path}&limit=2&after={quote(after)}")
        found += [each[key] for each in page["value"]]
        after = page["next"]
    return found


def test_mqtt_lists_are_merged_in_order(here: GatewayProcess, there: GatewayProcess) -> None:
    with ExitStack() as stack:
        for number in range(7):
            connected(stack, (here, there)[number % 3 == 0], f"list-{number}", f"list/{number}", "list/#")
        expected = [f"list-{number}" for number in range(7)]
        for gateway in (here, there):
            whole = get(gateway, "/clients?prefix=list-")
            assert [each["id"] for each in whole["value"]] == expected
            assert whole["answered"] == BOTH
            names = {each["gateway"] for each in whole["value"]}
            assert len(names) == 2
            assert pages(gateway, "/clients?prefix=list-", "id") == expected
            assert pages(gateway, "/subscriptions?filter=list/%23", "client") == expected
            assert [each["filter"] for each in get(gateway, "/subscriptions?client=list-3")["value"]] == [
                "list/#", "list/3",
            ]  # fmt: skip
            alone = get(gateway, "/clients?prefix=list-&gateway=here")
            name = get(gateway, "/session")["gateway"]
            same = get(here, f"/clients?prefix=list-&gateway={quote(name)}")
            assert alone["value"] == same["value"]
            assert {each["gateway"] for each in alone["value"]} == {name}
            assert 0 < len(alone["value"]) < 7


def test_a_client_is_found_at_the_other_gateway_with_its_past(here: GatewayProcess, there: GatewayProcess) -> None:
    with ExitStack() as stack:
        connected(stack, here, "moves", "moves/a")
        wait_until(lambda: get(there, "/clients/moves")["subscribedTo"] != [], "it is there")
        first = get(there, "/clients/moves")
        connected(stack, there, "moves", "moves/b")
        wait_until(lambda: get(here, "/clients/moves")["gateway"] != first["gateway"], "it has moved")
        shown = get(here, "/clients/moves")
        assert shown["answered"] == BOTH

        def events() -> dict[str, Any]:
            found: dict[str, Any] = get(here, "/clients/moves/events")
            return found

        wait_until(lambda: len(events()["value"]) >= 3, "its end at the first gateway is noted")
        told = [(each["event"], each["gateway"]) for each in events()["value"]]
        assert sorted(told) == sorted(
            [("connected", first["gateway"]), ("taken-over", first["gateway"]), ("connected", shown["gateway"])]
        )
        assert set(events()["since"]) == {first["gateway"], shown["gateway"]}


def test_clients_are_disconnected_from_afar(here: GatewayProcess, there: GatewayProcess) -> None:
    with ExitStack() as stack:
        near, far = connected(stack, here, "cut-near"), connected(stack, there, "cut-far")
        outcomes = ask(here, "POST", "/clients:disconnect", {"ids": ["cut-near", "cut-far", "cut-none"]}).json()[
            "value"
        ]
        assert [(each["id"], each["disconnected"]) for each in outcomes] == [
            ("cut-near", True), ("cut-far", True), ("cut-none", False),
        ]  # fmt: skip
        assert "not connected" in outcomes[2]["error"]["message"]
        for client in (near, far):
            said = [packet for packet in client.read_to_end() if isinstance(packet, Disconnect)]
            assert [packet.reason for packet in said] == [ReasonCode.ADMINISTRATIVE_ACTION]
        told = {(each["event"], each["resource"]) for each in get(here, "/audit?limit=50")["value"]}
        assert {("client disconnected", f"MQTT client {name}") for name in ("cut-near", "cut-far")} <= told


def test_the_command_lists_sessions_that_are_away(
    here: GatewayProcess, there: GatewayProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        connected(stack, here, "lists-stays")
        with ExitStack() as soon:
            connected(soon, there, "lists-goes")
        wait_until(lambda: not get(here, "/sessions/lists-goes")["connected"], "it is away")
        for flag, expected in (("--away", "lists-goes"), ("--connected", "lists-stays")):
            server = ["--server", f"http://{here.address('http')}"]
            assert run(["session", "list", "--prefix", "lists-", flag, "--json", *server]) == 0
            assert [each["id"] for each in json.loads(capsys.readouterr().out)["value"]] == [expected]


def test_a_trace_follows_a_client_to_the_other_gateway(here: GatewayProcess, there: GatewayProcess) -> None:
    assert ask(here, "PUT", "/traces/traced", {"seconds": 60}).json()["answered"] == BOTH
    with ExitStack() as stack:
        connected(stack, here, "traced").publish("traced/x")
        connected(stack, there, "traced").publish("traced/x")
        wait_until(lambda: len(get(there, "/traces/traced")["packets"]) >= 8, "all are there")
        packets = get(there, "/traces/traced")["packets"]
        assert [each["time"] for each in packets] == sorted(each["time"] for each in packets)
        at: dict[str, list[str]] = {each["gateway"]: [] for each in packets}
        for each in packets:
            at[each["gateway"]].append(each["type"])
        assert len(at) == 2
        assert all({"CONNECT", "CONNACK", "PUBLISH", "PUBACK"} <= set(types) for types in at.values())
        assert len(get(here, "/traces/traced?limit=2")["packets"]) == 2
        [listed] = get(here, "/traces")["value"]
        assert (listed["target"], listed["seen"], "packets" in listed) == ("traced", len(packets), False)
    assert ask(there, "DELETE", "/traces/traced").status_code == 204
    assert {ask(each, "GET", "/traces/traced").status_code for each in (here, there)} == {404}


def test_amqp_connections_of_both(here: GatewayProcess, there: GatewayProcess) -> None:
    with ExitStack() as stack:
        made = []
        for gateway in (here, there):
            made.append(pika.BlockingConnection(parameters(gateway.port("amqp"))))
            stack.callback(_closed, made[-1])
            channel = made[-1].channel()
            channel.queue_declare("of-both")
            channel.basic_consume("of-both", lambda *_: None, consumer_tag=f"tag-{gateway.name}")
        rows = get(here, "/amqp/connections")["value"]
        assert len(rows) == len({each["gateway"] for each in rows}) == 2
        assert pages(there, "/amqp/connections?vhost=%2F", "name") == sorted(each["name"] for each in rows)
        assert {each["name"] for each in get(there, "/api/connections")} == {each["name"] for each in rows}
        assert "gateway" not in get(there, "/api/connections")[0]
        assert len(get(here, "/api/channels")) == 2
        assert len(get(here, "/api/queues/%2F/of-both")["consumer_details"]) == 2
        tags = {each["consumer_tag"] for each in get(here, "/amqp/consumers?queue=of-both")["value"]}
        assert tags == {f"tag-{each.name}" for each in (here, there)}
        totals = get(here, "/api/overview")["object_totals"]
        assert (totals["connections"], totals["channels"], totals["consumers"]) == (2, 2, 2)
        [far] = [each["name"] for each in get(there, "/amqp/connections?gateway=here")["value"]]
        whole = get(here, f"/amqp/connections/{quote(far, safe='')}")
        assert whole["connection"]["name"] == far
        assert whole["channels"][0]["consumer_details"][0]["consumer_tag"] == f"tag-{there.name}"
        assert ask(here, "DELETE", f"/api/connections/{quote(far, safe='')}").status_code == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            made[1].process_data_events(PATIENCE_SECONDS)
        names = [get(here, "/api/connections")[0]["name"], "nobody"]
        closed = ask(there, "POST", "/amqp/connections:close", {"names": names}).json()["value"]
        assert [each["closed"] for each in closed] == [True, False]


def test_rocketmq_clients_of_both(here: GatewayProcess, there: GatewayProcess) -> None:
    with ExitStack() as stack:
        for gateway in (here, there):
            client = stack.enter_context(GrpcClient(gateway.address("grpc"), client_id=f"rocket-{gateway.name}"))
            stack.enter_context(telemetry(client, producer("rockets")))
        rows = get(here, "/rocketmq/clients?topic=rockets")["value"]
        assert [each["id"] for each in rows] == sorted(f"rocket-{each.name}" for each in (here, there))
        assert len({each["gateway"] for each in rows}) == 2
        assert ask(here, "DELETE", f"/rocketmq/clients/rocket-{there.name}").status_code == 204
        wait_until(lambda: len(get(here, "/rocketmq/clients?topic=rockets")["value"]) == 1, "it is gone")
        assert ask(here, "DELETE", "/rocketmq/clients/none").status_code == 404


def test_clients_of_all_doors_of_both(here: GatewayProcess, there: GatewayProcess) -> None:
    with ExitStack() as stack:
        mqtt = connected(stack, there, "every-mqtt", "every/#")
        amqp = pika.BlockingConnection(parameters(here.port("amqp")))
        stack.callback(_closed, amqp)
        channel = amqp.channel()
        channel.queue_declare("every-queue")
        channel.basic_consume("every-queue", lambda *_: None)
        rocketmq = stack.enter_context(GrpcClient(there.address("grpc"), client_id="every-rocket"))
        stack.enter_context(telemetry(rocketmq, producer("every-topic")))
        stack.enter_context(consumer_at(here.address("http"), SOCKET))

        def rows() -> dict[str, dict[str, Any]]:
            return {each["door"]: each for each in get(here, "/connected-clients")["value"]}

        wait_until(lambda: rows().keys() >= {"mqtt", "amqp", "rocketmq", "http"}, "all are listed")
        found = rows()
        used = {door: row["uses"] for door, row in found.items()}
        assert used == {
            "mqtt": ["every/#"], "amqp": ["every-queue"], "rocketmq": ["every-topic"], "http": ["every-topic"],
        }  # fmt: skip
        assert len({each["gateway"] for each in found.values()}) == 2
        assert (found["amqp"]["detail"], found["http"]["detail"]) == ("/", "every-group")
        assert all(each["connectedSince"] and each["address"] for each in found.values())
        keys = pages(there, "/connected-clients?contains=", "id")
        assert keys == sorted(each["id"] for each in found.values())
        figures = {each["door"]: each["connections"] for each in get(here, "/overview")["doors"]}
        assert [*figures] == ["mqtt", "amqp", "rocketmq", "http"]

        wanted = [{"door": door, "id": found[door]["id"]} for door in ("mqtt", "amqp", "rocketmq")]
        asked = {"clients": [*wanted, {"door": "mqtt", "id": "every-none"}], "reason": "a test"}
        answer = ask(here, "POST", "/connected-clients:disconnect", asked).json()
        assert [each["disconnected"] for each in answer["value"]] == [True, True, True, False]
        assert any(isinstance(packet, Disconnect) for packet in mqtt.read_to_end())
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="a test"):
            amqp.process_data_events(PATIENCE_SECONDS)
        wait_until(lambda: rows().keys() == {"http"}, "they are gone")


def test_a_gateway_that_does_not_answer_is_named(
    here: GatewayProcess, there: GatewayProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        connected(stack, here, "answer-here")
        connected(stack, there, "answer-there")
        os.kill(there.pid, signal.SIGSTOP)
        try:
            told = get(here, "/clients?prefix=answer-")
            assert [each["id"] for each in told["value"]] == ["answer-here"]
            assert (told["answered"]["asked"], told["answered"]["answered"]) == (2, 1)
            [missing] = told["answered"]["missing"]
            assert missing["reason"].startswith("no answer")
            assert get(here, "/clients/answer-here")["id"] == "answer-here"
            unknown = ask(here, "GET", "/clients/answer-there")
            assert (unknown.status_code, unknown.headers["content-type"]) == (503, "application/problem+json")
            assert missing["name"] in unknown.json()["detail"]
            assert ask(here, "GET", "/api/connections").headers["entrepot-gateways-missing"] == missing["name"]
            assert ask(here, "DELETE", "/api/connections/none").status_code == 503
            assert run(["client", "list", "--server", f"http://{here.address('http')}"]) == 0
            printed = capsys.readouterr()
            assert "answer-here" in printed.out
            assert missing["name"] in printed.err
        finally:
            os.kill(there.pid, signal.SIGCONT)
        wait_until(lambda: get(here, "/clients?prefix=answer-")["answered"] == BOTH, "it answers again")


def _closed(connection: pika.BlockingConnection) -> None:
    try:
        connection.close()
    except pika.exceptions.AMQPError:
        pass  # it has been closed from here

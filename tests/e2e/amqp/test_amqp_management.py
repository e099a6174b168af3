"""RabbitMQ's management API over a real server: what its tools see and do, beside clients of AMQP."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2
import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]

from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ADMIN = Path("/usr/bin/rabbitmqadmin")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("management")) as process:
        yield process
        assert process.stop() == 0, process.log_text()
        assert "Traceback" not in process.log_text(), process.log_text()


@pytest.fixture
def api(server: ServerProcess) -> Iterator[httpx2.Client]:
    base = f"http://{server.address('http')}/api"
    with httpx2.Client(base_url=base, timeout=PATIENCE_SECONDS, trust_env=False, auth=("guest", "guest")) as client:
        yield client


@pytest.fixture
def channel(server: ServerProcess) -> Iterator[BlockingChannel]:
    """One whose publishes return when they are confirmed."""
    connection = connect(server)
    channel = connection.channel()
    channel.confirm_delivery()
    yield channel
    if connection.is_open:
        connection.close()


def connect(server: ServerProcess, vhost: str = "/", **credentials: str) -> pika.BlockingConnection:
    shown = pika.PlainCredentials(credentials.get("user", "guest"), credentials.get("password", "guest"))
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port("amqp"), vhost, shown))


def name() -> str:
    return f"n{uuid4().hex[:10]}"


def ok(answer: httpx2.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def messages(api: httpx2.Client, queue: str) -> int:
    found: int = ok(api.get(f"/queues/%2F/{queue}"))["messages"]
    return found


# -- figures -----------------------------------------------------------------------------------------------------------


def scraped(server: ServerProcess, *lines: str) -> list[float]:
    """Values of `/metrics` by what stands before them."""
    with httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        text = client.get(f"http://{server.address('http')}/metrics").text
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return [float(found.get(line, 0)) for line in lines]


def test_what_amqp_consumers_get_is_counted_as_at_other_doors(
    api: httpx2.Client, server: ServerProcess, channel: BlockingChannel
) -> None:
    exchange, first, second = name(), name(), name()
    channel.exchange_declare(exchange, "fanout")
    for queue in (first, second):
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, exchange)
    out = 'entrepot_messages_out_total{door="amqp"}'
    before, overview = scraped(server, out)[0], ok(api.get("/overview"))["message_stats"]
    for number in range(3):
        channel.basic_publish(exchange, "", b"%d" % number)
    got = [channel.basic_get(first) for _ in range(2)]
    channel.basic_ack(got[0][0].delivery_tag)
    channel.basic_nack(got[1][0].delivery_tag)
    again = wait_until(lambda: next(iter(each for each in [channel.basic_get(first)] if each[0]), None), "it again")
    if not again[0].redelivered:  # the third one came before the one that was given back
        again = wait_until(lambda: next(iter(each for each in [channel.basic_get(first)] if each[0]), None), "it")
    stats = ok(api.get(f"/queues/%2F/{first}"))["message_stats"]
    assert (stats["publish"], stats["ack"], stats["redeliver"]) == (3, 1, 1)
    assert stats["deliver_get"] in (3, 4)
    channel.basic_consume(second, lambda *_: None, auto_ack=True)
    channel.connection.process_data_events(0)
    wait_until(lambda: ok(api.get(f"/queues/%2F/{second}"))["message_stats"]["deliver_get"] == 3, "they were sent")
    [row] = [each for each in ok(api.get("/queues/%2F")) if each["name"] == second]
    assert (row["message_stats"]["publish"], row["message_stats"]["ack"]) == (3, 0)
    handed = stats["deliver_get"] + 3
    assert scraped(server, out) == [before + handed]
    labels = f'{{consumer_group="{first}",topic="%AMQP%{first}"}}'
    assert scraped(server, f"rocketmq_messages_out_total{labels}") == [stats["deliver_get"]]
    after = ok(api.get("/overview"))
    assert after["rates_mode"] == "basic"
    grown = {key: after["message_stats"][key] - overview[key] for key in ("publish", "deliver_get", "ack", "redeliver")}
    assert grown == {"publish": 3, "deliver_get": handed, "ack": 1, "redeliver": 1}
    assert "message_stats" not in ok(api.get(f"/queues/%2F/{_new_queue(api)}"))
    gotten = ok(
        api.post(f"/queues/%2F/{first}/get", json={"count": 5, "ackmode": "ack_requeue_false", "encoding": "auto"})
    )
    stats_after = ok(api.get(f"/queues/%2F/{first}"))["message_stats"]
    assert (stats_after["deliver_get"], stats_after["ack"]) == (stats["deliver_get"] + len(gotten), 1 + len(gotten))


def _new_queue(api: httpx2.Client) -> str:
    queue = name()
    ok(api.put(f"/queues/%2F/{queue}", json={"durable": True}))
    return queue


def test_where_the_server_listens_and_what_it_can(api: httpx2.Client, server: ServerProcess) -> None:
    listeners = {each["protocol"]: each for each in ok(api.get("/overview"))["listeners"]}
    for door in ("amqp", "mqtt", "http"):
        assert (listeners[door]["ip_address"], listeners[door]["port"]) == ("127.0.0.1", server.port(door))
    assert ok(api.get("/extensions")) == []
    flags = ok(api.get("/feature-flags"))
    assert {"quorum_queue", "stream_queue"} <= {each["name"] for each in flags}
    assert {(each["state"], each["stability"]) for each in flags} == {("enabled", "required")}


# -- queues, exchanges, bindings -------------------------------------------------------------------------------------


def test_what_is_declared_by_http_is_there_for_clients_and_the_other_way_round(
    api: httpx2.Client, channel: BlockingChannel
) -> None:
    queue, exchange = name(), name()
    arguments = {"x-max-length": 10, "x-dead-letter-exchange": "dead"}
    assert api.put(f"/queues/%2F/{queue}", json={"durable": "true", "arguments": arguments}).status_code == 201
    assert api.put(f"/queues/%2F/{queue}", json={"durable": True, "arguments": arguments}).status_code == 204
    channel.queue_declare(queue, durable=True, arguments=arguments)  # the same: types of arguments too
    channel.exchange_declare(exchange, "topic")
    bound = api.post(f"/bindings/%2F/e/{exchange}/q/{queue}", json={"routing_key": "a.*", "arguments": {"n": 1}})
    assert bound.status_code == 201
    channel.basic_publish(exchange, "a.b", b"x", pika.BasicProperties(message_id="m"))
    wait_until(lambda: messages(api, queue) == 1, "the message is counted")
    row = ok(api.get(f"/queues/%2F/{queue}"))
    assert row["arguments"] == arguments and row["durable"] and not row["auto_delete"]
    assert (row["type"], row["messages_ready"], row["consumers"]) == ("classic", 1, 0)
    [binding] = ok(api.get(f"/exchanges/%2F/{exchange}/bindings/source"))
    assert binding["routing_key"] == "a.*" and binding["arguments"] == {"n": 1}
    assert [each["source"] for each in ok(api.get(f"/queues/%2F/{queue}/bindings"))] == ["", exchange]
    key = quote(binding["properties_key"], safe="")
    assert ok(api.get(f"/bindings/%2F/e/{exchange}/q/{queue}/{key}"))["destination"] == queue
    assert api.delete(f"/bindings/%2F/e/{exchange}/q/{queue}/{key}").status_code == 204
    assert api.delete(f"/bindings/%2F/e/{exchange}/q/{queue}/{key}").status_code == 404
    assert ok(api.get(f"/bindings/%2F/e/{exchange}/q/{queue}")) == []
    assert api.delete(f"/exchanges/%2F/{exchange}").status_code == 204
    assert api.delete(f"/exchanges/%2F/{exchange}").status_code == 404


def test_refusals_have_rabbitmqs_statuses_and_reasons(api: httpx2.Client) -> None:
    queue = name()
    ok(api.put(f"/queues/%2F/{queue}", json={"durable": True}))
    refused = api.put(f"/queues/%2F/{queue}", json={"durable": False})
    assert refused.status_code == 400 and refused.json()["error"] == "bad_request"
    assert "inequivalent arg 'durable'" in refused.json()["reason"]
    for method, path, status in (
        ("GET", f"/queues/%2F/{name()}", 404),
        ("GET", "/queues/nowhere", 404),
        ("DELETE", f"/queues/%2F/{name()}", 404),
        ("DELETE", "/exchanges/%2F/amq.direct", 403),
        ("GET", f"/queues/%2F?page=1&page_size=x&name={queue}", 400),
        ("POST", f"/bindings/%2F/e/{name()}/q/{queue}", 404),
    ):
        answer = api.request(method, path, json={} if method == "POST" else None)
        assert (answer.status_code, bool(answer.json()["reason"])) == (status, True), (path, answer.text)
    for arguments in ({"x-max-length": -1}, {"x-queue-type": "moon"}, {"x-queue-type": "stream", "x-expires": 5}):
        assert api.put(f"/queues/%2F/{name()}", json={"arguments": arguments}).status_code == 400
    assert api.put(f"/exchanges/%2F/{name()}", json={"type": "nonsense"}).status_code == 400
    ok(api.post("/exchanges/%2F/amq.default/publish", json={"routing_key": queue, "payload": "x"}))
    assert api.delete(f"/queues/%2F/{queue}?if-empty=true").status_code == 400
    assert api.delete(f"/queues/%2F/{queue}").status_code == 204


def test_publish_and_get_keep_every_property(api: httpx2.Client, channel: BlockingChannel) -> None:
    queue = name()
    channel.queue_declare(queue)
    properties = {
        "content_type": "text/plain",
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "t",
        "app_id": "a",
        "headers": {"text": "x", "number": 7, "list": [1, "two"], "table": {"deep": True}},
    }
    publish = "/exchanges/%2F/amq.default/publish"
    body = {"routing_key": queue, "payload": "grüße", "properties": properties}
    assert ok(api.post(publish, json=body)) == {"routed": True}
    raw = base64.b64encode(b"\xff\x00").decode()
    ok(api.post(publish, json={"routing_key": queue, "payload": raw, "payload_encoding": "base64"}))
    assert ok(api.post(publish, json={"routing_key": name(), "payload": "x"})) == {"routed": False}
    looked = ok(api.post(f"/queues/%2F/{queue}/get", json={"count": 5, "ackmode": "ack_requeue_true"}))
    assert [each["payload"] for each in looked] == ["grüße", raw]
    assert [each["payload_encoding"] for each in looked] == ["string", "base64"]
    assert [each["message_count"] for each in looked] == [1, 0]
    assert looked[0]["properties"] == properties and looked[0]["payload_bytes"] == len("grüße".encode())
    method, got, data = channel.basic_get(queue)  # at their old place, and known to have been out
    assert method.redelivered and data == "grüße".encode() and got.headers == properties["headers"]
    channel.basic_ack(method.delivery_tag)
    [last] = ok(api.post(f"/queues/%2F/{queue}/get", json={"count": "5", "ackmode": "ack_requeue_false"}))
    assert last["payload"] == raw and last["redelivered"]
    assert messages(api, queue) == 0
    for wrong in ({"payload": "x"}, {"routing_key": queue, "payload": "%", "payload_encoding": "base64"}):
        assert api.post(publish, json=wrong).status_code == 400
    bad_time = {"routing_key": queue, "payload": "x", "properties": {"expiration": "soon"}}
    assert api.post(publish, json=bad_time).status_code == 400


def test_rejecting_by_http_makes_dead_letters_and_purging_empties(api: httpx2.Client, channel: BlockingChannel) -> None:
    queue, dead = name(), name()
    channel.queue_declare(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(queue, arguments=arguments)
    for n in range(5):
        ok(api.post("/exchanges/%2F/amq.default/publish", json={"routing_key": queue, "payload": str(n)}))
    ok(api.post(f"/queues/%2F/{queue}/get", json={"count": 2, "ackmode": "reject_requeue_false"}))
    letters = ok(api.post(f"/queues/%2F/{dead}/get", json={"count": 9}))
    assert [each["payload"] for each in letters] == ["0", "1"]
    assert letters[0]["properties"]["headers"]["x-death"][0]["reason"] == "rejected"
    assert api.delete(f"/queues/%2F/{queue}/contents").status_code == 204
    assert messages(api, queue) == 0


def test_streams_are_looked_at_by_amqp_only(api: httpx2.Client, channel: BlockingChannel) -> None:
    stream = name()
    ok(api.put(f"/queues/%2F/{stream}", json={"durable": True, "arguments": {"x-queue-type": "stream"}}))
    ok(api.post("/exchanges/%2F/amq.default/publish", json={"routing_key": stream, "payload": "x"}))
    row = ok(api.get(f"/queues/%2F/{stream}"))
    assert row["type"] == "stream" and row["messages"] == 1
    assert api.post(f"/queues/%2F/{stream}/get", json={}).status_code == 400
    assert api.delete(f"/queues/%2F/{stream}/contents").status_code == 400
    policy = {
        "pattern": f"^{stream}$",
        "definition": {"max-age": "1h", "max-length-bytes": 5000},
        "apply-to": "streams",
    }
    ok(api.put(f"/policies/%2F/{stream}", json=policy))
    kept = ok(api.get(f"/v1/topics/%25AMQP%25{stream}"))
    assert (kept["retentionSeconds"], kept["retentionBytes"]) == (3600, 5000)
    ok(api.delete(f"/policies/%2F/{stream}"))
    kept = ok(api.get(f"/v1/topics/%25AMQP%25{stream}"))
    assert kept["retentionSeconds"] > 3600 and kept["retentionBytes"] is None


def test_further_routing_keys_count_when_publishing_by_http(api: httpx2.Client, channel: BlockingChannel) -> None:
    one, two, three = (name() for _ in range(3))
    for queue in (one, two, three):
        channel.queue_declare(queue)
    body = {"routing_key": one, "payload": "x", "properties": {"headers": {"CC": [two], "BCC": [three]}}}
    ok(api.post("/exchanges/%2F/amq.default/publish", json=body))
    for queue in (one, two, three):
        [got] = ok(api.post(f"/queues/%2F/{queue}/get", json={}))
        assert got["properties"]["headers"] == {"CC": [two]}


# -- lists -----------------------------------------------------------------------------------------------------------


def test_pages_columns_and_sorting(api: httpx2.Client) -> None:
    prefix = name()
    for n in range(5):
        ok(api.put(f"/queues/%2F/{prefix}-{n}", json={}))
    for _ in range(3):
        ok(api.post("/exchanges/%2F/amq.default/publish", json={"routing_key": f"{prefix}-2", "payload": "x"}))
    page = ok(api.get(f"/queues?page=2&page_size=2&name={prefix}&sort=name&sort_reverse=true&columns=name"))
    assert page["items"] == [{"name": f"{prefix}-2"}, {"name": f"{prefix}-1"}]
    assert (page["filtered_count"], page["page_count"], page["item_count"]) == (5, 3, 2)
    assert page["total_count"] >= 5
    by_count = ok(api.get(f"/queues?page=1&name={prefix}&sort=messages&sort_reverse=true"))["items"]
    assert (by_count[0]["name"], by_count[0]["messages"]) == (f"{prefix}-2", 3)
    matched = ok(api.get(f"/queues?page=1&use_regex=true&name=^{prefix}-[01]$"))["items"]
    assert {each["name"] for each in matched} == {f"{prefix}-0", f"{prefix}-1"}
    assert api.get("/queues?page=1&use_regex=true&name=(").status_code == 400


def test_connections_channels_and_consumers(
    api: httpx2.Client, server: ServerProcess, channel: BlockingChannel
) -> None:
    queue = name()
    connection = connect(server)
    other = connection.channel()
    other.confirm_delivery()
    other.basic_qos(prefetch_count=7)
    other.queue_declare(queue)
    other.basic_publish("", queue, b"x")
    tag = other.basic_consume(queue, lambda *_: None)

    def delivered() -> bool:
        connection.process_data_events(0)
        return bool(ok(api.get(f"/queues/%2F/{queue}"))["messages_unacknowledged"])

    wait_until(delivered, "the message is with the consumer")
    row = ok(api.get(f"/queues/%2F/{queue}"))
    assert (row["messages"], row["messages_ready"], row["consumers"]) == (1, 0, 1)
    [consumer] = [each for each in ok(api.get("/consumers/%2F")) if each["queue"]["name"] == queue]
    assert consumer["consumer_tag"] == tag and consumer["prefetch_count"] == 7 and consumer["ack_required"]
    assert row["consumer_details"] == [consumer]
    of_channel = f"/channels/{quote(consumer['channel_details']['name'], safe='')}"
    # the queue counts it from when the store gives it, the channel from when that is durable
    wait_until(lambda: ok(api.get(of_channel))["messages_unacknowledged"] == 1, "the channel has the message")
    shown = ok(api.get(of_channel))
    assert shown["confirm"] and shown["messages_unacknowledged"] == 1 and shown["consumer_count"] == 1
    path = f"/connections/{quote(shown['connection_details']['name'], safe='')}"
    seen = ok(api.get(path))
    assert seen["user"] == "guest" and seen["vhost"] == "/" and seen["client_properties"]["product"]
    assert len(ok(api.get(f"{path}/channels"))) == seen["channels"] == 1
    assert seen["name"] in [each["name"] for each in ok(api.get("/vhosts/%2F/connections"))]
    totals = ok(api.get("/overview"))["object_totals"]
    assert totals["connections"] >= 2 and totals["consumers"] >= 1
    assert api.delete(path, headers={"X-Reason": "moving house"}).status_code == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="moving house"):
        connection.process_data_events(PATIENCE_SECONDS)
    assert api.get(path).status_code == 404
    wait_until(lambda: ok(api.get(f"/queues/%2F/{queue}"))["messages_ready"] == 1, "the message is back")


def test_the_server_as_a_whole(api: httpx2.Client) -> None:
    overview = ok(api.get("/overview"))
    assert overview["rabbitmq_version"] == overview["management_version"] == "3.13.7"
    assert {"messages", "messages_ready", "messages_unacknowledged"} == set(overview["queue_totals"])
    assert {"direct", "fanout", "topic", "headers"} <= {each["name"] for each in overview["exchange_types"]}
    [node] = ok(api.get("/nodes"))
    assert node["name"] == overview["node"] and node["running"]
    assert ok(api.get(f"/nodes/{node['name']}")) == node
    assert ok(api.get("/whoami"))["tags"] == ["administrator"]
    for path in ("/health/checks/alarms", "/health/checks/local-alarms", "/healthchecks/node", "/aliveness-test/%2F"):
        assert ok(api.get(path)) == {"status": "ok"}
    assert ok(api.get("/parameters")) == ok(api.get("/topic-permissions")) == ok(api.get("/vhost-limits")) == []


# -- virtual hosts ---------------------------------------------------------------------------------------------------


def test_virtual_hosts_come_and_go_with_what_is_in_them(api: httpx2.Client, server: ServerProcess) -> None:
    vhost, queue = name(), name()
    assert api.put(f"/vhosts/{vhost}").status_code == 201
    assert api.put(f"/vhosts/{vhost}").status_code == 204
    connection = connect(server, vhost)
    opened = connection.channel()
    opened.queue_declare(queue, durable=True)
    opened.exchange_declare("own", "fanout", durable=True)
    opened.queue_bind(queue, "own")
    opened.basic_publish("own", "", b"x")
    wait_until(lambda: ok(api.get(f"/queues/{vhost}/{queue}"))["messages"] == 1, "it is there")
    assert api.get(f"/queues/%2F/{queue}").status_code == 404
    ok(api.put(f"/policies/{vhost}/p", json={"pattern": ".*", "definition": {"max-length": 5}}))
    assert api.delete(f"/vhosts/{vhost}").status_code == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.process_data_events(PATIENCE_SECONDS)
    assert vhost not in [each["name"] for each in ok(api.get("/vhosts"))]
    assert api.put(f"/vhosts/{vhost}").status_code == 201  # anew, and empty
    assert ok(api.get(f"/queues/{vhost}")) == ok(api.get(f"/policies/{vhost}")) == []
    assert "own" not in [each["name"] for each in ok(api.get(f"/exchanges/{vhost}"))]
    assert api.delete("/vhosts/%2F").status_code == 400
    assert api.put(f"/vhosts/{'a%2F' * 40}").status_code == 400


# -- policies --------------------------------------------------------------------------------------------------------


def test_a_policy_holds_for_queues_that_are_there_and_for_new_ones(
    api: httpx2.Client, channel: BlockingChannel
) -> None:
    prefix = name()
    old, new = f"{prefix}-old", f"{prefix}-new"
    channel.queue_declare(old)
    for n in range(6):
        channel.basic_publish("", old, str(n).encode())
    wait_until(lambda: messages(api, old) == 6, "all are there")
    put = {"pattern": f"^{prefix}", "definition": {"max-length": 2}, "priority": 1, "apply-to": "queues"}
    assert api.put(f"/policies/%2F/{prefix}", json=put).status_code == 201
    assert messages(api, old) == 2  # the oldest went at once
    channel.queue_declare(new)
    channel.queue_declare(old)  # still the same declaration
    for queue in (old, new):
        for n in range(6, 10):
            channel.basic_publish("", queue, str(n).encode())
        wait_until(lambda queue=queue: messages(api, queue) == 2, "only the newest stay")
        assert [channel.basic_get(queue, auto_ack=True)[2] for _ in range(2)] == [b"8", b"9"]
        row = ok(api.get(f"/queues/%2F/{queue}"))
        assert row["policy"] == prefix and row["effective_policy_definition"] == {"max-length": 2}
        assert row["arguments"] == {}
    higher = {"pattern": f"^{new}$", "definition": {"message-ttl": 60_000}, "priority": 2}
    ok(api.put(f"/policies/%2F/{prefix}-higher", json=higher))
    assert ok(api.get(f"/queues/%2F/{new}"))["policy"] == f"{prefix}-higher"
    limit = {"pattern": f"^{new}$", "definition": {"message-ttl": 1}}
    ok(api.put(f"/operator-policies/%2F/{prefix}", json=limit))
    row = ok(api.get(f"/queues/%2F/{new}"))
    assert row["operator_policy"] == prefix and row["effective_policy_definition"] == {"message-ttl": 1}
    channel.basic_publish("", new, b"gone soon")
    wait_until(lambda: messages(api, new) == 0, "its time is over")
    assert api.delete(f"/operator-policies/%2F/{prefix}").status_code == 204
    assert api.delete(f"/policies/%2F/{prefix}-higher").status_code == 204
    assert ok(api.get(f"/queues/%2F/{new}"))["policy"] == prefix
    assert api.delete(f"/policies/%2F/{prefix}").status_code == 204
    assert api.delete(f"/policies/%2F/{prefix}").status_code == 404
    for n in range(5):
        channel.basic_publish("", new, str(n).encode())
    wait_until(lambda: messages(api, new) == 5, lambda: f"there is a limit: {api.get(f'/queues/%2F/{new}').text}")
    assert ok(api.get(f"/queues/%2F/{new}"))["policy"] is None


def test_messages_that_live_shorter_than_a_write_takes_go_too(api: httpx2.Client, channel: BlockingChannel) -> None:
    queues = [name() for _ in range(20)]
    for queue in queues:
        channel.queue_declare(queue)
    for queue in queues:
        channel.basic_publish("", queue, b"x", pika.BasicProperties(expiration="1"))
    for queue in queues:
        wait_until(lambda queue=queue: messages(api, queue) == 0, "its time is over")


def test_dead_letters_and_alternates_by_policy(api: httpx2.Client, channel: BlockingChannel) -> None:
    prefix = name()
    exchange, lost, queue, dead = f"{prefix}-x", f"{prefix}-lost", f"{prefix}-q", f"{prefix}-dead"
    channel.exchange_declare(exchange, "direct")
    channel.exchange_declare(lost, "fanout")
    for each in (queue, dead):
        channel.queue_declare(each)
    channel.queue_bind(dead, lost)
    ok(
        api.put(
            f"/policies/%2F/{prefix}-ae", json={"pattern": f"^{exchange}$", "definition": {"alternate-exchange": lost}}
        )
    )
    definition = {"dead-letter-exchange": lost, "dead-letter-routing-key": "k"}
    ok(api.put(f"/policies/%2F/{prefix}-dlx", json={"pattern": f"^{queue}$", "definition": definition}))
    assert ok(api.get(f"/exchanges/%2F/{exchange}"))["policy"] == f"{prefix}-ae"
    channel.basic_publish(exchange, "nobody", b"unrouted")
    channel.basic_publish("", queue, b"refused")
    wait_until(lambda: messages(api, queue) == 1, "it is there")
    method, _, _ = channel.basic_get(queue)
    channel.basic_nack(method.delivery_tag, requeue=False)
    wait_until(lambda: messages(api, dead) == 2, "both are dead letters")
    assert {channel.basic_get(dead, auto_ack=True)[2] for _ in range(2)} == {b"unrouted", b"refused"}
    for each in ("ae", "dlx"):
        ok(api.delete(f"/policies/%2F/{prefix}-{each}"))
    channel.basic_publish(exchange, "nobody", b"dropped")
    assert messages(api, dead) == 0


def test_policies_that_cannot_be_are_refused(api: httpx2.Client) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"pattern": "(", "definition": {"max-length": 1}},
        {"pattern": "^(?=a)", "definition": {"max-length": 1}},
        {"pattern": "a", "definition": {"max-length": -1}},
        {"pattern": "a", "definition": {"ha-mode": "everywhere"}},
        {"pattern": "a", "definition": {"ha-mode": "exactly", "ha-params": True}},
        {"pattern": "a", "definition": {"federation-upstream": "x"}},
        {"pattern": "a", "definition": {"max-length": 1}, "apply-to": "moons"},
        {"definition": {}},
    )
    for body in wrong:
        refused = api.put("/policies/%2F/p", json=body)
        assert refused.status_code == 400 and refused.json()["reason"], refused.text
    assert (
        "a look-ahead cannot be used here at position 1" in api.put("/policies/%2F/p", json=wrong[1]).json()["reason"]
    )
    operators = {"pattern": "a", "definition": {"overflow": "drop-head"}}
    assert api.put("/operator-policies/%2F/p", json=operators).status_code == 400


def test_no_pattern_stops_the_server(api: httpx2.Client, channel: BlockingChannel) -> None:
    """With a backtracking engine each of these takes hours."""
    prefix, evil = name(), "(a+)+"
    queue = prefix + "a" * 200 + "!"
    ok(api.put(f"/policies/%2F/{prefix}", json={"pattern": f"^{prefix}{evil}$", "definition": {"max-length": 1}}))
    ok(api.put(f"/operator-policies/%2F/{prefix}", json={"pattern": f"^{prefix}{evil}$", "definition": {"expires": 9}}))
    ok(
        api.put(
            f"/policies/%2F/{prefix}-not",
            json={"pattern": f"^(?!amq|{prefix}a+x){prefix}", "definition": {"max-length": 2}},
        )
    )
    channel.queue_declare(queue)
    channel.queue_declare(f"{prefix}aax")
    assert ok(api.get(f"/queues/%2F/{queue}"))["policy"] == f"{prefix}-not"
    assert not ok(api.get(f"/queues/%2F/{prefix}aax")).get("policy")
    found = ok(api.get("/queues", params={"page": 1, "use_regex": "true", "name": f"^{prefix}{evil}$"}))
    assert found["items"] == []
    refused = api.get("/queues", params={"page": 1, "use_regex": "true", "name": "a(?!b)"})
    assert refused.status_code == 400 and "at position 1" in refused.text
    for kind in ("policies", "operator-policies"):
        ok(api.delete(f"/{kind}/%2F/{prefix}"))
    ok(api.delete(f"/policies/%2F/{prefix}-not"))


def test_policies_outlive_a_restart(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as process:
        for is_restarted in (False, True):
            if is_restarted:
                process.kill()
                process.restart()
            base = f"http://{process.address('http')}/api"
            with httpx2.Client(base_url=base, timeout=PATIENCE_SECONDS, trust_env=False) as api:
                if not is_restarted:
                    ok(api.put("/queues/%2F/q", json={"durable": True}))
                    ok(api.put(f"/queues/%2F/{'a' * 200}!", json={"durable": True}))
                    ok(api.put("/policies/%2F/evil", json={"pattern": "^(a+)+$", "definition": {"max-length": 1}}))
                    ok(api.put("/policies/%2F/p", json={"pattern": "q", "definition": {"max-length": 1}}))
                    ok(api.put("/operator-policies/%2F/o", json={"pattern": "q", "definition": {"expires": 60_000}}))
                row = ok(api.get("/queues/%2F/q"))
                assert row["effective_policy_definition"] == {"max-length": 1, "expires": 60_000}
                for n in range(3):
                    ok(api.post("/exchanges/%2F/amq.default/publish", json={"routing_key": "q", "payload": str(n)}))
                wait_until(lambda api=api: messages(api, "q") == 1, "one stays")


# -- definitions -----------------------------------------------------------------------------------------------------


def test_definitions_go_out_and_come_in_again(api: httpx2.Client, channel: BlockingChannel) -> None:
    vhost, other = name(), name()
    ok(api.put(f"/vhosts/{vhost}"))
    quorum = {"x-message-ttl": 5000, "x-queue-type": "quorum"}
    ok(api.put(f"/queues/{vhost}/q", json={"durable": True, "arguments": quorum}))
    ok(
        api.put(
            f"/exchanges/{vhost}/x",
            json={"type": "headers", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}},
        )
    )
    ok(api.put(f"/exchanges/{vhost}/y", json={"type": "topic", "durable": False}))
    ok(api.post(f"/bindings/{vhost}/e/x/q/q", json={"arguments": {"x-match": "any", "n": 1}}))
    ok(api.post(f"/bindings/{vhost}/e/x/e/y", json={"routing_key": "é/#"}))
    ok(api.put(f"/policies/{vhost}/p", json={"pattern": "^q", "definition": {"max-length": 3}, "priority": 4}))
    ok(api.put(f"/operator-policies/{vhost}/o", json={"pattern": "^q", "definition": {"max-length": 2}}))
    channel.queue_declare(f"{vhost}-mine", exclusive=True)
    out = ok(api.get(f"/definitions/{vhost}"))
    assert {row["name"] for row in out["exchanges"]} == {"x", "y"} and len(out["bindings"]) == 2
    ok(api.put(f"/vhosts/{other}"))
    assert api.post(f"/definitions/{other}", json=out).status_code == 204
    assert ok(api.get(f"/definitions/{other}")) == out
    again = ok(api.post(f"/definitions/{other}?report=true", json=out))  # idempotent
    assert again["left_out"] == [] and again["done"]["bindings"] == 2
    everything = ok(api.get("/definitions"))
    assert f"{vhost}-mine" not in [row["name"] for row in everything["queues"]]
    assert vhost in [row["name"] for row in everything["vhosts"]]
    assert [row["destination"] for row in everything["bindings"] if row["vhost"] == vhost] == ["q", "y"]


def test_what_an_import_leaves_out_is_listed(api: httpx2.Client, server: ServerProcess) -> None:
    vhost = name()
    given = {
        "rabbit_version": "3.12.1",
        "users": [{"name": "alice", "password_hash": "abc", "tags": ["administrator"]}],
        "vhosts": [{"name": vhost}, {"name": "a/" * 60}],
        "permissions": [
            {"user": "alice", "vhost": vhost, "configure": "", "write": "^(a|b)$", "read": ".*"},
            {"user": "carol", "vhost": vhost, "configure": "a(?=b)", "write": "", "read": ""},
        ],
        "topic_permissions": [{"user": "alice", "vhost": vhost, "exchange": "amq.topic", "write": "", "read": ""}],
        "parameters": [{"component": "shovel", "vhost": vhost, "name": "s", "value": {}}],
        "global_parameters": [{"name": "cluster_name", "value": "rabbit@x"}, {"name": "mqtt", "value": 1}],
        "policies": [
            {"vhost": vhost, "name": "mirror", "pattern": "", "definition": {"ha-mode": "all"}},
            {
                "vhost": vhost,
                "name": "part",
                "pattern": "",
                "definition": {"ha-mode": "all", "max-length": 7},
                "priority": 1,
            },
        ],
        "queues": [
            {"vhost": vhost, "name": "good", "durable": True, "auto_delete": False, "arguments": {}},
            {"vhost": vhost, "name": "log", "durable": True, "arguments": {"x-queue-type": "moon"}},
            {"vhost": "nowhere", "name": "lost", "durable": True, "arguments": {}},
            {"vhost": vhost, "durable": True},
        ],
        "exchanges": [{"vhost": vhost, "name": "x", "type": "x-moon", "durable": True, "arguments": {}}],
        "bindings": [{"vhost": vhost, "source": "x", "destination": "good", "destination_type": "queue"}],
    }
    refused = api.post("/definitions", json=given)
    assert refused.status_code == 401 and "setup token" in refused.json()["reason"]
    assert vhost not in [each["name"] for each in api.get("/vhosts").json()], "nothing of it is done"
    answer = api.post("/definitions", json=given, auth=("any", server.setup_token))
    assert answer.status_code == 200
    report = answer.json()
    assert report["done"] == {
        "vhosts": 1,
        "permissions": 1,
        "topic_permissions": 1,
        "global_parameters": 1,
        "policies": 2,
        "queues": 1,
    }
    left = {(row["kind"], row["name"]) for row in report["left_out"]}
    assert left == {
        ("users", "alice"),  # no password has that hash
        ("vhosts", "a/" * 60),
        ("permissions", "carol"),
        ("parameters", "s"),
        ("policies", "mirror"),
        ("policies", "part"),
        ("queues", "log"),
        ("queues", "lost"),
        ("queues", " -> "),
        ("exchanges", "x"),
        ("bindings", "x -> good"),
    }
    assert all(row["reason"] for row in report["left_out"])
    assert ok(api.get(f"/queues/{vhost}/good"))["effective_policy_definition"] == {"ha-mode": "all", "max-length": 7}
    assert ok(api.get(f"/permissions/{vhost}/alice"))["write"] == "^(a|b)$"
    for body in (b"[", b"[]", b'{"queues": 1}'):
        assert api.post("/definitions", content=body).status_code == 400


# -- rabbitmqadmin ---------------------------------------------------------------------------------------------------


@pytest.fixture
def admin(server: ServerProcess) -> Callable[..., str]:
    if not ADMIN.exists():
        pytest.skip("rabbitmqadmin is not installed (make peers)")

    def run(*arguments: str, code: int = 0) -> str:
        command = [sys.executable, str(ADMIN), "-H", "127.0.0.1", "-P", str(server.port("http")), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.interop
def test_rabbitmqadmin(admin: Callable[..., str], server: ServerProcess, tmp_path: Path) -> None:
    queue, exchange = name(), name()
    admin("declare", "queue", f"name={queue}", "durable=true", 'arguments={"x-max-length": 9}')
    admin("declare", "exchange", f"name={exchange}", "type=topic", "auto_delete=false")
    admin("declare", "binding", f"source={exchange}", f"destination={queue}", "routing_key=a.#")
    admin("declare", "policy", f"name={queue}", f"pattern=^{queue}$", 'definition={"max-length":5}', "apply-to=queues")
    assert "Message published" in admin("publish", f"exchange={exchange}", "routing_key=a.b", "payload=hello")
    assert "NOT routed" in admin("publish", f"exchange={exchange}", "routing_key=z", "payload=hello")
    assert "hello" in admin("get", f"queue={queue}")
    listed = json.loads(admin("-f", "raw_json", "list", "queues", "name", "messages", "policy"))
    assert {"name": queue, "messages": 1, "policy": queue} in listed
    for kind in ("queues", "exchanges", "bindings", "vhosts", "nodes", "users", "permissions", "policies"):
        admin("list", kind)
    for kind in ("connections", "channels", "consumers", "parameters", "operator_policies", "vhost_limits"):
        admin("list", kind)
    assert "3.13.7" in admin("show", "overview")
    admin("export", str(tmp_path / "definitions.json"))
    assert queue in (tmp_path / "definitions.json").read_text()
    admin(
        "delete",
        "binding",
        f"source={exchange}",
        "destination_type=queue",
        f"destination={queue}",
        "properties_key=a.%23",
    )
    admin("delete", "exchange", f"name={exchange}")
    admin("purge", "queue", f"name={queue}")
    admin("delete", "queue", f"name={queue}")
    assert "Not found" in admin("delete", "queue", f"name={queue}", code=1)
    # others of these tests may have left permissions, which are in it
    admin("-p", server.setup_token, "import", str(tmp_path / "definitions.json"))
    assert exchange in admin("list", "bindings")
    assert "inequivalent arg 'durable'" in admin("declare", "queue", f"name={queue}", "durable=false", code=1)


def test_odd_rows_of_definitions_are_left_out_and_named(api: httpx2.Client) -> None:
    """An import goes on after a row that no definition can be made of, whatever is odd in it."""
    queue, deep = name(), nested(40)
    given = {
        "queues": [
            {"name": queue, "vhost": "/", "arguments": {}, "durable": "yes"},
            {"name": name(), "vhost": "/", "arguments": {"x": deep}},
        ],
        "bindings": [{"source": "amq.topic", "vhost": "/", "destination": queue, "destination_type": "queue\n"}],
        "policies": [
            {"name": name(), "vhost": "/", "pattern": "x", "definition": {"max-length": 5}, "priority": 2**64},
            {"name": name(), "vhost": "/", "pattern": "x", "definition": {"max-length": 10**30}},
        ],
    }
    answer = api.post("/definitions", json=given)
    assert answer.status_code == 200, answer.text
    assert answer.json()["done"] == {"queues": 1}
    assert sorted(each["kind"] for each in answer.json()["left_out"]) == ["bindings", "policies", "policies", "queues"]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [40, 150, 250, 900])
def test_arguments_deeper_than_any_table_are_refused(api: httpx2.Client, levels: int) -> None:
    queue = name()
    for path in (f"/queues/%2F/{queue}", f"/exchanges/%2F/{queue}"):
        answer = api.put(path, json={"arguments": {"x": nested(levels)}})
        assert answer.status_code == 400, (path, answer.text)
    assert api.get(f"/queues/%2F/{queue}").status_code == 404
    refused = api.put(f"/policies/%2F/{queue}", json={"pattern": "x", "definition": {"max-length": nested(levels)}})
    assert refused.status_code == 400


def test_truth_values_and_numbers_are_read_as_rabbitmq_s_tools_write_them(api: httpx2.Client) -> None:
    queue = name()
    assert api.put(f"/queues/%2F/{queue}", json={"durable": "on", "auto_delete": "no"}).status_code == 201
    assert api.post(f"/queues/%2F/{queue}/get", json={"count": " 7 ", "truncate": "+5"}).json() == []
    assert (
        api.put(f"/policies/%2F/{queue}", json={"pattern": "x", "definition": {}, "apply-to": "null"}).status_code
        == 400
    )
    assert api.get("/queues?page=1&page_size=").status_code == 400

"""Metrics by RabbitMQ's names: what a board made for RabbitMQ reads, at our server and at RabbitMQ itself."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import httpx2
import pika  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from tests.support.amqp.management import Managed
from tests.support.waiting import PATIENCE_SECONDS, wait_until

NAMES = Path(__file__).with_name("rabbitmq_metric_names.json")
"""Names of RabbitMQ 3.10.8 and their types, as its plugin tells them."""
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
IDENTITY = ("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id")


def text(managed: Managed, below: str = "") -> str:
    auth = ("guest", "guest") if managed.is_ours else None
    answer = httpx2.get(f"{managed.metrics}{below}", auth=auth, trust_env=False, timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200, answer.text
    return answer.text


def samples(managed: Managed, below: str = "") -> Samples:
    families = text_string_to_metric_families(text(managed, below))
    return {(each.name, tuple(sorted(each.labels.items()))): each.value for one in families for each in one.samples}


def types(managed: Managed) -> dict[str, str]:
    """The type of each name."""
    lines = [line.split() for line in text(managed).splitlines() if line.startswith("# TYPE ")]
    return {line[2]: line[3] for line in lines}


def total(found: Samples, name: str) -> float:
    return found[name, ()]


def test_every_name_is_one_of_rabbitmq_and_of_its_type(managed: Managed) -> None:
    known, found = json.loads(NAMES.read_text()), types(managed)
    if not managed.is_ours:
        assert {name: kind for name, kind in found.items() if name in known} == known
        return
    for name, kind in found.items():
        assert known[name] in (kind, "untyped"), name
    board = {
        *("rabbitmq_queue_messages_ready", "rabbitmq_queue_messages_unacked", "rabbitmq_connections"),
        *("rabbitmq_channels", "rabbitmq_consumers", "rabbitmq_queues", "rabbitmq_connections_opened_total"),
        *("rabbitmq_queues_created_total", "rabbitmq_channel_messages_published_total", "rabbitmq_build_info"),
        *("rabbitmq_global_messages_received_total", "rabbitmq_identity_info", "rabbitmq_process_open_fds"),
    }
    assert board <= found.keys()


def test_who_tells(managed: Managed) -> None:
    [labels] = [dict(labels) for name, labels in samples(managed) if name == "rabbitmq_identity_info"]
    assert labels.pop("rabbitmq_endpoint", "") == ("aggregated" if managed.is_ours else "")  # RabbitMQ 4 has it
    assert sorted(labels) == sorted(IDENTITY) and all(labels.values())
    assert labels["rabbitmq_node"] == managed.get("/overview")["node"]
    [build] = [dict(labels) for name, labels in samples(managed) if name == "rabbitmq_build_info"]
    assert build["rabbitmq_version"] == managed.get("/overview")["rabbitmq_version"]


def test_what_clients_do_is_counted(managed: Managed) -> None:
    queue, before = f"n{uuid4().hex[:10]}", samples(managed)
    counted = {
        "rabbitmq_connections_opened_total": 1,
        "rabbitmq_connections_closed_total": 0,
        "rabbitmq_channels_opened_total": 1,
        "rabbitmq_channels_closed_total": 0,
        "rabbitmq_queues_declared_total": 2,
        "rabbitmq_queues_created_total": 2,
        "rabbitmq_queues_deleted_total": 1,
        "rabbitmq_channel_messages_published_total": 6,
        "rabbitmq_channel_messages_confirmed_total": 6,
        "rabbitmq_channel_messages_acked_total": 1,
        "rabbitmq_channel_messages_unroutable_dropped_total": 1,
        "rabbitmq_channel_get_empty_total": 1,
        "rabbitmq_channel_get_total": 1,
        "rabbitmq_channel_get_ack_total": 1,
        "rabbitmq_channel_messages_delivered_total": 0,
        "rabbitmq_channel_messages_delivered_ack_total": 2,
        "rabbitmq_queue_messages_ready": 1,
        "rabbitmq_queue_messages_unacked": 2,
        "rabbitmq_queue_messages": 3,
        "rabbitmq_queue_messages_bytes": 30,
        "rabbitmq_queue_messages_ready_bytes": 10,
        "rabbitmq_queue_messages_unacked_bytes": 20,
        "rabbitmq_channel_messages_unacked": 2,
        "rabbitmq_connections": 1,
        "rabbitmq_channels": 1,
        "rabbitmq_consumers": 1,
        "rabbitmq_queues": 1,
    }
    with managed.amqp() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=2)
        channel.queue_declare(queue, durable=True)
        for number in range(5):
            channel.basic_publish("", queue, b"%010d" % number, pika.BasicProperties(delivery_mode=2))
        channel.basic_publish("", f"{queue}-nowhere", b"lost")
        channel.queue_declare(f"{queue}-empty", exclusive=True)
        assert channel.basic_get(f"{queue}-empty")[0] is None
        channel.queue_delete(f"{queue}-empty")
        channel.basic_get(queue, auto_ack=True)
        channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
        channel.basic_consume(queue, lambda *given: None)
        connection.process_data_events(0)

        def grown() -> dict[str, float]:
            connection.process_data_events(0)
            now = samples(managed)
            return {name: now[name, ()] - before.get((name, ()), 0) for name in counted}

        wait_until(lambda: grown() == counted, lambda: f"{grown()}")
        amqp = (("protocol", "amqp091"),)
        grown_globally = {
            "rabbitmq_global_messages_routed_total": 5,
            "rabbitmq_global_messages_received_confirm_total": 6,
            "rabbitmq_global_messages_unroutable_dropped_total": 1,
            "rabbitmq_global_consumers": 1,
            **({"rabbitmq_global_publishers": 1} if managed.is_ours else {}),  # RabbitMQ 3.10 takes off too many
        }
        now = samples(managed)
        assert {name: now[name, amqp] - before.get((name, amqp), 0) for name in grown_globally} == grown_globally
        objects = samples(managed, "/per-object")
        labels = (("queue", queue), ("vhost", "/"))
        assert objects["rabbitmq_queue_messages_ready", labels] == 1
        assert objects["rabbitmq_queue_messages_unacked", labels] == 2
        assert objects["rabbitmq_queue_messages_unacked_bytes", labels] == 20
        assert 0 < objects["rabbitmq_queue_consumer_capacity", labels] < 1
        assert 0 < objects["rabbitmq_queue_consumer_utilisation", labels] < 1
        channel.queue_delete(queue)
    for name in ("connections_closed", "channels_closed", "queues_deleted"):
        full = f"rabbitmq_{name}_total"
        wait_until(lambda full=full: total(samples(managed), full) >= before.get((full, ()), 0) + 1, full)  # type: ignore[misc]
    wait_until(lambda: samples(managed)["rabbitmq_queues", ()] == before.get(("rabbitmq_queues", ()), 0), "it has gone")

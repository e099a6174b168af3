"""Contract row 15 with Spark: what any door publishes is a row, and rows are messages for every door."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.e2e.test_every_pair_of_doors import BODY, publish_amqp, publish_event, publish_mqtt
from tests.support.http.pull import events
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess
from tests.support.spark.topic_log import TopicWriter
from tests.support.waiting import wait_until
from tests.tiers.marks import soak_only


@pytest.mark.parametrize("publish", [publish_mqtt, soak_only(publish_amqp), soak_only(publish_event)])
def test_what_a_door_publishes_is_a_row(
    publish: Callable[[ServerProcess, str], None], server: ServerProcess, topic: str, read: Any
):
    publish(server, topic)
    (row,) = wait_until(lambda: read(topic, includeProperties="true").collect(), "the row")
    assert (row.body, row.sub_topic) == (BODY, f"{topic}/line/temp")
    assert row.properties["content_type"] == "application/json"
    assert any(value == "celsius" and name.endswith("unit") for name, value in row.properties.items())
    if publish is not publish_event:
        assert row.properties["correlation_id"] == "c-1"
    (parsed,) = read(topic, parse="json", schema="temp bigint, raw string").collect()
    assert (parsed.temp, parsed.raw) == (21, "é")


@pytest.mark.soak
def test_rows_are_messages_for_every_door(spark: SparkSession, server: ServerProcess, topic: str, writer: TopicWriter):
    with RawClient(server.port("mqtt")) as client:
        client.connect(f"reader-{topic}")
        client.subscribe(f"{topic}/#")
        frame = spark.range(1).select(
            F.lit(BODY).alias("body"),
            F.lit(f"{topic}/line/temp").alias("sub_topic"),
            F.create_map(F.lit("unit"), F.lit("celsius"), F.lit("content_type"), F.lit("application/json")).alias(
                "properties"
            ),
        )
        target = frame.write.format("entrepot").option("servers", server.address("broker")).mode("append")
        target.option("topic", topic).save()
        (published,) = client.expect_deliveries(1)
        assert (published.topic, published.payload) == (f"{topic}/line/temp", BODY)
    (event,) = wait_until(lambda: events(server, topic), "the event")
    body = base64.b64decode(event["data_base64"]) if "data_base64" in event else event["data"]
    assert event["subject"] == "line/temp"
    assert body in (BODY, {"temp": 21, "raw": "é"})

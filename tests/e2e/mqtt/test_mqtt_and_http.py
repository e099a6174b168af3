"""MQTT and HTTP on one store: one consumer group for both doors, events for filters and sessions, dead letters."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from entrepot.protocols.mqtt.packets import Puback, Publish
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.doors.load import event_headers
from tests.support.http.pull import events, http_json
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deployment
from tests.support.waiting import PATIENCE_SECONDS, wait_until

PERSISTS = {PropertyId.SESSION_EXPIRY_INTERVAL: 60}


def publish_event(server: Deployment, topic: str, event_id: str, **attributes: str) -> None:
    """One event in binary mode; its data is its id."""
    connection = http.client.HTTPConnection(server.ports["http"], timeout=PATIENCE_SECONDS)
    headers = {**event_headers(event_id, **attributes), "content-type": "application/json"}
    connection.request("POST", f"/topics/{topic}:publish", json.dumps(event_id), headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def receive(server: Deployment, topic: str, group: str) -> list[dict[str, Any]]:
    path = f"/topics/{topic}/eventsubscriptions/{group}"
    found: list[dict[str, Any]] = http_json(server, "POST", f"{path}:receive?maxEvents=10&maxWaitTime=0")["value"]
    if found:
        tokens = [item["brokerProperties"]["lockToken"] for item in found]
        assert http_json(server, "POST", f"{path}:acknowledge", {"lockTokens": tokens})["failedLockTokens"] == []
    return found


def test_a_share_and_http_consumers_of_its_group_share_the_messages(server: Deployment, port: int, topic: str) -> None:
    """Each message goes to one of them, whatever door it came by."""
    group, count = f"g{topic}", 30
    with RawClient(port) as member, RawClient(port) as publisher:
        member.connect(f"m-{topic}", properties={PropertyId.RECEIVE_MAXIMUM: 1})
        member.subscribe(f"$share/{group}/{topic}/#")
        publisher.connect(f"p-{topic}")
        by_http: list[str] = []
        for number in range(count):
            if number % 2:
                publish_event(server, topic, f"{number}", subject="s")
            else:
                publisher.publish(f"{topic}/a", json.dumps(f"{number}").encode(), number + 1)
            by_http += [item["event"]["data"] for item in receive(server, topic, group)]

        def all_came() -> bool:
            by_http.extend(item["event"]["data"] for item in receive(server, topic, group))
            member.socket.setblocking(True)
            try:
                member.read(0.05)
            except TimeoutError:
                pass
            return len(by_http) + len(member.deliveries) >= count

        wait_until(all_came, lambda: f"{len(by_http)} by HTTP and {len(member.deliveries)} by MQTT")
        by_mqtt = [json.loads(delivery.payload) for delivery in member.deliveries]
    assert sorted(by_http + by_mqtt, key=int) == [str(number) for number in range(count)]
    assert by_mqtt, "the member of the share was given nothing"


@pytest.mark.everywhere
def test_an_event_with_a_subject_reaches_filters_and_a_session_that_is_away(
    server: Deployment, port: int, topic: str
) -> None:
    with RawClient(port) as live, RawClient(port) as away:
        live.connect(f"l-{topic}")
        live.subscribe(f"{topic}/+/temp")
        away.connect(f"a-{topic}", clean_start=False, properties=PERSISTS)
        away.subscribe(f"{topic}/line/#")
    with RawClient(port) as live:
        live.connect(f"l2-{topic}")
        live.subscribe(f"{topic}/+/temp")
        publish_event(server, topic, "1", subject="line/temp")
        publish_event(server, topic, "2", subject="line/other/deep")
        publish_event(server, topic, "3")
        (delivery,) = live.expect_deliveries(1)
        assert (delivery.topic, delivery.payload) == (f"{topic}/line/temp", b'"1"')
        assert ("id", "1") in delivery.properties[PropertyId.USER_PROPERTY]
        assert delivery.properties[PropertyId.CONTENT_TYPE] == "application/json"
    with RawClient(port) as back:
        assert back.connect(f"a-{topic}", clean_start=False, properties=PERSISTS).session_present
        assert {(each.topic, each.payload) for each in back.expect_deliveries(2)} == {
            (f"{topic}/line/temp", b'"1"'),
            (f"{topic}/line/other/deep", b'"2"'),
        }


def test_every_property_of_a_publish_is_where_it_should_be_at_both_doors(
    server: Deployment, port: int, topic: str
) -> None:
    """Attributes over HTTP; what HTTP does not show is still there for MQTT."""
    given = {
        PropertyId.CONTENT_TYPE: "application/json",
        PropertyId.RESPONSE_TOPIC: "answers/here",
        PropertyId.CORRELATION_DATA: b"\x00\xff",
        PropertyId.PAYLOAD_FORMAT_INDICATOR: 1,
        PropertyId.USER_PROPERTY: [("colour", "red"), ("colour", "blue"), ("Bad Name", "x")],
    }
    with RawClient(port) as client:
        client.connect(f"c-{topic}")
        client.subscribe(f"{topic}/#")
        client.say(Publish(f"{topic}/a/b", b'{"n": 1}', 1, 1, True, properties=given))
        assert client.expect(Puback).reason < 0x80
        (delivery,) = client.expect_deliveries(1)
        assert delivery.properties == given
    (event,) = events(server, topic)
    assert (event["subject"], event["data"], event["datacontenttype"]) == ("a/b", {"n": 1}, "application/json")
    assert event["colour"] == "red" and "Bad Name" not in event
    assert event["source"] == f"/default/{topic}" and event["type"] == "dev.entrepot.message"
    listed = http_json(server, "GET", f"/api/v1/retained?filter={topic}/%23")["value"]
    assert [(each["name"], each["qos"], each["contentType"]) for each in listed] == [
        (f"{topic}/a/b", 1, "application/json")
    ]


def test_dead_letters_of_a_share_are_seen_over_http(server: Deployment, port: int, topic: str) -> None:
    """A message that the member refuses, again and again, or that HTTP rejects for the same group."""
    group = f"g{topic}"
    http_json(server, "PUT", f"/api/v1/groups/{group}", {"maxAttempts": 1, "invisibleSeconds": 1})
    with RawClient(port) as member, RawClient(port) as publisher:
        member.connect(f"m-{topic}")
        member.subscribe(f"$share/{group}/{topic}/#")
        member.acknowledges = False
        publisher.connect(f"p-{topic}")
        publisher.publish(f"{topic}/bad", b'"poison"')
        (delivery,) = member.expect_deliveries(1)
        assert delivery.payload == b'"poison"'
        member.reset()
    path = f"/api/v1/groups/{group}/dead-letters"

    def dead() -> list[dict[str, Any]]:
        receive(server, topic, group)  # who asks lets the attempts count
        return list(http_json(server, "GET", path)["value"])

    (letter,) = wait_until(dead, "a dead letter")
    assert letter["attempts"] == 1 and letter["origin"]["topic"] == topic

"""Who has no right on a name gets the same answer whether or not there is something of that name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker  # type: ignore[import-untyped]

from entrepot.protocols.mqtt.packets import Suback, Subscribe, Subscription
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rights import rows_rocketmq
from tests.e2e.rights.grid import Doors, said
from tests.e2e.rocketmq.test_rocketmq_access_grid import OPERATIONS
from tests.support.cases import cases
from tests.support.rocketmq.client import resource

AMQP: dict[str, Callable[[Any, str], object]] = {
    "passive queue": lambda channel, name: channel.queue_declare(name, passive=True),
    "passive exchange": lambda channel, name: channel.exchange_declare(name, passive=True),
    "consume": lambda channel, name: channel.basic_consume(name, lambda *given: None),
    "get": lambda channel, name: channel.basic_get(name),
    "purge": lambda channel, name: channel.queue_purge(name),
    "delete a queue": lambda channel, name: channel.queue_delete(name),
    "delete an exchange": lambda channel, name: channel.exchange_delete(name),
    "declare a queue": lambda channel, name: channel.queue_declare(name),
    "declare an exchange": lambda channel, name: channel.exchange_declare(name, "headers"),
    "bind to a queue": lambda channel, name: channel.queue_bind(name, "grid", "a"),
    "bind to an exchange": lambda channel, name: channel.exchange_bind(name, "grid", "a"),
    "bind from": lambda channel, name: channel.queue_bind("gq", name, "a"),
    "unbind": lambda channel, name: channel.queue_unbind(name, "grid", "a"),
    "unbind from an exchange": lambda channel, name: channel.exchange_unbind(name, "grid", "a"),
}


def refusal(doors: Doors, user: str, act: Callable[[Any, str], object], name: str) -> str:
    with doors.amqp(user) as connection:
        try:
            act(connection.channel(), name)
        except ChannelClosedByBroker as closed:
            text = re.sub("'.*?'", "<name>", closed.reply_text)
            return f"{closed.reply_code} {text}"
    return ""


@cases("operation", AMQP)
def test_amqp(doors: Doors, operation: str) -> None:
    user, act = doors.user(), AMQP[operation]
    answers = {refusal(doors, user, act, name) for name in ("grid", "gq", "nowhere", "fanout")}
    assert len(answers) == 1
    assert answers.pop().startswith("403 ACCESS_REFUSED")


def test_amqp_an_exclusive_queue_is_no_more_than_any(doors: Doors) -> None:
    user = doors.user()
    with doors.amqp("root", password="root") as connection:
        connection.channel().queue_declare("own", exclusive=True)
        for act in AMQP.values():
            assert refusal(doors, user, act, "own").startswith("403 ACCESS_REFUSED")


@pytest.mark.parametrize(
    "right",
    [("PUB", "Topic:grid/secret/x"), ("SUB", "Topic:grid/+/x"), ("CREATE", "Topic:grid"), ("SUB", "Group:grid")],
)
def test_amqp_any_right_on_a_name_is_enough_to_hear_of_it(doors: Doors, right: tuple[str, str]) -> None:
    """RabbitMQ tells everybody: applications declare passively what they only write to, or only read."""
    user = doors.user(*said("ALLOW", right))
    assert refusal(doors, user, AMQP["passive exchange"], "grid") == ""
    assert refusal(doors, user, AMQP["passive queue"], "grid").startswith("404 ")
    assert refusal(doors, user, AMQP["passive queue"], "gq").startswith("403 ")
    denied = doors.user(*said("ALLOW", right), *said("DENY", ("ALL", "Topic:*"), ("ALL", "Group:*")))
    assert refusal(doors, denied, AMQP["passive exchange"], "grid").startswith("403 ")


def test_amqp_exchanges_that_every_virtual_host_has_are_no_secret(doors: Doors) -> None:
    assert refusal(doors, doors.user(), AMQP["passive exchange"], "amq.topic") == ""


def test_mqtt(doors: Doors) -> None:
    with doors.mqtt(doors.user()) as (client, _):
        for number, name in enumerate(("grid", "nowhere"), 1):
            assert client.publish(f"{name}/a", packet_id=number).reason == ReasonCode.NOT_AUTHORIZED
            texts = (f"{name}/a", f"$share/s/{name}/#", f"$replay/earliest/{name}/#")
            client.say(Subscribe(number, [Subscription(text, 1) for text in texts]))
            assert client.expect(Suback).reasons == [ReasonCode.NOT_AUTHORIZED] * 3
        for number, queue in enumerate(("gq", "stream", "nowhere"), 5):
            client.say(Subscribe(number, [Subscription(f"$share/{queue}/%AMQP%{queue}/#", 1)]))
            assert client.expect(Suback).reasons == [ReasonCode.NOT_AUTHORIZED]


@cases("operation", OPERATIONS, ids=lambda operation: str(operation.name))
def test_rocketmq(doors: Doors, operation: Any) -> None:
    with doors.client(doors.user()) as client, doors.client(rows_rocketmq.HELPER) as helper:
        for topic in (rows_rocketmq.TOPIC, f"not-{operation.name.replace(' ', '-')}"):
            assert operation.attempt(client, helper, topic, "nobodys") == v2.FORBIDDEN


def test_rocketmq_a_topic_and_a_group_that_nothing_has_made(doors: Doors) -> None:
    codes = set()
    with doors.client(doors.user()) as client:
        for topic in (rows_rocketmq.TOPIC, "nowhere-at-all"):
            codes.add(client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic))).status.code)
            question = v2.QueryAssignmentRequest(topic=resource(topic), group=resource("nobodys"))
            codes.add(client.call("QueryAssignment", question).status.code)
            queue = v2.MessageQueue(topic=resource(topic), id=0)
            codes.add(client.call("QueryOffset", v2.QueryOffsetRequest(message_queue=queue)).status.code)
            codes.add(client.try_receive(topic, "nobodys")[0].code)
            codes.add(client.send(client.message(topic)).status.code)
    assert codes == {v2.FORBIDDEN}


def test_a_permission_of_rabbitmq_is_on_an_exchange_with_any_key(doors: Doors) -> None:
    """As on RabbitMQ; a denial below goes before it, and an ALLOW of the bare Topic is of that name alone."""

    def publish(channel: Any, key: str) -> None:
        channel.confirm_delivery()
        channel.basic_publish("grid.x", key, b"x")

    user = doors.user()
    permission = {"configure": "", "write": "^grid\\.x$", "read": "^(gq|grid\\.x)$"}
    assert doors.root.put(f"/api/permissions/%2F/{user}", json=permission).status_code == 201
    assert doors.root.get(f"/api/permissions/%2F/{user}").json()["write"] == permission["write"]
    for key in ("", "secret", "secret.x", "secret.#", "a/b"):
        assert refusal(doors, user, publish, key) == ""
    with doors.amqp(user) as connection:
        connection.channel().basic_get("gq", auto_ack=True)
    held = doors.root.get(f"/api/v1/acls/{user}").json()["statements"]
    doors.policy(user, *held, *said("DENY", ("PUB", "Topic:grid%2Ex/secret/#")))
    assert refusal(doors, user, publish, "open") == ""
    for key in ("secret", "secret.x", "secret.#"):
        assert refusal(doors, user, publish, key).startswith("403 ")
    bare = doors.user(*said("ALLOW", ("PUB", "Topic:grid%2Ex")))
    assert refusal(doors, bare, publish, "") == ""
    assert refusal(doors, bare, publish, "open").startswith("403 ")


def test_webhooks_of_other_topics_are_on_no_page(doors: Doors) -> None:
    """Rights come before pages: a page of one is not empty, and the last page is known to be the last."""
    body = {"sink": "https://receiver.example/", "protocol": "HTTP", "config": {"handshake": "off"}}
    made = {}
    for number in range(6):
        topic = "mine-hook" if number % 3 == 2 else "other-hook"
        answer = doors.root.post("/subscriptions", json={**body, "source": topic})
        assert answer.status_code == 201, answer.text
        made[answer.json()["id"]] = topic
    mine = sorted(each for each, topic in made.items() if topic == "mine-hook")
    with doors.http(doors.user(*said("ALLOW", ("SUB", "Topic:mine-hook/#")))) as client:
        first = client.get("/api/v1/webhooks?limit=1").json()
        rest = client.get(f"/api/v1/webhooks?limit=1&after={first['next']}").json()
        assert [each["id"] for page in (first, rest) for each in page["value"]] == mine
        assert rest["next"] is None
        for each, topic in made.items():
            assert client.get(f"/api/v1/webhooks/{each}").status_code == (200 if topic == "mine-hook" else 403)
    for each in made:
        assert doors.root.delete(f"/subscriptions/{each}").status_code == 204

"""Limits, topic permissions, parameters and metadata by the management API, and how they hold for clients of AMQP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pika.exceptions  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.management import Managed
from tests.support.cases import cases
from tests.support.waiting import wait_until

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def name() -> str:
    return f"n{uuid4().hex[:10]}"


@pytest.fixture
def user(managed: Managed) -> Iterator[str]:
    """A user who may do everything in `/`."""
    made = name()
    managed.do("PUT", f"/users/{made}", {"password": made, "tags": ""})
    managed.do("PUT", f"/permissions/%2F/{made}", EVERYTHING)
    yield made
    managed.ask("DELETE", f"/users/{made}")


@pytest.fixture
def vhost(managed: Managed) -> Iterator[str]:
    """A virtual host where guest may do everything."""
    made = name()
    managed.do("PUT", f"/vhosts/{made}", {})
    managed.do("PUT", f"/permissions/{made}/guest", EVERYTHING)
    yield made
    managed.ask("DELETE", f"/vhosts/{made}")


@contextmanager
def refused(text: str) -> Iterator[None]:
    with pytest.raises(pika.exceptions.AMQPError) as refusal:
        yield
    assert text in str(refusal.value), refusal.value


def closed_with(act: Callable[[], Any]) -> str:
    """The text that a channel is closed with; empty where it is not."""
    try:
        act()
    except pika.exceptions.ChannelClosedByBroker as closed:
        return f"{closed.reply_code} {closed.reply_text}"
    return ""


def test_nobody_enters_a_virtual_host_without_any_permission_there(managed: Managed, user: str, vhost: str) -> None:
    told = f"(530) \"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'\""
    with managed.amqp(user):
        pass
    with pytest.raises(pika.exceptions.AMQPError) as refusal, managed.amqp(user, vhost=vhost):
        pass
    assert told in str(refusal.value), refusal.value
    managed.do("PUT", f"/permissions/{vhost}/{user}", {"configure": "^$", "write": "^$", "read": "^q$"})
    with managed.amqp(user, vhost=vhost):
        pass
    managed.do("DELETE", f"/permissions/{vhost}/{user}")
    with pytest.raises(pika.exceptions.AMQPError), managed.amqp(user, vhost=vhost):
        pass


def test_users_have_as_many_connections_as_they_may(managed: Managed, user: str) -> None:
    path = f"/user-limits/{user}/max-connections"
    assert managed.do("PUT", path, {"value": 1}) == 204
    text = f"connection refused for user '{user}': user connection limit (1) is reached"
    with managed.amqp(user), refused(text), managed.amqp(user):
        pass
    with managed.amqp(), managed.amqp():
        pass  # others are not counted
    assert managed.get(f"/user-limits/{user}") == [{"user": user, "value": {"max-connections": 1}}]
    assert managed.get(f"/users/{user}?columns=limits") == {"limits": {"max-connections": 1}}
    for value in (-1, None):  # both stand for none
        assert (
            managed.do("DELETE" if value is None else "PUT", path, None if value is None else {"value": value}) == 204
        )
        with managed.amqp(user), managed.amqp(user):
            pass


def test_users_have_as_many_channels_as_they_may(managed: Managed, user: str) -> None:
    managed.do("PUT", f"/user-limits/{user}/max-channels", {"value": 1})
    text = f"number of channels opened for user '{user}' has reached the maximum allowed user limit of (1)"
    with managed.amqp(user) as connection:
        connection.channel()
        with refused(text):
            connection.channel().queue_declare("", exclusive=True)
    managed.do("DELETE", f"/user-limits/{user}/max-channels")
    with managed.amqp(user) as connection:
        assert [connection.channel().channel_number for _ in range(2)] == [1, 2]


def test_virtual_hosts_have_as_many_connections_and_queues_as_they_may(managed: Managed, vhost: str) -> None:
    managed.do("PUT", f"/vhost-limits/{vhost}/max-connections", {"value": 1})
    managed.do("PUT", f"/vhost-limits/{vhost}/max-queues", {"value": 1})
    text = f"cannot declare queue 'q2': queue limit in vhost '{vhost}' (1) is reached"
    with managed.amqp(vhost=vhost) as connection:
        told = f"access to vhost '{vhost}' refused for user 'guest': connection limit (1) is reached"
        with refused(told), managed.amqp(vhost=vhost):
            pass
        channel = connection.channel()
        channel.queue_declare("q1")
        channel.queue_declare("q1")
        assert text in closed_with(lambda: channel.queue_declare("q2"))
    answer = managed.ask("PUT", f"/queues/{vhost}/q2", {})
    assert (answer.status_code, answer.json()["reason"]) == (400, text)
    limits = {"max-connections": 1, "max-queues": 1}
    assert managed.get(f"/vhost-limits/{vhost}") == [{"vhost": vhost, "value": limits}]
    assert {"vhost": vhost, "value": limits} in managed.get("/vhost-limits")
    parameter = {"component": "vhost-limits", "name": "limits", "vhost": vhost, "value": limits}
    assert managed.get(f"/parameters/vhost-limits/{vhost}") == [parameter]
    assert parameter in managed.get("/parameters") and parameter in managed.get("/parameters/vhost-limits")
    assert managed.do("DELETE", f"/vhost-limits/{vhost}/max-queues") == 204
    assert managed.do("PUT", f"/queues/{vhost}/q2", {}) == 201


def test_a_virtual_host_of_no_connections_takes_none(managed: Managed, vhost: str) -> None:
    managed.do("PUT", f"/vhost-limits/{vhost}/max-connections", {"value": 0})
    with refused("connection limit (0) is reached"), managed.amqp(vhost=vhost):
        pass


@cases(
    "path, body, status",
    [
        ("/vhost-limits/%2F/max-channels", {"value": 1}, 400),
        ("/vhost-limits/%2F/max-queues", {"value": "x"}, 400),
        ("/vhost-limits/%2F/max-queues", {}, 400),
        ("/vhost-limits/nowhere/max-queues", {"value": 1}, 404),
        ("/user-limits/guest/max-queues", {"value": 1}, 400),
        ("/user-limits/guest/max-channels", {"value": "1"}, 400),
        ("/user-limits/nobody/max-channels", {"value": 1}, 400),
        ("/topic-permissions/%2F/nobody", {"exchange": "x", "write": "", "read": ""}, 400),
        ("/topic-permissions/nowhere/guest", {"exchange": "x", "write": "", "read": ""}, 400),
        ("/topic-permissions/%2F/guest", {"write": "", "read": ""}, 400),
        ("/topic-permissions/%2F/guest", {"exchange": "x", "write": "(", "read": ""}, 400),
        ("/global-parameters/x", {}, 400),
    ],
)
def test_what_is_no_limit_and_no_permission(managed: Managed, path: str, body: Any, status: int) -> None:
    answer = managed.ask("PUT", path, body)
    assert answer.status_code == status and answer.json()["reason"]


def test_topic_permissions_hold_for_routing_keys(managed: Managed, user: str) -> None:
    path, mine = f"/topic-permissions/%2F/{user}", "^line1"
    row = {"user": user, "vhost": "/", "exchange": "amq.topic", "write": mine, "read": r"^{username}\."}
    body = {key: row[key] for key in ("exchange", "write", "read")}
    assert [managed.do("PUT", path, body) for _ in range(2)] == [201, 204]
    assert managed.get(path) == managed.get(f"/users/{user}/topic-permissions") == [row]
    assert row in managed.get("/topic-permissions") and row in managed.get("/vhosts/%2F/topic-permissions")
    denied = f"in exchange 'amq.topic' in vhost '/' refused for user '{user}'"
    queue = name()
    with managed.amqp(user) as connection:

        def publishing(exchange: str, key: str) -> str:
            channel = connection.channel()
            channel.confirm_delivery()
            return closed_with(lambda: channel.basic_publish(exchange, key, b"x"))

        def binding(key: str) -> str:
            channel = connection.channel()
            return closed_with(lambda: channel.queue_bind(queue, "amq.topic", key))

        connection.channel().queue_declare(queue)
        for _ in range(3):  # a publish that comes again is judged as the first one
            assert publishing("amq.topic", "line1.temp") == ""
            assert (
                publishing("amq.topic", "line2.temp") == f"403 ACCESS_REFUSED - access to topic 'line2.temp' {denied}"
            )
        assert publishing("amq.direct", "line2.temp") == ""  # not a topic exchange
        assert binding(f"{user}.x") == ""
        assert binding("other.x") == f"403 ACCESS_REFUSED - access to topic 'other.x' {denied}"
        assert managed.do("DELETE", path) == 204
        wait_until(lambda: publishing("amq.topic", "line2.temp") == "", "it is allowed again")
        assert binding("other.x") == ""
        connection.channel().queue_delete(queue)
    assert managed.ask("DELETE", path).status_code == managed.ask("GET", path).status_code == 404


def test_topic_permissions_hold_for_publishes_by_http(managed: Managed, user: str) -> None:
    managed.do("PUT", f"/users/{user}", {"password": user, "tags": "management"})
    managed.do("PUT", f"/topic-permissions/%2F/{user}", {"exchange": "amq.topic", "write": "^a$", "read": "^a$"})
    for key, is_allowed in (("a", True), ("b", False)):
        body = {"routing_key": key, "payload": "x", "properties": {}, "payload_encoding": "string"}
        answer = managed.ask("POST", "/exchanges/%2F/amq.topic/publish", body, user=user)
        assert answer.is_success is is_allowed, answer.text


def test_global_parameters(managed: Managed) -> None:
    path = f"/global-parameters/{name()}"
    parameter = path.rpartition("/")[2]
    assert managed.do("PUT", path, {"value": {"a": 1}}) == 201
    assert managed.do("PUT", path, {"name": parameter, "value": [1]}) == 204
    row = {"name": parameter, "value": [1]}
    assert managed.get(path) == row and row in managed.get("/global-parameters")
    assert row in managed.get("/definitions")["global_parameters"]
    assert managed.do("DELETE", path) == 204
    assert managed.ask("DELETE", path).status_code == managed.ask("GET", path).status_code == 404


def test_virtual_hosts_say_what_they_are_for(managed: Managed, vhost: str) -> None:
    assert managed.do("PUT", f"/vhosts/{vhost}", {"description": "the plant", "tags": "eu,production"}) == 204
    found = managed.get(f"/vhosts/{vhost}")
    assert (found["description"], found["tags"]) == ("the plant", ["eu", "production"])
    assert found["metadata"] == {"description": "the plant", "tags": ["eu", "production"]}
    assert list(found["cluster_state"].values()) == ["running"]
    managed.do("PUT", f"/vhosts/{vhost}", {"description": "closed"})
    assert managed.get(f"/vhosts/{vhost}?columns=description,tags") == {"description": "closed", "tags": []}


def test_lists_of_a_virtual_host_and_of_a_user(managed: Managed, user: str, vhost: str) -> None:
    with managed.amqp(user) as connection, managed.amqp(vhost=vhost) as other:
        connection.channel(), other.channel()

        def told(path: str) -> list[Any]:
            found: list[Any] = managed.get(path)
            return found

        wait_until(lambda: len(told(f"/connections/username/{user}")) == 1, "it is told")
        assert told(f"/connections/username/{user}")[0]["user"] == user
        wait_until(lambda: [each["vhost"] for each in told(f"/vhosts/{vhost}/channels")] == [vhost], "it is told")
        wait_until(lambda: [each["vhost"] for each in told(f"/vhosts/{vhost}/connections")] == [vhost], "it is told")
        assert managed.get("/connections/username/nobody") == []
        assert managed.ask("GET", "/vhosts/nowhere/channels").status_code == 404
        assert managed.do("DELETE", f"/connections/username/{user}") == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            connection.process_data_events(20)
        other.process_data_events(0)


def test_users_that_may_do_nothing_and_deleting_several(managed: Managed, user: str) -> None:
    other = name()
    managed.do("PUT", f"/users/{other}", {"password": other, "tags": ""})
    found = [each["name"] for each in managed.get("/users/without-permissions")]
    assert other in found and user not in found
    answer = managed.ask("POST", "/users/bulk-delete", {"users": [user, "nobody"]})
    assert answer.status_code == 400 and "no_such_user" in answer.text and "nobody" in answer.text
    assert managed.do("POST", "/users/bulk-delete", {"users": [other]}) == 204
    assert [managed.ask("GET", f"/users/{each}").status_code for each in (user, other)] == [404, 404]
    assert managed.ask("POST", "/users/bulk-delete", {}).status_code == 400


def test_definitions_carry_all_of_it(managed: Managed, user: str, vhost: str) -> None:
    managed.do("PUT", f"/vhosts/{vhost}", {"description": "d", "tags": "t"})
    managed.do("PUT", f"/permissions/{vhost}/{user}", EVERYTHING)
    managed.do("PUT", f"/vhost-limits/{vhost}/max-queues", {"value": 7})
    managed.do("PUT", f"/user-limits/{user}/max-channels", {"value": 8})
    managed.do("PUT", f"/topic-permissions/{vhost}/{user}", {"exchange": "amq.topic", "write": "^w", "read": "^r"})
    all_of_it = managed.get("/definitions")

    def own(found: dict[str, Any]) -> dict[str, list[Any]]:
        kinds = ("users", "vhosts", "permissions", "topic_permissions", "parameters")
        names = {vhost, user}
        return {kind: [row for row in found[kind] if names & {row.get("name"), row.get("vhost")}] for kind in kinds}

    wanted = own(all_of_it)
    assert all(wanted.values()), wanted
    managed.do("DELETE", f"/vhosts/{vhost}")
    managed.do("DELETE", f"/users/{user}")
    assert all(not rows for rows in own(managed.get("/definitions")).values())
    managed.do("POST", "/definitions", wanted)
    again = own(managed.get("/definitions"))
    assert again == wanted

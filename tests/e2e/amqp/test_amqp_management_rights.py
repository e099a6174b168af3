"""Users and permissions by RabbitMQ's API, and what they mean to clients of AMQP and to the API itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
import pytest

from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

SETTINGS = {
    **CHEAP_FLAGS,
    "security.initial_admin": "root",
    "security.initial_admin_password": "root",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("rights"), SETTINGS) as process:
        yield process
        assert process.stop() == 0, process.log_text()
        assert "Traceback" not in process.log_text(), process.log_text()


@pytest.fixture
def as_user(server: ServerProcess) -> Iterator[Callable[..., httpx2.Client]]:
    opened: list[httpx2.Client] = []

    def make(name: str, password: str = "pw") -> httpx2.Client:
        base = f"http://{server.address('http')}/api"
        opened.append(httpx2.Client(base_url=base, timeout=PATIENCE_SECONDS, trust_env=False, auth=(name, password)))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def root(as_user: Callable[..., httpx2.Client]) -> httpx2.Client:
    return as_user("root", "root")


def ok(answer: httpx2.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def connect(server: ServerProcess, user: str, vhost: str = "/") -> pika.BlockingConnection:
    shown = pika.PlainCredentials(user, "pw")
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port("amqp"), vhost, shown))


def refused(connection: pika.BlockingConnection, act: Callable[[Any], object]) -> bool:
    """Whether the channel is closed for want of rights."""
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        act(channel)
    except pika.exceptions.ChannelClosedByBroker as closed:
        if closed.reply_code == 403:
            return True
        raise
    channel.close()
    return False


def test_nobody_publishes_in_the_name_of_another(root: httpx2.Client) -> None:
    queue = "in-the-name"
    ok(root.put(f"/queues/%2F/{queue}", json={}))
    message = {"routing_key": queue, "payload": "x", "payload_encoding": "string"}
    path = "/exchanges/%2F/amq.default/publish"
    refused = root.post(path, json={**message, "properties": {"user_id": "somebody-else"}})
    assert refused.status_code == 400
    assert "user_id property set to 'somebody-else' but authenticated user was" in refused.json()["reason"]
    ok(root.post(path, json={**message, "properties": {"user_id": "root"}}))
    own = ok(
        root.post(f"/queues/%2F/{queue}/get", json={"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"})
    )
    assert [each["properties"]["user_id"] for each in own] == ["root"]


def test_users(root: httpx2.Client, as_user: Callable[..., httpx2.Client]) -> None:
    assert root.put("/users/ann", json={"password": "pw", "tags": "administrator"}).status_code == 201
    assert root.put("/users/ann", json={"password": "pw", "tags": ["administrator"]}).status_code == 204
    assert root.put("/users/bob", json={"password": "pw", "tags": "management"}).status_code == 201
    assert ok(root.get("/users/ann"))["tags"] == ["administrator"]
    assert ok(root.get("/users/bob"))["tags"] == ["management"]
    assert "password" not in root.get("/users").text.replace("password_hash", "")
    assert ok(as_user("ann").get("/whoami")) == {"name": "ann", "tags": ["administrator"]}
    assert ok(as_user("bob").get("/whoami")) == {"name": "bob", "tags": ["management"]}
    denied = as_user("bob").get("/users")
    assert denied.status_code == 403 and denied.json()["reason"]
    assert as_user("bob", "wrong").get("/overview").status_code == 401
    for body in ({"password": "pw", "tags": [7]}, {"password_hash": "x", "tags": ""}):
        wrong = root.put("/users/eve", json=body)
        assert wrong.status_code == 400 and wrong.json()["reason"]
    assert root.get("/users/eve").status_code == 404
    for name in ("ann", "bob"):
        assert root.delete(f"/users/{name}").status_code == 204
    assert root.delete("/users/ann").status_code == 404
    assert root.delete("/users/root").status_code == 400  # the last super user


def test_permissions_bind_clients(server: ServerProcess, root: httpx2.Client) -> None:
    ok(root.put("/users/app", json={"password": "pw", "tags": ""}))
    ok(root.put("/vhosts/plant"))
    for name in ("mine-1", "other"):
        ok(root.put(f"/queues/%2F/{name}", json={"durable": True}))
        ok(root.put(f"/queues/plant/{name}", json={"durable": True}))
    wanted = {"configure": "^mine-.*$", "write": "^(mine-.*|shop)$", "read": "^mine-.*$"}
    assert root.put("/permissions/%2F/app", json=wanted).status_code == 201
    assert root.put("/permissions/%2F/app", json=wanted).status_code == 204
    shown = {"user": "app", "vhost": "/", **wanted}
    assert ok(root.get("/permissions/%2F/app")) == shown
    assert ok(root.get("/permissions")) == ok(root.get("/users/app/permissions")) == [shown]
    assert ok(root.get("/vhosts/plant/permissions")) == []
    connection = connect(server, "app")
    assert not refused(connection, lambda channel: channel.queue_declare("mine-2", durable=True))
    assert refused(connection, lambda channel: channel.queue_declare("yours", durable=True))
    assert not refused(connection, lambda channel: channel.basic_publish("", "mine-1", b"x"))
    assert refused(connection, lambda channel: channel.basic_publish("", "other", b"x"))
    assert not refused(connection, lambda channel: channel.basic_get("mine-1", auto_ack=True))
    assert refused(connection, lambda channel: channel.basic_get("other"))
    connection.close()
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="access to vhost 'plant' refused"):
        connect(server, "app", "plant")


def test_everything_of_one_vhost_is_nothing_of_another(server: ServerProcess, root: httpx2.Client) -> None:
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    ok(root.put("/vhosts/garden"))
    for vhost in ("%2F", "garden"):
        ok(root.put(f"/queues/{vhost}/theirs", json={"durable": True}))
    for user, vhost, other in (("here", "/", "garden"), ("there", "garden", "/")):
        ok(root.put(f"/users/{user}", json={"password": "pw", "tags": ""}))
        ok(root.put(f"/permissions/{vhost.replace('/', '%2F')}/{user}", json=everything))
        connection = connect(server, user, vhost)
        for act in (
            lambda channel: channel.queue_declare("new", durable=True),
            lambda channel: channel.basic_publish("", "theirs", b"x"),
            lambda channel: channel.basic_get("theirs", auto_ack=True),
        ):
            assert not refused(connection, act)
        connection.close()
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
            connect(server, user, other)
    assert root.delete("/permissions/%2F/here").status_code == 204
    assert root.delete("/permissions/%2F/here").status_code == 404
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError):
        connect(server, "here")


def test_what_permissions_do_not_say_stays(server: ServerProcess, root: httpx2.Client) -> None:
    ok(root.put("/users/mixed", json={"password": "pw", "tags": ""}))
    acls = f"http://{server.address('http')}/api/v1/acls/mixed"
    own = {"effect": "DENY", "actions": ["ALL"], "resources": ["Topic:secret"], "sources": []}
    assert root.put(acls, json={"statements": [own]}).status_code == 201
    for configure in ("^a$", "b.*c$", ""):
        ok(root.put("/permissions/%2F/mixed", json={"configure": configure, "write": "", "read": ""}))
        statements = root.get(acls).json()["statements"]
        assert statements[0] == own and len(statements) == 4
    wrong = root.put("/permissions/%2F/mixed", json={"configure": "a(?!b)", "write": "", "read": ""})
    assert wrong.status_code == 400 and "cannot be used here" in wrong.json()["reason"]
    assert root.delete("/permissions/%2F/mixed").status_code == 204
    assert root.get(acls).json()["statements"] == [own]
    assert root.put("/permissions/%2F/mixed", json={"configure": ""}).status_code == 400


def test_publishing_by_http_is_judged_as_by_amqp(root: httpx2.Client, as_user: Callable[..., httpx2.Client]) -> None:
    ok(root.put("/users/poster", json={"password": "pw", "tags": ""}))
    ok(root.put("/permissions/%2F/poster", json={"configure": "", "write": "^jobs$", "read": ""}))
    poster = as_user("poster")
    publish = "/exchanges/%2F/amq.default/publish"
    assert ok(poster.post(publish, json={"routing_key": "jobs", "payload": "x"})) == {"routed": False}
    assert poster.post(publish, json={"routing_key": "secret", "payload": "x"}).status_code == 403
    topic = "/exchanges/%2F/amq.topic/publish"
    assert poster.post(topic, json={"routing_key": "secret.a", "payload": "x"}).status_code == 403
    assert poster.post("/queues/%2F/jobs/get", json={}).status_code == 403


def test_what_only_bodies_tell_is_asked_for(root: httpx2.Client, as_user: Callable[..., httpx2.Client]) -> None:
    """Nobody reads by a dead-letter exchange, an alternate or a binding what he may not read."""
    ok(root.put("/users/sly", json={"password": "pw", "tags": ""}))
    rights = {"configure": "^sly-.*$", "write": "^sly-.*$", "read": r"^(sly-.*|amq\.topic)$"}
    ok(root.put("/permissions/%2F/sly", json=rights))
    sly = as_user("sly")
    for target, status in (("sly-x", 201), ("other", 403)):
        queue = {"arguments": {"x-dead-letter-exchange": target}}
        exchange = {"type": "fanout", "arguments": {"alternate-exchange": target}}
        assert sly.put(f"/queues/%2F/sly-{target}", json=queue).status_code == status
        assert sly.put(f"/exchanges/%2F/sly-{target}-e", json=exchange).status_code == status
    ok(sly.put("/queues/%2F/sly-q", json={}))
    bind = "/bindings/%2F/e/amq.topic/q/sly-q"
    assert sly.post(bind, json={"routing_key": "secret.#"}).status_code == 403
    assert sly.post(bind, json={"routing_key": "sly-a"}).status_code == 201

"""`entrepot import rabbitmq`: what Debian's rabbitmq-server exports, or exported once, taken in by the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest
from pika.exceptions import ProbableAuthenticationError  # type: ignore[import-untyped]

from entrepot.gateway.cli.app import run
from entrepot.protocols.mqtt.packets import Connack, Connect
from tests.support.amqp.rabbitmq import RabbitMQ
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS
from tests.tiers.marks import interop_only

pytestmark = pytest.mark.timeout(300)
CHEAP = CHEAP_FLAGS
GUEST = ("guest", "guest")
RECORDED = Path(__file__).with_name("rabbitmq_definitions.json")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("import"), CHEAP) as process:
        yield process


Outcome = tuple[int, str, str]
"""Exit code, standard output, standard error."""


@pytest.fixture
def entrepot(
    server: ServerProcess, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Runs a command against the server."""
    monkeypatch.setenv("ENTREPOT_SERVER", f"http://{server.address('http')}")

    def command(*arguments: str) -> Outcome:
        capfd.readouterr()
        code = run(arguments)
        return code, *capfd.readouterr()

    return command


def get(server: ServerProcess, path: str, auth: tuple[str, str] | None = None) -> Any:
    url = f"http://{server.address('http')}/api{path}"
    answer = httpx2.get(url, auth=auth, timeout=PATIENCE_SECONDS, trust_env=False)
    assert answer.is_success, answer.text
    return answer.json()


def exported_by(rabbitmq: RabbitMQ, to: Path) -> None:
    """Definitions of every kind."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", rabbitmq.port))
    channel = connection.channel()
    channel.exchange_declare("shop", "topic", durable=True, arguments={"alternate-exchange": "lost"})
    channel.exchange_declare("lost", "fanout", durable=True)
    channel.queue_declare("orders", durable=True, arguments={"x-message-ttl": 60_000, "x-max-priority": 4})
    channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("copies", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind("orders", "shop", "order.#", {"region": "eu"})
    channel.queue_bind("copies", "lost")
    channel.exchange_bind("lost", "shop", "all")
    connection.close()
    rabbitmq.control("add_vhost", "plant")
    rabbitmq.control("add_user", "alice", "secret")
    rabbitmq.control("set_permissions", "-p", "plant", "alice", "^alice-.*$", ".*", "^(a|b)$")
    rabbitmq.control("set_permissions", "-p", "/", "alice", "[xyz]+", "", "")
    rabbitmq.control("set_policy", "short", "^orders$", '{"max-length": 9, "ha-mode": "all"}')
    rabbitmq.control("set_policy", "-p", "plant", "p", ".*", '{"message-ttl": 1000}', "--apply-to", "queues")
    rabbitmq.control("export_definitions", str(to))


@pytest.fixture(params=["recorded", interop_only("rabbitmq")])
def exported(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The export of a RabbitMQ, taken now or when `ENTREPOT_RECORD` was last set."""
    if request.param == "rabbitmq":
        with RabbitMQ(tmp_path) as rabbitmq:
            exported_by(rabbitmq, tmp_path / "definitions.json")
        if os.environ.get("ENTREPOT_RECORD"):
            RECORDED.write_bytes((tmp_path / "definitions.json").read_bytes())
        return tmp_path / "definitions.json"
    return RECORDED


def test_what_a_rabbitmq_exports_is_taken_in(
    server: ServerProcess, entrepot: Callable[..., Outcome], exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = entrepot("import", "rabbitmq", "--definitions", str(exported), "--json")
    assert code == 1, out + err  # something was left out
    report = json.loads(out)
    left = {(row["kind"], row["vhost"], row["name"]) for row in report["left_out"]}
    assert left == {("policies", "/", "short")}  # whose ha-mode has no effect
    assert report["done"] == {
        "vhosts": 2,
        "users": 2,
        "permissions": 3,
        "policies": 2,
        "exchanges": 2,
        "queues": 3,
        "bindings": 3,
    }
    orders = get(server, "/queues/%2F/orders", GUEST)
    assert orders["arguments"] == {"x-message-ttl": 60_000, "x-max-priority": 4} and orders["durable"]
    assert orders["effective_policy_definition"] == {"max-length": 9, "ha-mode": "all"}
    assert get(server, "/queues/%2F/copies", GUEST)["type"] == "quorum"
    assert get(server, "/queues/%2F/events", GUEST)["type"] == "stream"
    [binding] = get(server, "/bindings/%2F/e/shop/q/orders", GUEST)
    assert (binding["routing_key"], binding["arguments"]) == ("order.#", {"region": "eu"})
    told = [(row["vhost"], row["configure"], row["read"]) for row in get(server, "/users/alice/permissions", GUEST)]
    assert sorted(told) == [("/", "[xyz]+", ""), ("plant", "^alice-.*$", "^(a|b)$")]
    knows_its_users(server)
    told = get(server, "/definitions", GUEST)
    kept = {row["name"]: row["password_hash"] for row in json.loads(exported.read_text())["users"]}
    assert {row["name"]: row["password_hash"] for row in told["users"]} == kept
    monkeypatch.setenv("ENTREPOT_USER", "guest")
    monkeypatch.setenv("ENTREPOT_PASSWORD", "guest")
    code, out, _ = entrepot("import", "rabbitmq", "--definitions", str(exported))
    assert code == 1 and "ha-mode" in out


def knows_its_users(server: ServerProcess) -> None:
    """Who comes with a hash is let in with the password, and no other, at every door that asks for one."""
    for password, is_right in (("secret", True), ("guest", False)):
        assert httpx2.get(f"{url_of(server)}/whoami", auth=("alice", password), trust_env=False).is_success is is_right
        shown = pika.PlainCredentials("alice", password)
        parameters = pika.ConnectionParameters("127.0.0.1", server.port("amqp"), "plant", shown)
        with nullcontext() if is_right else pytest.raises(ProbableAuthenticationError):
            pika.BlockingConnection(parameters).close()
        with RawClient(server.port("mqtt")) as client:
            client.say(Connect("", 5, username="alice", password=password.encode()))
            assert (client.expect(Connack).reason == 0) is is_right


def url_of(server: ServerProcess) -> str:
    return f"http://{server.address('http')}/api"


def test_an_import_of_which_nothing_is_left_out(
    server: ServerProcess, entrepot: Callable[..., Outcome], tmp_path: Path
) -> None:
    """More rows than one request takes, and into a virtual host of another name."""
    httpx2.put(
        f"http://{server.address('http')}/api/vhosts/target", timeout=PATIENCE_SECONDS, trust_env=False
    ).raise_for_status()
    queues = [{"name": f"q{n}", "durable": True, "auto_delete": False, "arguments": {}} for n in range(620)]
    bindings = [
        {"source": "amq.direct", "destination": f"q{n}", "destination_type": "queue", "routing_key": "k"}
        for n in range(620)
    ]
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"rabbitmq_version": "3.12", "queues": queues, "bindings": bindings}))
    code, out, err = entrepot("import", "rabbitmq", "--definitions", str(file), "--vhost", "target")
    assert code == 0, out + err
    assert len(get(server, "/queues/target?columns=name")) == 620
    assert len(get(server, "/exchanges/target/amq.direct/bindings/source")) == 620


def test_files_that_are_none(entrepot: Callable[..., Outcome], tmp_path: Path) -> None:
    for text in (None, "{", "[]", '{"queues": 5}'):
        file = tmp_path / "definitions.json"
        if text is not None:
            file.write_text(text)
        code, _, err = entrepot("import", "rabbitmq", "--definitions", str(file))
        assert code == 2 and err.startswith("entrepot: "), err

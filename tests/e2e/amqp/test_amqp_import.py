"""`entrepot import rabbitmq`: what Debian's rabbitmq-server exports, taken in by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest

from tests.support.rabbitmq import RabbitMQ
from tests.support.server import ServerProcess

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("import")) as process:
        yield process


def entrepot(server: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ENTREPOT_")}
    environment["ENTREPOT_SERVER"] = f"http://{server.address('http')}"
    command = [sys.executable, "-m", "gateway.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)


def get(server: ServerProcess, path: str) -> Any:
    answer = httpx2.get(f"http://{server.address('http')}/api{path}", timeout=20, trust_env=False)
    assert answer.is_success, answer.text
    return answer.json()


def test_what_a_rabbitmq_exports_is_taken_in(server: ServerProcess, tmp_path: Path) -> None:
    exported = tmp_path / "definitions.json"
    with RabbitMQ(tmp_path) as rabbitmq:
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
        rabbitmq.control("export_definitions", str(exported))
    done = entrepot(server, "import", "rabbitmq", "--definitions", str(exported), "--json")
    assert done.returncode == 1, done.stdout + done.stderr  # something was left out
    report = json.loads(done.stdout)
    left = {(row["kind"], row["vhost"], row["name"]) for row in report["left_out"]}
    assert left == {
        ("users", "", "guest"),
        ("users", "", "alice"),
        ("permissions", "/", "alice"),
        ("policies", "/", "short"),  # without ha-mode
    }
    assert report["done"] == {
        "vhosts": 2,
        "permissions": 2,
        "policies": 2,
        "exchanges": 2,
        "queues": 3,
        "bindings": 3,
    }
    orders = get(server, "/queues/%2F/orders")
    assert orders["arguments"] == {"x-message-ttl": 60_000, "x-max-priority": 4} and orders["durable"]
    assert orders["effective_policy_definition"] == {"max-length": 9}
    assert get(server, "/queues/%2F/copies")["type"] == "quorum"
    assert get(server, "/queues/%2F/events")["type"] == "stream"
    [binding] = get(server, "/bindings/%2F/e/shop/q/orders")
    assert (binding["routing_key"], binding["arguments"]) == ("order.#", {"region": "eu"})
    assert get(server, "/permissions/plant/alice")["configure"] == "^alice-.*$"
    again = entrepot(server, "import", "rabbitmq", "--definitions", str(exported))
    assert again.returncode == 1 and "ha-mode" in again.stdout and "hash" in again.stdout


def test_an_import_of_which_nothing_is_left_out(server: ServerProcess, tmp_path: Path) -> None:
    """More rows than one request takes, and into a virtual host of another name."""
    httpx2.put(f"http://{server.address('http')}/api/vhosts/target", timeout=20, trust_env=False).raise_for_status()
    queues = [{"name": f"q{n}", "durable": True, "auto_delete": False, "arguments": {}} for n in range(620)]
    bindings = [
        {"source": "amq.direct", "destination": f"q{n}", "destination_type": "queue", "routing_key": "k"}
        for n in range(620)
    ]
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"rabbitmq_version": "3.12", "queues": queues, "bindings": bindings}))
    done = entrepot(server, "import", "rabbitmq", "--definitions", str(file), "--vhost", "target")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(get(server, "/queues/target?columns=name")) == 620
    assert len(get(server, "/exchanges/target/amq.direct/bindings/source")) == 620


def test_files_that_are_none(server: ServerProcess, tmp_path: Path) -> None:
    for text in (None, "{", "[]", '{"queues": 5}'):
        file = tmp_path / "definitions.json"
        if text is not None:
            file.write_text(text)
        done = entrepot(server, "import", "rabbitmq", "--definitions", str(file))
        assert done.returncode == 2 and done.stderr.startswith("entrepot: "), done.stderr

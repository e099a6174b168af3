"""The head of each room's main file names the decision behind the room, or the invariant that the room keeps."""

import ast
import re
from pathlib import Path
from typing import Final

from tests.support.cases import cases

ROOT = Path(__file__).resolve().parents[2]
TOPS: Final = ("gateway", "protocols", "domain", "store_client", "broker", "spark_ingest")
HEAD: Final = "__init__.py"
"""Main file of a room whose own head says it all."""
MAIN: Final = {
    "gateway": "app.py",
    "gateway/amqp": "frontend.py",
    "gateway/amqp/connections": "conversation.py",
    "gateway/amqp/feeds": "queue_feed.py",
    "gateway/amqp/virtual_hosts": "virtual_hosts.py",
    "gateway/bridge": HEAD,
    "gateway/bridge/rocketmq": HEAD,
    "gateway/cli": "app.py",
    "gateway/door": "door.py",
    "gateway/events": "admission.py",
    "gateway/events/subscriptions": "subscriptions.py",
    "gateway/events/webhooks": "webhooks.py",
    "gateway/http": "app.py",
    "gateway/http/dashboard": "pages.py",
    "gateway/http/documents": "of_table.py",
    "gateway/http/metrics": "metrics.py",
    "gateway/http/parts": "shown_doors.py",
    "gateway/http/requests": "serving.py",
    "gateway/http/streaming": "event_socket.py",
    "gateway/key_values": "watched_keys.py",
    "gateway/member": "member.py",
    "gateway/messaging": HEAD,
    "gateway/mqtt": "frontend.py",
    "gateway/mqtt/connections": "conversation.py",
    "gateway/mqtt/fan_out": "hub.py",
    "gateway/mqtt/sessions": "session.py",
    "gateway/mqtt/shares": "shares.py",
    "gateway/mqtt/topics": "names.py",
    "gateway/operations": HEAD,
    "gateway/operations/journey": "noun.py",
    "gateway/operations/local_views": HEAD,
    "gateway/operations/nouns": HEAD,
    "gateway/operations/overview": "overview.py",
    "gateway/operations/rabbitmq": HEAD,
    "gateway/operations/row": "operation.py",
    "gateway/operations/trying": "noun.py",
    "gateway/peers": "peers.py",
    "gateway/retained": "retained.py",
    "gateway/rocketmq": "service.py",
    "gateway/rocketmq/grpc": HEAD,
    "gateway/security": "security.py",
    "gateway/settings": HEAD,
    "gateway/shovel": "shovel.py",
    "gateway/transport": "driver.py",
    "gateway/work": "periodic_work.py",
    "protocols": HEAD,
    "protocols/amqp": "connection.py",
    "protocols/cloudevents": "event.py",
    "protocols/etcd": HEAD,
    "protocols/grpc": "messages.py",
    "protocols/http2": "connection.py",
    "protocols/mqtt": "connection.py",
    "protocols/proxy": "header.py",
    "protocols/wire": "connection.py",
    "protocols/rocketmq": "published.py",
    "protocols/rocketmq/remoting": "frames.py",
    "domain": HEAD,
    "domain/access": "evaluator.py",
    "domain/definitions": "revision.py",
    "domain/event_filters": "event_filter_index.py",
    "domain/exchanges": "routing.py",
    "domain/expression": "filter.py",
    "domain/expression/cesql": "expression.py",
    "domain/journey": "telling.py",
    "domain/ports": HEAD,
    "domain/queues": "declaration.py",
    "domain/replication": "confirmation_rule.py",
    "domain/routing": "queue_selector.py",
    "store_client": "embedded.py",
    "store_client/blocking": "store.py",
    "store_client/etcd": "key_values.py",
    "store_client/remote": "store.py",
    "store_client/rocketmq": "store.py",
    "broker": "broker.py",
    "broker/backup": "saving.py",
    "broker/cli": "commands.py",
    "broker/cold": "reads.py",
    "broker/commit": "group_commit.py",
    "broker/consume": "consumption.py",
    "broker/controller": "controller.py",
    "broker/inspect": "verification.py",
    "broker/metadata": "registry.py",
    "broker/namesrv": "server.py",
    "broker/opening": "opened_store.py",
    "broker/ports": "core.py",
    "broker/raft": "raft.py",
    "broker/remoting": "link.py",
    "broker/replication": "replica.py",
    "broker/replication/files": "replica_files.py",
    "broker/retention": "cleaner.py",
    "broker/rows": "changed_rows.py",
    "broker/server": "process.py",
    "broker/settings": "store.py",
    "broker/store": "engine.py",
    "broker/tiered": "tier.py",
    "broker/tiered/iceberg": "iceberg_table.py",
    "broker/tiered/upload": "uploader.py",
    "broker/timer": "timing_wheel.py",
    "broker/transaction": "half_messages.py",
    "spark_ingest": HEAD,
    "spark_ingest/discovery": HEAD,
    "spark_ingest/job": "run.py",
    "spark_ingest/report": "page.py",
    "spark_ingest/source": "data_source.py",
    "spark_ingest/tables": "table.py",
}
DECLARED: Final = {"broker/settings"}
"""Rooms of declarations alone: they keep no invariant, and say what they are."""
TO_COME: Final = {"gateway/http/requests", "gateway/member"}
"""Rooms whose heads do not say it yet."""
RECORD: Final = re.compile(r"\bADR (\d+)")
INVARIANT: Final = re.compile(r"\bInvariants?\b")


def head_of(text: str) -> str:
    return ast.get_docstring(ast.parse(text)) or ""


def says_why(head: str) -> bool:
    return bool(RECORD.search(head) or INVARIANT.search(head))


def modules() -> list[Path]:
    return [path for top in TOPS for path in sorted((ROOT / top).rglob("*.py"))]


def test_each_room_has_a_main_file():
    rooms = {str(path.parent.relative_to(ROOT)) for path in modules() if path.name == HEAD}
    assert rooms == set(MAIN), "a room that is new, or gone: list its main file here"
    assert [f"{room}/{name}" for room, name in MAIN.items() if not (ROOT / room / name).is_file()] == []


def test_the_main_file_of_a_room_says_why():
    silent = [
        f"{room}/{name}"
        for room, name in MAIN.items()
        if room not in DECLARED | TO_COME and not says_why(head_of((ROOT / room / name).read_text()))
    ]
    assert silent == [], "name the decision record (ADR 43: ...), or the invariant that the room keeps"


def test_named_records_are_there():
    kept = {int(path.name[:4]) for path in (ROOT / "docs" / "adr").glob("*.md")}
    named = {(int(number), path) for path in modules() for number in RECORD.findall(path.read_text())}
    assert [f"{path.relative_to(ROOT)}: ADR {number}" for number, path in named if number not in kept] == []


@cases(
    "head, says",
    [
        ("Rooms.\n\nADR 43: one decision step a sync.", True),
        ("Rooms. Invariant: a claim follows its message.", True),
        ("Rooms.\n\nInvariants:\n\n    one leader for each term", True),
        ("Rooms, invariantly.", False),
        ("Rooms of ADRs.", False),
        ("", False),
    ],
)
def test_the_words_that_count(head: str, says: bool):
    assert says_why(head) is says

"""Patterns of permissions, as RabbitMQ's users write them: which names they are for, and how they come back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pika.exceptions  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.management import Managed
from tests.support.cases import cases

NOTHING = {"configure": "", "write": "", "read": ""}
NAMES = (
    "orders",
    "my-orders",
    "orders.eu",
    "jobs-q",
    "amq.gen-1",
    "celery.beat",
    "secret",
    "secret.a",
    "a",
    "a.b",
    "axb",
)
PATTERNS = {
    "^(a|orders)$": {"a", "orders"},
    r"^a\.b$": {"a.b"},
    "^a.b$": {"a.b", "axb"},
    "orders": {"orders", "my-orders", "orders.eu"},
    "^orders": {"orders", "orders.eu"},
    "^[a-z]+$": {"orders", "secret", "a", "axb"},
    ".*-q$": {"jobs-q"},
    r"^(amq\.gen.*|celery.*|.*reply.*)$": {"amq.gen-1", "celery.beat"},
    r"(amq\.default|orders.*)": {"orders", "my-orders", "orders.eu"},
    "^$": set(),
    "": set(),
    ".*": set(NAMES),
    "^.*$": set(NAMES),
    "^(?!secret).*$": {*NAMES} - {"secret", "secret.a"},
    "(?i)^ORDERS$": {"orders"},
    "^[[:alpha:]]{6}$": {"orders", "secret"},
    r"^\w+-\w$": {"jobs-q"},
    "b$|^jobs": {"a.b", "axb", "jobs-q"},
}


@pytest.fixture
def user(managed: Managed) -> Iterator[str]:
    made = f"n{uuid4().hex[:10]}"
    managed.do("PUT", f"/users/{made}", {"password": made, "tags": ""})
    yield made
    managed.ask("DELETE", f"/users/{made}")


@pytest.fixture(autouse=True)
def declared(managed: Managed) -> None:
    """Queues and fanout exchanges of the names; `amq.` is for the server's own names."""
    if managed.ask("GET", "/queues/%2F/open").is_success:
        return
    with managed.amqp() as connection:
        channel = connection.channel()
        for name in NAMES:
            if not name.startswith("amq."):
                channel.queue_declare(name, durable=True)
                channel.exchange_declare(name, "fanout", durable=True)
        channel.queue_declare("open", durable=True)


def permit(managed: Managed, user: str, **wanted: str) -> dict[str, str]:
    permission = {**NOTHING, **wanted}
    managed.do("PUT", f"/permissions/%2F/{user}", permission)
    return permission


def is_refused(connection: Any, method: str, *given: Any, **options: Any) -> bool:
    """True for 403; a name that is not there counts as allowed."""
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        getattr(channel, method)(*given, **options)
    except pika.exceptions.ChannelClosedByBroker as closed:
        if closed.reply_code not in (403, 404):
            raise
        return bool(closed.reply_code == 403)
    channel.close()
    return False


@cases("pattern", PATTERNS)
def test_a_pattern_to_read_is_for_the_queues_it_finds(managed: Managed, user: str, pattern: str) -> None:
    permit(managed, user, read=pattern)
    with managed.amqp(user) as connection:
        read = {each for each in NAMES if not is_refused(connection, "basic_get", each, auto_ack=True)}
    assert read == PATTERNS[pattern]


@cases("pattern", PATTERNS)
def test_a_pattern_to_write_is_for_the_exchanges_it_finds(managed: Managed, user: str, pattern: str) -> None:
    permit(managed, user, write=pattern)
    with managed.amqp(user) as connection:
        written = {each for each in NAMES if not is_refused(connection, "basic_publish", each, "any.key", b"x")}
    assert written == PATTERNS[pattern]


@cases("pattern", PATTERNS)
def test_a_pattern_to_configure_is_for_the_names_it_finds(managed: Managed, user: str, pattern: str) -> None:
    permit(managed, user, configure=pattern)
    own = {each for each in NAMES if not each.startswith("amq.")}
    with managed.amqp(user) as connection:
        made = {each for each in own if not is_refused(connection, "queue_declare", each, durable=True)}
    assert made == PATTERNS[pattern] & own


def test_patterns_are_read_back_as_they_were_written(managed: Managed, user: str) -> None:
    for configure, read in zip(PATTERNS, reversed(PATTERNS), strict=True):
        permission = permit(managed, user, configure=configure, read=read)
        assert managed.get(f"/permissions/%2F/{user}") == {"user": user, "vhost": "/", **permission}


def test_patterns_go_out_and_come_in_with_the_definitions(managed: Managed, user: str) -> None:
    path = f"/permissions/%2F/{user}"
    for wanted in ({"write": r"(amq\.default|orders.*)", "read": "^$"}, NOTHING):
        row = {"user": user, "vhost": "/", **permit(managed, user, **wanted)}
        assert managed.get(f"/users/{user}/permissions") == [row]
        assert row in managed.get("/permissions") and row in managed.get("/vhosts/%2F/permissions")
        assert row in managed.get("/definitions")["permissions"]
        managed.do("DELETE", path)
        assert managed.ask("GET", path).status_code == 404
        managed.do("POST", "/definitions", {"permissions": [row]})
        assert managed.get(path) == row
    assert user not in [each["name"] for each in managed.get("/users/without-permissions")]


@cases("pattern, is_allowed", [(r"^(amq\.default|orders)$", True), ("^amq", True), (".*", True), ("^shop$", False)])
def test_the_default_exchange_is_written_to_by_its_name(
    managed: Managed, user: str, pattern: str, is_allowed: bool
) -> None:
    permit(managed, user, write=pattern)
    with managed.amqp(user) as connection:
        for _ in range(3):  # a publish that comes again is judged as the first one
            assert is_refused(connection, "basic_publish", "", "open", b"x") is not is_allowed
    managed.do("PUT", f"/users/{user}", {"password": user, "tags": "management"})
    body = {"routing_key": "open", "payload": "x", "properties": {}, "payload_encoding": "string"}
    assert managed.ask("POST", "/exchanges/%2F/amq.default/publish", body, user=user).is_success is is_allowed


@cases("pattern", ["(", "[a", "*a", "a{2,1}"])
def test_what_is_not_an_expression_is_refused(managed: Managed, user: str, pattern: str) -> None:
    permit(managed, user, read="^a$")
    answer = managed.ask("PUT", f"/permissions/%2F/{user}", {**NOTHING, "read": pattern})
    assert answer.status_code == 400 and answer.json()["reason"]
    assert managed.get(f"/permissions/%2F/{user}")["read"] == "^a$"


@cases("pattern, instead", [("a(?=b)", "match what follows"), (r"(a)\1", "once more"), ("(?>a)", "(?:...)")])
def test_what_takes_long_is_refused_with_what_to_write_instead(
    managed: Managed, user: str, pattern: str, instead: str
) -> None:
    """RabbitMQ runs these, and gives up on the ones that take too long."""
    answer = managed.ask("PUT", f"/permissions/%2F/{user}", {**NOTHING, "read": pattern})
    if managed.is_ours:
        assert answer.status_code == 400 and instead in answer.json()["reason"]
        assert managed.ask("GET", f"/permissions/%2F/{user}").status_code == 404
    else:
        assert answer.is_success

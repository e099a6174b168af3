"""Contract row 19, the authorisation grid, at the AMQP door: operation x decision, identities, and what changes while
a client is connected.  As in the grids of the other doors an operation says what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest
from pika.exceptions import (  # type: ignore[import-untyped]
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAuthenticationError,
)

from tests.support.cases import cases
from tests.support.http.access import ROOT, Statement, TokenIssuer, allow, new_user, said
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

Needs = tuple[tuple[str, str], ...]
EVERYTHING = {"effect": "ALLOW", "actions": ["ALL"], "resources": ["Topic:*", "Group:*", "Cluster:*", "Namespace:*"]}


@dataclass
class Site:
    """A running server and its super user."""

    server: ServerProcess
    root: httpx2.Client
    authority: TestAuthority
    issuer: TokenIssuer

    def user(self, *statements: Statement) -> str:
        """A new user with statements; its name."""
        return new_user(self.root, *statements)

    def allow(self, name: str, *statements: Statement) -> None:
        allow(self.root, name, *statements)

    def connect(self, name: str, password: str = "pw", vhost: str = "/") -> pika.BlockingConnection:
        credentials = pika.PlainCredentials(name, password)
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.server.port("amqp"), vhost, credentials)
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("grid")
    authority = TestAuthority(directory)
    issuer = TokenIssuer(directory)
    settings = {
        **ROOT,
        **issuer.settings,
        "security.certificate_identity": "cn",
        "amqp.tls_port": "0",
        "amqp.check_vhost_access": "false",  # each verb has to refuse by itself
        "amqp.tls_certificate": str(authority.issue("server")),
        "amqp.tls_ca": str(authority.file),
        "amqp.tls_client_certificates": "optional",
    }
    with ServerProcess(directory, settings) as server:
        url = f"http://{server.address('http')}"
        with httpx2.Client(base_url=url, auth=("root", "root"), timeout=PATIENCE_SECONDS, trust_env=False) as root:
            made = Site(server, root, authority, issuer)
            connection = made.connect("root", "root")
            channel = connection.channel()
            channel.exchange_declare("e", "topic", durable=True)
            channel.exchange_declare("f", "fanout", durable=True)
            for queue in ("q", "r"):
                channel.queue_declare(queue, durable=True)
            connection.close()
            yield made
        assert "Traceback" not in server.log_text(), server.log_text()


# -- operations: each says whether it was denied -----------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """One thing to do, and the rights that it needs."""

    name: str
    needs: Needs
    act: Callable[[Any], object] = field(repr=False, compare=False)

    def is_denied(self, site: Site, user: str) -> bool:
        connection = site.connect(user)
        refusals: list[ChannelClosedByBroker] = []
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            self.act(channel)
        except ChannelClosedByBroker as refusal:
            refusals.append(refusal)
        finally:
            connection.close()
        assert [each.reply_code for each in refusals] in ([], [403]), refusals
        return bool(refusals)


def topic(action: str, name: str) -> tuple[str, str]:
    return action, f"Topic:{name}"


OPERATIONS = [
    Operation("publish to the default exchange", (topic("PUB", "q"),), lambda c: c.basic_publish("", "q", b"x")),
    Operation("publish to an exchange", (topic("PUB", "e/k/l"),), lambda c: c.basic_publish("e", "k.l", b"x")),
    Operation("publish to amq.topic", (topic("PUB", "a/b"),), lambda c: c.basic_publish("amq.topic", "a.b", b"x")),
    Operation("consume", (("SUB", "Group:q"),), lambda c: c.basic_consume("q", lambda *given: None)),
    Operation("get", (("SUB", "Group:q"),), lambda c: c.basic_get("q")),
    Operation("purge", (("SUB", "Group:r"),), lambda c: c.queue_purge("r")),
    Operation("declare a queue", (topic("CREATE", "new"),), lambda c: c.queue_declare("new")),
    Operation(
        "declare a queue with dead letters",
        (topic("CREATE", "dying"), ("SUB", "Group:dying"), topic("PUB", "f/#")),
        lambda c: c.queue_declare("dying", arguments={"x-dead-letter-exchange": "f"}),
    ),
    Operation("declare an exchange", (topic("CREATE", "made"),), lambda c: c.exchange_declare("made", "direct")),
    Operation(
        "declare an exchange with an alternate",
        (topic("CREATE", "lost"), topic("SUB", "lost/#"), topic("PUB", "f/#")),
        lambda c: c.exchange_declare("lost", "direct", arguments={"alternate-exchange": "f"}),
    ),
    Operation("delete a queue", (topic("DELETE", "new"),), lambda c: c.queue_delete("new")),
    Operation("delete an exchange", (topic("DELETE", "made"),), lambda c: c.exchange_delete("made")),
    Operation("bind", (topic("UPDATE", "q"), topic("SUB", "e/k/#")), lambda c: c.queue_bind("q", "e", "k.#")),
    Operation(
        "bind to MQTT", (topic("UPDATE", "q"), topic("SUB", "a/#")), lambda c: c.queue_bind("q", "amq.topic", "a.#")
    ),
    Operation("unbind", (topic("UPDATE", "q"),), lambda c: c.queue_unbind("q", "e", "k.#")),
    Operation(
        "bind exchanges",
        (topic("UPDATE", "f"), topic("SUB", "e/k"), topic("PUB", "f/k")),
        lambda c: c.exchange_bind("f", "e", "k"),
    ),
]
each = cases("operation", OPERATIONS, ids=lambda operation: operation.name)


@each
def test_who_has_what_it_needs_is_let_through(site: Site, operation: Operation) -> None:
    prepare(site, operation)
    assert not operation.is_denied(site, site.user(*said("ALLOW", *operation.needs)))


def prepare(site: Site, operation: Operation) -> None:
    """What is to be deleted has to be there."""
    if operation.name.startswith("delete"):
        connection = site.connect("root", "root")
        connection.channel().queue_declare("new")
        connection.channel().exchange_declare("made", "direct")
        connection.close()


@each
def test_who_lacks_a_part_is_not(site: Site, operation: Operation) -> None:
    prepare(site, operation)
    for lacking in operation.needs:
        others = [need for need in operation.needs if need != lacking]
        actions = [action for action in ("PUB", "SUB", "CREATE", "UPDATE", "GET") if action != lacking[0]]
        near = {"effect": "ALLOW", "actions": actions, "resources": [lacking[1]]}
        elsewhere = {"effect": "ALLOW", "actions": [lacking[0]], "resources": [f"{lacking[1].split(':')[0]}:other"]}
        assert operation.is_denied(site, site.user(*said("ALLOW", *others), near, elsewhere))


@each
def test_a_denial_goes_before_all(site: Site, operation: Operation) -> None:
    prepare(site, operation)
    for need in operation.needs:
        assert operation.is_denied(site, site.user(EVERYTHING, *said("DENY", need)))


@each
def test_who_has_nothing_may_do_nothing(site: Site, operation: Operation) -> None:
    prepare(site, operation)
    assert operation.is_denied(site, site.user())


# -- who comes in ------------------------------------------------------------------------------------------------------


@cases("name, password", [("root", "wrong"), ("unknown", "x"), ("root", ""), ("guest", "guest")])
def test_wrong_credentials_do_not_come_in(site: Site, name: str, password: str) -> None:
    with pytest.raises(ProbableAuthenticationError):
        site.connect(name, password)


def test_a_virtual_host_that_is_not_there(site: Site) -> None:
    with pytest.raises(AMQPConnectionError) as refusal:
        site.connect("root", "root", vhost="nowhere")
    assert "530" in str(refusal.value) or "vhost nowhere not found" in repr(refusal.value)


def test_a_certificate_is_an_identity(site: Site) -> None:
    user = site.user(*said("ALLOW", topic("PUB", "q")))
    context = site.authority.client_context(site.authority.issue("app", common_name=user))
    parameters = pika.ConnectionParameters(
        "localhost",
        site.server.port("amqps"),
        credentials=pika.credentials.ExternalCredentials(),
        ssl_options=pika.SSLOptions(context, "localhost"),
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"x")
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.basic_publish("", "r", b"x")
    connection.close()


TOKEN_SECONDS = 2


def test_a_token_is_a_password_until_it_ends_unless_it_is_renewed(site: Site) -> None:
    user = site.user(*said("ALLOW", topic("PUB", "q")))
    with pytest.raises(ProbableAuthenticationError):
        site.connect(user, site.issuer.token(user, -5))
    renewed = wait_until(lambda: with_a_short_token(site, user, is_renewed=True), "a token is renewed before it ends")
    ending = wait_until(lambda: with_a_short_token(site, user), "a token is used before it ends")
    wait_until(lambda: is_closed(ending), "the token has ended")
    assert not is_closed(renewed)
    renewed.close()


def test_a_new_secret_is_taken_where_the_old_one_lasts_and_a_wrong_token_is_not(site: Site) -> None:
    user = site.user(*said("ALLOW", topic("PUB", "q")))
    connection = site.connect(user)
    connection.update_secret("whatever", "rotation")
    connection.channel().basic_publish("", "q", b"x")
    connection.close()
    connection = site.connect(user, site.issuer.token(user, 600))
    with pytest.raises(ConnectionClosedByBroker, match="update-secret"):
        connection.update_secret("whatever", "rotation")


def with_a_short_token(site: Site, user: str, *, is_renewed: bool = False) -> pika.BlockingConnection | None:
    """A connection; none where this machine stopped for as long as the token was good for."""
    try:
        connection = site.connect(user, site.issuer.token(user, TOKEN_SECONDS))
        if is_renewed:
            connection.update_secret(site.issuer.token(user, 600), "it ends")
    except (ProbableAuthenticationError, ConnectionClosedByBroker):
        return None
    return connection


def is_closed(connection: pika.BlockingConnection) -> bool:
    ends: list[ConnectionClosedByBroker] = []
    try:
        connection.process_data_events(0.05)
    except ConnectionClosedByBroker as end:
        ends.append(end)
    assert [each.reply_code for each in ends] in ([], [320]), ends
    return bool(ends or connection.is_closed)


# -- while connected ---------------------------------------------------------------------------------------------------


def test_a_right_that_is_revoked_ends_at_once(site: Site) -> None:
    user = site.user(*said("ALLOW", topic("PUB", "q"), ("SUB", "Group:q")))
    connection = site.connect(user)
    channel, publishing = connection.channel(), connection.channel()
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("q", lambda *given: None)
    publishing.confirm_delivery()
    publishing.basic_publish("", "q", b"x")
    site.allow(user, *said("ALLOW", topic("PUB", "other")))
    wait_until(lambda: connection.process_data_events(0.05) or cancelled, "the consumer is cancelled")
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        publishing.basic_publish("", "q", b"x")
    connection.close()


def test_a_user_that_is_deleted_is_disconnected(site: Site) -> None:
    user = site.user(*said("ALLOW", topic("PUB", "q")))
    connection = site.connect(user)
    assert site.root.delete(f"/api/v1/users/{user}").status_code == 204
    wait_until(lambda: is_closed(connection), "the connection is closed")

"""The authorisation grid at the MQTT door: operation x decision, and what changes while a client is connected.

As in the grid of the HTTP door, an operation says what it needs.  Who has exactly that is let through; who has none of
it, all but a part, or a denial besides, is not.  The decision point is the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from entrepot.domain.share import filtered_share_group
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Pubrec,
    Suback,
    Subscribe,
    Subscription,
    Will,
)
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.cases import cases
from tests.support.http.access import ROOT, Statement, TokenIssuer, allow, new_user, said
from tests.support.mqtt.client import RawClient
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

Needs = tuple[tuple[str, str], ...]
EVERYTHING = {"effect": "ALLOW", "actions": ["ALL"], "resources": ["Topic:*", "Group:*", "Cluster:*", "Namespace:*"]}


@dataclass
class Site:
    """A running server, its super user, and one who sees everything that is published."""

    server: ServerProcess
    root: httpx2.Client
    authority: TestAuthority
    issuer: TokenIssuer
    watcher: RawClient = field(init=False)

    def user(self, *statements: Statement, name: str = "") -> str:
        """A new user with statements; its name."""
        return new_user(self.root, *statements, name=name)

    def allow(self, name: str, *statements: Statement) -> None:
        allow(self.root, name, *statements)

    def client(self, name: str | None, password: str = "pw", client_id: str = "", **options: Any) -> RawClient:
        """Connected, or refused: `answer` of what comes back says which."""
        client = RawClient(self.server.port("mqtt"))
        secret = password.encode() if name is not None else None
        client.say(Connect(client_id, 5, username=name, password=secret, **options))
        client.answer = client.expect(Connack)  # type: ignore[attr-defined]
        return client


def reason_of(client: RawClient) -> ReasonCode:
    return client.answer.reason  # type: ignore[attr-defined,no-any-return]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("grid")
    authority = TestAuthority(directory)
    issuer = TokenIssuer(directory)
    settings = {
        **ROOT,
        **issuer.settings,
        "security.anonymous": "always",
        "security.certificate_identity": "cn",
        "mqtt.tls_port": "0",
        "mqtt.tls_certificate": str(authority.issue("server")),
        "mqtt.tls_ca": str(authority.file),
        "mqtt.tls_client_certificates": "optional",
    }
    with ServerProcess(directory, settings) as server:
        url = f"http://{server.address('http')}"
        with httpx2.Client(base_url=url, auth=("root", "root"), timeout=PATIENCE_SECONDS, trust_env=False) as root:
            made = Site(server, root, authority, issuer)
            with made.client("root", "root") as made.watcher:
                made.watcher.subscribe("grid/#")
                yield made
        assert "Traceback" not in server.log_text(), server.log_text()


# -- operations: each says whether it was denied -----------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """One thing to do, the rights that it needs, and a way to do it that answers whether it was denied."""

    name: str
    needs: Needs
    is_denied: Callable[[Site, str], bool] = field(repr=False, compare=False)


def publishing(name: str, qos: int, needs: Needs, *, retain: bool = False) -> Operation:
    def is_denied(site: Site, user: str) -> bool:
        body = uuid.uuid4().hex.encode()
        with site.client(user) as client:
            client.say(Publish(name, body, qos, 1 if qos else 0, retain), *(() if qos else (Pingreq(),)))
            if qos:
                answer: Puback | Pubrec = client.expect(Puback) if qos == 1 else client.expect(Pubrec)
                assert answer.reason in (
                    ReasonCode.SUCCESS,
                    ReasonCode.NOT_AUTHORIZED,
                    ReasonCode.NO_MATCHING_SUBSCRIBERS,
                )
                return answer.reason == ReasonCode.NOT_AUTHORIZED
            found = client.read_some()
            if not any(isinstance(each, Pingresp) for each in found):
                assert [each.reason for each in found if isinstance(each, Disconnect)] == [ReasonCode.NOT_AUTHORIZED]
                return True
        with site.client("root", "root") as marker:
            marker.publish(name, b"end " + body)
        seen: list[bytes] = []
        while (b"end " + body) not in seen:
            seen += [each.payload for each in site.watcher.expect_deliveries(1)]
        return body not in seen

    return Operation(f"publish {name} {qos}{' retained' if retain else ''}", needs, is_denied)


def with_will(name: str, needs: Needs) -> Operation:
    def is_denied(site: Site, user: str) -> bool:
        with site.client(user, will=Will(name, b"will", 1)) as client:
            assert reason_of(client) in (ReasonCode.SUCCESS, ReasonCode.NOT_AUTHORIZED)
            if reason_of(client) == ReasonCode.SUCCESS:
                client.say(Disconnect())
            return reason_of(client) == ReasonCode.NOT_AUTHORIZED

    return Operation(f"will {name}", needs, is_denied)


def subscribing(text: str, needs: Needs) -> Operation:
    def is_denied(site: Site, user: str) -> bool:
        with site.client(user) as client:
            client.say(Subscribe(1, [Subscription(text, 1)]))
            (reason,) = client.expect(Suback).reasons
            assert reason in (ReasonCode.GRANTED_QOS_1, ReasonCode.NOT_AUTHORIZED), reason
            return reason == ReasonCode.NOT_AUTHORIZED

    return Operation(f"subscribe {text}", needs, is_denied)


PUB = (("PUB", "Topic:grid/a"),)
OPERATIONS = [
    *[publishing("grid/a", qos, PUB) for qos in (0, 1, 2)],
    publishing("grid/a", 1, PUB, retain=True),
    publishing("grid/a", 2, PUB, retain=True),
    publishing("$delayed/0/grid/a", 1, PUB),
    with_will("grid/a", PUB),
    with_will("$delayed/0/grid/a", PUB),
    subscribing("grid/a", (("SUB", "Topic:grid/a"),)),
    subscribing("grid/+/x", (("SUB", "Topic:grid/+/x"),)),
    subscribing("grid/#", (("SUB", "Topic:grid/#"),)),
    subscribing("#", (("SUB", "Topic:*"),)),
    subscribing("$share/workers/grid/#", (("SUB", "Topic:grid/#"), ("SUB", "Group:workers"))),
    subscribing(
        "$share/workers/grid/a",
        (("SUB", "Topic:grid/a"), ("SUB", f"Group:{filtered_share_group('workers', 'grid/a')}")),
    ),
    subscribing("$replay/earliest/grid/#", (("SUB", "Topic:grid/#"),)),
    subscribing("$replay/-2h/grid/+", (("SUB", "Topic:grid/+"),)),
    subscribing("$SYS/broker/#", (("SUB", "Topic:*"),)),
]
each = cases("operation", OPERATIONS, lambda operation: operation.name)


@each
def test_who_has_what_it_needs_is_let_through(site: Site, operation: Operation) -> None:
    assert not operation.is_denied(site, site.user(*said("ALLOW", *operation.needs)))


@each
def test_who_lacks_a_part_is_not(site: Site, operation: Operation) -> None:
    for lacking in operation.needs:
        others = [need for need in operation.needs if need != lacking]
        actions = [action for action in ("PUB", "SUB", "CREATE", "UPDATE", "GET") if action != lacking[0]]
        near = {"effect": "ALLOW", "actions": actions, "resources": [lacking[1]]}
        elsewhere = {"effect": "ALLOW", "actions": [lacking[0]], "resources": [f"{lacking[1].split(':')[0]}:other"]}
        assert operation.is_denied(site, site.user(*said("ALLOW", *others), near, elsewhere))


@each
def test_a_denial_goes_before_all(site: Site, operation: Operation) -> None:
    for need in operation.needs:
        assert operation.is_denied(site, site.user(EVERYTHING, *said("DENY", need)))


@each
def test_who_has_nothing_may_do_nothing(site: Site, operation: Operation) -> None:
    assert operation.is_denied(site, site.user())


# -- who comes in ------------------------------------------------------------------------------------------------------


@cases("name, password", [("root", "wrong"), ("unknown", "x"), ("root", "")])
def test_wrong_credentials_do_not_come_in(site: Site, name: str, password: str) -> None:
    with site.client(name, password) as client:
        assert reason_of(client) == ReasonCode.BAD_USER_NAME_OR_PASSWORD


def test_anonymous_clients_have_the_rights_of_anonymous(site: Site) -> None:
    site.allow("anonymous", *said("ALLOW", ("PUB", "Topic:open/#")))
    with site.client(None, client_id="nobody") as client:
        assert reason_of(client) == ReasonCode.SUCCESS
        assert client.publish("open/x").reason == ReasonCode.SUCCESS
        assert client.publish("grid/a", packet_id=2).reason == ReasonCode.NOT_AUTHORIZED


def test_placeholders_are_the_clients_own(site: Site) -> None:
    user = site.user(*said("ALLOW", ("PUB", "Topic:d/${clientid}/#"), ("PUB", "Topic:u/${username}")))
    with site.client(user, client_id="device-7") as client:
        wanted = {"d/device-7/x": True, "d/device-8/x": False, f"u/{user}": True, "u/root": False, "d/+/x": False}
        for number, (name, is_allowed) in enumerate(wanted.items(), 1):
            if "+" in name:
                continue
            answer = client.publish(name, packet_id=number)
            assert (answer.reason == ReasonCode.SUCCESS) == is_allowed, name
    with site.client(user, client_id="a/b") as client:  # fits no level
        assert client.publish("d/a/b/x").reason == ReasonCode.NOT_AUTHORIZED


def test_the_source_address_is_a_condition(site: Site) -> None:
    for sources, is_allowed in ((["127.0.0.0/8"], True), (["10.0.0.0/8"], False)):
        (statement,) = said("ALLOW", ("PUB", "Topic:grid/a"))
        with site.client(site.user({**statement, "sources": sources})) as client:
            assert (client.publish("grid/a").reason == ReasonCode.SUCCESS) == is_allowed


def test_a_certificate_is_an_identity(site: Site) -> None:
    user = site.user(*said("ALLOW", ("PUB", "Topic:grid/a")))
    context = site.authority.client_context(site.authority.issue("device", common_name=user))
    with RawClient(site.server.port("mqtts")) as client:
        client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        assert client.connect("by-certificate").reason == ReasonCode.SUCCESS
        assert client.publish("grid/a").reason == ReasonCode.SUCCESS
        assert client.publish("grid/b", packet_id=2).reason == ReasonCode.NOT_AUTHORIZED


def test_a_token_is_a_password_until_it_ends(site: Site) -> None:
    user = site.user(*said("ALLOW", ("PUB", "Topic:grid/a")))
    with site.client(user, site.issuer.token(user, -5)) as client:
        assert reason_of(client) == ReasonCode.BAD_USER_NAME_OR_PASSWORD
    with site.client(user, site.issuer.token(user, 1000)) as client:
        assert reason_of(client) == ReasonCode.SUCCESS
        assert client.publish("grid/a").reason == ReasonCode.SUCCESS


def test_a_connection_ends_with_its_token(site: Site) -> None:
    user = site.user(*said("ALLOW", ("PUB", "Topic:grid/a")))

    def connected() -> RawClient | None:
        """A machine that is slow asks for a token that lasts longer."""
        for seconds in (3, 10, 30):
            client = site.client(user, site.issuer.token(user, seconds))
            if reason_of(client) == ReasonCode.SUCCESS:
                return client
        return None

    client = connected()
    assert client is not None
    with client:
        (goodbye,) = client.read_to_end()
        assert isinstance(goodbye, Disconnect) and goodbye.reason >= 0x80


# -- while connected ---------------------------------------------------------------------------------------------------


def test_a_right_that_is_revoked_ends_at_once(site: Site) -> None:
    name = f"grid/{uuid.uuid4().hex[:8]}"
    user = site.user(*said("ALLOW", ("PUB", "Topic:grid/#"), ("SUB", "Topic:grid/#")))
    with site.client(user) as client, site.client("root", "root") as other:
        client.subscribe(name)
        other.publish(name, b"before")
        assert [each.payload for each in client.expect_deliveries(1)] == [b"before"]
        assert client.publish("grid/a", packet_id=7).reason == ReasonCode.SUCCESS
        site.allow(user, *said("ALLOW", ("SUB", "Topic:grid/other")))
        numbers = iter(range(10, 60_000))
        wait_until(
            lambda: client.publish("grid/a", packet_id=next(numbers)).reason == ReasonCode.NOT_AUTHORIZED,
            "publishing is refused",
        )
        for each_ in client.deliveries:
            assert each_.payload == b"before"
        other.publish(name, b"after", packet_id=2)
        client.say(Pingreq())
        client.expect(Pingresp)
        assert [delivery.payload for delivery in client.deliveries] == []
        client.say(Subscribe(9, [Subscription(name, 1)]))
        assert client.expect(Suback).reasons == [ReasonCode.NOT_AUTHORIZED]


def test_a_user_that_is_deleted_or_disabled_loses_its_rights(site: Site) -> None:
    for change in ("delete", "disable"):
        user = site.user(*said("ALLOW", ("PUB", "Topic:grid/#")))
        with site.client(user) as client:
            assert client.publish("grid/a").reason == ReasonCode.SUCCESS
            if change == "delete":
                assert site.root.delete(f"/api/v1/users/{user}").status_code == 204
            else:
                assert site.root.put(f"/api/v1/users/{user}", json={"enabled": False}).status_code == 200
            numbers = iter(range(10, 60_000))

            def is_over(client: RawClient = client, numbers: Iterator[int] = numbers) -> bool:
                client.say(Publish("grid/a", b"x", 1, next(numbers)))
                found = client.read_some()
                return not found or getattr(found[0], "reason", 0) >= 0x80

            wait_until(is_over, f"after {change}")
        with site.client(user) as client:
            assert reason_of(client) >= 0x80

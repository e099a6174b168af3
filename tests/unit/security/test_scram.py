"""SCRAM-SHA-256 with scramp's client as the peer."""

from __future__ import annotations

import pytest
from scramp import ScramClient  # type: ignore[import-untyped]

from entrepot.domain.access.model import Action, Origin, Principal, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.security.changes import UserChange
from entrepot.gateway.security.scram import ScramExchange
from entrepot.gateway.security.security import Security
from tests.support.cases import cases
from tests.unit.security.conftest import ME, Opened, shown


def exchange_of(security: Security) -> ScramExchange:
    return security.scram(shown(client_id="c1"))


def log_in(security: Security, name: str, password: str) -> Principal:
    exchange, client = exchange_of(security), ScramClient(["SCRAM-SHA-256"], name, password)
    answer, nobody = exchange.step(client.get_client_first().encode())
    assert nobody is None
    client.set_server_first(answer.decode())
    answer, principal = exchange.step(client.get_client_final().encode())
    client.set_server_final(answer.decode())  # the server has proved itself, too
    assert principal is not None
    return principal


async def test_client_and_server_prove_themselves(security: Security) -> None:
    await security.administration.put_user(ME, "bob", UserChange(is_super=True))
    bob = log_in(security, "bob", "bob")
    assert (bob.name, bob.origin, bob.client_id) == ("bob", Origin.SCRAM, "c1")
    assert security.allows(bob, Action.PUB, ResourceType.TOPIC, "a")
    await security.administration.put_user(ME, "bob", UserChange("other"))
    assert not security.allows(bob, Action.PUB, ResourceType.TOPIC, "a")
    assert log_in(security, "bob", "other").name == "bob"


@cases("name, password", [("bob", "wrong"), ("nobody", "x"), ("keyless", "x")])
async def test_wrong_passwords_and_unknown_names_look_alike(security: Security, name: str, password: str) -> None:
    await security.administration.put_user(ME, "keyless", UserChange())
    exchange, client = exchange_of(security), ScramClient(["SCRAM-SHA-256"], name, password)
    answer, _ = exchange.step(client.get_client_first().encode())
    client.set_server_first(answer.decode())
    final = client.get_client_final().encode()
    for _ in range(2):
        with pytest.raises(EntrepotError) as refusal:
            exchange.step(final)
        assert refusal.value.code is Code.UNAUTHORIZED
    entry = security.audit.newest(1)[0]
    assert (entry.event, entry.subject) == ("login refused", name)


async def test_an_unknown_name_has_the_same_salt_each_time(security: Security) -> None:
    salts = set()
    for _ in range(2):
        client = ScramClient(["SCRAM-SHA-256"], "nobody", "x")
        answer, _ = exchange_of(security).step(client.get_client_first().encode())
        salts.add(dict(part.split("=", 1) for part in answer.decode().split(","))["s"])
    assert len(salts) == 1


def iterations_of(security: Security, name: str) -> int:
    client = ScramClient(["SCRAM-SHA-256"], name, "x")
    answer, _ = exchange_of(security).step(client.get_client_first().encode())
    return int(dict(part.split("=", 1) for part in answer.decode().split(","))["i"])


async def test_iterations_tell_no_names(opened: Opened) -> None:
    """Keys from before the setting was raised stay valid, and an unknown name may have as few."""
    before, after = await opened(scram_iterations=4096), await opened(scram_iterations=5000)
    for number in range(8):
        made_by = before if number % 2 else after
        await made_by.administration.put_user(ME, f"u{number}", UserChange("pw", is_super=True))
    assert log_in(after, "u1", "pw").name == "u1"
    assert (iterations_of(after, "u1"), iterations_of(after, "u2")) == (4096, 5000)
    unknown = {f"nobody-{number}" for number in range(64)}
    assert {iterations_of(after, name) for name in unknown} == {4096, 5000}
    assert all(iterations_of(after, name) == iterations_of(after, name) for name in unknown)


async def test_a_disabled_user_is_refused_at_the_end(security: Security) -> None:
    await security.administration.put_user(ME, "bob", UserChange(is_enabled=False))
    with pytest.raises(EntrepotError) as refusal:
        log_in(security, "bob", "bob")
    assert refusal.value.code is Code.FORBIDDEN


@cases("data", [b"", b"\xff", b"n,,", b"n,,n=bob", b"p=tls-unique,,n=bob,r=x", b"n" * 5000, b"n,,r=x,n=y"])
async def test_what_is_no_first_message(security: Security, data: bytes) -> None:
    exchange = exchange_of(security)
    with pytest.raises(EntrepotError) as refusal:
        exchange.step(data)
    assert refusal.value.code is Code.UNAUTHORIZED
    with pytest.raises(EntrepotError):
        exchange.step(b"n,,n=bob,r=abcdef")

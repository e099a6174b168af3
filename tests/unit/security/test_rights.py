"""Decisions: policies, super users, what is remembered, the audit log, and how users and policies are changed."""

from __future__ import annotations

import json

import pytest

from entrepot.domain.access.model import EVERYBODY, Action, Decision, Effect, Request, ResourceType, Statement
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.security.changes import UserChange
from entrepot.gateway.security.explaining import explain
from entrepot.gateway.security.security import PrincipalChange, Security
from tests.support.cases import cases
from tests.support.stores.model_store import MemoryStore
from tests.unit.security.conftest import ME, Opened, StandingClock, shown

TOPIC = ResourceType.TOPIC


def allow(*resources: str) -> Statement:
    return Statement(Effect.ALLOW, (Action.PUB, Action.SUB), resources)


def deny(*resources: str) -> Statement:
    return Statement(Effect.DENY, (Action.ALL,), resources)


async def test_policies_are_asked_and_their_change_counts_at_once(security: Security) -> None:
    bob = await security.authenticate(shown("bob", "bob", client_id="c1"))
    asks = [(Action.PUB, "u/bob/x"), (Action.SUB, "u/bob/#"), (Action.SUB, "u/#"), (Action.PUB, "d/c1")]

    def answers() -> list[bool]:
        return [security.allows(bob, action, TOPIC, name) for action, name in asks]

    assert answers() == [False] * 4
    told: list[PrincipalChange] = []
    security.watch_principals(told.append)
    await security.administration.put_policy(ME, "bob", [allow("Topic:u/${username}/#", "Topic:d/${clientid}")])
    assert answers() == [True, True, False, True]
    await security.administration.put_policy(ME, EVERYBODY, [deny("Topic:d/#")])
    assert answers() == [True, True, False, False]
    await security.administration.delete_policy(ME, "bob")
    assert answers() == [False] * 4
    assert told == [PrincipalChange("bob", False), PrincipalChange(None, False), PrincipalChange("bob", False)]


async def test_super_users_are_bound_by_no_policy(security: Security) -> None:
    root = await security.authenticate(shown("root", "root"))
    await security.administration.put_policy(ME, EVERYBODY, [deny("Topic:*")])
    assert security.allows(root, Action.PUB, TOPIC, "a")
    assert security.may_administer(root)
    bob = await security.authenticate(shown("bob", "bob"))
    assert not security.may_administer(bob)


async def test_a_policy_binds_anonymous_clients_even_without_users(opened: Opened) -> None:
    security = await opened()
    await security.administration.put_policy(ME, "anonymous", [allow("Topic:open/#")])
    nobody = await security.authenticate(shown(source="127.0.0.1"))
    assert security.allows(nobody, Action.PUB, TOPIC, "open/x")
    assert not security.allows(nobody, Action.PUB, TOPIC, "a")
    assert not security.may_administer(nobody)


async def test_a_policy_that_cannot_be_read_denies(security: Security, store: MemoryStore) -> None:
    await security.administration.put_policy(ME, "bob", [allow("Topic:#")])
    bob = await security.authenticate(shown("bob", "bob"))
    assert security.allows(bob, Action.PUB, TOPIC, "a")
    await store.key_values.write([KeyValueChange("acl/*", b'{"subject":"*","statements":[{"effect":"MAYBE"}]}')])
    assert not security.allows(bob, Action.PUB, TOPIC, "a")
    await store.key_values.write([KeyValueChange("acl/*", None)])
    assert security.allows(bob, Action.PUB, TOPIC, "a")


async def test_remembered_decisions_are_bounded(opened: Opened) -> None:
    security = await opened(max_cached_decisions=10)
    nobody = await security.authenticate(shown(source="127.0.0.1"))
    for number in range(100):
        assert security.allows(nobody, Action.PUB, TOPIC, f"a/{number}")
    assert len(security._decisions) <= 10


def decided(security: Security, subject: str, name: str) -> Decision:
    principal = security.principal_named(subject, "10.0.0.1", "")
    found = explain(security, principal, Request(Action.SUB, TOPIC, name))
    assert found.decision == security.why(principal, Action.SUB, TOPIC, name)
    if found.deciding is not None:
        assert (found.deciding.subject, found.deciding.statement) == (found.decision.subject, found.decision.statement)
    return found.decision


async def test_explain_names_the_statement(security: Security) -> None:
    statement = allow("Topic:a/#")
    await security.administration.put_policy(ME, "bob", [statement, deny("Topic:a/secret")])
    said = decided(security, "bob", "a/b")
    assert (said.is_allowed, said.subject, said.statement) == (True, "bob", statement)
    said = decided(security, "bob", "a/#")
    assert said.statement == deny("Topic:a/secret")
    assert not decided(security, "nobody", "a/b").is_allowed
    assert decided(security, "root", "a/b").is_allowed


# -- changing --------------------------------------------------------------------------------------------------------


async def refuses(code: Code, security: Security, name: str, change: UserChange | None) -> None:
    administration = security.administration
    made = administration.delete_user(ME, name) if change is None else administration.put_user(ME, name, change)
    with pytest.raises(EntrepotError) as refusal:
        await made  # type: ignore[misc]
    assert refusal.value.code is code


async def test_there_is_always_a_super_user(opened: Opened) -> None:
    security = await opened()
    await refuses(Code.PRECONDITION_FAILED, security, "bob", UserChange("bob"))
    await refuses(Code.PRECONDITION_FAILED, security, "root", UserChange("root", is_super=True, is_enabled=False))
    await security.administration.put_user(ME, "root", UserChange("root", is_super=True))
    for change in (UserChange(is_super=False), UserChange(is_enabled=False), None):
        await refuses(Code.PRECONDITION_FAILED, security, "root", change)
    await security.administration.put_user(ME, "second", UserChange(is_super=True))
    assert await security.administration.delete_user(ME, "root")
    assert not await security.administration.delete_user(ME, "root")


@cases("name", ["", "*", "anonymous", " x", "a\nb", "x" * 257])
async def test_names_that_cannot_be(security: Security, name: str) -> None:
    await refuses(Code.BAD_REQUEST, security, name, UserChange("x"))


@cases("password", ["", "x" * 1025, "a\0b"])
async def test_passwords_that_cannot_be(security: Security, password: str) -> None:
    await refuses(Code.BAD_REQUEST, security, "bob", UserChange(password))


async def test_the_admin_of_the_settings_is_made_once(opened: Opened, tmp_path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    first = await opened(initial_admin="admin", initial_admin_password_file=file)
    assert first.may_administer(await first.authenticate(shown("admin", "secret")))
    second = await opened(initial_admin="admin", initial_admin_password="other")
    assert (await second.authenticate(shown("admin", "secret"))).name == "admin"
    await first.administration.put_user(ME, "second", UserChange("second", is_super=True))
    await first.administration.delete_user(ME, "admin")
    third = await opened(initial_admin="admin", initial_admin_password="other")
    assert third.administration.user("admin") is None, "who was deleted does not come back"


@cases("text", [None, "", "\nsecret"])
async def test_a_password_that_cannot_be_read_makes_nobody(opened: Opened, tmp_path, text: str | None) -> None:
    file = tmp_path / "password"
    if text is not None:
        file.write_text(text)
    with pytest.raises(EntrepotError, match="first user"):
        await opened(initial_admin="admin", initial_admin_password_file=file)
    assert (await opened()).administration.users() == []


async def test_a_super_user_comes_back_where_there_is_none(opened: Opened, store: MemoryStore) -> None:
    first = await opened(initial_admin="admin", initial_admin_password="one")
    await first.administration.put_user(ME, "bob", UserChange("bob"))
    (found,) = await store.key_values.get(["user/admin"])
    assert found is not None
    await store.key_values.write(
        [KeyValueChange("user/admin", None, found.version)]
    )  # as two gateways may do at one moment
    second = await opened(initial_admin="admin", initial_admin_password="two")
    assert second.may_administer(await second.authenticate(shown("admin", "two")))


# -- audit -----------------------------------------------------------------------------------------------------------


async def test_the_audit_log_tells_and_keeps_secrets(security: Security, clock: StandingClock) -> None:
    with pytest.raises(EntrepotError):
        await security.authenticate(shown("bob", "canary-wrong"))
    bob = await security.authenticate(shown("bob", "bob"))
    security.allows(bob, Action.PUB, TOPIC, "a/b", "mqtt")
    await security.administration.put_user(ME, "bob", UserChange("canary-new"))
    entries = security.audit.newest(100)
    assert [entry.event for entry in entries[:3]] == ["user changed", "denied", "login refused"]
    denied = entries[1]
    assert (denied.subject, denied.source, denied.protocol) == ("bob", "10.0.0.9", "mqtt")
    assert (denied.action, denied.resource) == ("PUB", "Topic:a/b")
    assert "canary" not in json.dumps([str(entry) for entry in entries])
    assert security.audit.newest(1, before=entries[0].number) == [entries[1]]


async def test_a_flood_of_denials_is_counted(opened: Opened, clock: StandingClock) -> None:
    security = await opened(audit_per_second=5, audit_entries=8)
    for _ in range(50):
        with pytest.raises(EntrepotError):
            await security.authenticate(shown("x", "y"))
    assert len(security.audit.newest(100)) == 5
    assert security.audit.suppressed == 45
    clock.at_ms += 1000
    for _ in range(50):
        with pytest.raises(EntrepotError):
            await security.authenticate(shown("x", "y"))
    assert len(security.audit.newest(100)) == 8

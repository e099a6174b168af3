"""Who is let in: anonymous clients, passwords, certificates; what is remembered, and what ends it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from entrepot.domain.access.model import Action, Origin, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.security.changes import UserChange
from entrepot.gateway.security.credentials import CertificateIdentity
from entrepot.gateway.security.security import PrincipalChange, Security
from tests.support.stores.model_store import MemoryStore
from tests.unit.security.conftest import ME, Opened, StandingClock, shown


async def refused(security: Security, code: Code, *arguments: str | None, **more: Any) -> None:
    with pytest.raises(EntrepotError) as refusal:
        await security.authenticate(shown(*arguments, **more))
    assert refusal.value.code is code


def may_publish(security: Security, principal: object, name: str = "a") -> bool:
    return security.allows(principal, Action.PUB, ResourceType.TOPIC, name)  # type: ignore[arg-type]


async def test_without_users_this_machine_is_anonymous_whatever_it_shows(opened: Opened) -> None:
    security = await opened()
    for name, password in ((None, None), ("x", "y"), ("x", None)):
        principal = await security.authenticate(shown(name, password, source="127.0.0.1"))
        assert principal.is_anonymous
        assert may_publish(security, principal)
        assert security.may_administer(principal)
    await refused(security, Code.UNAUTHORIZED)
    await refused(security, Code.UNAUTHORIZED, "x", "y")
    await refused(security, Code.UNAUTHORIZED, source="")
    assert security.anonymous_at_once("127.0.0.1") is not None
    assert security.anonymous_at_once("10.0.0.9") is None


async def test_never_and_always(opened: Opened) -> None:
    never = await opened(anonymous="never")
    await refused(never, Code.UNAUTHORIZED, source="127.0.0.1")
    assert never.anonymous_at_once("127.0.0.1") is None
    always = await opened(anonymous="always")
    assert may_publish(always, await always.authenticate(shown()))
    await always.administration.put_user(ME, "root", UserChange("root", is_super=True))
    nobody = await always.authenticate(shown())
    assert nobody.is_anonymous
    assert not may_publish(always, nobody), "with users there, only what policies of anonymous allow"
    await refused(always, Code.UNAUTHORIZED, "x", "y")
    await refused(always, Code.UNAUTHORIZED, "x")


async def test_from_the_first_user_on_credentials_are_needed(opened: Opened) -> None:
    security = await opened()
    early = await security.authenticate(shown(source="127.0.0.1"))
    told: list[PrincipalChange] = []
    security.watch_principals(told.append)
    await security.administration.put_user(ME, "root", UserChange("root", is_super=True))
    assert PrincipalChange("anonymous", is_revoked=True) in told
    assert not may_publish(security, early), "who came before has no rights any more"
    assert not security.may_administer(early)
    for arguments in ((None, None), ("x", "y"), ("root", "wrong"), ("root", None), ("", "")):
        await refused(security, Code.UNAUTHORIZED, *arguments, source="127.0.0.1")
    assert may_publish(security, await security.authenticate(shown("root", "root")))


async def test_the_same_right_password_is_checked_once(security: Security) -> None:
    before = security._passwords.checks
    principals = await asyncio.gather(*(security.authenticate(shown("bob", "bob")) for _ in range(2000)))
    assert {principal.name for principal in principals} == {"bob"}
    assert security._passwords.checks == before + 1


async def test_what_is_remembered_cannot_be_guessed(security: Security, clock: StandingClock) -> None:
    await security.authenticate(shown("bob", "bob"))
    for number in range(security.settings.max_failed_logins):
        await refused(security, Code.UNAUTHORIZED, "bob", f"guess {number}")
    await refused(security, Code.TOO_MANY_REQUESTS, "bob", "bob")
    clock.at_ms += 61_000
    assert (await security.authenticate(shown("bob", "bob"))).name == "bob"


async def test_what_was_right_is_forgotten_after_a_while(security: Security, clock: StandingClock) -> None:
    await security.authenticate(shown("bob", "bob"))
    before = security._passwords.checks
    clock.at_ms += 59_000
    await security.authenticate(shown("bob", "bob"))
    assert security._passwords.checks == before
    clock.at_ms += 2_000
    await security.authenticate(shown("bob", "bob"))
    assert security._passwords.checks == before + 1


async def test_a_name_that_is_not_known_costs_a_check(security: Security) -> None:
    before = security._passwords.checks
    await refused(security, Code.UNAUTHORIZED, "nobody", "x")
    assert security._passwords.checks == before + 1


async def test_too_many_logins_are_refused(opened: Opened) -> None:
    security = await opened(max_waiting_logins=3)
    await security.administration.put_user(ME, "root", UserChange("root", is_super=True))
    outcomes = await asyncio.gather(
        *(security.authenticate(shown("root", f"wrong{number}")) for number in range(10)), return_exceptions=True
    )
    codes = [outcome.code for outcome in outcomes if isinstance(outcome, EntrepotError)]
    assert codes.count(Code.UNAUTHORIZED) == 3
    assert codes.count(Code.TOO_MANY_REQUESTS) == 7


@pytest.mark.parametrize("change", [UserChange("other"), UserChange(is_enabled=False), None])
async def test_a_change_ends_what_was_recognised(security: Security, change: UserChange | None) -> None:
    await security.administration.put_user(ME, "bob", UserChange(is_super=True))
    bob = await security.authenticate(shown("bob", "bob"))
    assert may_publish(security, bob)
    told: list[PrincipalChange] = []
    security.watch_principals(told.append)
    if change is None:
        await security.administration.delete_user(ME, "bob")
    else:
        await security.administration.put_user(ME, "bob", change)
    assert told == [PrincipalChange("bob", is_revoked=True)]
    assert not may_publish(security, bob)
    disabled = change is not None and change.is_enabled is False
    await refused(security, Code.FORBIDDEN if disabled else Code.UNAUTHORIZED, "bob", "bob")


async def test_a_disabled_user_is_told_so_only_for_the_right_password(security: Security) -> None:
    await security.administration.put_user(ME, "bob", UserChange(is_enabled=False))
    await refused(security, Code.FORBIDDEN, "bob", "bob")
    await refused(security, Code.UNAUTHORIZED, "bob", "wrong")


async def test_another_gateway_hears_of_it(security: Security, opened: Opened) -> None:
    other = await opened()
    bob = await other.authenticate(shown("bob", "bob"))
    await security.administration.put_user(ME, "bob", UserChange(is_super=True))
    assert may_publish(other, bob)
    await security.administration.delete_user(ME, "bob")
    assert not may_publish(other, bob)


# -- certificates ----------------------------------------------------------------------------------------------------

CERTIFICATE = CertificateIdentity("bob", ("spiffe://plant/dev1",), ("dev1.example", "dev2.example"))


async def test_the_name_in_a_certificate_is_a_user(opened: Opened) -> None:
    security = await opened(certificate_identity="cn")
    await security.administration.put_user(ME, "root", UserChange("root", is_super=True))
    await refused(security, Code.UNAUTHORIZED, certificate=CERTIFICATE)
    await security.administration.put_user(ME, "bob", UserChange())
    bob = await security.authenticate(shown(certificate=CERTIFICATE))
    assert (bob.name, bob.origin) == ("bob", Origin.CERTIFICATE)
    await refused(security, Code.UNAUTHORIZED, "root", certificate=CERTIFICATE)
    await refused(security, Code.UNAUTHORIZED, "root", "bob", certificate=CERTIFICATE)
    await refused(security, Code.UNAUTHORIZED, "bob", "", certificate=CERTIFICATE)
    await security.administration.put_user(ME, "bob", UserChange(is_enabled=False))
    await refused(security, Code.FORBIDDEN, certificate=CERTIFICATE)


async def test_certificates_that_need_no_entry(opened: Opened) -> None:
    security = await opened(certificate_identity="san_uri", certificate_needs_user=False)
    device = await security.authenticate(shown(certificate=CERTIFICATE))
    assert device.name == "spiffe://plant/dev1"
    assert not may_publish(security, device), "it has only the rights that policies give"
    dns = await opened(certificate_identity="san_dns", certificate_needs_user=False)
    await refused(dns, Code.UNAUTHORIZED, certificate=CERTIFICATE)
    without = await opened()
    await refused(without, Code.UNAUTHORIZED, certificate=CERTIFICATE)


# -- what fails is closed --------------------------------------------------------------------------------------------


async def test_nobody_comes_in_before_users_are_known(store: MemoryStore, clock: StandingClock) -> None:
    from entrepot.gateway.settings import SecuritySettings

    class BrokenStore:
        def __init__(self) -> None:
            self.watch, self.get = store.key_values.watch, store.key_values.get
            self.age_seconds = store.key_values.age_seconds

        async def scan(self, *arguments: object, **more: object) -> None:
            raise EntrepotError(Code.UNAVAILABLE, "away")

    security = Security(BrokenStore(), SecuritySettings(), clock)  # type: ignore[arg-type]
    with pytest.raises(EntrepotError):
        await security.start()
    await refused(security, Code.UNAVAILABLE, source="127.0.0.1")
    assert security.anonymous_at_once("127.0.0.1") is None
    security.close()


async def test_users_that_are_away_are_waited_for(store: MemoryStore, security: Security, clock: StandingClock) -> None:
    from entrepot.gateway.settings import SecuritySettings

    class AwayStore:
        def __init__(self) -> None:
            self.watch, self.get, self.away = store.key_values.watch, store.key_values.get, 2
            self.age_seconds = store.key_values.age_seconds

        async def scan(self, prefix: str, **more: Any) -> Any:
            self.away -= 1
            if self.away >= 0:
                raise EntrepotError(Code.UNAVAILABLE, "away")
            return await store.key_values.scan(prefix, **more)

    other = Security(AwayStore(), SecuritySettings(), clock)  # type: ignore[arg-type]
    await other.start(wait_seconds=30)
    assert (await other.authenticate(shown("bob", "bob"))).name == "bob"
    other.close()


async def test_a_store_that_keeps_nothing_has_no_users(clock: StandingClock) -> None:
    from entrepot.gateway.settings import SecuritySettings
    from entrepot.store_client.rocketmq.absent import NoKeyValues

    security = Security(NoKeyValues(), SecuritySettings(), clock)
    await security.start()
    assert (await security.authenticate(shown(source="127.0.0.1"))).is_anonymous
    await refused(security, Code.UNAUTHORIZED)
    with pytest.raises(EntrepotError) as refusal:
        await security.administration.put_user(ME, "root", UserChange("root", is_super=True))
    assert refusal.value.code is Code.UNSUPPORTED
    security.close()


async def test_users_that_vanish_open_nothing(security: Security, store: MemoryStore) -> None:
    await store.key_values.write([KeyValueChange("user/root", None), KeyValueChange("user/bob", None)])
    await refused(security, Code.UNAUTHORIZED, source="127.0.0.1")
    assert security.anonymous_at_once("127.0.0.1") is None


async def test_after_the_end_nothing_is_allowed(security: Security) -> None:
    root = await security.authenticate(shown("root", "root"))
    assert may_publish(security, root)
    security.close()
    assert not may_publish(security, root)
    await refused(security, Code.UNAVAILABLE, "root", "root")


async def test_records_that_cannot_be_read_refuse(security: Security, store: MemoryStore) -> None:
    bob = await security.authenticate(shown("bob", "bob"))
    await store.key_values.write([KeyValueChange("user/bob", b"{")])
    assert not may_publish(security, bob)
    await refused(security, Code.UNAUTHORIZED, "bob", "bob")
    await store.key_values.write([KeyValueChange("user/root", b"[]")])
    await refused(security, Code.UNAUTHORIZED, source="127.0.0.1")


async def test_thousands_of_users_are_loaded(store: MemoryStore, security: Security, opened: Opened) -> None:
    value = (await store.key_values.get(["user/bob"]))[0]
    assert value is not None
    for start in range(0, 12_000, 4000):
        names = [f"u{number:05}" for number in range(start, start + 4000)]
        records = [value.value.replace(b'"bob"', f'"{name}"'.encode()) for name in names]
        await store.key_values.write(
            [KeyValueChange(f"user/{name}", record) for name, record in zip(names, records, strict=True)]
        )
    other = await opened()
    assert (await other.authenticate(shown("u11999", "bob"))).name == "u11999"
    assert len(other.administration.users()) == 12_002

"""Logins of browsers: how long each is good, and at which gateways it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count

import pytest

from entrepot.domain.access.model import Action, Effect, Origin, Principal, Statement
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.security.changes import UserChange
from entrepot.gateway.security.login_sessions import LoginSessions
from entrepot.gateway.security.security import Security
from tests.support.cases import cases
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import until
from tests.unit.security.conftest import ME, Opened, StandingClock, shown

LIFE_MS = 3_600_000


class Gateway:
    """The logins of one gateway, and how often it was told of an end."""

    def __init__(self, security: Security, store: MemoryStore, clock: StandingClock) -> None:
        numbers = count()
        self.sessions = LoginSessions(
            security, store.key_values, clock, LIFE_MS / 1000, lambda size: next(numbers).to_bytes(size, "big")
        )
        self.ends = 0
        self.sessions.on_end.append(self._ended)

    def _ended(self) -> None:
        self.ends += 1

    def is_good(self, token: str) -> bool:
        try:
            return self.sessions.login_of(token, "10.0.0.1").principal.source == "10.0.0.1"
        except EntrepotError as refusal:
            return refusal.code is not Code.UNAUTHORIZED


@pytest.fixture
async def gateways(
    security: Security, opened: Opened, store: MemoryStore, clock: StandingClock
) -> AsyncIterator[list[Gateway]]:
    made = [Gateway(each, store, clock) for each in (security, await opened())]
    for each in made:
        await each.sessions.start("a secret", 0)
    yield made
    for each in made:
        await each.sessions.close()


@pytest.fixture
async def bob(security: Security) -> Principal:
    return await security.authenticate(shown("bob", "bob"))


async def test_a_login_is_good_at_every_gateway_until_its_end(
    gateways: list[Gateway], bob: Principal, clock: StandingClock
) -> None:
    token, ends_ms = gateways[0].sessions.open(bob)
    assert ends_ms == clock.now_ms() + LIFE_MS
    assert [each.is_good(token) for each in gateways] == [True, True]
    login = gateways[1].sessions.login_of(token, "10.0.0.7")
    assert (login.principal.name, login.principal.source, login.expires_at_ms) == ("bob", "10.0.0.7", ends_ms)
    clock.at_ms += LIFE_MS - 1
    assert [each.is_good(token) for each in gateways] == [True, True]
    clock.at_ms += 1
    assert [each.is_good(token) for each in gateways] == [False, False]


@cases("token_ms", [1_000, LIFE_MS - 1, LIFE_MS + 1, 10 * LIFE_MS])
async def test_a_login_with_a_token_ends_with_the_sooner_of_both(
    gateways: list[Gateway], clock: StandingClock, token_ms: int
) -> None:
    statements = (Statement(Effect.ALLOW, (Action.SUB,), ("Topic:a",)),)
    now_ms = clock.now_ms()
    holder = Principal("tom", Origin.TOKEN, "10.0.0.1", statements=statements, expires_at_ms=now_ms + token_ms)
    token, ends_ms = gateways[0].sessions.open(holder)
    assert ends_ms == now_ms + min(token_ms, LIFE_MS)
    principal = gateways[1].sessions.login_of(token, "10.0.0.1").principal
    assert (principal.expires_at_ms, principal.statements) == (ends_ms, statements)


async def test_a_logout_ends_it_everywhere(gateways: list[Gateway], bob: Principal) -> None:
    one, other = (gateways[0].sessions.open(bob)[0] for _ in range(2))
    await gateways[1].sessions.end(one)
    await until(lambda: not gateways[0].is_good(one), "the other gateway was told")
    assert not gateways[1].is_good(one)
    assert [each.is_good(other) for each in gateways] == [True, True]
    assert all(each.ends for each in gateways)


async def test_a_change_of_the_user_ends_it(gateways: list[Gateway], bob: Principal, security: Security) -> None:
    token, _ = gateways[0].sessions.open(bob)
    await security.administration.put_user(ME, "bob", UserChange("another"))
    assert not gateways[0].is_good(token)
    await until(lambda: not gateways[1].is_good(token), "the other gateway was told")


async def test_a_user_who_is_disabled_for_a_while_logs_in_again(
    gateways: list[Gateway], bob: Principal, security: Security
) -> None:
    token, _ = gateways[0].sessions.open(bob)
    for is_enabled in (False, True):
        await security.administration.put_user(ME, "bob", UserChange(is_enabled=is_enabled))
        assert not gateways[0].is_good(token)
    await until(lambda: not gateways[1].is_good(token), "the other gateway was told")
    await security.administration.put_user(ME, "bob", UserChange(is_enabled=True))
    again, _ = gateways[0].sessions.open(bob)
    assert not gateways[0].is_good(again), "the principal of the login before is void, too"


async def test_what_is_no_token_of_the_cluster(gateways: list[Gateway], bob: Principal) -> None:
    token, _ = gateways[0].sessions.open(bob)
    content, _, mac = token.partition(".")
    for other in ("", "a.b", content, f"{content}.{mac[:-2]}", f"{content[:-2]}.{mac}", f".{mac}", token + "A" * 4000):
        assert not gateways[0].is_good(other)

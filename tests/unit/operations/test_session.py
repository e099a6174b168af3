"""Logins as their operations tell them, and the cookie that goes with each answer: without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from entrepot.domain.access.model import Origin, Principal
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.requests.login_cookie import COOKIE, HOST_PREFIX, cookie_headers
from entrepot.gateway.operations.nouns.session import Browsers, LoginBody, Session
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.security.changes import UserChange
from entrepot.gateway.security.credentials import Credentials
from entrepot.gateway.security.login_sessions import LoginSessions
from entrepot.gateway.security.security import Security
from tests.support.clock import ManualClock
from tests.support.gateways.opened_security import BY_ROOT, opened_security
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced

SECONDS = 600
NOT_KEPT = {"cache-control": "no-store"}


class World:
    """The logins of one gateway, and a browser."""

    def __init__(self, security: Security) -> None:
        self.security, self.clock = security, ManualClock()
        self.store, numbers = MemoryStore(self.clock), count()
        self.logins = LoginSessions(
            security, self.store.key_values, self.clock, SECONDS, lambda size: next(numbers).to_bytes(size, "big")
        )
        self.known: Principal | None = None
        self.token: str | None = None
        self.browsers = Browsers(
            lambda scope: None, self._known, lambda scope: self.token, self._cookie, lambda scope: True
        )

    async def _known(self, scope: Any) -> Principal | None:
        return self.known

    def _cookie(self, scope: Any, token: str, seconds: int) -> dict[str, str]:
        return {"set-cookie": f"{token} for {seconds}"}

    @property
    def session(self) -> Session:
        peers = cast("Any", SimpleNamespace(name="gw-1"))
        return Session(self.security, self.logins, self.clock, peers, self.browsers)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with opened_security() as security:
        await security.administration.put_user(BY_ROOT, "bob", UserChange("secret"))
        made = World(security)
        await made.logins.start("a secret", 0)
        yield made
        await made.logins.close()
        await made.store.close()


def asked() -> Asked:
    return Asked({}, {}, Principal("", Origin.ANONYMOUS, "192.0.2.7"), "plant")


async def test_a_stranger_is_told_where_it_is(world: World) -> None:
    told = msgspec.to_builtins(await world.session.show(asked()))
    assert (told["user"], told["isAnonymous"], told["isSuper"], told["expiresAt"], told["may"]) == (
        None, False, False, None, [],
    )  # fmt: skip
    assert (told["cluster"], told["gateway"], told["tls"], told["setupNeeded"]) == ("plant", "gw-1", True, False)


async def test_a_login_sets_a_token_until_its_end_and_a_logout_ends_it(world: World) -> None:
    request = asked()
    shown = await world.session.log_in(request, LoginBody(name="bob", password="secret"))
    assert (shown.user, shown.is_super, shown.may) == ("bob", False, [])
    token, _, seconds = request.answer_headers["set-cookie"].partition(" for ")
    assert int(seconds) == SECONDS
    principal = world.logins.login_of(token, "192.0.2.7").principal
    assert (principal.name, principal.source) == ("bob", "192.0.2.7")
    told = world.security.audit.newest(1)[0]
    assert (told.event, told.subject, told.source) == ("logged in", "bob", "192.0.2.7")
    world.token, request = token, asked()
    await world.session.log_out(request)
    assert request.answer_headers["set-cookie"] == " for 0"
    with pytest.raises(EntrepotError, match="the login is over"):
        world.logins.login_of(token, "192.0.2.7")


async def test_rights_are_those_on_everything_of_a_kind(world: World) -> None:
    await world.security.administration.put_user(BY_ROOT, "root", UserChange("secret"))
    world.known = await world.security.authenticate(Credentials("http", "192.0.2.7", "root", b"secret"))
    shown = await world.session.show(asked())
    assert shown.is_super
    assert {"Topic:PUB", "Cluster:UPDATE", "Group:SUB"} <= set(shown.may)


async def test_a_logout_that_the_others_cannot_be_told_ends_the_cookie_all_the_same(world: World) -> None:
    async def fail(token: str) -> None:
        raise EntrepotError(Code.UNAVAILABLE, "the store is away")

    world.logins, world.token = replaced(world.logins, end=fail), "x"
    request = asked()
    with pytest.raises(EntrepotError, match="the store is away"):
        await world.session.log_out(request)
    assert request.answer_headers == {"set-cookie": " for 0", **NOT_KEPT}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (LoginBody(), Code.BAD_REQUEST),
        (LoginBody(name="bob"), Code.BAD_REQUEST),
        (LoginBody(name="bob", password="no"), Code.UNAUTHORIZED),
        (LoginBody(token="no"), Code.UNAUTHORIZED),
    ],
)
async def test_what_is_refused_sets_no_cookie(world: World, given: LoginBody, code: Code) -> None:
    request = asked()
    with pytest.raises(EntrepotError) as refused:
        await world.session.log_in(request, given)
    assert (refused.value.code, request.answer_headers) == (code, NOT_KEPT)


async def test_a_page_of_another_name_neither_logs_in_nor_out(world: World) -> None:
    def refuse(scope: Any) -> None:
        raise EntrepotError(Code.FORBIDDEN, "unknown host")

    world.browsers, world.token = replace(world.browsers, check_host=refuse), "x"
    request = asked()
    for work in (world.session.log_in(request, LoginBody("bob", "secret")), world.session.log_out(request)):
        with pytest.raises(EntrepotError, match="unknown host"):
            await work
    assert request.answer_headers == NOT_KEPT


def test_the_cookie_is_for_its_host_alone() -> None:
    plain = cookie_headers({"scheme": "http"}, "abc.def", 60)
    assert plain == {
        "set-cookie": f"{COOKIE}=abc.def; HttpOnly; Max-Age=60; Path=/; SameSite=strict",
        "cache-control": "no-store",
    }
    ended = cookie_headers({"scheme": "https"}, "", 0)["set-cookie"]
    assert ended == f'{HOST_PREFIX}{COOKIE}=""; HttpOnly; Max-Age=0; Path=/; SameSite=strict; Secure'

"""Knowledge of users may be too old: then nobody is let in by it, at any door, until it is current again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.requests.access import HttpAccess
from entrepot.gateway.rocketmq.access import RocketMqAccess
from entrepot.gateway.security.changes import UserChange
from entrepot.gateway.security.security import Security
from entrepot.gateway.transport.source import Source
from tests.support.stores.model_store import MemoryStore
from tests.unit.security.conftest import ME, Opened, StandingClock, shown

LIMIT = 300.0
TOO_OLD = LIMIT + 12
WORDS = "what is known of users is 312 s old"


@pytest.fixture
def age(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the age of the key-values."""
    found = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(store.key_values, "age_seconds", lambda: found.seconds)
    return lambda seconds: setattr(found, "seconds", seconds)


async def unavailable(asked: Awaitable[Any]) -> None:
    with pytest.raises(EntrepotError, match=WORDS) as refusal:
        await asked
    assert refusal.value.code is Code.UNAVAILABLE


@pytest.mark.failure(
    "A gateway has not reached the users' broker for `security.max_age_seconds` (300)",
    group="A broker without replicas",
    does="No door lets anybody in, until the users are current again. Users that are logged in go on.",
    lost="nothing",
    told="logins are refused as unavailable",
)
async def test_nobody_is_let_in_by_what_is_too_old(security: Security, age: Callable[[float], None]) -> None:
    await security.administration.put_user(ME, "bob", UserChange("pw", is_super=True, signing_secret="s" * 20))
    bob = await security.authenticate(shown("bob", "pw"))
    age(LIMIT)
    assert security.is_current
    assert (await security.authenticate(shown("bob", "pw"))).name == "bob"
    age(TOO_OLD)
    assert not security.is_current
    await unavailable(security.authenticate(shown("bob", "pw")))
    await unavailable(security.authenticate(shown("bob", "wrong")))
    await unavailable(security.authenticate(shown(source="127.0.0.1")))
    with pytest.raises(EntrepotError, match=WORDS):
        security.check_signature(shown("bob"), lambda secret: True)
    with pytest.raises(EntrepotError, match=WORDS):
        security.scram(shown("bob")).step(b"n,,n=bob,r=abcdef")
    assert security.allows(bob, Action.PUB, ResourceType.TOPIC, "a"), "who is there goes on"
    age(0.0)
    assert (await security.authenticate(shown("bob", "pw"))).name == "bob"


async def test_that_nobody_is_defined_may_be_too_old_as_well(opened: Opened, age: Callable[[float], None]) -> None:
    security = await opened()
    assert security.anonymous_at_once("127.0.0.1") is not None
    age(TOO_OLD)
    assert security.anonymous_at_once("127.0.0.1") is None
    await unavailable(security.authenticate(shown(source="127.0.0.1")))


async def test_the_limit_is_a_setting(opened: Opened, age: Callable[[float], None]) -> None:
    age(50.0)
    assert not (await opened(max_age_seconds=10)).is_current
    age(1e9)
    assert (await opened(max_age_seconds=0)).is_current, "for ever"


def requested(authorization: bytes) -> Any:
    headers = [(b"host", b"localhost"), (b"authorization", authorization)]
    return {"type": "http", "headers": headers, "client": ("10.1.2.3", 1), "method": "GET", "path": "/"}


async def test_remembered_logins_of_http_do_not_outlive_it(
    security: Security, clock: StandingClock, age: Callable[[float], None]
) -> None:
    import base64

    await security.administration.put_user(ME, "bob", UserChange("pw", is_super=True))
    access, scope = HttpAccess(security, clock), requested(b"Basic " + base64.b64encode(b"bob:pw"))
    assert (await access.principal(scope)).name == "bob"
    assert access.at_once(scope) is not None, "it is remembered"
    age(TOO_OLD)
    assert access.at_once(scope) is None
    await unavailable(access.principal(scope))
    age(0.0)
    assert access.at_once(scope) is not None


async def test_remembered_clients_of_rocketmq_do_not_outlive_it(
    opened: Opened, clock: StandingClock, age: Callable[[float], None]
) -> None:
    access = RocketMqAccess(await opened(), clock, 0)
    call = SimpleNamespace(
        fields={b"x-mq-client-id": b"c"},
        source=Source("127.0.0.1", 1, False, None, "grpc"),
        remaining_seconds=lambda: None,
        admitted=lambda: None,
    )
    caller = await access.caller(call)  # type: ignore[arg-type]
    assert caller.principal.is_anonymous
    age(TOO_OLD)
    await unavailable(access.caller(call))  # type: ignore[arg-type]

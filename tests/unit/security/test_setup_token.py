"""The setup token: without it nobody on the machine, and no page in its browser, defines the first user."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import SecretStr

from entrepot.domain.access.model import Action, ResourceType, Statement
from entrepot.domain.access.model import Effect as AccessEffect
from entrepot.domain.errors import Code
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.security.changes import By, UserChange
from entrepot.gateway.security.credentials import Credentials
from entrepot.gateway.security.security import Security
from entrepot.gateway.security.setup_token import FILE_NAME, KEY, TOKEN, SetupTokenNeededError, token_in
from entrepot.gateway.settings import SecuritySettings
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

CHEAP = SecuritySettings(**CHEAP_HASHES)
NOBODY = By("anonymous", "127.0.0.1", is_anonymous=True)
ALLOW = Statement(AccessEffect.ALLOW, (Action.PUB,), ("Topic:*",))


def shown(token: str | None, *, bearer: bool = True) -> Credentials:
    return Credentials("http", "127.0.0.1", None if bearer else "any", (token or "").encode(), bearer=bearer)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(ManualClock())


@pytest.fixture
async def gateways(store: MemoryStore, tmp_path: Path) -> AsyncIterator[list[Security]]:
    """Two over one store, each with a directory of its own."""
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(Security(store.key_values, CHEAP, ManualClock(), tmp_path / name / FILE_NAME))
        await made[-1].start()
    yield made
    for each in made:
        each.close()


async def test_nobody_changes_users_or_policies_without_it(gateways: list[Security]) -> None:
    administration = gateways[0].administration
    for attempt in (
        administration.put_user(NOBODY, "root", UserChange("root", is_super=True)),
        administration.delete_user(NOBODY, "root"),
        administration.put_policy(NOBODY, "anonymous", [ALLOW]),
        administration.delete_policy(NOBODY, "anonymous"),
    ):
        with pytest.raises(SetupTokenNeededError) as refused:
            await attempt
        assert refused.value.code is Code.UNAUTHORIZED
    assert not administration.users() and not administration.policies()


async def test_all_gateways_of_a_store_have_one_until_there_is_a_user(
    gateways: list[Security], store: MemoryStore
) -> None:
    one, two = gateways
    token = one.setup_token.value
    assert token is not None and TOKEN.fullmatch(token) and token == two.setup_token.value
    paths = [each.setup_token.path for each in gateways]
    for path in paths:
        assert path is not None and token_in(path) == token
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [each.name for each in path.parent.iterdir()] == [FILE_NAME]
    principal = two.setup_token.principal_of(shown(token))
    assert principal is not None and two.may_administer(principal)
    assert two.setup_token.principal_of(shown(token, bearer=False)) is not None
    for wrong in (None, "", token[:-1], f"{token}x"):
        assert two.setup_token.principal_of(shown(wrong)) is None
    await two.administration.put_user(By.principal(principal), "root", UserChange("root", is_super=True))
    for each, path in zip(gateways, paths, strict=True):
        assert each.setup_token.value is None and each.setup_token.principal_of(shown(token)) is None
        assert path is not None and not path.exists()
    assert not two.may_administer(principal)
    assert two.why(principal, Action.PUB, ResourceType.TOPIC, "a").reason == "the setup token is over: there is a user"
    assert await store.key_values.scan("setup/", after="", limit=10) == []


async def test_it_is_the_same_after_a_restart_and_none_where_there_are_users(
    store: MemoryStore, tmp_path: Path
) -> None:
    path = tmp_path / FILE_NAME
    tokens = []
    for _ in range(2):
        security = Security(store.key_values, CHEAP, ManualClock(), path)
        await security.start()
        tokens.append(security.setup_token.value)
        security.close()
    assert tokens[0] is not None and tokens[0] == tokens[1]
    settings = CHEAP.model_copy(update={"initial_admin": "root", "initial_admin_password_file": tmp_path / "password"})
    (tmp_path / "password").write_text("root\n")
    security = Security(store.key_values, settings, ManualClock(), path)
    await security.start()
    assert security.setup_token.value is None and not path.exists()
    security.close()


class Interrupted:
    """Key-values, of which the first write of the token lets another gateway start before anything else."""

    def __init__(self, key_values: KeyValues, other: Security) -> None:
        self._key_values = key_values
        self._others = [other]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._key_values, name)

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        done = await self._key_values.write(changes)
        if changes[0].key == KEY and self._others:
            await self._others.pop().start()
        return done


async def test_a_gateway_that_makes_the_first_user_in_this_moment_stops_no_other(
    store: MemoryStore, tmp_path: Path
) -> None:
    settings = CHEAP.model_copy(update={"initial_admin": "root", "initial_admin_password": SecretStr("root")})
    maker = Security(store.key_values, settings, ManualClock())
    late = Security(cast("KeyValues", Interrupted(store.key_values, maker)), CHEAP, ManualClock(), tmp_path / FILE_NAME)
    await late.start(wait_seconds=30)
    assert late.setup_token.value is None and not (tmp_path / FILE_NAME).exists()
    assert await store.key_values.scan("setup/", after="", limit=10) == []
    for each in (maker, late):
        each.close()


async def test_without_a_file_the_start_prints_it(store: MemoryStore, tmp_path: Path) -> None:
    for path in (None, tmp_path / "none" / FILE_NAME):
        security = Security(store.key_values, CHEAP, ManualClock(), path)
        await security.start()
        assert security.setup_token.value is not None and security.setup_token.path is None
        security.close()


async def test_a_policy_of_everybody_does_not_lock_its_owner_out(gateways: list[Security]) -> None:
    one = gateways[0]
    principal = one.setup_token.principal_of(shown(one.setup_token.value))
    assert principal is not None
    await one.administration.put_policy(By.principal(principal), "*", [])
    assert not one.is_open and one.may_administer(principal)


@pytest.mark.parametrize("text", ["", "secret", "entrepot-setup-short", "entrepot-setup-" + "a" * 44, "\xff"])
def test_a_file_with_anything_else_has_no_token(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(text.encode("latin-1"))
    assert token_in(path) is None
    assert token_in(tmp_path / "none") is None

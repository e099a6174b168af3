"""Users and policies as a gateway knows them: what cannot be read is not passed over."""

from __future__ import annotations

from entrepot.domain.access.model import EVERYBODY
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.security.directory import Directory, DirectoryChange
from entrepot.gateway.security.records import POLICY_PREFIX, USER_PREFIX, UserRecord, encode
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore


def user(name: str) -> bytes:
    return encode(UserRecord(name, is_super=False, is_enabled=True, credential="one"))


async def test_what_cannot_be_read_is_there_and_is_nobody() -> None:
    store = MemoryStore(ManualClock())
    values = {"eve": b"{", "mallory": user("eve"), "ada": user("ada")}
    await store.key_values.write([KeyValueChange(USER_PREFIX + name, value) for name, value in values.items()])
    await store.key_values.write([KeyValueChange(POLICY_PREFIX + EVERYBODY, b"{")])
    changes: list[DirectoryChange] = []
    directory = Directory(store.key_values, changes.append)
    await directory.start()
    assert [each.name for each in directory.users()] == ["ada"]
    assert directory.has_user("eve") and directory.user("eve") is None
    assert directory.has_user("mallory") and directory.user("mallory") is None, "it is the record of another one"
    assert directory.has_policy(EVERYBODY) and directory.policies() == [] and directory.policy(EVERYBODY) is None
    assert directory.statements("ada") is None, "whoever it is may do nothing"
    changes.clear()
    await directory.write(KeyValueChange(USER_PREFIX + "eve", user("eve")))
    await directory.write(KeyValueChange(POLICY_PREFIX + EVERYBODY, None))
    assert (directory.user("eve"), directory.statements("ada")) == (changes[0].now, [])
    assert [(change.user, change.before, change.subject) for change in changes] == [
        ("eve", None, None),
        (None, None, EVERYBODY),
    ]
    directory.stop()
    assert not directory.is_loaded


async def test_where_all_users_have_vanished_nothing_opens() -> None:
    directory = Directory(MemoryStore(ManualClock()).key_values, lambda change: None)
    await directory.start()
    assert not directory.has_users
    await directory.write(KeyValueChange(USER_PREFIX + "ada", user("ada")))
    await directory.write(KeyValueChange(USER_PREFIX + "ada", None))
    assert directory.has_users and directory.users() == []

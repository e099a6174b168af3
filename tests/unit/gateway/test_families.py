"""Families of key-values with keepers of their own: each key has one, and no write has keys of two."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code
from entrepot.domain.key_value import ABSENT, KeyValueChange, KeyValueEvent
from entrepot.domain.retained import RETAINED_PREFIX
from entrepot.gateway.facts import StoreFacts
from entrepot.gateway.key_values.families import FAMILIES, HELD, REST, RETAINED, SESSIONS, FactsOfFamilies, family_of
from entrepot.gateway.member.record import LEASE_PREFIX, RECORD_PREFIX
from entrepot.gateway.mqtt.sessions import record
from entrepot.gateway.rocketmq import holding
from entrepot.gateway.security.records import USER_PREFIX
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.steps import refusal_of


@pytest.fixture
def stores() -> dict[str, MemoryStore]:
    return {name: MemoryStore(ManualClock()) for name in (REST, *FAMILIES)}


@pytest.fixture
def facts(stores: dict[str, MemoryStore]) -> FactsOfFamilies:
    keepers = {name: StoreFacts(store) for name, store in stores.items()}
    return FactsOfFamilies(keepers.pop(REST), keepers)


@cases(
    "key, family",
    [
        (record.SESSION_PREFIX, SESSIONS),
        (record.CURSORS_PREFIX, SESSIONS),
        (record.WINDOW_PREFIX, SESSIONS),
        (record.DUE_PREFIX, SESSIONS),
        (record.WILL_PREFIX, SESSIONS),
        (record.HELD_PREFIX, SESSIONS),
        (record.TAKEN_PREFIX, SESSIONS),
        (record.KICK_PREFIX, SESSIONS),
        (LEASE_PREFIX, SESSIONS),
        (RECORD_PREFIX, SESSIONS),
        (RETAINED_PREFIX, RETAINED),
        (holding.PREFIX, HELD),
        (USER_PREFIX, REST),
        ("rocketmq/lite/", REST),
        ("", REST),
    ],
)
def test_the_family_of_a_key(key: str, family: str):
    assert family_of(f"{key}x") == family
    assert family_of(key) == family


async def test_each_family_is_with_its_keeper(facts: FactsOfFamilies, stores: dict[str, MemoryStore]):
    keys = {"user/a": REST, "session/c": SESSIONS, "retained/t": RETAINED, "rocketmq/held/g": HELD}
    for key in keys:
        version = await facts.write([KeyValueChange(key, key.encode(), ABSENT)])
        assert version > 0
    for key, family in keys.items():
        assert [each.key for each in await stores[family].key_values.scan("")] == [key]
    asked = [*keys, "user/b", "session/d"]
    found = await facts.get(asked)
    assert [each and each.value for each in found] == [*(key.encode() for key in keys), None, None]
    assert [each.key for each in await facts.scan("session/")] == ["session/c"]
    assert [each.key for each in await facts.scan("rocketmq/held/")] == ["rocketmq/held/g"]
    assert await facts.scan("rocketmq/held/g/") == []
    await facts.write([KeyValueChange("session/c", None), KeyValueChange("gateway/x", b"")])
    assert await facts.get(["session/c", "gateway/x"]) != [None, None]
    assert facts.failure is None and facts.damage == [] and facts.age_seconds() == 0.0


async def test_what_has_keys_of_two_keepers_is_refused(facts: FactsOfFamilies, stores: dict[str, MemoryStore]):
    both = [KeyValueChange("user/a", b""), KeyValueChange("session/a", b"")]
    assert await refusal_of(facts.write(both)) is Code.BAD_REQUEST
    for prefix in ("", "rocketmq/", "sess"):
        assert await refusal_of(facts.scan(prefix)) is Code.BAD_REQUEST
    assert not [each for store in stores.values() for each in await store.key_values.scan("")]


async def test_changes_are_told_by_the_keeper(facts: FactsOfFamilies):
    told: list[str] = []
    begun: list[str] = []

    def take(events: list[KeyValueEvent]) -> None:
        told.extend(event.key for event in events)

    stops = [facts.watch(prefix, take, lambda: begun.append("")) for prefix in ("session/", "user/")]
    for key in ("session/a", "user/b", "retained/c"):
        await facts.write([KeyValueChange(key, b"")])
    assert (told, len(begun)) == (["session/a", "user/b"], 2)
    for stop in stops:
        stop()
    assert facts.gauges() == {}
    await facts.close()

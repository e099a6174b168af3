"""The keeper of facts beside a RocketMQ cluster: which one the settings name, and a directory that is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from entrepot.domain.errors import Code, EntrepotError, StoreFailedError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.app import is_alone_on
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.facts import StoreFacts
from entrepot.gateway.settings import MqttSettings, Settings
from entrepot.gateway.settings.facts import FactsSettings, Keeper
from entrepot.gateway.stores import _open_facts, open_store, open_store_elsewhere
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore


@cases(
    "url, keeper",
    [
        ("", None),
        ("etcd://a:2379", Keeper(members=("a:2379",))),
        ("etcd://a:2379,[::1]:2380/", Keeper(members=("a:2379", "[::1]:2380"))),
        ("cluster://a:9876,b:9876/", Keeper(name_servers=("a:9876", "b:9876"))),
        ("file:facts", Keeper(data_dir=Path("facts"))),
        ("file:/var/facts", Keeper(data_dir=Path("/var/facts"))),
        ("file:///var/facts", Keeper(data_dir=Path("/var/facts"))),
    ],
)
def test_the_keeper_that_a_url_names(url: str, keeper: Keeper | None):
    named = FactsSettings(url=url)
    assert named.keeper == keeper
    assert named.keepers == {}


def test_families_may_have_keepers_of_their_own():
    named = FactsSettings(url="etcd://a:1", sessions="cluster://n:1", retained="etcd://a:1", held="cluster://n:1")
    assert named.keepers == dict.fromkeys(("sessions", "held"), Keeper(name_servers=("n:1",)))


@cases(
    "facts, mqtt, most",
    [
        ({}, {}, 1 << 30),
        ({"url": "etcd://a:1"}, {}, 128 << 20),
        ({"url": "file:facts"}, {}, 1 << 30),
        ({"url": "cluster://n:1"}, {}, 1 << 30),
        ({"url": "etcd://a:1", "retained": "cluster://n:1"}, {}, 1 << 30),
        ({"url": "etcd://a:1", "sessions": "cluster://n:1"}, {}, 128 << 20),
        ({"url": "cluster://n:1", "retained": "etcd://a:1"}, {}, 128 << 20),
        ({"url": "etcd://a:1"}, {"max_retained_bytes": 1 << 28}, 1 << 28),
        ({}, {"max_retained_bytes": 5}, 5),
    ],
)
def test_etcd_takes_fewer_retained_bytes(facts: dict[str, Any], mqtt: dict[str, Any], most: int):
    settings = Settings(facts=FactsSettings(**facts), mqtt=MqttSettings(**mqtt))
    assert settings.retained_limits.max_bytes == most


@cases(
    "fields, words",
    [
        ({"url": "etcd://"}, "is wanted"),
        ({"url": "etcd://a"}, "is wanted"),
        ({"url": "etcd://a:2379,/"}, "is wanted"),
        ({"url": "etcd://a:2379/root"}, "is wanted"),
        ({"url": "etcd://user:password@a:2379"}, "is wanted"),
        ({"url": "http://a:2379"}, "is wanted"),
        ({"url": "file:"}, "the path of a directory"),
        ({"url": "file://host/facts"}, "the path of a directory"),
        ({"url": "etcd://a:1", "certificate": "c"}, "belong together"),
        ({"url": "etcd://a:1", "password": "p"}, "needs a user"),
        ({"url": "file:facts", "user": "u"}, "shown to etcd"),
        ({"ca": "c"}, "shown to etcd"),
        ({"url": "cluster://a"}, "is wanted"),
        ({"url": "cluster://n:1", "user": "u"}, "shown to etcd"),
        ({"url": "etcd://a:1", "sessions": "file:here"}, "is wanted"),
        ({"url": "etcd://a:1", "held": "redis://a:1"}, "is wanted"),
        ({"sessions": "cluster://n:1"}, "beside a shared one"),
        ({"url": "file:here", "retained": "cluster://n:1"}, "beside a shared one"),
    ],
)
def test_settings_that_do_not_go_together(fields: dict[str, Any], words: str):
    with pytest.raises(ValidationError, match=words):
        FactsSettings(**fields)


async def test_etcd_without_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("entrepot.gateway.facts.find_spec", lambda name: None)
    settings = Settings(facts=FactsSettings(url="etcd://127.0.0.1:1"))
    with pytest.raises(EntrepotError, match=r"pip install 'entrepot\[etcd\]'") as refused:
        await _open_facts(settings, SystemClock())
    assert refused.value.code is Code.BAD_REQUEST


async def test_a_directory_is_for_one_gateway(tmp_path: Path):
    settings = Settings(facts=FactsSettings(url=f"file:{tmp_path / 'facts'}"))
    facts = await _open_facts(settings, SystemClock())
    assert facts is not None
    await facts.write([KeyValueChange("a", b"1")])
    assert (facts.failure, facts.damage) == (None, [])
    with pytest.raises(StoreFailedError, match=r"is in use by process .*: facts in a directory are for one gateway"):
        await _open_facts(settings, SystemClock())
    await facts.close()
    await facts.close()
    again = await _open_facts(settings, SystemClock())
    assert again is not None
    assert [kept.key for kept in await again.scan("")] == ["a"]
    await again.close()


async def test_a_store_with_key_values_takes_no_facts(tmp_path: Path):
    settings = Settings(facts=FactsSettings(url=f"file:{tmp_path}"))
    for opened in (open_store(settings, SystemClock()), open_store_elsewhere(settings, SystemClock())):
        with pytest.raises(EntrepotError, match="is for a RocketMQ cluster") as refused:
            await opened
        assert refused.value.code is Code.BAD_REQUEST


async def test_no_gateway_is_alone_on_facts_that_are_shared():
    store = MemoryStore(ManualClock())
    for url, is_alone in (("", True), ("file:facts", True), ("etcd://127.0.0.1:2379", False), ("cluster://n:1", False)):
        assert is_alone_on(store, Settings(facts=FactsSettings(url=url))) is is_alone


async def test_facts_fail_with_their_store():
    store = MemoryStore(ManualClock())
    facts = StoreFacts(store)
    assert facts.failure is store.condition.failure
    assert facts.age_seconds() == 0.0

"""The settings of the tier: what is refused when they are read, and what a broker is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.metadata.identity import open_identity
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.settings.tier import Payload, TierSettings
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.opening_store import open_objects
from entrepot.broker.tiered.store_options import StoreOptions
from entrepot.domain.errors import FieldError
from entrepot.domain.topic import Cleanup, Topic
from entrepot.gateway.settings import Settings, SettingsError, load_settings
from entrepot.gateway.settings.tier import fault_of_store
from entrepot.gateway.stores import _settings_here, served_number

GOOD = ("file:///var/cold", "file://localhost/var/cold", "s3://bucket", "s3://bucket/a/b", "gs://bucket", "az://box/a")
BAD = (
    ("s3://key:secret@bucket/a", "credentials"),
    ("s3://key@bucket", "credentials"),
    ("s3://key:secret/more@bucket/a", "credentials"),
    ("http://store/bucket", "file://, s3://"),
    ("memory://", "file://, s3://"),
    ("/var/cold", "file://, s3://"),
    ("s3://", "no bucket"),
    ("s3://bucket:9000/a", "no port"),
    ("s3://bucket?region=x", "without ?"),
    ("file://host/var", "no host"),
    ("file:///", "whole disk"),
    ("file:///var/../etc", "goes up"),
    ("s3://buc ket", "blanks"),
    ("s3://[bucket", "brackets"),
)


def problem(**flags: Any) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(flags={f"tier.{name}": value for name, value in flags.items()})
    [found] = refused.value.problems
    return found


def test_without_a_url_there_is_no_tier(tmp_path: Path) -> None:
    settings = load_settings(flags={"store.data_dir": str(tmp_path)}).settings
    assert _settings_here(settings, 0).tier is None


@pytest.mark.parametrize("url", GOOD)
def test_urls_that_both_readers_take(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert load_settings(flags={"tier.url": url}).settings.tier.url == url
    assert fault_of_store(url) is None
    open_objects(url, StoreOptions(region="r"))


@pytest.mark.parametrize(("url", "said"), BAD)
def test_urls_that_are_refused_at_once(url: str, said: str) -> None:
    found = problem(url=url)
    assert found.startswith("bad value for 'tier.url' (flag --set tier.url): ") and said in found
    assert "secret" not in found
    if url != "memory://":
        with pytest.raises(TierError):
            open_objects(url)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"endpoint": "http://key:secret@store:9000"}, "credentials"),
        ({"endpoint": "http://store:9000"}, "without TLS"),
        ({"endpoint": "store:9000"}, "http or https"),
        ({"endpoint": "https://store?a=b"}, "without ?"),
        ({"segment_bytes": "1"}, "65536"),
        ({"connect_seconds": "0"}, "0"),
        ({"retries": "101"}, "100"),
        ({"vacuum_grace_seconds": "5"}, "600"),
    ],
)
def test_other_settings_that_are_refused(flags: dict[str, str], said: str) -> None:
    found = problem(**flags)
    assert said in found and "secret" not in found


def test_a_broker_is_told_of_them(tmp_path: Path) -> None:
    settings = load_settings(
        flags={
            "store.data_dir": str(tmp_path),
            "tier.url": "s3://bucket/a",
            "tier.endpoint": "http://minio:9000",
            "tier.allow_http": "true",
            "tier.retries": "5",
            "tier.segment_bytes": "1000000",
            "tier.max_age_seconds": "2",
            "tier.requests_per_hour": "5000",
            "tier.cache_bytes": "2000000",
            "tier.vacuum_grace_seconds": "900",
            "tier.payload": "json",
            "tier.iceberg": "true",
        }
    ).settings
    told: BrokerSettings = _settings_here(settings, 3)
    assert told.tier is not None
    assert told.tier == TierSettings(
        "s3://bucket/a",
        3,
        1_000_000,
        2.0,
        5000,
        900.0,
        2_000_000,
        options=told.tier.options,
        payload=Payload.JSON,
        iceberg=True,
    )
    asked = StoreOptions(**told.tier.options)
    assert (asked.endpoint, asked.allow_http, asked.retries, asked.region) == (
        "http://minio:9000",
        True,
        5,
        None,
    )


def test_the_number_is_the_one_that_the_data_have(tmp_path: Path) -> None:
    flags = {"store.data_dir": str(tmp_path), "tier.url": (tmp_path / "cold").as_uri()}
    settings = load_settings(flags=flags).settings
    assert _number(settings, 0) == 0
    open_identity(tmp_path, "broker", 4)
    assert _number(settings, 0) == 4


def _number(settings: Settings, number: int) -> int:
    told: BrokerSettings = _settings_here(settings, number)
    assert told.tier is not None
    return told.tier.number


@pytest.mark.parametrize(
    ("flags", "is_alone", "number"),
    [
        ({}, True, 0),
        ({"broker.number": "5"}, True, 5),
        ({"broker.name": "broker-7", "cluster.name_servers": '["ns:9876"]'}, True, 7),
        ({"broker.name": "broker-7"}, False, 7),
        ({"broker.name": "broker-7", "broker.number": "0"}, False, 0),
    ],
)
def test_the_number_of_a_broker_that_others_reach(flags: dict[str, object], is_alone: bool, number: int) -> None:
    assert served_number(load_settings(flags=flags).settings, is_alone=is_alone) == number


@pytest.mark.parametrize("cleanup", [Cleanup.COMPACT, Cleanup.CONSUMED])
def test_topics_that_keep_only_some_messages_are_not_tiered(cleanup: Cleanup) -> None:
    with pytest.raises(FieldError) as refused:
        Topic("t", cleanup=cleanup, tier_seconds=60)
    assert refused.value.message == f"tier_seconds needs cleanup DELETE: a {cleanup} topic stays on the broker's disk"

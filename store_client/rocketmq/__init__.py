"""A store that is an Apache RocketMQ 5 cluster, behind the same ports: a client of its brokers and name servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.ports import Store
from entrepot.domain.ports.facts import Facts
from entrepot.protocols.rocketmq.headers import Credentials
from entrepot.store_client.rocketmq.settings import RocketMqSettings
from entrepot.store_client.rocketmq.store import RocketMqStore

__all__ = ["RocketMqSettings", "RocketMqStore", "open_rocketmq", "open_settings", "rocketmq_settings"]


async def open_rocketmq(
    name_servers: Sequence[str],
    clock: Clock,
    *,
    facts: Facts | None = None,
    group_defaults: ConsumerGroup | None = None,
    **others: Any,
) -> Store:
    """Open a store over the cluster whose name servers listen at `name_servers`.  `others`: of `rocketmq_settings`.

    Raises BAD_REQUEST for an invalid address, and UNAVAILABLE if no name server or broker answers.
    """
    settings = rocketmq_settings(name_servers, **others)
    return await open_settings(settings, clock, facts=facts, group_defaults=group_defaults)


async def open_settings(
    settings: RocketMqSettings,
    clock: Clock,
    *,
    facts: Facts | None = None,
    group_defaults: ConsumerGroup | None = None,
) -> RocketMqStore:
    """Open a store by its settings.  Raises as `open_rocketmq`."""
    store = RocketMqStore(settings, clock, facts=facts, group_defaults=group_defaults)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


def rocketmq_settings(
    name_servers: Sequence[str],
    *,
    access_key: str = "",
    secret: str = "",
    session_token: str = "",
    addresses: Mapping[str, str] | None = None,
    **others: Any,
) -> RocketMqSettings:
    """Return the settings for a cluster whose name servers listen at `name_servers` (`host:port`, IPv6 as
    `[address]:port`).

    `addresses`: places to connect to instead of brokers' own.  `others` are fields of `RocketMqSettings` by name.
    Raises BAD_REQUEST for an invalid address.
    """
    credentials = Credentials(access_key, secret, session_token)
    return RocketMqSettings(tuple(name_servers), credentials=credentials, addresses=addresses or {}, **others)

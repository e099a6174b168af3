"""A store that is an Apache RocketMQ 5 cluster, behind the same ports: a client of its brokers and name servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.ports.facts import Facts
from entrepot.protocols.rocketmq.headers import Credentials
from entrepot.store_client.rocketmq.settings import RocketMqSettings
from entrepot.store_client.rocketmq.store import RocketMqStore

__all__ = ["RocketMqSettings", "RocketMqStore", "open_rocketmq", "open_settings"]


async def open_rocketmq(
    name_servers: Sequence[str],
    clock: Clock,
    *,
    access_key: str = "",
    secret: str = "",
    session_token: str = "",
    addresses: Mapping[str, str] | None = None,
    facts: Facts | None = None,
    group_defaults: ConsumerGroup | None = None,
    **others: Any,
) -> Store:
    """Open a store over the cluster whose name servers listen at `name_servers` (`host:port`, IPv6 as
    `[address]:port`).

    `addresses`: places to connect to instead of brokers' own.  `others` are fields of `RocketMqSettings` by name.
    Raises BAD_REQUEST for an invalid address, and UNAVAILABLE if no name server or broker answers.
    """
    credentials = Credentials(access_key, secret, session_token)
    settings = RocketMqSettings(tuple(name_servers), credentials=credentials, addresses=addresses or {}, **others)
    return await open_settings(settings, clock, facts=facts, group_defaults=group_defaults)


async def open_settings(
    settings: RocketMqSettings,
    clock: Clock,
    *,
    facts: Facts | None = None,
    group_defaults: ConsumerGroup | None = None,
) -> RocketMqStore:
    """Open a store by its settings.  Raises as `open_rocketmq`."""
    for text in (*settings.name_servers, *settings.addresses.values()):
        _check_address(text)
    store = RocketMqStore(settings, clock, facts=facts, group_defaults=group_defaults)
    try:
        await store.start()
    except BaseException:
        await store.close()
        raise
    return store


def _check_address(text: str) -> None:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise EntrepotError(Code.BAD_REQUEST, f"{text!r} is not host:port")

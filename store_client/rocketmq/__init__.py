"""A store that is an Apache RocketMQ 5 cluster, behind the same ports: a client of its published gRPC protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.ports.facts import Facts
from entrepot.protocols.rocketmq.headers import Credentials
from entrepot.protocols.rocketmq.names import Address
from entrepot.store_client.rocketmq.settings import RocketMqSettings
from entrepot.store_client.rocketmq.store import RocketMqStore

__all__ = ["RocketMqSettings", "RocketMqStore", "open_rocketmq"]


async def open_rocketmq(
    endpoints: Sequence[str],
    clock: Clock,
    *,
    topics: Sequence[str] = (),
    access_key: str = "",
    secret: str = "",
    session_token: str = "",
    facts: Facts | None = None,
    group_defaults: ConsumerGroup | None = None,
    **others: Any,
) -> Store:
    """Open a store over the cluster whose proxies listen at `endpoints` (`host:port`, IPv6 as `[address]:port`).

    `topics` are asked for at once, so that they are known from the start; others at their first use.  `others` are
    fields of `RocketMqSettings` by name.  Raises BAD_REQUEST for an invalid endpoint, and TOPIC_NOT_FOUND or
    UNAVAILABLE for the topics.
    """
    credentials = Credentials(access_key, secret, session_token)
    settings = RocketMqSettings(tuple(map(_address, endpoints)), credentials=credentials, **others)
    store = RocketMqStore(settings, clock, facts=facts, group_defaults=group_defaults)
    try:
        await store.find_topics(topics)
    except BaseException:
        await store.close()
        raise
    return store


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise EntrepotError(Code.BAD_REQUEST, f"{text!r} is not host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)

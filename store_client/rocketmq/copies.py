"""Copies of stored messages in topics of a group: its dead letters, and its retries.

A copy is the record as it lies in the log, without what a delivery, a transaction or a time has left on it.  Brokers
make such topics by themselves for their own retries alone, so a missing one is made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import SystemProperty
from entrepot.domain.names import RETRY_PREFIX
from entrepot.protocols.rocketmq.properties import PREFIX
from entrepot.protocols.rocketmq.remoting import codes, property_text
from entrepot.protocols.rocketmq.remoting.messages import HALF, PRODUCER_GROUP, RECEIPT
from entrepot.protocols.rocketmq.remoting.records import COMPRESSION, Record
from entrepot.store_client.rocketmq.cluster import Cluster, json_body
from entrepot.store_client.rocketmq.send_request import StorePlace, store_at
from entrepot.store_client.rocketmq.topology import READ_WRITE, topic_fields

REASON, TIME_OF_DEATH = PREFIX + SystemProperty.DEAD_LETTER_REASON, PREFIX + SystemProperty.DEAD_LETTER_TIME_MS
_OVER: Final = frozenset((RECEIPT, HALF, PRODUCER_GROUP, "DELAY", REASON, TIME_OF_DEATH))
"""Properties of a delivery, a transaction, a time and a death that are over; so are those of timers."""
_TRIES: Final = 3
"""A topic, and the group that a broker reads in its name, may be missing."""


async def store_copy(
    cluster: Cluster, place: StorePlace, record: Record, more: Mapping[str, str], *, reconsumed: int = 0
) -> None:
    """Store a copy of a record, with more properties.  `reconsumed`: its deliveries, as RocketMQ counts them.  Raises
    the broker's refusal, and UNAVAILABLE where no topic comes of it."""
    kept = {
        name: value for name, value in record.properties.items() if name not in _OVER and not name.startswith("TIMER_")
    }
    properties = property_text.encode(kept | dict(more))
    flag, born_ms = record.sys_flag & COMPRESSION, record.born_time_ms
    for _ in range(_TRIES):
        try:
            await store_at(cluster, place, properties, record.body, born_ms=born_ms, flag=flag, reconsumed=reconsumed)
            return
        except EntrepotError as refusal:
            if refusal.code is Code.TOPIC_NOT_FOUND:
                fields = topic_fields(place.resource, 1, 1, READ_WRITE)
                what = f"make topic {place.resource!r}"
                await cluster.ask(place.address, codes.PUT_TOPIC, fields, what=what)
            elif refusal.code is Code.CONSUMER_GROUP_NOT_FOUND:
                group = json_body({"groupName": group_in(place), "consumeEnable": False})
                await cluster.ask(place.address, codes.PUT_GROUP, None, group, what="make a group")
            else:
                raise
    raise EntrepotError(Code.UNAVAILABLE, f"broker {place.broker!r} makes no topic {place.resource!r}")


def group_in(place: StorePlace) -> str:
    """Return the group that a broker reads in the name of a retry topic (`KeyBuilder.parseGroup`)."""
    return place.resource.removeprefix(RETRY_PREFIX)

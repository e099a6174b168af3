"""Gathering: the facts of one message, from all brokers, at once and with a deadline.

A broker that does not answer leaves its part of the journey unknown, with the reason; it never fails the whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from entrepot.domain.broker_of_queue import broker_of_place, local_place, local_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.journey.facts import JourneyFacts, Reading, Receiver, Storage, Tiering
from entrepot.domain.journey.lineage import descendants, own_place, places_of
from entrepot.domain.journey.model import LaneKind
from entrepot.domain.message import Place, StoredMessage
from entrepot.domain.names import (
    QUEUE_FEED_PREFIX,
    dead_letter_group,
    is_queue_feed,
    is_subscription_feed,
    split_name,
)
from entrepot.domain.ports import Store
from entrepot.domain.ports.cluster import BrokerStatus, control_of
from entrepot.domain.query import HopKind, MessageHop, RecordOrigin
from entrepot.domain.tiering import TierStatus
from entrepot.domain.url import host_of
from entrepot.gateway.events.subscriptions.record import DISPATCH_PREFIX
from entrepot.gateway.messaging.ingested import ingested_at
from entrepot.gateway.messaging.provenance import gateway_of

if TYPE_CHECKING:
    from entrepot.gateway.bridge.status import BridgeStatus
    from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions

DEADLINE_SECONDS: Final = 5.0
"""Longest time for one part of the facts, in seconds."""
MAX_FAMILY: Final = 50
"""Copies of a message that are asked about one by one; others are listed by their place alone."""
CONCEALED: Final = "to see brokers takes LIST on the Cluster"
SEVERAL_TABLES: Final = "several brokers have tables of the topic, and which of them has it is not known"

_T = TypeVar("_T")


@dataclass
class Gathered:
    """The facts, and what the caller is told beside the journey.  `missing`: parts that did not answer, with the
    reason.  `cut`: copies beyond `MAX_FAMILY`."""

    facts: JourneyFacts
    missing: dict[str, str] = field(default_factory=dict)
    cut: int = 0


class Gathering:
    """The gathering for one request.  `bridges`: state of each; `sees_cluster`: the caller may list brokers."""

    def __init__(
        self,
        store: Store,
        subscriptions: Subscriptions,
        bridges: Callable[[], Sequence[BridgeStatus]],
        *,
        sees_cluster: bool,
    ) -> None:
        self._store, self._subscriptions, self._bridges = store, subscriptions, bridges
        self._sees_cluster = sees_cluster
        self._missing: dict[str, str] = {}

    async def gather(self, message: StoredMessage, *, is_gone: bool = False) -> Gathered:
        """Return the facts of a message.  `is_gone`: it is made of a trace alone."""
        finder, message_id = self._store.finder, message.message_id
        same: list[StoredMessage] = []
        hops: list[MessageHop] = []
        if message_id:
            same, hops = await asyncio.gather(
                self._part("copies", finder.messages_by_id(message_id), []),
                self._part("traces", finder.message_trace(message_id), []),
            )
        copies = [each for each in same if each.commit_log_offset != message.commit_log_offset]
        family = [message, *descendants(message, copies)]
        asked = [] if is_gone else family[: MAX_FAMILY + 1]
        brokers, tiers, gateway, readings, ingested = await asyncio.gather(
            self._brokers(),
            self._part("tiering", self._store.condition.tiering(), []),
            self._part("gateways", gateway_of(self._store, message_id), ""),
            self._readings(asked),
            self._part("ingest", ingested_at(self._store, own_place(message)), []),
        )
        facts = JourneyFacts(
            message,
            tuple(copies),
            tuple(hops),
            tuple(readings),
            await self._storages(asked, brokers),
            gateway,
            frozenset(topic.name for topic in self._store.topology.topics() if topic.trace),
            self._receivers(),
            _tiering(family, tiers),
            tuple(ingested),
            is_gone,
            self._silent(brokers),
        )
        return Gathered(facts, self._missing, max(len(family) - 1 - MAX_FAMILY, 0))

    async def _part(self, name: str, asked: Awaitable[_T], otherwise: _T) -> _T:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await asked
        except TimeoutError:
            self._missing[name] = f"no answer within {DEADLINE_SECONDS:g} s"
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                self._missing[name] = error.message
        return otherwise

    # -- where it is -------------------------------------------------------------------------------------------------

    async def _brokers(self) -> Sequence[BrokerStatus]:
        control = control_of(self._store)
        if control is None or not self._sees_cluster:
            return []
        return await self._part("brokers", control.replication(), [])

    def _silent(self, brokers: Sequence[BrokerStatus]) -> dict[str, str]:
        away = {each.name: each.problem or "it is away" for each in brokers if not each.is_available}
        for name, reason in away.items():
            self._missing[name] = reason
        return away

    async def _storages(self, family: Sequence[StoredMessage], brokers: Sequence[BrokerStatus]) -> dict[int, Storage]:
        by_number = {each.number: each for each in brokers}
        places = list(dict.fromkeys(each.commit_log_offset for each in family))
        found = await asyncio.gather(*(self._storage(place, by_number) for place in places))
        return dict(zip(places, found, strict=True))

    async def _storage(self, place: int, brokers: dict[int, BrokerStatus]) -> Storage:
        origin = RecordOrigin()
        problem = ""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                origin = await self._store.finder.record_origin(place)
        except TimeoutError:
            problem = f"no answer within {DEADLINE_SECONDS:g} s"
        except EntrepotError as error:
            problem = error.message
        if not self._sees_cluster and control_of(self._store) is not None:
            return Storage(dropped_hops=origin.dropped_hops, problem=CONCEALED)
        status = brokers.get(broker_of_place(place))
        name = origin.broker or ("" if status is None else status.name)
        if status is None:
            return Storage(name, origin.epoch, origin.replica, dropped_hops=origin.dropped_hops, problem=problem)
        at = local_place(place)
        holders = [f"r{each.replica}" for each in status.replicas if each.synced is not None and each.synced > at]
        lacking = [_lack(each.replica, each.synced) for each in status.replicas if not (each.synced or 0) > at]
        found = Storage(name, origin.epoch, origin.replica, tuple(holders), tuple(lacking), origin.dropped_hops)
        return replace(found, problem=problem)

    # -- who has it --------------------------------------------------------------------------------------------------

    async def _readings(self, family: Sequence[StoredMessage]) -> list[Reading]:
        """Return the groups' states at each place; nobody reads a group's dead letters as this message."""
        asked = [
            (each, place)
            for each in family
            if dead_letter_group(each.topic) is None
            for place in places_of(each)[: MAX_FAMILY + 1]
        ][: 2 * MAX_FAMILY]
        return [reading for found in await asyncio.gather(*(self._at(*each) for each in asked)) for reading in found]

    async def _at(self, message: StoredMessage, place: Place) -> list[Reading]:
        topic, queue_id, queue_offset = place
        there = replace(message, topic=topic, queue_id=queue_id, queue_offset=queue_offset)
        found = await self._part(f"groups of {topic}", self._store.finder.message_consumers(there), [])
        return [Reading(place, consumer) for consumer in found]

    def _receivers(self) -> dict[str, Receiver]:
        found: dict[str, Receiver] = {}
        for topic in self._subscriptions.by_topic.values():
            for each in topic.subscriptions.values():
                receiver = Receiver(LaneKind.WEBHOOK, each.id, host_of(each.record.sink))
                found[each.group] = receiver
                found[each.catch_up_group] = Receiver(LaneKind.WEBHOOK, each.id, "catching up with the past")
        bridges = {f"bridge-{bridge.name}": bridge.name for bridge in self._bridges()}
        for name in (group.name for group in self._store.topology.groups()):
            if (bridge := bridges.get(name.rpartition("-")[0])) is not None:
                detail = "carries to the other broker, whose part is not known here"
                found[name] = Receiver(LaneKind.BRIDGE, bridge, detail)
            elif split_name(name)[1].startswith(DISPATCH_PREFIX):
                found[name] = Receiver(LaneKind.WEBHOOK, "dispatcher", "hands events out to their subscriptions")
        for known in self._store.topology.topics():
            if is_queue_feed(known.name) and not is_subscription_feed(known.name):
                name = known.name.replace(QUEUE_FEED_PREFIX, "", 1)
                found.setdefault(name, Receiver(LaneKind.AMQP, name, "AMQP queue"))
        return found


def _lack(replica: int, synced: int | None) -> str:
    return f"r{replica}" if synced is not None else f"r{replica} (not known)"


def _tiering(family: Sequence[StoredMessage], tiers: Sequence[TierStatus]) -> dict[Place, Tiering]:
    """Return which places the tables have.  A table's queues have its broker's own numbers, so of several tables of a
    topic nobody can tell which is meant."""
    by_topic: dict[str, list[TierStatus]] = {}
    for tier in tiers:
        by_topic.setdefault(tier.topic, []).append(tier)
    found: dict[Place, Tiering] = {}
    for place in (place for each in family for place in places_of(each)):
        topic, queue_id, offset = place
        tables = by_topic.get(topic, [])
        if len(tables) > 1:
            found[place] = Tiering("", False, SEVERAL_TABLES)
        elif tables:
            end = dict(tables[0].uploaded).get(local_queue(queue_id), 0)
            found[place] = Tiering(tables[0].table, offset < end, tables[0].problem)
    return found


async def gone_message(store: Store, message_id: bytes) -> StoredMessage | None:
    """Return a message made of its trace, where the record itself is gone; None without one."""
    for hop in await store.finder.message_trace(message_id):
        if hop.kind is HopKind.STORED or hop.group:
            return StoredMessage(
                hop.topic,
                b"",
                queue_id=hop.queue_id,
                message_id=message_id,
                queue_offset=hop.queue_offset,
                commit_log_offset=-1,
                store_time_ms=hop.time_ms,
            )
    return None

"""Shares: the shared subscriptions of this gateway's connections, as consumers of consumer groups.

A share pops every Topic that its filter can match, as far as its members have credit. Gateways that share a group know
nothing of each other; the store shares out.

ADR 22: shared subscriptions are consumer groups. Invariant: each message has one holder, until that member settles it,
releases it or leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import compile_filter
from entrepot.domain.names import NAMESPACE_SEPARATOR, is_hidden_topic
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.share import shared_queue, whole_topic
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.passed_over import PassedOver
from entrepot.gateway.messaging.provenance import consumer_at
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.messaging.traffic import Traffic
from entrepot.gateway.mqtt.shares.groups import ShareGroups, expression_of, groups_of
from entrepot.gateway.mqtt.shares.member import ShareMember
from entrepot.gateway.mqtt.shares.pump import PART, WAIT_MS, SharePump
from entrepot.gateway.mqtt.shares.share import Share

ANY: Final = ("+", "#")


async def _nothing(_: set[str]) -> None:
    """Default callback."""


ShareKey = tuple[str, str]
"""Name and filter."""


class QueueRules(Protocol):
    """The rules of AMQP's queues for shares."""

    def check_shareable(self, topic: str) -> None:
        """Raise TOPIC_NOT_FOUND or FORBIDDEN unless others than AMQP's consumers may consume from the queue."""

    def sort_out(self, topic: str, tickets: list[Ticket]) -> list[Ticket]:
        """Return the messages to deliver."""

    def came_back(self, topic: str, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Return a leaving member's messages that are not to be released: they have come back too often."""


class Shares:
    """The shares; `groups` makes their groups. Names in `any_level_topics` may start with any level."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        new_group: Callable[[str], ConsumerGroup],
        any_level_topics: Callable[[], set[str]],
        traffic: Traffic,
        incidents: Incidents,
        gateway: Callable[[], str] = str,
    ) -> None:
        """`new_group` makes the definition of a share's group by name. `gateway`: name of this gateway, for people."""
        self._gateway = gateway
        self._store = store
        self._clock = clock
        self.groups = ShareGroups(store, clock, new_group)
        self._any_level_topics = any_level_topics
        self._traffic = traffic
        self._incidents = incidents
        self.queues: QueueRules | None = None
        """Rules of AMQP's queues, if AMQP is enabled; without them no queue is shared."""
        self.on_used: Callable[[set[str]], Awaitable[None]] = _nothing
        """Called with the groups of a share that is new here, before it relies on them."""
        self._shares: dict[ShareKey, Share] = {}
        self._pumps: dict[Share, dict[str, SharePump]] = {}
        self._leased: dict[Share, dict[str, LeasedConsumer]] = {}
        """Consumers of each share by topic; they outlive their pump while they hold anything."""
        self._joining: set[tuple[ShareKey, ShareMember]] = set()
        self._is_closed = False
        self._delivered_before = self._renewed_before = self._lost_before = 0
        self._stop_watching = store.topology.watch_topics(self._topic_changed)

    # -- membership ----------------------------------------------------------------------------------------------

    def group_name(self, share_name: str, topic_filter: str) -> str:
        """The consumer group of a share, as `ShareGroups.name_of`."""
        return self.groups.name_of(share_name, topic_filter)

    async def join(self, share_name: str, topic_filter: str, member: ShareMember) -> None:
        """Add a member; on return, later messages are shared with it. Joining again changes nothing.

        Raises ILLEGAL_CONSUMER_GROUP, ILLEGAL_FILTER_EXPRESSION, FORBIDDEN (the Topic is not readable, or a queue that
        is not shared), TOPIC_NOT_FOUND (no such queue), UNAVAILABLE, and refusals of making the group.
        """
        key = share_name, topic_filter
        compile_filter(expression_of(topic_filter))
        group = self.group_name(share_name, topic_filter)
        named = self._store.topology.topic(topic_filter.partition("/")[0])
        if named is not None and not named.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {named.name!r} is not readable")
        self._check_open()
        self._joining.add((key, member))
        try:
            if (queue := shared_queue(topic_filter)) is not None:
                self._queue_rules(queue).check_shareable(queue)
            else:
                if key not in self._shares:
                    await self.on_used(groups_of(share_name, topic_filter))
                await self.groups.ensure(group, share_name, topic_filter)
                if whole_topic(topic_filter) is not None and self._has_any_level_topic():
                    await self.groups.ensure_side(share_name, topic_filter)
            if (key, member) not in self._joining:
                return  # it left meanwhile
            self._check_open()
        finally:
            self._joining.discard((key, member))
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = Share(share_name, topic_filter, self._passed_over(topic_filter))
        share.add(member)
        self._pump_all(share)

    def _has_any_level_topic(self) -> bool:
        return any(map(self._store.topology.topic, self._any_level_topics()))

    def _passed_over(self, topic_filter: str) -> PassedOver:
        queue = shared_queue(topic_filter)
        if queue is None:
            return PassedOver(PART, self._incidents, self._clock)
        return PassedOver(PART, self._incidents, self._clock, partial(self._came_back, queue))

    def _came_back(self, queue: str, tickets: Sequence[Ticket]) -> Sequence[Ticket]:
        return () if self.queues is None else self.queues.came_back(queue, tickets)

    def leave(self, share_name: str, topic_filter: str, member: ShareMember) -> None:
        """Release all of the member's messages at once; no error for a consumer that is not a member."""
        key = share_name, topic_filter
        self._joining.discard((key, member))
        share = self._shares.get(key)
        if share is None:
            return
        if share.is_only(member):
            self._stop(share)
        queue = shared_queue(topic_filter)
        spent = () if queue is None else self._came_back(queue, share.held_by(member))
        share.remove(member, spent)
        self._forget_if_over(share)

    def _stop(self, share: Share) -> None:
        """Stop the pumps of a share without members: a waiting pop would take released messages as an attempt."""
        for pump in self._pumps.get(share, {}).values():
            pump.task.cancel()

    def held_by(self, share_name: str, topic_filter: str, member: ShareMember) -> int:
        """Number of a member's unsettled messages."""
        share = self._shares.get((share_name, topic_filter))
        return 0 if share is None else len(share.held_by(member))

    def has_room(self, share_name: str, topic_filter: str, member: ShareMember) -> None:
        """Note that the member's credit grew."""
        share = self._shares.get((share_name, topic_filter))
        if share is not None and share.has(member):
            share.look()

    def groups_in_use(self) -> set[str]:
        """The groups of shares with members here."""
        shares = (share for share in self._shares.values() if share.has_members)
        return {group for share in shares for group in groups_of(share.share_name, share.topic_filter)}

    def look_again(self) -> None:
        """Pump again after a change of the Topics whose names may start with any level."""
        for share in tuple(self._shares.values()):
            self._pump_all(share)

    @property
    def delivered(self) -> int:
        """Messages handed to members."""
        return self._delivered_before + sum(share.delivered for share in self._shares.values())

    @property
    def renewed(self) -> int:
        """Renewed leases."""
        return self._renewed_before + sum(each.leases.renewed for each in self._all_leased())

    @property
    def lost(self) -> int:
        """Leases that the store ended while they were held."""
        return self._lost_before + sum(each.leases.lost for each in self._all_leased())

    def _all_leased(self) -> list[LeasedConsumer]:
        return [leased for by_topic in self._leased.values() for leased in by_topic.values()]

    def _check_open(self) -> None:
        if self._is_closed:
            raise EntrepotError(Code.UNAVAILABLE, "the gateway is stopping")

    def _queue_rules(self, topic: str) -> QueueRules:
        if self.queues is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue behind {topic!r}")
        return self.queues

    # -- topics --------------------------------------------------------------------------------------------------

    def _can_match(self, topic: str, topic_filter: str) -> bool:
        """True if names of a Topic can match a filter. MQTT names are those of the default namespace. An AMQP queue is
        a Topic with no other name: its filter matches it alone."""
        found = self._store.topology.topic(topic)
        if NAMESPACE_SEPARATOR in topic or found is None or not found.permission.readable:
            return False
        queue = shared_queue(topic_filter)
        if queue is not None or is_hidden_topic(topic):
            return queue == topic
        level = topic_filter.partition("/")[0]
        return level in ANY or level == topic or topic in self._any_level_topics()

    def _topic_changed(self, name: str) -> None:
        for share in tuple(self._shares.values()):
            self._pump_if_it_matches(share, name)

    def _pump_all(self, share: Share) -> None:
        for topic in self._store.topology.topics():
            self._pump_if_it_matches(share, topic.name)

    def _pump_if_it_matches(self, share: Share, topic: str) -> None:
        """Pump a Topic; a fault is that share's and that Topic's alone."""
        try:
            if share.has_members and self._can_match(topic, share.topic_filter):
                self._pump(share, topic)
        except Exception as fault:  # noqa: BLE001 - the other topics and shares are to be read
            reason = f"$share/{share.share_name}/{share.topic_filter} does not read this topic: {fault}"
            self._incidents.note(PART, Outcome.SET_ASIDE, reason, place=topic, fault=fault)

    def _pump(self, share: Share, topic: str) -> None:
        pumps = self._pumps.setdefault(share, {})
        if topic in pumps or self._is_closed:
            return
        name, text = share.share_name, share.topic_filter
        group, wanted = self.groups.of_topic(name, text, topic, has_any_names=topic in self._any_level_topics())
        leased = self._leased_of(share, topic, group)

        def request(count: int) -> PopRequest:
            return PopRequest(topic, group, count, WAIT_MS, leased.leases.lease_ms, wanted)

        is_queue = shared_queue(text) is not None

        async def ensure_group() -> ConsumerGroup:
            if is_queue:
                return self.groups.of_queue(group, topic)
            if group != self.group_name(name, text):
                return await self.groups.ensure_side(name, text)
            return await self.groups.ensure(group, name, text)

        def sort_out(tickets: list[Ticket]) -> list[Ticket]:
            return self._queue_rules(topic).sort_out(topic, tickets) if is_queue else tickets

        pumps[topic] = SharePump(
            share, leased, request, ensure_group, sort_out, self._traffic, self._incidents, self._pump_ended
        )

    def _leased_of(self, share: Share, topic: str, group: str) -> LeasedConsumer:
        by_topic = self._leased.setdefault(share, {})
        leased = by_topic.get(topic)
        if leased is None:
            on_idle = partial(self._forget_leased, share, topic)
            consumer = consumer_at(f"members of MQTT share {share.share_name}", self._gateway())
            leased = by_topic[topic] = LeasedConsumer(
                self._store, self._clock, topic, group, consumer=consumer, on_end=share.ended, on_idle=on_idle
            )
        return leased

    def _forget_leased(self, share: Share, topic: str) -> None:
        """Forget the consumer of a topic that has no pump and holds nothing."""
        by_topic = self._leased.get(share, {})
        leased = by_topic.get(topic)
        if leased is None or not leased.is_idle or topic in self._pumps.get(share, {}):
            return
        self._renewed_before += leased.leases.renewed
        self._lost_before += leased.leases.lost
        del by_topic[topic]
        if not by_topic:
            del self._leased[share]

    def _pump_ended(self, pump: SharePump) -> None:
        share, topic = pump.share, pump.leased.topic
        del self._pumps[share][topic]
        if not self._is_closed and not pump.has_failed:
            self._pump_if_it_matches(share, topic)  # a member joined, or the topic came back, at this moment
        self._forget_leased(share, topic)
        self._forget_if_over(share)

    def _forget_if_over(self, share: Share) -> None:
        if share.has_members or share.pumping:
            return
        key = share.share_name, share.topic_filter
        if self._shares.get(key) is share:
            del self._shares[key]
            self._delivered_before += share.delivered
        self._pumps.pop(share, None)

    async def close(self) -> None:
        """Release everything, and return when the store knows."""
        if not self._is_closed:
            self._stop_watching()
        self._is_closed = True
        self._joining.clear()
        for share in tuple(self._shares.values()):
            self._stop(share)
            share.remove_all()
        if pumps := [pump.task for pumps in self._pumps.values() for pump in pumps.values()]:
            await asyncio.wait(pumps)
        await asyncio.gather(*(leased.close() for leased in self._all_leased()))

"""Shares: the shared subscriptions of this gateway's connections, as consumers of consumer groups.

A share pops every Topic that its filter can match, as far as its members have credit. Each message has one holder,
until that member settles it, releases it or leaves. Gateways that share a group know nothing of each other; the store
shares out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from entrepot.domain.clock import Clock
from entrepot.domain.consumer_group import LATEST, ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.names import NAMESPACE_SEPARATOR, is_hidden_topic
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.revision import BY_USE
from entrepot.domain.share import filtered_share_group, queue_group, share_group, shared_queue, whole_topic
from entrepot.domain.timestamp import to_rfc3339
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.provenance import consumer_at
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.messaging.traffic import Traffic
from entrepot.gateway.mqtt.shares.pump import WAIT_MS, SharePump
from entrepot.gateway.mqtt.shares.share import Share, ShareMember

CLOCK_STEP_SECONDS: Final = 0.001
MAX_CLOCK_STEPS: Final = 5
"""Waits of a new group, each that long, for the clock to move."""
ANY: Final = ("+", "#")

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
    """The shares; `new_group` makes the definition of a share's group by name, except for its start. Names in
    `any_level_topics` may start with any level."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        new_group: Callable[[str], ConsumerGroup],
        any_level_topics: Callable[[], set[str]],
        traffic: Traffic,
        gateway: Callable[[], str] = str,
    ) -> None:
        """`gateway`: name of this gateway, for people."""
        self._gateway = gateway
        self._store = store
        self._clock = clock
        self._new_group = new_group
        self._any_level_topics = any_level_topics
        self._traffic = traffic
        self.queues: QueueRules | None = None
        """Rules of AMQP's queues, if AMQP is enabled; without them no queue is shared."""
        self._shares: dict[ShareKey, Share] = {}
        self._pumps: dict[Share, dict[str, SharePump]] = {}
        self._leased: dict[Share, dict[str, LeasedConsumer]] = {}
        """Consumers of each share by topic; they outlive their pump while they hold anything."""
        self._joining: set[tuple[ShareKey, ShareMember]] = set()
        self._making: dict[str, asyncio.Task[ConsumerGroup]] = {}
        self._is_closed = False
        self._delivered_before = self._renewed_before = self._lost_before = 0
        self._stop_watching = store.topology.watch_topics(self._topic_changed)

    # -- membership ----------------------------------------------------------------------------------------------

    def group_name(self, share_name: str, topic_filter: str) -> str:
        """The consumer group of a share: that of its name for a whole Topic or the group's declared filter, else one
        of its own.

        Raises ILLEGAL_CONSUMER_GROUP; FORBIDDEN (an AMQP queue by another name than its own).
        """
        if (queue := shared_queue(topic_filter)) is not None:
            return queue_group(share_name, queue)
        name = share_group(share_name)
        if whole_topic(topic_filter) is not None or self._is_declared(name, topic_filter):
            return name
        return filtered_share_group(share_name, topic_filter)

    async def join(self, share_name: str, topic_filter: str, member: ShareMember) -> None:
        """Add a member; on return, later messages are shared with it. Joining again changes nothing.

        Raises ILLEGAL_CONSUMER_GROUP, ILLEGAL_FILTER_EXPRESSION, FORBIDDEN (the Topic is not readable, or a queue that
        is not shared), TOPIC_NOT_FOUND (no such queue), UNAVAILABLE, and refusals of making the group.
        """
        key = share_name, topic_filter
        compile_filter(_expression(topic_filter))
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
                await self._ensure_group(group, share_name)
            if whole_topic(topic_filter) is not None and any(map(self._store.topology.topic, self._any_level_topics())):
                await self._ensure_side_group(share_name, topic_filter)
            if (key, member) not in self._joining:
                return  # it left meanwhile
            self._check_open()
        finally:
            self._joining.discard((key, member))
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = Share(share_name, topic_filter)
        share.add(member)
        self._pump_all(share)

    def leave(self, share_name: str, topic_filter: str, member: ShareMember) -> None:
        """Release all of the member's messages at once; no error for a consumer that is no member."""
        key = share_name, topic_filter
        self._joining.discard((key, member))
        share = self._shares.get(key)
        if share is None:
            return
        if share.is_only(member):
            self._stop(share)
        queue = shared_queue(topic_filter)
        spent = () if queue is None or self.queues is None else self.queues.came_back(queue, share.held_by(member))
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
        return self._renewed_before + sum(each.renewed for each in self._all_leased())

    @property
    def lost(self) -> int:
        """Leases that the store ended while they were held."""
        return self._lost_before + sum(each.lost for each in self._all_leased())

    def _all_leased(self) -> list[LeasedConsumer]:
        return [leased for by_topic in self._leased.values() for leased in by_topic.values()]

    def _check_open(self) -> None:
        if self._is_closed:
            raise EntrepotError(Code.UNAVAILABLE, "the gateway is stopping")

    def _queue_rules(self, topic: str) -> QueueRules:
        if self.queues is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue behind {topic!r}")
        return self.queues

    # -- groups --------------------------------------------------------------------------------------------------

    def _queue_group(self, group: str, topic: str) -> ConsumerGroup:
        """The group of an AMQP queue, made by its declaration: without it the queue is gone."""
        found = self._store.topology.group(group)
        if found is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue behind {topic!r}")
        return found

    def _is_declared(self, group: str, topic_filter: str) -> bool:
        definition = self._store.topology.group(group)
        return definition is not None and definition.filter == _expression(topic_filter)

    async def _ensure_side_group(self, share_name: str, topic_filter: str) -> ConsumerGroup:
        """The group by which a share of one whole Topic reads others; it starts where the share's own does."""
        main = self._store.topology.group(share_group(share_name))
        start = None if main is None or main.start == LATEST else main.start
        return await self._ensure_group(filtered_share_group(share_name, topic_filter), share_name, start)

    async def _ensure_group(self, name: str, share_name: str, start: str | None = None) -> ConsumerGroup:
        """The group, created if needed; concurrent callers wait for one creation."""
        found = self._store.topology.group(name)
        if found is not None:
            return found
        making = self._making.get(name)
        if making is None:
            making = asyncio.get_running_loop().create_task(self._make_group(name, share_name, start))
            self._making[name] = making
            making.add_done_callback(lambda _: self._making.pop(name, None))
        return await asyncio.shield(making)

    async def _make_group(self, name: str, share_name: str, start: str | None) -> ConsumerGroup:
        """Make a group that begins now, or at `start`; it gets all messages of Topics that come later. One with a
        filter of its own takes the definition of the share name's group, if there is one."""
        share_named = self._store.topology.group(share_group(share_name))
        if share_named is None:
            group = self._new_group(name)
        else:
            group = replace(share_named, name=name, filter=None)
        group = replace(group, start=start or await self._beginning(), revision=BY_USE)
        await self._store.topology.put_group(group)
        return self._store.topology.group(name) or group

    async def _beginning(self) -> str:
        """The present time as the start of a group.

        The store begins at the first message of this millisecond or a later one. So the clock must move first: messages
        confirmed before then have an earlier time. A clock that stands still is not awaited for long.
        """
        before_ms = self._clock.now_ms()
        for _ in range(MAX_CLOCK_STEPS):
            if self._clock.now_ms() > before_ms:
                break
            await asyncio.sleep(CLOCK_STEP_SECONDS)
        return to_rfc3339(self._clock.now_ms()) or LATEST

    # -- topics --------------------------------------------------------------------------------------------------

    def _can_match(self, topic: str, topic_filter: str) -> bool:
        """True if names of a Topic can match a filter. MQTT names are those of the default namespace."""
        found = self._store.topology.topic(topic)
        if NAMESPACE_SEPARATOR in topic or found is None or not found.permission.readable:
            return False
        if is_hidden_topic(topic):
            return shared_queue(topic_filter) == topic
        level = topic_filter.partition("/")[0]
        return level in ANY or level == topic or topic in self._any_level_topics()

    def _topic_changed(self, name: str) -> None:
        for share in tuple(self._shares.values()):
            if share.has_members and self._can_match(name, share.topic_filter):
                self._pump(share, name)

    def _pump_all(self, share: Share) -> None:
        if share.has_members:
            for topic in self._store.topology.topics():
                if self._can_match(topic.name, share.topic_filter):
                    self._pump(share, topic.name)

    def _pump(self, share: Share, topic: str) -> None:
        pumps = self._pumps.setdefault(share, {})
        if topic in pumps or self._is_closed:
            return
        group, wanted = self._group_and_filter(share, topic)
        leased = self._leased_of(share, topic, group)

        def request(count: int) -> PopRequest:
            return PopRequest(topic, group, count, WAIT_MS, leased.lease_ms, wanted)

        is_queue = shared_queue(share.topic_filter) is not None

        async def ensure_group() -> ConsumerGroup:
            if is_queue:
                return self._queue_group(group, topic)
            if group != self.group_name(share.share_name, share.topic_filter):
                return await self._ensure_side_group(share.share_name, share.topic_filter)
            return await self._ensure_group(group, share.share_name)

        def sort_out(tickets: list[Ticket]) -> list[Ticket]:
            return self._queue_rules(topic).sort_out(topic, tickets) if is_queue else tickets

        pumps[topic] = SharePump(share, leased, request, ensure_group, sort_out, self._traffic, self._pump_ended)

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
        self._renewed_before += leased.renewed
        self._lost_before += leased.lost
        del by_topic[topic]
        if not by_topic:
            del self._leased[share]

    def _group_and_filter(self, share: Share, topic: str) -> tuple[str, FilterExpression | None]:
        """The group and filter for the pops of a Topic. Messages that do not match are settled for the group. So a
        share of one whole Topic reads other Topics, which may have such names, too, with a group of its own."""
        text = share.topic_filter
        if shared_queue(text) is not None:
            return queue_group(share.share_name, topic), None
        name = share_group(share.share_name)
        if self._is_declared(name, text):
            return name, None
        has_any_names = topic in self._any_level_topics()
        is_all = text in ("#", "+/#", f"{topic}/#") and not has_any_names
        wanted = None if is_all else _expression(text)
        if whole_topic(text) == topic:
            return name, wanted
        return filtered_share_group(share.share_name, text), wanted

    def _pump_ended(self, pump: SharePump) -> None:
        share, topic = pump.share, pump.leased.topic
        del self._pumps[share][topic]
        is_wanted = not self._is_closed and not pump.has_failed and share.has_members
        if is_wanted and self._can_match(topic, share.topic_filter):
            self._pump(share, topic)  # a member joined, or the topic came back, at this moment
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


def _expression(topic_filter: str) -> FilterExpression:
    return FilterExpression(FilterKind.SUB_TOPIC, topic_filter)

"""ShareGroups: the consumer groups behind shared subscriptions, created by use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import LATEST, ConsumerGroup
from entrepot.domain.definitions.revision import BY_USE
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.ports import Store
from entrepot.domain.share import (
    filtered_share_group,
    queue_group,
    share_group,
    shared_queue,
    side_share_group,
    whole_topic,
)
from entrepot.domain.timestamp import to_rfc3339

CLOCK_STEP_SECONDS: Final = 0.001
MAX_CLOCK_STEPS: Final = 5
"""Waits of a new group, each that long, for the clock to move."""

OnMade = Callable[[ConsumerGroup, str, str], Awaitable[None]]
"""Callback for a group that a share made: its definition as the store has it, share name, and filter."""


async def _nothing(*_: object) -> None:
    """Default callback."""


class ShareGroups:
    """The groups of this gateway's shares; `new_group` makes the definition of one by name, except for its start."""

    def __init__(self, store: Store, clock: Clock, new_group: Callable[[str], ConsumerGroup]) -> None:
        self._store, self._clock, self._new_group = store, clock, new_group
        self._making: dict[str, asyncio.Task[ConsumerGroup]] = {}
        self.on_made: OnMade = _nothing

    def name_of(self, share_name: str, topic_filter: str) -> str:
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

    def of_topic(
        self, share_name: str, topic_filter: str, topic: str, *, has_any_names: bool
    ) -> tuple[str, FilterExpression | None]:
        """The group and filter for the pops of a Topic. Messages that do not match are settled for the group. So a
        share of one whole Topic reads other Topics, which may have such names, too, with a group of its own.

        Raises ILLEGAL_CONSUMER_GROUP; FORBIDDEN (an AMQP queue by another name than its own).
        """
        if shared_queue(topic_filter) is not None:
            return queue_group(share_name, topic), None
        name = share_group(share_name)
        if self._is_declared(name, topic_filter):
            return name, None
        is_all = topic_filter in ("#", "+/#", f"{topic}/#") and not has_any_names
        wanted = None if is_all else expression_of(topic_filter)
        whole = whole_topic(topic_filter)
        if whole == topic:
            return name, wanted
        if whole is not None:
            return side_share_group(share_name, topic_filter), wanted
        return filtered_share_group(share_name, topic_filter), wanted

    def of_queue(self, group: str, topic: str) -> ConsumerGroup:
        """The group of an AMQP queue, made by its declaration. Raises TOPIC_NOT_FOUND: the queue is gone."""
        found = self._store.topology.group(group)
        if found is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue behind {topic!r}")
        return found

    def _is_declared(self, group: str, topic_filter: str) -> bool:
        definition = self._store.topology.group(group)
        return definition is not None and definition.filter == expression_of(topic_filter)

    async def ensure_side(self, share_name: str, topic_filter: str) -> ConsumerGroup:
        """The group by which a share of one whole Topic reads others; it starts where the share's own does. Raises the
        store's refusals."""
        main = self._store.topology.group(share_group(share_name))
        start = None if main is None or main.start == LATEST else main.start
        return await self.ensure(side_share_group(share_name, topic_filter), share_name, topic_filter, start)

    async def ensure(self, name: str, share_name: str, topic_filter: str, start: str | None = None) -> ConsumerGroup:
        """The group, created if needed; concurrent callers wait for one creation. Raises the store's refusals, and
        CONSUMER_GROUP_NOT_FOUND where use makes none."""
        found = self._store.topology.group(name)
        if found is not None:
            return found
        making = self._making.get(name)
        if making is None:
            making = asyncio.get_running_loop().create_task(self._make(name, share_name, topic_filter, start))
            self._making[name] = making
            making.add_done_callback(lambda _: self._making.pop(name, None))
        return await asyncio.shield(making)

    async def _make(self, name: str, share_name: str, topic_filter: str, start: str | None) -> ConsumerGroup:
        """Make a group that begins now, or at `start`; it gets all messages of Topics that come later. One with a
        filter of its own takes the definition of the share name's group, if there is one."""
        share_named = self._store.topology.group(share_group(share_name))
        if share_named is None:
            group = self._new_group(name)
        else:
            group = replace(share_named, name=name, filter=None)
        group = replace(group, start=start or await self._beginning(), revision=BY_USE)
        await self._store.topology.put_group(group)
        made = self._store.topology.group(name) or group
        if made.start == group.start:  # else another door was first
            await self.on_made(made, share_name, topic_filter)
        return made

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


def expression_of(topic_filter: str) -> FilterExpression:
    """The filter of a share, as pops have it."""
    return FilterExpression(FilterKind.SUB_TOPIC, topic_filter)


def groups_of(share_name: str, topic_filter: str) -> set[str]:
    """All groups that a share may read with, except an AMQP queue's, which no share makes. None for a name without a
    group."""
    if shared_queue(topic_filter) is not None:
        return set()
    try:
        found = {share_group(share_name), side_share_group(share_name, topic_filter)}
    except EntrepotError:
        return set()
    with suppress(EntrepotError):  # too long: the shortened name is there
        found.add(filtered_share_group(share_name, topic_filter))
    return found

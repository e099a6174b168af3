"""Statuses of topics and groups, as far as brokers tell them in time: a silent broker costs its deadline, no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from entrepot.domain.broker_answers import BrokerAnswers
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports.cluster import control_of
from entrepot.domain.ports.topology import STATUSES_AT_ONCE
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.operations.row.paging import MAX_LIMIT

if TYPE_CHECKING:
    from entrepot.domain.definitions.consumer_group import GroupStatus
    from entrepot.domain.ports import Store
    from entrepot.domain.topic import TopicStatus

STATUS_SECONDS: Final = 1.5
"""Longest wait for a broker's figures."""
SORT_SECONDS: Final = 5.0
"""Longest wait for a broker's figures where more than a page of them is asked for."""
_Status = TypeVar("_Status")


async def topic_statuses(store: Store, names: Sequence[str]) -> BrokerAnswers[TopicStatus]:
    """The statuses of topics, as far as brokers tell them in time."""
    control = control_of(store)
    if control is not None:
        return await control.topic_statuses(names, _seconds_for(names))
    there = store.topology
    return await _asked_here(names, there.topic_statuses, lambda status: status.topic.name, there.topic)


async def group_statuses(store: Store, names: Sequence[str]) -> BrokerAnswers[GroupStatus]:
    """The statuses of groups, likewise."""
    control = control_of(store)
    if control is not None:
        return await control.group_statuses(names, _seconds_for(names))
    there = store.topology
    return await _asked_here(names, there.group_statuses, lambda status: status.group.name, there.group)


def _seconds_for(names: Sequence[str]) -> float:
    return STATUS_SECONDS if len(names) <= MAX_LIMIT else SORT_SECONDS


async def _asked_here(
    names: Sequence[str],
    ask: Callable[[Sequence[str]], Awaitable[list[_Status]]],
    name_of: Callable[[_Status], str],
    defined: Callable[[str], Any],
) -> BrokerAnswers[_Status]:
    """Ask a store that is not a cluster of brokers, with turns for others between pages."""
    statuses: dict[str, _Status] = {}
    seconds, problem = _seconds_for(names), ""
    try:
        async with asyncio.timeout(seconds):
            async for page in in_pages(names, STATUSES_AT_ONCE):
                statuses.update((name_of(status), status) for status in await ask(page))
    except TimeoutError:
        problem = f"no answer within {seconds} s"
    except EntrepotError as error:
        problem = error.message
    untold = frozenset(name for name in names if name not in statuses and defined(name) is not None)
    missing = {"store": problem or "some are not told now"} if untold else {}
    return BrokerAnswers(statuses, untold, 1, missing)

"""Statuses of many topics or groups at once: all brokers are asked side by side, page by page, until one deadline.

A broker that is away, or late, is named with the reason; what the others told is answered all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from entrepot.domain.broker_answers import BrokerAnswers
from entrepot.domain.definitions.consumer_group import GroupStatus, QueueProgress
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports.topology import STATUSES_AT_ONCE
from entrepot.domain.topic import QueueBounds, TopicStatus
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.row import Row
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster

LEAST_SECONDS: Final = 0.001
_MayHave = Callable[[BrokerClient, str], bool]


class _Question(NamedTuple):
    """A row that tells statuses of a page of names, and how to read a status' name."""

    row: Row[[Sequence[str]], list[Any]]
    name_of: Callable[[Any], str]


_OF_TOPICS: Final = _Question(rows.TOPIC_STATUSES, lambda status: status.topic.name)
_OF_GROUPS: Final = _Question(rows.GROUP_STATUSES, lambda status: status.group.name)


@dataclass(slots=True)
class _Told:
    """A broker's answers by name, and the reason why others are missing."""

    client: BrokerClient
    names: Sequence[str]
    answers: dict[str, Any] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    problem: str = ""

    @property
    def untold(self) -> list[str]:
        return [name for name in self.names if name not in self.answers and name not in self.gone]


class ClusterStatuses:
    """Questions about pages of names to the brokers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def topics(self, names: Sequence[str], seconds: float) -> BrokerAnswers[TopicStatus]:
        """Return the statuses of topics.  `seconds`: the longest wait for each broker."""
        told = await self._ask(_OF_TOPICS, names, seconds, self._may_have_topic)
        statuses: dict[str, TopicStatus] = {}
        for name in names:
            parts: list[QueueBounds] = []
            topic = self._cluster.topics.get(name)
            found = [(each.client, each.answers[name]) for each in told if name in each.answers]
            for _, status in found:
                parts += status.queues
            if found:
                statuses[name] = TopicStatus(topic or found[0][1].topic, parts)
        return _answers(statuses, told)

    async def groups(self, names: Sequence[str], seconds: float) -> BrokerAnswers[GroupStatus]:
        """Return the statuses of groups, likewise."""
        told = await self._ask(_OF_GROUPS, names, seconds, lambda client, name: True)
        statuses: dict[str, GroupStatus] = {}
        for name in names:
            progress: list[QueueProgress] = []
            group = self._cluster.groups.get(name)
            found = [(each.client, each.answers[name]) for each in told if name in each.answers]
            for _, status in found:
                progress += status.progress
            if found:
                ordered = sorted(progress, key=lambda each: (each.topic, each.queue_id))
                statuses[name] = GroupStatus(group or found[0][1].group, ordered)
        return _answers(statuses, told)

    def _may_have_topic(self, client: BrokerClient, name: str) -> bool:
        definition = self._cluster.topics.get(name)
        return definition is None or not definition.placement or bool(definition.queues_on(client.name))

    async def _ask(self, question: _Question, names: Sequence[str], seconds: float, may_have: _MayHave) -> list[_Told]:
        until = asyncio.get_running_loop().time() + seconds
        clients = sorted(self._cluster.clients.values(), key=lambda client: client.number)
        told = [_Told(client, [name for name in names if may_have(client, name)]) for client in clients]
        await asyncio.gather(*(_ask_one(each, question, until) for each in told))
        return told


async def _ask_one(told: _Told, question: _Question, until: float) -> None:
    """Ask one broker for all names, a page after the other; its first failure ends it."""
    if not told.client.is_ready:
        told.problem = told.client.link.problem or "it is away"
        return
    now = asyncio.get_running_loop().time
    started = now()
    for at in range(0, len(told.names), STATUSES_AT_ONCE):
        page = told.names[at : at + STATUSES_AT_ONCE]
        try:
            answers = await told.client.ask(question.row.ask(page), seconds=max(until - now(), LEAST_SECONDS))
        except EntrepotError as refusal:
            late = f"no answer within {until - started:.1f} s"
            told.problem = late if refusal.code is Code.REQUEST_TIMEOUT else refusal.message
            return
        told.answers.update((question.name_of(answer), answer) for answer in answers)
        told.gone.update(name for name in page if name not in told.answers)


def _answers(statuses: dict[str, Any], told: Sequence[_Told]) -> BrokerAnswers[Any]:
    partial = frozenset(name for each in told if each.problem for name in each.untold)
    missing = {each.client.name: each.problem for each in told if each.problem}
    return BrokerAnswers(statuses, partial, len(told), missing)

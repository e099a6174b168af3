"""Statuses of many topics and groups: a broker is asked by hundreds, and keeps what it told before it went."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus, QueueProgress
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports.topology import STATUSES_AT_ONCE
from entrepot.domain.topic import QueueBounds, Topic, TopicStatus
from entrepot.store_client.remote.statuses import ClusterStatuses
from tests.support.brokers.scripted_broker import ScriptedBroker


class CountedBroker(ScriptedBroker):
    """A broker that counts its questions; after `answers` of them it is away."""

    def __init__(self, number: int = 0, answers: int = 10**6) -> None:
        super().__init__(number)
        self.asked: list[int] = []
        self._answers = answers

    def _there(self, names: list[str]) -> list[str]:
        self.asked.append(len(names))
        if len(self.asked) > self._answers:
            raise EntrepotError(Code.UNAVAILABLE, "it is away")
        return [name for name in names if not name.startswith("gone")]

    async def topic_statuses(self, names: list[str]) -> list[TopicStatus]:
        return [TopicStatus(Topic(name, queues=1), [QueueBounds(0, 1, 5)]) for name in self._there(names)]

    async def group_statuses(self, names: list[str]) -> list[GroupStatus]:
        progress = [QueueProgress("t", 0, 1, 5, 2, 4)]
        return [GroupStatus(ConsumerGroup(name), progress) for name in self._there(names)]


def _statuses(*brokers: CountedBroker) -> ClusterStatuses:
    clients = dict(enumerate(brokers))
    return ClusterStatuses(SimpleNamespace(topics={}, groups={}, clients=clients))  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["topics", "groups"])
async def test_a_broker_is_asked_by_hundreds(what: str):
    broker = CountedBroker()
    names = [f"n{number:04}" for number in range(10 * STATUSES_AT_ONCE + 1)]
    answers = await getattr(_statuses(broker), what)([*names, "gone"], 5.0)
    assert broker.asked == [STATUSES_AT_ONCE] * 10 + [2]
    assert list(answers.statuses) == names
    assert (answers.partial, answers.missing) == (frozenset(), {})


async def test_what_a_broker_told_before_it_went_is_kept():
    first, second = CountedBroker(), CountedBroker(1, answers=1)
    names = [f"n{number:04}" for number in range(STATUSES_AT_ONCE + 2)]
    answers = await _statuses(first, second).topics(names, 5.0)
    assert [len(status.queues) for status in answers.statuses.values()] == [2] * STATUSES_AT_ONCE + [1, 1]
    assert answers.partial == frozenset(names[-2:])
    assert answers.missing == {"broker-1": "it is away"}
    assert len(second.asked) == 2

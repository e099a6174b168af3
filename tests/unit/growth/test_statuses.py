"""Statuses of many topics and groups: a broker is asked by hundreds, and keeps what it told before it went."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus, QueueProgress
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports.topology import STATUSES_AT_ONCE
from entrepot.domain.topic import QueueBounds, Topic, TopicStatus
from entrepot.protocols.remoting import operations as wire
from entrepot.store_client.remote.statuses import ClusterStatuses


class CountedBroker:
    """A broker that counts its questions; after `answers` of them it is away."""

    is_ready, number, name = True, 0, "broker-0"

    def __init__(self, answers: int = 10**6) -> None:
        self.asked: list[int] = []
        self._answers = answers
        self.link = SimpleNamespace(problem="")

    async def ask(self, operation: wire.Operation, names: list[str], *, seconds: float) -> list[Any]:
        assert seconds > 0
        self.asked.append(len(names))
        if len(self.asked) > self._answers:
            raise EntrepotError(Code.UNAVAILABLE, "it is away")
        there = [name for name in names if not name.startswith("gone")]
        if operation is wire.TOPIC_STATUSES:
            return [TopicStatus(Topic(name, queues=1), [QueueBounds(0, 1, 5)]) for name in there]
        assert operation is wire.GROUP_STATUSES
        return [GroupStatus(ConsumerGroup(name), [QueueProgress("t", 0, 1, 5, 2, 4)]) for name in there]

    def world_bounds(self, bounds: list[QueueBounds]) -> list[QueueBounds]:
        return bounds

    def world_progress(self, status: GroupStatus) -> list[QueueProgress]:
        return status.progress


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
    first, second = CountedBroker(), CountedBroker(answers=1)
    second.name, second.number = "broker-1", 1
    names = [f"n{number:04}" for number in range(STATUSES_AT_ONCE + 2)]
    answers = await _statuses(first, second).topics(names, 5.0)
    assert [len(status.queues) for status in answers.statuses.values()] == [2] * STATUSES_AT_ONCE + [1, 1]
    assert answers.partial == frozenset(names[-2:])
    assert answers.missing == {"broker-1": "it is away"}
    assert len(second.asked) == 2

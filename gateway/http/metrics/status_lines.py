"""StatusLines: the lines of topics and groups in `/metrics`, read from the store and written a page at a time."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from entrepot.domain.broker_answers import BrokerAnswers
from entrepot.domain.definitions.consumer_group import GroupStatus
from entrepot.domain.names import dead_letter_group
from entrepot.domain.ports import Store
from entrepot.domain.topic import TopicStatus
from entrepot.gateway.http.metrics.metric_families import FamilyLines
from entrepot.gateway.messaging.traffic import Flow, Traffic
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.operations.row.statuses import group_statuses, topic_statuses

PAGE: Final = 200
"""Topics or groups between two turns of others."""
LOOK_SECONDS: Final = 5.0
"""Longest wait for brokers that do not answer, over all pages."""
_Status = TypeVar("_Status")
_Row = tuple[Sequence[str], Sequence[int]]


class StatusLines:
    """The lines of one scrape.  `is_complete`: False if a broker's part is missing in some."""

    def __init__(self, *, with_queues: bool) -> None:
        self.is_complete = True
        self.topics = self.groups = 0
        self._with_queues = with_queues
        self._offsets = FamilyLines(
            "gauge",
            ("topic", "queue_id"),
            {
                "entrepot_topic_min_offset": "First readable offset of a queue",
                "entrepot_topic_max_offset": "Offset after the last message of a queue",
            },
        )
        self._dead_letters = FamilyLines(
            "counter",
            ("consumer_group",),
            {"rocketmq_send_to_dlq_messages": "Messages that became dead letters of a group"},
        )
        self._progress = FamilyLines(
            "gauge",
            ("topic", "consumer_group"),
            {
                "rocketmq_consumer_lag_messages": "Unsettled messages of a group, including those in flight",
                "rocketmq_consumer_ready_messages": "Messages ready for a group: neither settled nor in flight",
                "rocketmq_consumer_inflight_messages": "Messages in flight of a group: delivered and unsettled",
            },
        )
        self._incoming = FamilyLines(
            "counter",
            ("topic",),
            {
                "rocketmq_messages_in": "Messages stored, from all protocols, by topic",
                "rocketmq_throughput_in": "Body bytes of stored messages, by topic",
            },
        )
        self._outgoing = FamilyLines(
            "counter",
            ("topic", "consumer_group"),
            {
                "rocketmq_messages_out": "Messages delivered to consumers of groups, redeliveries included",
                "rocketmq_throughput_out": "Body bytes of messages delivered to consumers of groups",
            },
        )

    async def look(self, store: Store, traffic: Traffic) -> None:
        """Read topics, groups and this gateway's traffic with them."""
        topics = [topic.name for topic in store.topology.topics()]
        groups = [group.name for group in store.topology.groups()]
        self.topics, self.groups = len(topics), len(groups)
        async for of_topics in self._pages(topics, lambda names: topic_statuses(store, names)):
            if self._with_queues:
                self._offsets.write(_offsets(of_topics))
            self._dead_letters.write(_letters(of_topics))
        async for of_groups in self._pages(groups, lambda names: group_statuses(store, names)):
            self._progress.write(_progress(of_groups))
        traffic.forget_all_but(set(topics), set(groups))
        incoming = [((topic,), flow) for topic, flow in traffic.incoming.items()]
        await _write_flows(self._incoming, incoming)
        await _write_flows(self._outgoing, list(traffic.outgoing.items()))

    async def _pages(
        self, names: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[BrokerAnswers[_Status]]]
    ) -> AsyncIterator[Iterable[_Status]]:
        """The statuses, page by page; the rest is left out once brokers have let it wait for too long."""
        waited, now = 0.0, asyncio.get_running_loop().time
        async for page in in_pages(names, PAGE):
            began = now()
            answers = await ask(page)
            if answers.missing:
                self.is_complete, waited = False, waited + now() - began
            yield answers.statuses.values()
            if waited > LOOK_SECONDS:
                return

    def text(self) -> Iterator[bytes]:
        """The lines, family by family."""
        for families in (self._incoming, self._outgoing, self._offsets, self._progress, self._dead_letters):
            yield from families.text()


async def _write_flows(lines: FamilyLines, flows: Sequence[tuple[Sequence[str], Flow]]) -> None:
    async for page in in_pages(flows, PAGE):
        lines.write((of, (flow.messages, flow.size)) for of, flow in page)


def _offsets(statuses: Iterable[TopicStatus]) -> Iterator[_Row]:
    for status in statuses:
        for queue in status.queues:
            yield (status.topic.name, str(queue.queue_id)), (queue.min_offset, queue.max_offset)


def _letters(statuses: Iterable[TopicStatus]) -> Iterator[_Row]:
    """Dead letters of groups: the end offset of each dead-letter topic, as offsets begin at 0 and only grow."""
    for status in statuses:
        group = dead_letter_group(status.topic.name)
        if group is not None:
            yield (group,), (sum(queue.max_offset for queue in status.queues),)


def _progress(statuses: Iterable[GroupStatus]) -> Iterator[_Row]:
    for status in statuses:
        sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for queue in status.progress:
            of = sums[queue.topic]
            of[0] += queue.lag
            of[1] += queue.in_flight
        for topic, (lag, held) in sums.items():
            yield (topic, status.group.name), (lag, lag - held, held)

"""AttachedTopic: the table of another cluster, as a topic of this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from entrepot.broker.cold.reads import ColdFound, ColdPage, ColdQuery
from entrepot.broker.cold.records import encode_cold
from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.table import TopicTable, topic_of
from entrepot.domain.expression.filter import MessageFilter
from entrepot.domain.message import StoredMessage


class AttachedTopic(ColdTopic):
    """A topic's messages under its name here. Their other queues are not here."""

    def __init__(self, topic: str, table: TopicTable, reader: SegmentReader, number: int) -> None:
        super().__init__(table, reader, number)
        self._topic = topic

    def read(self, queue_id: int, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        page = super().read(queue_id, first, most, wanted)
        self._make_ours(page.messages)
        return page

    def run(self, queue_id: int, first: int, to_offset: int, bounds: tuple[int, int], limits: tuple[int, int]) -> bytes:
        return encode_cold(self.read(queue_id, first, limits[0]), *bounds, to_offset, limits[1])

    def search(self, query: ColdQuery, below: Mapping[int, int]) -> ColdFound:
        found = super().search(replace(query, topic=topic_of(self._table.root)), below)
        self._make_ours(found.messages)
        return found

    def _make_ours(self, messages: Iterable[StoredMessage]) -> None:
        for message in messages:
            message.topic = self._topic
            message.further_queues = message.further_places = ()

"""AttachedTopic: the table of another cluster, as a topic of this one."""

from __future__ import annotations

from broker.ports.cold_reads import ColdPage
from broker.tiered.cold import ColdTopic
from broker.tiered.segment_reader import SegmentReader
from broker.tiered.table import TopicTable
from domain.expression.filter import MessageFilter


class AttachedTopic(ColdTopic):
    """Its messages have the topic's name of here.  Other queues that they are in are not here."""

    def __init__(self, topic: str, table: TopicTable, reader: SegmentReader, number: int) -> None:
        super().__init__(table, reader, number)
        self._topic = topic

    def read(self, queue_id: int, first: int, most: int, wanted: MessageFilter | None = None) -> ColdPage:
        page = super().read(queue_id, first, most, wanted)
        for message in page.messages:
            message.topic = self._topic
            message.further_queues = message.further_places = ()
        return page

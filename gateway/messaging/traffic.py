"""Traffic: messages in and out through this gateway, by topic and group, counted a batch at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set

from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.names import is_queue_feed
from entrepot.gateway.messaging.ticket import Ticket


class Flow:
    """Messages, and the bytes of their bodies, since the process began.  `is_queue`: those of an AMQP queue."""

    __slots__ = ("is_queue", "messages", "size")

    def __init__(self, *, is_queue: bool = False) -> None:
        self.is_queue = is_queue
        self.messages = 0
        self.size = 0

    def add(self, sizes: list[int]) -> None:
        self.messages += len(sizes)
        self.size += sum(sizes)


class Traffic:
    """Counts of stored messages by topic (`incoming`), and of those for consumers by topic and group (`outgoing`).
    `handed` counts the latter by listener, `queued` what went into AMQP queues."""

    def __init__(self) -> None:
        self.incoming: dict[str, Flow] = {}
        self.outgoing: dict[tuple[str, str], Flow] = {}
        self.handed: Counter[str] = Counter()
        self.queued = 0

    def count_in(self, messages: Sequence[Message], refusals: Sequence[EntrepotError | None] | None) -> None:
        """Count an appended batch without its refused messages; further queues count in the topic of each."""
        if refusals is not None:
            messages = [message for message, refusal in zip(messages, refusals, strict=True) if refusal is None]
        sizes: dict[str, list[int]]
        if len({message.topic for message in messages}) == 1 and not [each for each in messages if each.further_queues]:
            sizes = {messages[0].topic: [len(message.body) for message in messages]}
        else:
            sizes = defaultdict(list)
            for message in messages:
                sizes[message.topic].append(len(message.body))
                for topic in {topic for topic, _ in message.further_queues} - {message.topic}:
                    sizes[topic].append(len(message.body))
        for topic, of_topic in sizes.items():
            flow = self.incoming.get(topic)
            if flow is None:
                flow = self.incoming[topic] = Flow(is_queue=is_queue_feed(topic))
            flow.add(of_topic)
            if flow.is_queue:
                self.queued += len(of_topic)

    def count_out(self, topic: str, group: str, deliveries: Sequence[Delivery | Ticket], door: str = "http") -> None:
        """Count one answer to a consumer."""
        if deliveries:
            self.add_out(topic, group, [delivery.size for delivery in deliveries], door)

    def add_out(self, topic: str, group: str, sizes: list[int], door: str) -> None:
        """Count one answer, by the sizes of its messages."""
        self.handed[door] += len(sizes)
        flow = self.outgoing.get((topic, group))
        if flow is None:
            flow = self.outgoing[topic, group] = Flow()
        flow.add(sizes)

    def forget_all_but(self, topics: Set[str], groups: Set[str]) -> None:
        """Drop the counts of deleted topics and groups."""
        for topic in [topic for topic in self.incoming if topic not in topics]:
            del self.incoming[topic]
        for key in [(topic, group) for topic, group in self.outgoing if topic not in topics or group not in groups]:
            del self.outgoing[key]

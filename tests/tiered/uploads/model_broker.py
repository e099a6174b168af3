"""A model of the broker that an uploader asks: what is published, what lies on a disk, and what retention lets go.

A `Master` has the confirmed messages, which replicas share.  A `ModelBroker` is one replica: its own disk, and what its
own uploader told it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import numpy as np

from entrepot.broker.tiered.marks import TableMark
from entrepot.broker.tiered.source import Begun, Progress, QueueState, TopicState, Work
from entrepot.broker.tiered.troubles import Troubles
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.records import ENTRY, encode_run
from tests.support.tiered.rows import record_of

TAGS = ("odd", "even", "seldom")
RECORD_BYTES = 200
"""About what the record of a model's message has."""


def run_of(messages: list[StoredMessage], following: int, corrupted: set[int] | None = None) -> bytes:
    """A run of records; those of `corrupted` offsets fail their checksum."""
    records = []
    for message in messages:
        record = record_of(message)
        if corrupted and message.queue_offset in corrupted:
            record = record[:-1] + bytes([record[-1] ^ 1])
        records.append(record)
    entries = np.array(
        [
            (message.queue_offset, message.commit_log_offset, len(record))
            for message, record in zip(messages, records, strict=True)
        ],
        ENTRY,
    )
    return encode_run(entries, b"".join(records), (following, 0, following))


class Died(BaseException):
    """The process of an uploader was killed: nothing of it goes on."""


class ModelTopic:
    """One incarnation of a topic.  `queues`: all that was ever published, by queue; its place is its offset.

    `nowhere`: by queue the offset before which neither a disk nor the store in use has anything.
    """

    def __init__(self, name: str, root: str, queues: int, retention_ms: int) -> None:
        self.name, self.root, self.retention_ms = name, root, retention_ms
        self.queues: list[list[StoredMessage]] = [[] for _ in range(queues)]
        self.corrupted: set[tuple[int, int]] = set()
        self.crowded: set[tuple[int, int]] = set()
        """Places of messages with which an uploader dies, unless it uploads them alone."""
        self.nowhere = [0] * queues
        self.lost: set[tuple[int, int]] = set()
        """Places that no disk has any more, and that are in no table: a hole."""


class Master:
    """The topics, and what is confirmed of them.  Messages get their place here."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.topics: dict[str, ModelTopic] = {}
        self.dropped: list[ModelTopic] = []
        self.published = 0
        self._made = 0

    def make(self, name: str, queues: int, retention_ms: int) -> ModelTopic:
        """Make a topic, or make it anew: it gets another root."""
        if name in self.topics:
            self.dropped.append(self.topics[name])
        self._made += 1
        topic = self.topics[name] = ModelTopic(name, f"{name}/store-{self._made}", queues, retention_ms)
        return topic

    def publish(self, topic: ModelTopic, queue_id: int, store_time_ms: int, body: bytes | None = None) -> StoredMessage:
        """A message at the end of a queue."""
        queue = topic.queues[queue_id]
        self.published += 1
        number, tag = self.published, self.random.choice(TAGS)
        message = StoredMessage(
            topic.name,
            b"body %d " % number + bytes(self.random.randrange(60)) if body is None else body,
            sub_topic=f"{topic.name}/line{number % 5}",
            queue_id=queue_id,
            tag=tag,
            message_id=b"m%d" % number,
            born_time_ms=store_time_ms - 1,
            properties=(("n", str(number)),),
            queue_offset=len(queue),
            commit_log_offset=RECORD_BYTES * number,
            store_time_ms=store_time_ms,
        )
        message.filter_hash = filter_hash(message.sub_topic, tag)
        queue.append(message)
        return message


class ModelBroker:
    """A replica.  Implements `broker.tiered.source.Source`.

    `check`: called with all that its uploader tells, before it is believed.
    """

    def __init__(
        self,
        master: Master,
        check: Callable[[Progress], None] = lambda progress: None,
        steady: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.master = master
        self.troubles = Troubles(steady, self._keep)
        self.given_up: dict[tuple[str, int], int] = {}
        self._asked: dict[int, int] = {}
        """First offset asked for of each queue, for what is begun next."""
        self._frozen: dict[str, list[int]] | None = None
        self.mins: dict[str, list[int]] = {}
        self.progress: dict[str, Progress] = {}
        self.healing: bool | None = None
        """What it says of each corrupted record."""
        self.heals = 0
        self.requested = 0
        self.most_asked = 0
        self._check = check
        self.epoch = 0
        """Of its last time as master."""
        self.run = 0
        """Counts its starts."""
        self.marks: dict[str, TableMark] = {}
        """Tables as the log of the master has them."""
        self.mark_of: Callable[[str], TableMark | None] = lambda root: None

    # -- as the uploader sees it -----------------------------------------------------------------------------------

    def states(self) -> list[TopicState]:
        found = []
        for topic in self.topics():
            states = [
                QueueState(
                    number,
                    self.min_offset(topic, number),
                    self.end(topic, number),
                    RECORD_BYTES,
                    self.given_up.get((topic.root, number), -1),
                )
                for number in range(len(topic.queues))
            ]
            mark = self.marks.get(topic.root)
            firsts = {number: self.min_offset(topic, number) for number in range(len(topic.queues))}
            self.troubles.note_firsts(topic.name, topic.root, firsts)
            found.append(
                TopicState(
                    topic.name,
                    topic.root,
                    topic.retention_ms,
                    states,
                    self.epoch,
                    mark,
                    self.troubles.caution(topic.root),
                    self.troubles.keeps_house(topic.root),
                )
            )
        self.troubles.survived()
        self._asked.clear()
        return found

    def begins(self, begun: Begun) -> None:
        """Raises Died for messages that are not uploaded alone, and should be."""
        topic = self.master.topics.get(begun.topic)
        if topic is None or topic.root != begun.root:
            return
        self.troubles.begins(begun)
        if begun.work is not Work.UPLOAD or not self._asked:
            return
        places = {(number, at) for number, end in begun.ends.items() for at in range(self._asked[number], end)}
        if len(places) > 1 and places & topic.crowded:
            raise Died
        self._asked.clear()

    def records(self, topic: str, queue_id: int, first: int, end: int, max_bytes: int) -> bytes:
        found = self.master.topics.get(topic)
        if found is None or not self.knows(found) or queue_id >= len(found.queues):
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {topic!r}")
        if not self.min_offset(found, queue_id) <= first <= self.end(found, queue_id):
            raise EntrepotError(Code.ILLEGAL_OFFSET, f"offset {first} is not in queue {queue_id}")
        self.requested += 1
        self._asked.setdefault(queue_id, first)
        taken: list[StoredMessage] = []
        size = 0
        for message in found.queues[queue_id][first : min(end, self.end(found, queue_id))]:
            size += len(record_of(message))
            if taken and size > max_bytes:
                break
            taken.append(message)
        corrupted = {offset for number, offset in found.corrupted if number == queue_id}
        run = run_of(taken, first + len(taken), corrupted)
        self.most_asked = max(self.most_asked, len(run))
        return run

    def heal(self, commit_log_offset: int) -> bool | None:
        self.heals += 1
        return self.healing

    def told(self, progress: Progress) -> None:
        self._check(progress)
        self._keep(self.troubles.with_problem(progress))

    def _keep(self, progress: Progress) -> None:
        before = self.progress.get(progress.root)
        if progress.problem and before is not None and not progress.ends:
            progress = msgspec.structs.replace(progress, ends=before.ends)
        self.progress[progress.root] = progress
        if not progress.problem and (mark := self.mark_of(progress.root)) is not None:
            self.marks[progress.root] = mark

    # -- the disk --------------------------------------------------------------------------------------------------

    def topics(self) -> list[ModelTopic]:
        """Those of which it knows, in a fixed order."""
        return [each for _, each in sorted(self.master.topics.items()) if self.knows(each)]

    def min_offset(self, topic: ModelTopic, queue_id: int) -> int:
        return self.mins.setdefault(topic.root, [0] * len(topic.queues))[queue_id]

    def end(self, topic: ModelTopic, queue_id: int) -> int:
        """The end of what it knows to be confirmed."""
        return len(topic.queues[queue_id]) if self._frozen is None else self._frozen[topic.root][queue_id]

    def knows(self, topic: ModelTopic) -> bool:
        return self._frozen is None or topic.root in self._frozen

    def depose(self) -> None:
        """It is the master no more, and hears of nothing."""
        self._frozen = {topic.root: [len(queue) for queue in topic.queues] for topic in self.master.topics.values()}

    @property
    def is_deposed(self) -> bool:
        return self._frozen is not None

    def follow(self) -> None:
        """It hears of all again."""
        self._frozen = None

    def kept_from(self, topic: ModelTopic, queue_id: int) -> int:
        """As `Tier.kept_from`."""
        told = self.progress.get(topic.root)
        least = self.min_offset(topic, queue_id)
        return least if told is None else told.ends.get(queue_id, least)

    def clean(self, topic: ModelTopic, queue_id: int, cut: int) -> None:
        """Retention would let all go before `cut`; as `broker.retention.cleaner` does it."""
        before = self.min_offset(topic, queue_id)
        self.mins[topic.root][queue_id] = max(before, min(cut, self.kept_from(topic, queue_id)))

    def crash(self) -> None:
        """It comes back and knows nothing of the tier."""
        self.run += 1
        self.progress.clear()
        self.troubles.keep(set())

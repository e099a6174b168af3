"""Sites: a broker with its uploader and its readers, which check all that they read."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.fence import Fence, Writer
from entrepot.broker.tiered.marks import TableMark
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.source import Progress
from entrepot.broker.tiered.table import TopicTable
from entrepot.broker.tiered.upload.uploader import Uploader
from entrepot.domain.expression.filter import MessageFilter
from entrepot.domain.message import StoredMessage
from tests.tiered.uploads.model_broker import Died, ModelBroker, ModelTopic
from tests.tiered.uploads.witness import FIRST_QUEUE, NUMBER, STORE, Broken

if TYPE_CHECKING:
    from tests.tiered.uploads.world import World

HOUR_MS = 3_600_000
GRACE_MS = 24 * HOUR_MS
TOKEN = "mark of the store"
RUNS = {"first": 1_000, "second": 2_000}
"""Numbers of the runs of each site, of which none comes twice."""


@dataclass(frozen=True)
class Parts:
    """What a world is made of: the product's, or such as break a rule."""

    uploader: type[Uploader] = Uploader
    table: type[TopicTable] = TopicTable
    broker: type[ModelBroker] = ModelBroker
    cold: type[ColdTopic] = ColdTopic
    fence: type[Fence] = Fence
    fault_rate: float | None = None
    crowds: bool = True
    """Some messages end an uploader, unless it uploads them alone."""
    follows: bool = True
    """Iceberg's metadata follow the tables."""
    often: str = ""
    """The step that comes ten times as often."""


class Site:
    """A broker with its uploader and its readers."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.broker = world.parts.broker(world.master, self._check, lambda: world.steady)
        self.broker.marks, self.broker.mark_of = world.marks, self._mark_of
        self.broker.healing = False  # some replica has it whole, and is away
        self.deaths = 0
        self.start()

    def start(self) -> None:
        """A new uploader, and readers that know nothing."""
        world = self.world
        self.uploader = world.parts.uploader(
            self.broker,
            world.objects,
            world.clock,
            random.Random(world.random.getrandbits(64)),
            lambda: world.steady,
            number=NUMBER,
            writer=Writer(STORE, RUNS[self.name] + self.broker.run),
            segment_bytes=world.segment_bytes,
            max_age=30.0,
            requests_per_hour=20_000,
            grace=GRACE_MS / 1000,
            token=TOKEN,
            iceberg=world.parts.follows,
        )
        self.reader = SegmentReader(world.objects, max_bytes=4096)
        self.cold: dict[str, ColdTopic] = {}
        self.fresh_at: dict[str, int] = {}

    def _check(self, progress: Progress) -> None:
        topic = self.world.by_root[progress.root]
        self.world.witness.check_told(topic, self.broker.progress.get(progress.root), progress)

    def _mark_of(self, root: str) -> TableMark | None:
        """Mark of the table as the broker loads it; None where it cannot."""
        table = TopicTable(self.world.objects.working(), root, self.world.clock, random.Random(1))
        try:
            return TableMark.of(table.snapshot) if table.open(known=self.world.marks.get(root)) else None
        except TierError:
            return None

    def round(self) -> bool:
        """A round of the uploader, which may die in it."""
        try:
            return self.uploader.round()
        except Died:
            self.deaths += 1
            self.broker.troubles.ended("killed")
            self.start()
            return False

    # -- reading -----------------------------------------------------------------------------------------------------

    def refresh(self, topic: ModelTopic) -> bool:
        """Take up what the table has; False where the store failed, or there is no table yet."""
        world, cold = self.world, self.cold.get(topic.root)
        if cold is None:
            table = TopicTable(world.objects, topic.root, world.clock, random.Random(1))
            cold = world.parts.cold(table, self.reader, NUMBER)
        faults = world.faults
        try:
            cold.refresh()
        except TierError as error:
            if faults == world.faults and "is not open" not in error.message:
                raise Broken(f"a refresh fails with no reason: {error.message}") from error
            return False
        self.cold[topic.root] = cold
        self.fresh_at[topic.root] = world.clock.now_ms()
        return True

    def read(self, topic: ModelTopic, queue_id: int, first: int, most: int, wanted: MessageFilter | None) -> int | None:
        """Read once from the cold, and check it; the offset behind it, None where the store failed or the site died."""
        world, cold = self.world, self.cold.get(topic.root)
        if cold is None:  # its site was started anew meanwhile
            return None
        faults, fresh_at = world.faults, self.fresh_at[topic.root]
        try:
            found = cold.read(queue_id, first, most, wanted)
        except TierError as error:
            if "is corrupted" in error.message or "has lost" in error.message:
                raise Broken(f"nothing is corrupted: {error.message}") from error
            is_old = world.clock.now_ms() - fresh_at >= GRACE_MS
            if faults == world.faults and not is_old:
                raise Broken(f"a read fails with no reason: {error.message}") from error
            return None
        world.reads += 1
        world.read_messages += len(found.messages)
        check_read(cold, topic, queue_id, first, most, wanted, found.messages, found.next_offset)
        return found.next_offset

    def read_all(self, topic: ModelTopic, queue_id: int, first: int) -> None:
        """From an offset on through the cold, and then from the disk: every offset once, in order."""
        bounds = self.cold[topic.root].bounds(queue_id)
        least = self.broker.min_offset(topic, queue_id)
        if bounds is None:
            if least > topic.nowhere[queue_id]:
                raise Broken(f"what was before {least} of queue {queue_id} of {topic.root} is not to be read")
            return
        offset = max(first, min(bounds.first, least))
        while offset < least:
            if (queue_id, offset) in topic.lost:
                offset += 1
                continue
            following = self.read(topic, queue_id, offset, 50, None)
            if following is None:
                return
            if following <= offset:
                raise Broken(f"reading of queue {queue_id} of {topic.root} does not come from {offset} to {least}")
            offset = following


def check_read(
    cold: ColdTopic,
    topic: ModelTopic,
    queue_id: int,
    first: int,
    most: int,
    wanted: MessageFilter | None,
    messages: list[StoredMessage],
    following: int,
) -> None:
    """Raises Broken where a read gave other messages than are there, or stepped over some."""
    bounds = cold.bounds(queue_id)
    if bounds is None or bounds.next_offset <= max(first, bounds.first):
        if messages:
            raise Broken(f"messages of queue {queue_id} of {topic.root} that the table does not have")
        return
    if following <= first:
        raise Broken(f"a read of queue {queue_id} of {topic.root} does not go on from {first}")
    begin = max(first, bounds.first, topic.nowhere[queue_id])
    due = [each for each in topic.queues[queue_id][begin:following] if (queue_id, each.queue_offset) not in topic.lost]
    if wanted is not None:
        due = [message for message in due if wanted.matches(message)]
    if messages != due:
        shown = [message.queue_offset for message in messages], [message.queue_offset for message in due]
        raise Broken(f"a read of queue {queue_id} of {topic.root} from {first} to {following} gave {shown}")
    if len(messages) > most:
        raise Broken(f"a read gave {len(messages)} messages, and {most} were asked for")


def damaged(world: World, topic: ModelTopic) -> None:
    """A segment goes behind the table's back: its offsets are an error that names them, and all others are read.

    Raises Broken.
    """
    live = world.witness.of(topic).live
    if not live:
        return
    path = world.random.choice(sorted(live))
    world.objects.working().delete([f"{topic.root}/{path}"])
    site = world.leader
    site.reader = SegmentReader(world.objects)
    site.cold.pop(topic.root)
    site.refresh(topic)
    world.lost += 1
    for run in (run for runs in live.values() for run in runs):
        queue_id, is_lost = run.queue_id - FIRST_QUEUE, run in live[path] and run.rows > 0
        for first in {run.first, world.random.randrange(run.first, run.next_offset)}:
            try:
                found = site.cold[topic.root].read(queue_id, first, 10)
            except TierError as error:
                if not is_lost or f"{run.first} to {run.next_offset} of queue {queue_id}" not in error.message:
                    raise Broken(f"a segment was lost, and the error is: {error.message}") from error
            else:
                if is_lost:
                    raise Broken(f"a read from {first} stepped over what was lost, to {found.next_offset}")

"""`domain.tiering.TierTables`: tables of the object store that become topics of this broker.

One record makes a topic. It names its table and the offset at which each of its queues begins. Earlier messages are
read from the table, and new ones are stored after it. No message is copied. Anything left half-done by a crash may be
done again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from random import Random

from entrepot.broker.cold.reads import is_tiered
from entrepot.broker.metadata import registry as changes
from entrepot.broker.metadata.origin import TopicOrigin
from entrepot.broker.ports.core import BrokerCore
from entrepot.broker.ports.topology import Topology
from entrepot.broker.store.record import RecordKind
from entrepot.broker.tiered.fence import Fence, epoch_of
from entrepot.broker.tiered.objects import ObjectStore
from entrepot.broker.tiered.tier import Tier
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import is_system_topic
from entrepot.domain.tiering import AttachRequest, RestoreRequest, TableSeen, TableTopic
from entrepot.domain.topic import MAX_QUEUES, Permission, Topic


class Tables:
    """The tables of one broker. `tier`: the broker's, if any."""

    def __init__(self, core: BrokerCore, topology: Topology, tier: Callable[[], Tier | None]) -> None:
        self._core, self._topology, self._tier = core, topology, tier
        self._registry = core.registry

    async def restore(self, request: RestoreRequest) -> TableTopic:
        from entrepot.broker.tiered.restoring import FoundTable, is_of, table_of, take_over
        from entrepot.broker.tiered.table import TopicTable

        tier, core = self._needed_tier(), self._core
        self._check(self._restored(request, 1))

        def opened(objects: ObjectStore, root: str) -> TopicTable:
            return TopicTable(objects, root, core, Random(secrets.randbits(64)))

        def named(objects: ObjectStore) -> str:
            # each broker of a cluster has a table of the topic
            return table_of(
                objects, request.topic, request.table, lambda root: is_of(opened(objects, root), tier.number)
            )

        def taken_over(objects: ObjectStore) -> FoundTable:
            table = opened(objects, root)
            fence = Fence(tier.writer, epoch_of(core.engine))
            return take_over(table, fence, tier.number, core, is_forced=request.is_forced)

        root = await tier.store.asked(named)
        found = await tier.store.asked(taken_over)
        await tier.marks.forget(root)  # the request accepts the table
        await tier.tables.know(root)
        topic = self._restored(request, found.queues)
        self._check(topic)  # others have had their turn: from here on it is one step
        await core.record(RecordKind.METADATA, changes.begin_topic(topic, TopicOrigin(root), found.ends))
        return TableTopic(topic, root, core.bounds_of(topic))

    def _restored(self, request: RestoreRequest, queues: int) -> Topic:
        """Return the definition to be made, with so many queues at least. Raises PRECONDITION_FAILED, BAD_REQUEST."""
        name, before = request.topic, self._registry.topics.get(request.topic)
        _check_name(name)
        if before is None:
            placement = ((request.broker, queues),) if request.broker else ()
            topic = Topic(name, queues, tier_seconds=request.tier_seconds, placement=placement)
        else:
            self._check_unused(before)
            queues = max(before.queues, queues)
            seconds = request.tier_seconds or before.tier_seconds
            topic = replace(before, queues=queues, tier_seconds=seconds, placement=_placed(before, request, queues))
        if topic.tier_seconds is None:
            text = "how long do messages stay in the object store? A table does not say it"
            raise EntrepotError(Code.BAD_REQUEST, f"tierSeconds: {text}")
        if not is_tiered(topic):
            text = f"topic {name!r} does not go to the object store: that needs cleanup DELETE and confirm RULE"
            raise EntrepotError(Code.PRECONDITION_FAILED, text)
        return _with_revision(topic, request, before)

    def _check_unused(self, topic: Topic) -> None:
        """Check that the topic, perhaps told by other brokers, has had no message here."""
        queues = self._core.engine.dispatcher.queues_of(topic.name)
        if self._registry.origin_of(topic.name) is not None or any(queue.max_offset for queue in queues):
            raise EntrepotError(
                Code.PRECONDITION_FAILED,
                f"topic {topic.name!r} is there, and has had messages on this broker: delete it first",
            )

    async def look(self, request: AttachRequest) -> TableSeen:
        tier = self._needed_tier()
        origin = _origin_of(tier, request)
        found = await tier.attached.look_at(origin, request.table)
        return TableSeen(found.root, await tier.attached.written_for(origin, found))

    async def attach(self, request: AttachRequest) -> TableTopic:
        from entrepot.broker.tiered.table import topic_of

        tier, core = self._needed_tier(), self._core
        origin = _origin_of(tier, request)
        found = await tier.attached.look_at(origin, request.table)
        name = request.name or topic_of(found.root)
        origin = replace(origin, table=found.root, number=found.number)
        self._check(self._attached(request, name, origin, found.queues))
        await tier.attached.know(name, origin)
        topic = self._attached(request, name, origin, found.queues)
        self._check(topic)
        await core.record(RecordKind.METADATA, changes.begin_topic(topic, origin, found.ends))
        return TableTopic(topic, origin.place, core.bounds_of(topic))

    async def accept(self, topic: str) -> None:
        tier = self._needed_tier()
        if topic and (found := self._registry.topics.get(topic)) is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")
        if topic and found is not None and not is_tiered(found):
            text = f"topic {topic!r} is not uploaded from here: nothing of it is to be accepted"
            raise EntrepotError(Code.PRECONDITION_FAILED, text)
        await tier.accept(topic)

    def _attached(self, request: AttachRequest, name: str, origin: TopicOrigin, queues: int) -> Topic:
        """Return the definition to be made. Raises PRECONDITION_FAILED."""
        _check_name(name)
        before, known = self._registry.topics.get(name), self._registry.origin_of(name)
        if before is not None and (known is None or known.place != origin.place):
            text = f"topic {name!r} is there, and is not this table: say another name with --as"
            raise EntrepotError(Code.PRECONDITION_FAILED, text)
        if before is None:
            placement = ((request.broker, queues),) if request.broker else ()
            topic = Topic(name, queues, permission=Permission.READ, placement=placement)
        else:
            queues = max(before.queues, queues)
            topic = replace(before, queues=queues, placement=_placed(before, request, queues))
        return _with_revision(topic, request, before)

    def _check(self, topic: Topic) -> None:
        if topic.queues > MAX_QUEUES:
            raise EntrepotError(Code.PRECONDITION_FAILED, f"the table has {topic.queues} queues, {MAX_QUEUES} is most")
        self._topology.check_topic(topic)

    def _needed_tier(self) -> Tier:
        tier = self._tier()
        if tier is None:
            raise EntrepotError(Code.PRECONDITION_FAILED, "this broker has no object store: set tier.url")
        return tier


def _origin_of(tier: Tier, request: AttachRequest) -> TopicOrigin:
    """Return the place that a request names. Raises FORBIDDEN for an endpoint that must not have the credentials."""
    if not tier.may_ask(request.endpoint):
        text = f"{request.endpoint} would get this broker's credentials: name it in tier.attach_endpoints first"
        raise EntrepotError(Code.FORBIDDEN, text)
    return TopicOrigin("", request.url, 0, request.endpoint, request.region, request.allow_http)


def _check_name(topic: str) -> None:
    if is_system_topic(topic):
        raise EntrepotError(Code.FORBIDDEN, f"{topic!r} is the system's own")


def _placed(before: Topic, request: RestoreRequest | AttachRequest, queues: int) -> tuple[tuple[str, int], ...]:
    """Return the placement with this broker in it; nothing where the topic is on all brokers."""
    if not before.placement or not request.broker:
        return before.placement
    return tuple(sorted({**dict(before.placement), request.broker: queues}.items()))


def _with_revision(topic: Topic, request: RestoreRequest | AttachRequest, before: Topic | None) -> Topic:
    known = 0 if before is None else before.revision
    return replace(topic, revision=max(request.revision, known + 1 if known else 0))

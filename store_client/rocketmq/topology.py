"""RocketMqTopology: the cluster's topics and groups, made and changed at all masters, one after the other.

A broker keeps of a group its order and attempts; the rest of a definition is a fact (`kept_definitions.py`), and
travels in the calls that need it.  A namespace is a fact until something is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from entrepot.domain.broker_of_queue import broker_number, first_queue
from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus, QueueProgress, UnsettledBytes
from entrepot.domain.errors import NOT_THERE, Code, EntrepotError
from entrepot.domain.names import (
    DEAD_LETTER_PREFIX,
    DEFAULT_NAMESPACE,
    RETRY_PREFIX,
    check_group_name,
    check_namespace,
    check_same_namespace,
    check_stored_name,
    check_topic_name,
    qualified,
    retry_topic,
    split_name,
)
from entrepot.domain.position import Position
from entrepot.domain.topic import Cleanup, Topic, TopicQueues, TopicStatus, TopicType
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.dialect import table
from entrepot.protocols.rocketmq.remoting.names import origin_of
from entrepot.store_client.rocketmq.absent import refuse
from entrepot.store_client.rocketmq.catalog import Catalog
from entrepot.store_client.rocketmq.cluster import Cluster, json_body
from entrepot.store_client.rocketmq.kept_definitions import KeptDefinitions
from entrepot.store_client.rocketmq.positions import Positions
from entrepot.store_client.rocketmq.reading import Reading
from entrepot.store_client.rocketmq.routes import BrokerOfTopic, Route

_READ, _WRITE = 4, 2
READ_WRITE: Final = _READ | _WRITE
_MIXED: Final = "MIXED"
_NO_QUEUES: Final = TopicQueues((), (), ())
_Status = TypeVar("_Status")


class RocketMqTopology:
    """Implements `domain.ports.Topology`, and `Consumption.reset_group`."""

    def __init__(
        self, cluster: Cluster, reading: Reading, positions: Positions, catalog: Catalog, kept: KeptDefinitions
    ) -> None:
        self._cluster, self._reading, self._positions, self._catalog = cluster, reading, positions, catalog
        self._kept = kept
        self.topic = cluster.topic
        self.watch_topics = cluster.routes.watch
        self._types = _MIXED
        """Type of new topics that take any message; brokers may not allow MIXED."""

    def is_arriving(self, name: str) -> bool:
        return False

    def queues(self, topic: Topic) -> TopicQueues:
        route = self._cluster.routes.known(topic.name)
        return _NO_QUEUES if route is None else route.ids

    def made_at(self, name: str, queue_id: int) -> int:
        return 0  # the cluster does not tell

    def topics(self) -> list[Topic]:
        return [route.definition for route in self._cluster.routes.all()]

    # -- topics ------------------------------------------------------------------------------------------------------

    async def put_topic(self, topic: Topic) -> Topic:
        """Make a topic at all masters, or at those of its placement.  The rest of its definition is left out.  Raises
        ILLEGAL_TOPIC, FORBIDDEN, PRECONDITION_FAILED (queues to remove have messages), UNSUPPORTED (compaction)."""
        check_stored_name(topic.name, Code.ILLEGAL_TOPIC)
        plain = split_name(topic.name)[1]
        check_topic_name(plain, system_allowed=plain.startswith(DEAD_LETTER_PREFIX), feed_allowed=True)
        if topic.cleanup is Cleanup.COMPACT:
            refuse("keep the last message of each key", "use a topic with the cleanup DELETE")
        masters = await self._cluster.masters()
        if unknown := sorted({name for name, _ in topic.placement} - masters.keys()):
            raise EntrepotError(Code.BAD_REQUEST, f"placement: the cluster has no broker {unknown[0]!r}")
        placed = {name: address for name, address in masters.items() if not topic.placement or topic.queues_on(name)}
        before = self._cluster.routes.known(topic.name)
        if before is not None:
            await self._check_drained(topic, before)
        for name, address in placed.items():
            await self._put_at(topic, topic.queues_on(name) if topic.placement else topic.queues, address)
        reads, writes = topic.permission.readable, topic.permission.writable
        made = [
            BrokerOfTopic(
                name,
                address,
                (topic.queues_on(name) if topic.placement else topic.queues) * reads,
                min(topic.writable_queues, topic.queues_on(name) if topic.placement else topic.queues) * writes,
            )
            for name, address in placed.items()
        ]
        others = [] if before is None else [broker for broker in before.brokers if broker.name not in placed]
        told = Route.of(topic.name, (*made, *others), topic.type)
        return self._cluster.routes.learn(told).definition  # name servers hear of it a moment later

    async def _check_drained(self, topic: Topic, before: Route) -> None:
        removed = [
            queue
            for queue in before.queues.values()
            if queue.local_id >= topic.queues_on(queue.broker) and queue.local_id < before.broker(queue.broker).reads
        ]
        if not removed:
            return
        bounds = await asyncio.gather(*(self._reading.bounds_of(topic.name, queue) for queue in removed))
        unread = {each.queue_id for each in bounds if each.max_offset > each.min_offset}
        waiting: dict[int, str] = {}
        for group in sorted(self._cluster.groups) if unread else ():
            for each in (await self.group_status(group)).progress:
                if each.topic == topic.name and each.queue_id in unread:
                    waiting.setdefault(each.queue_id, "")
                    if each.lag or each.in_flight:
                        waiting[each.queue_id] = f"group {group!r} waits for"
        for queue_id in sorted(unread):
            who = waiting.get(queue_id, "no group has read")
            if who:
                text = f"queue {queue_id} of topic {topic.name!r} has messages that {who}"
                raise EntrepotError(Code.PRECONDITION_FAILED, text)

    async def _put_at(self, topic: Topic, queues: int, address: str) -> None:
        permission = _READ * topic.permission.readable | _WRITE * topic.permission.writable
        resource = self._cluster.names.resource(topic.name)
        writes = min(topic.writable_queues, queues)
        kind = topic.type if topic.type is TopicType.PRIORITY else self._types
        what = f"make topic {topic.name!r}"
        try:
            fields = topic_fields(resource, queues, writes, permission, kind)
            await self._cluster.ask(address, codes.PUT_TOPIC, fields, what=what)
        except EntrepotError as refusal:
            if kind != _MIXED or _MIXED not in refusal.message:
                raise
            self._types = TopicType.NORMAL  # the brokers check no types; RocketMQ's own proxy does
            fields = topic_fields(resource, queues, writes, permission, self._types)
            await self._cluster.ask(address, codes.PUT_TOPIC, fields, what=what)

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        outcomes: list[EntrepotError | None] = []
        for topic in topics:
            try:
                await self.put_topic(topic)
                outcomes.append(None)
            except EntrepotError as refusal:
                outcomes.append(refusal.with_traceback(None))
        return outcomes

    async def delete_topic(self, name: str) -> None:
        """Delete a topic at all masters and name servers.  Messages that wait for their time come nowhere."""
        route = await self._cluster.routes.of(name)
        await self._delete(
            self._cluster.names.resource(name), {broker.name: broker.address for broker in route.brokers}
        )
        self._cluster.routes.forget(name)

    async def _delete(self, resource: str, addresses: Mapping[str, str]) -> None:
        what = f"delete topic {resource!r}"
        for code, places in ((codes.DELETE_TOPIC, addresses.values()), (codes.FORGET_TOPIC, self._name_servers())):
            for address in places:
                await self._cluster.ask(address, code, {"topic": resource}, what=what)

    def _name_servers(self) -> Sequence[str]:
        return self._cluster.settings.name_servers

    async def topic_status(self, name: str) -> TopicStatus:
        route = await self._cluster.routes.of(name)
        return TopicStatus(route.definition, await self._reading.bounds(name))

    async def topic_statuses(self, names: Sequence[str]) -> list[TopicStatus]:
        return await _told(names, self.topic_status)

    def namespaces(self) -> list[str]:
        """Return `default`, those that are facts, and those of known topics and groups."""
        in_use = {split_name(name)[0] for name in self._named()}
        return [DEFAULT_NAMESPACE, *sorted((in_use | self._kept.namespaces) - {DEFAULT_NAMESPACE})]

    def _named(self) -> list[str]:
        return [*(route.topic for route in self._cluster.routes.all()), *self._cluster.groups]

    async def put_namespace(self, name: str) -> None:
        check_namespace(name)
        self._cluster.names.resource(qualified(name, "x"))  # raises for the one that is `default` here
        if name in self.namespaces():
            return
        if not self._kept.are_kept:
            refuse("keep an empty namespace", "one is there once a topic is in it")
        await self._kept.keep_namespace(name)

    async def delete_namespace(self, name: str) -> None:
        if name not in self.namespaces():
            raise EntrepotError(Code.BAD_REQUEST, f"there is no namespace {name!r}")
        if name == DEFAULT_NAMESPACE or any(split_name(each)[0] == name for each in self._named()):
            text = "has topics or groups" if name != DEFAULT_NAMESPACE else "is always there"
            raise EntrepotError(Code.PRECONDITION_FAILED, f"namespace {name!r} {text}")
        await self._kept.forget_namespace(name)

    # -- groups ------------------------------------------------------------------------------------------------------

    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        """Make or change a group at all masters: its order and attempts.  The rest is a fact beside them."""
        check_stored_name(group.name, Code.ILLEGAL_CONSUMER_GROUP)
        check_group_name(split_name(group.name)[1])
        definition = json_body(
            {
                "groupName": self._cluster.names.resource(group.name),
                "consumeEnable": True,
                "consumeFromMinEnable": True,
                "consumeMessageOrderly": group.fifo,
                "retryMaxTimes": group.max_attempts - 1,
            }
        )
        for address in (await self._cluster.masters()).values():
            await self._cluster.ask(address, codes.PUT_GROUP, None, definition, what=f"make group {group.name!r}")
        await self._kept.keep_group(group)
        if group.name not in self._cluster.groups:
            self._positions.made(group.name)
        self._cluster.groups[group.name] = group
        return group

    async def delete_group(self, name: str) -> None:
        """Delete a group with its offsets and retry topics at all masters; its dead letters stay."""
        if name not in self._cluster.groups:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"group {name!r} is not known here")
        masters = await self._cluster.masters()
        resource = self._cluster.names.resource(name)
        fields = {"groupName": resource, "cleanOffset": True}
        for address in masters.values():
            await self._cluster.ask(address, codes.DELETE_GROUP, fields, what=f"delete group {name!r}")
        await self._delete(f"{RETRY_PREFIX}{resource}", masters)
        await self._kept.forget_group(name)
        self._catalog.taken_out.add(name)
        self._positions.gone(name)
        self._cluster.groups.pop(name, None)

    def group(self, name: str) -> ConsumerGroup | None:
        return self._cluster.groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        return [self._cluster.groups[name] for name in sorted(self._cluster.groups)]

    async def group_status(self, name: str) -> GroupStatus:
        """Return a group with its progress, as the brokers tell it: on topics, and on the retry topics of each."""
        if name not in self._cluster.groups:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"group {name!r} is not known here")
        fields = {"consumerGroup": self._cluster.names.resource(name), "topic": ""}

        async def ask(address: str) -> object:
            answer = await self._cluster.ask(
                address, codes.CONSUME_STATS, fields, what=f"tell the progress of group {name!r}"
            )
            return table(answer.body, "offsetTable")

        answers = await self._cluster.ask_all(await self._cluster.masters(), ask)
        progress = [each for told in answers.values() for each in self._progress(name, told)]
        return GroupStatus(self._cluster.group(name), sorted(progress, key=lambda each: (each.topic, each.queue_id)))

    def _progress(self, group: str, told: object) -> list[QueueProgress]:
        found: list[QueueProgress] = []
        names, namespace = self._cluster.names, split_name(group)[0]
        of_group = names.resource(group)
        for queue, about in told if isinstance(told, list) else []:
            resource = str(queue.get("topic"))
            origin = origin_of(resource, of_group)
            topic = names.name(origin)
            if not topic or split_name(topic)[1].startswith(RETRY_PREFIX) or split_name(topic)[0] != namespace:
                continue
            if origin != resource:
                topic = retry_topic(group, topic)
            number, local = broker_number(str(queue.get("brokerName"))), int(queue.get("queueId", 0))
            end, committed = (max(int(about.get(key, 0)), 0) for key in ("brokerOffset", "consumerOffset"))
            held = max(int(about.get("pullOffset", 0)) - committed, 0)
            found.append(
                QueueProgress(topic, first_queue(number) + local, committed, end, held, max(end - committed, 0))
            )
        return found

    async def group_statuses(self, names: Sequence[str]) -> list[GroupStatus]:
        return await _told(names, self.group_status)

    async def unsettled_bytes(self, group: str, topic: str) -> UnsettledBytes | None:
        """Return None: brokers of RocketMQ tell places of messages, and no sizes."""
        return None

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        """Implements `Consumption.reset_group` by the brokers' own reset, which a consumer meets at its next request.
        Messages in flight, and those in retry topics, stay what they are."""
        check_same_namespace(topic, group)
        route = await self._cluster.routes.of(topic)
        if group not in self._cluster.groups:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"group {group!r} is not known here")
        for queue in route.queues.values() if queue_id is None else [route.queue(queue_id)]:
            offset = await self._reading.offset_of(topic, queue, position)
            await self._positions.reset(group, topic, queue, offset)
        return await self.group_status(group)


def topic_fields(resource: str, reads: int, writes: int, permission: int, kind: str = "") -> dict[str, object]:
    """Return the fields of UPDATE_AND_CREATE_TOPIC.  `kind`: the type of its messages, or none."""
    return {
        "topic": resource,
        "defaultTopic": "TBW102",
        "readQueueNums": reads,
        "writeQueueNums": writes,
        "perm": permission,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": f"+message.type={kind}" if kind else "",
    }


async def _told(names: Sequence[str], ask: Callable[[str], Awaitable[_Status]]) -> list[_Status]:
    """Ask for each name at once.  Raises why none is told, unless all are gone."""
    refusals: list[EntrepotError] = []

    async def tell(name: str) -> _Status | None:
        try:
            return await ask(name)
        except EntrepotError as refusal:
            if refusal.code not in NOT_THERE:
                refusals.append(refusal)
            return None

    told = [each for each in await asyncio.gather(*map(tell, names)) if each is not None]
    if refusals and not told:
        raise refusals[0]
    return told

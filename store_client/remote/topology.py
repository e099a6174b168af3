"""Topics, groups and namespaces over several brokers: all are told, and the highest revision prevails.  A change is
made once one ready broker has taken it; absent brokers are told when they are back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus, QueueProgress, UnsettledBytes
from entrepot.domain.definitions.revision import BY_USE
from entrepot.domain.errors import AWAY, NOT_THERE, Code, EntrepotError, raise_if
from entrepot.domain.names import DEFAULT_NAMESPACE, check_group_name, check_namespace, is_system_topic, split_name
from entrepot.domain.topic import QueueBounds, Topic, TopicStatus
from entrepot.protocols.wire import store_rows as rows
from entrepot.store_client.remote.asking import ask_all, raise_if_all_lost
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.definitions import localized
from entrepot.store_client.remote.riding import rides
from entrepot.store_client.remote.statuses import ClusterStatuses

_Asked = TypeVar("_Asked")
MAX_TRIES = 3
STATUSES_SECONDS = 5.0
"""Longest wait for a broker's part of many statuses; what it did not tell is left out."""


class RemoteTopology:
    """Implements `domain.ports.Topology`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._statuses = ClusterStatuses(cluster)
        self.queues, self.made_at = cluster.queues, cluster.made_at

    # -- topics --------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic | None:
        return self._cluster.topics.get(name)

    def is_arriving(self, name: str) -> bool:
        return name not in self._cluster.topics and self._cluster.definition(name) is not None

    def topics(self) -> list[Topic]:
        return sorted(self._cluster.topics.values(), key=lambda topic: topic.name)

    async def put_topic(self, topic: Topic) -> Topic:
        raise_if((await self.put_topics([topic]))[0])
        return topic

    @rides
    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        names = [topic.name for topic in topics]
        if len(set(names)) < len(names):  # one after the other, in the given order
            return [(await self.put_topics([topic]))[0] for topic in topics]
        outcomes: list[EntrepotError | None] = [self._placement_refusal(topic) for topic in topics]
        wanted = [topic for topic, refusal in zip(topics, outcomes, strict=True) if refusal is None]
        told = iter(await self._put([self._revised(topic) for topic in wanted])) if wanted else iter(())
        return [next(told) if refusal is None else refusal for refusal in outcomes]

    def _placement_refusal(self, topic: Topic) -> EntrepotError | None:
        known = {client.name for client in self._cluster.clients.values()}
        unknown = [name for name, _ in topic.placement if name not in known]
        if not unknown:
            return None
        return EntrepotError(Code.BAD_REQUEST, f"there is no broker {', '.join(map(repr, unknown))}")

    def _revised(self, topic: Topic) -> Topic:
        known = self._cluster.definition(topic.name)
        if known is not None and (known == topic or topic.revision == BY_USE):
            return known
        if topic.revision == BY_USE:
            return replace(topic, revision=self._cluster.deletion(f"topic/{topic.name}") + BY_USE)
        current = 0 if known is None else known.revision
        return replace(topic, revision=self._cluster.next_revision(f"topic/{topic.name}", current))

    async def _put(self, topics: list[Topic]) -> list[EntrepotError | None]:
        """Tell all brokers.  If one refuses, those that took it are told the former definition.  A system topic is
        changed only where it exists: each broker makes its own on demand."""
        before = {topic.name: self._cluster.definition(topic.name) for topic in topics}
        ready = self._cluster.some_ready("topics cannot be changed")
        await asyncio.gather(*(self._drop_deleted(client, topics) for client in ready))
        answers = await ask_all(ready, lambda c: c.ask(rows.PUT_TOPICS.ask([localized(t, c.name) for t in topics])))
        raise_if_all_lost(answers)
        outcomes: list[EntrepotError | None] = []
        for at, topic in enumerate(topics):
            refusals = [(client, answer[at]) for client, answer in answers if not isinstance(answer, EntrepotError)]
            concerned = [answer for answer in refusals if _concerns(answer[0], topic.name)] or refusals
            refused = next((refusal for _, refusal in concerned if refusal is not None), None)
            if not refusals:
                refused = next(answer for _, answer in answers if isinstance(answer, EntrepotError))
            took = [client for client, refusal in refusals if refusal is None]
            outcomes.append(refused)
            if refused is None:
                for client in took:
                    client.view.took_topic(localized(topic, client.name))
            elif took:
                await self._take_back(topic, before[topic.name], took)
        self._cluster.merge([topic.name for topic in topics], (), are_complete=True)
        return outcomes

    async def _drop_deleted(self, client: BrokerClient, topics: Sequence[Topic]) -> None:
        """Delete topics at a broker that missed their deletion: its messages are not those of the new topic."""
        for topic in topics:
            known, gone = client.view.topics.get(topic.name), self._cluster.deletion(f"topic/{topic.name}")
            if known is not None and 0 < known.revision <= gone:
                await _quietly(client.ask(rows.DELETE_TOPIC.ask(topic.name, gone)))

    async def _take_back(self, topic: Topic, before: Topic | None, took: list[BrokerClient]) -> None:
        revision = self._cluster.next_revision(f"topic/{topic.name}", topic.revision)
        for client in took:
            if before is None:
                await _quietly(client.ask(rows.DELETE_TOPIC.ask(topic.name, revision)))
            else:
                again = localized(replace(before, revision=revision), client.name)
                await _quietly(client.ask(rows.PUT_TOPICS.ask([again])))

    @rides
    async def delete_topic(self, name: str) -> None:
        known = self._cluster.definition(name)
        revision = self._cluster.next_revision(f"topic/{name}", 0 if known is None else known.revision)
        ready = self._cluster.some_ready(f"topic {name!r} cannot be deleted")
        answers = await ask_all(
            ready, lambda c: c.ask(rows.DELETE_TOPIC.ask(name, 0 if is_system_topic(name) else revision))
        )
        took = _succeeded(answers)
        if not took and known is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name!r}")
        if not took:
            _raise(answers)
        for client, answer in answers:
            if not isinstance(answer, EntrepotError) or answer.code in NOT_THERE:
                client.view.dropped_topic(name, revision)
        self._cluster.merge([name], ())

    @rides
    async def topic_status(self, name: str) -> TopicStatus:
        answers = await ask_all(self._cluster.of_topic(name), lambda c: c.ask(rows.TOPIC_STATUS.ask(name)))
        queues: list[QueueBounds] = []
        topic = self._cluster.topics.get(name)
        for _, status in answers:
            if isinstance(status, TopicStatus):
                queues += status.queues
                topic = topic or status.topic
        if topic is None or not _succeeded(answers):
            _raise(answers)
        assert topic is not None
        return TopicStatus(topic, queues)

    async def topic_statuses(self, names: Sequence[str]) -> list[TopicStatus]:
        return list((await self._statuses.topics(names, STATUSES_SECONDS)).statuses.values())

    def watch_topics(self, callback: Callable[[str], None]) -> Callable[[], None]:
        watchers = self._cluster.topic_watchers
        watchers.append(callback)
        return lambda: watchers.remove(callback) if callback in watchers else None

    # -- namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self) -> list[str]:
        return [DEFAULT_NAMESPACE, *sorted(name for name in self._cluster.namespaces() if name != DEFAULT_NAMESPACE)]

    @rides
    async def put_namespace(self, name: str) -> None:
        check_namespace(name)
        if name in self.namespaces():
            return
        revision = self._cluster.next_revision(f"namespace/{name}")
        ready = self._cluster.some_ready("namespaces cannot be changed")
        answers = await ask_all(ready, lambda c: c.ask(rows.PUT_NAMESPACE.ask(name, revision)))
        for client in _took(answers):
            client.view.took_namespace(name, revision)

    @rides
    async def delete_namespace(self, name: str) -> None:
        if name != DEFAULT_NAMESPACE and name in self.namespaces():
            owned = next((o for o in (*self._cluster.topics, *self._cluster.groups) if split_name(o)[0] == name), None)
            if owned is not None:
                raise EntrepotError(Code.PRECONDITION_FAILED, f"namespace {name!r} is not empty: {owned!r} is in it")
        revision = self._cluster.next_revision(f"namespace/{name}", self._cluster.namespaces().get(name, 0))
        ready = self._cluster.some_ready("namespaces cannot be changed")
        answers = await ask_all(ready, lambda c: c.ask(rows.DELETE_NAMESPACE.ask(name, revision)))
        for client in _took(answers):
            client.view.dropped_namespace(name, revision)

    # -- groups --------------------------------------------------------------------------------------------------

    def group(self, name: str) -> ConsumerGroup | None:
        return self._cluster.groups.get(name)

    def groups(self) -> list[ConsumerGroup]:
        return sorted(self._cluster.groups.values(), key=lambda group: group.name)

    @rides
    async def put_group(self, group: ConsumerGroup) -> ConsumerGroup:
        known = self._cluster.groups.get(group.name)
        if group.revision == BY_USE:
            known = known or replace(group, revision=self._cluster.deletion(f"group/{group.name}") + BY_USE)
        elif known is None or known != group:
            current = 0 if known is None else known.revision
            known = replace(group, revision=self._cluster.next_revision(f"group/{group.name}", current))
        await self._tell_group(known, self._cluster.some_ready("groups cannot be changed"))
        return group

    async def ensure_group(self, name: str, defaults: ConsumerGroup, brokers: list[BrokerClient]) -> None:
        """Create a group at all brokers before one of them does so alone, so that it begins alike everywhere.  Its
        revision is the lowest possible: any explicit definition, even one made at this moment through another gateway,
        prevails.  If a broker tells that the group was deleted since, it is created once more."""
        for _ in range(MAX_TRIES):
            missing = [client for client in brokers if name not in client.view.groups]
            if not missing:
                return
            check_group_name(split_name(name)[1])
            lowest = self._cluster.deletion(f"group/{name}") + BY_USE
            known = self._cluster.groups.get(name) or replace(defaults, name=name, revision=lowest)
            await self._tell_group(known, missing)

    async def _tell_group(self, group: ConsumerGroup, brokers: list[BrokerClient]) -> None:
        answers = await ask_all(brokers, lambda c: c.ask(rows.PUT_GROUP.ask(group)))
        for client in _took(answers):
            client.view.took_group(group)
        self._cluster.merge((), [group.name])

    @rides
    async def delete_group(self, name: str) -> None:
        known = self._cluster.groups.get(name)
        if known is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {name!r}")
        revision = self._cluster.next_revision(f"group/{name}", known.revision)
        ready = self._cluster.some_ready("groups cannot be changed")
        answers = await ask_all(ready, lambda c: c.ask(rows.DELETE_GROUP.ask(name, revision)))
        if not _succeeded(answers):
            _raise(answers)
        for client, answer in answers:
            if not isinstance(answer, EntrepotError) or answer.code in NOT_THERE:
                client.view.dropped_group(name, revision)
        self._cluster.merge((), [name])

    @rides
    async def group_status(self, name: str) -> GroupStatus:
        answers = await ask_all(
            self._cluster.some_ready("groups cannot be asked"), lambda c: c.ask(rows.GROUP_STATUS.ask(name))
        )
        return self.status_of(name, answers)

    async def group_statuses(self, names: Sequence[str]) -> list[GroupStatus]:
        return list((await self._statuses.groups(names, STATUSES_SECONDS)).statuses.values())

    @rides
    async def unsettled_bytes(self, group: str, topic: str) -> UnsettledBytes | None:
        answers = await ask_all(self._cluster.of_topic(topic), lambda c: c.ask(rows.UNSETTLED_BYTES.ask(group, topic)))
        raise_if_all_lost(answers)
        told: list[UnsettledBytes] = []
        for _, answer in answers:
            if isinstance(answer, EntrepotError):
                if answer.code not in NOT_THERE:
                    return None  # it is away, or older than this question
            elif answer is None:
                return None
            else:
                told.append(answer)
        if not told:
            _raise(answers)
        return UnsettledBytes(sum(each.waiting for each in told), sum(each.in_flight for each in told))

    def status_of(self, name: str, answers: list[tuple[BrokerClient, Any]]) -> GroupStatus:
        """Return one status from those of the brokers."""
        progress: list[QueueProgress] = []
        group = self._cluster.groups.get(name)
        for _, status in answers:
            if isinstance(status, GroupStatus):
                progress += status.progress
                group = group or status.group
        if group is None or not _succeeded(answers):
            _raise(answers)
        assert group is not None
        return GroupStatus(group, sorted(progress, key=lambda each: (each.topic, each.queue_id)))


def _succeeded(answers: list[tuple[BrokerClient, Any]]) -> list[BrokerClient]:
    return [client for client, answer in answers if not isinstance(answer, EntrepotError)]


def _took(answers: list[tuple[BrokerClient, Any]]) -> list[BrokerClient]:
    """Return the brokers that took it.  Raises a serious refusal, or that all are away."""
    for _, answer in answers:
        if isinstance(answer, EntrepotError) and answer.code not in AWAY:
            raise answer
    took = _succeeded(answers)
    if not took:
        _raise(answers)
    return took


def _raise(answers: list[tuple[BrokerClient, Any]]) -> None:
    """Raise the most serious refusal: others first, then that a broker is away, then that it does not exist."""
    refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
    raise min(refusals, key=lambda refusal: 2 if refusal.code in NOT_THERE else 1 if refusal.code in AWAY else 0)


def _concerns(client: BrokerClient, topic: str) -> bool:
    """False for a system topic that a broker has not made."""
    return not is_system_topic(topic) or topic in client.view.topics


async def _quietly(asking: Any) -> None:
    try:
        await asking
    except EntrepotError:
        return  # the next repair sees to it

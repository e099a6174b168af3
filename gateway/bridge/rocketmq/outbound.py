"""Outbound: topics of the store to a cluster.

Each rule is a consumer group, so the store knows its progress.  A task per topic pops messages, appends them at the
cluster, and acknowledges what that has confirmed.  Messages of one queue here are in one queue there, in their order,
unless they have a message group: that chooses the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, ConsumerGroup
from entrepot.domain.errors import AWAY, UNANSWERED, EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.names import qualified, split_name
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.domain.timestamp import to_rfc3339
from entrepot.domain.topic import Topic
from entrepot.gateway.bridge.errors import RemoteError
from entrepot.gateway.bridge.leased import carry_topics
from entrepot.gateway.bridge.origin import has_come_by
from entrepot.gateway.bridge.rocketmq.carried import bridge_word, sent
from entrepot.gateway.bridge.rocketmq.renaming import remote_name
from entrepot.gateway.bridge.rocketmq.status import RocketMqCounters
from entrepot.gateway.bridge.storing import FOR_GOOD_WHATEVER_IS_CHANGED
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.settings.rocketmq_bridge import RocketMqRemote, RocketMqRule
from entrepot.protocols.mqtt.mapping import is_expired

PART: Final = "rocketmq bridge"
WAIT_MS: Final = 20_000
"""Longest wait of one pop for messages."""
AGAIN_MS: Final = 5_000
"""Pause before a message is tried again that the cluster refused for now."""
LEASE_MS: Final = 30_000
"""Lease of held messages: those of a dead gateway stay hidden for so long."""
MAX_ATTEMPTS: Final = 1000
"""Deliveries of one message before it is a dead letter: every lost connection costs messages under way one."""

log = structlog.get_logger(__name__)


def group_name(remote: RocketMqRemote, rule: RocketMqRule, namespace: str) -> str:
    """Return the consumer group of a rule: `rocketmq-bridge-<name>-<n>`, counted from 1 over all rules."""
    return qualified(namespace, f"rocketmq-bridge-{remote.name}-{remote.rules.index(rule) + 1}")


class Outbound:
    """The outgoing topics of one connection to a cluster, whose store is `cluster`."""

    def __init__(
        self,
        remote: RocketMqRemote,
        cluster: Store,
        store: Store,
        clock: Clock,
        counters: RocketMqCounters,
        mark: tuple[str, str],
        begun_ms: int,
        incidents: Incidents,
    ) -> None:
        self._incidents = incidents
        self._remote, self._cluster, self._store = remote, cluster, store
        self._clock, self._counters, self._mark = clock, counters, mark
        self._begun_ms = begun_ms
        self._rules = [rule for rule in remote.rules if rule.is_out]

    async def run(self) -> None:
        """Carry until cancelled.  Raises `RemoteError` when the cluster is away."""
        await carry_topics(self._store.topology.watch_topics, self._wanted, self._carry_topic)

    def _wanted(self) -> set[tuple[int, str]]:
        """Return the rules and topics that are carried out."""
        return {
            (number, topic.name)
            for topic in self._store.topology.topics()
            if topic.permission.readable
            for number, rule in enumerate(self._rules)
            if remote_name(rule, topic.name) is not None
        }

    async def _carry_topic(self, key: tuple[int, str]) -> None:
        """Carry all messages of a topic until the topic is gone."""
        rule, topic = self._rules[key[0]], key[1]
        group = group_name(self._remote, rule, split_name(topic)[0])
        remote = remote_name(rule, topic) or topic
        consumer = f"bridge {self._remote.name}"
        leased = LeasedConsumer(self._store, self._clock, topic, group, lease_ms=LEASE_MS, consumer=consumer)
        try:
            while not await self._is_ready(rule, leased, remote):
                pass
            while True:
                tickets = await leased.pop(PopRequest(topic, group, MAX_POP_MESSAGES, WAIT_MS))
                if tickets:
                    await self._carry(leased, tickets, remote)
        except EntrepotError as gone:
            log.info("a bridge stopped carrying a topic", bridge=self._remote.name, topic=topic, reason=gone.message)
        finally:
            await leased.close()

    async def _is_ready(self, rule: RocketMqRule, leased: LeasedConsumer, remote: str) -> bool:
        """Make the group here, and the topic there; False after a pause, where the store refuses it for now."""
        try:
            await self._make_group(rule, leased.group)
        except EntrepotError as refusal:
            await leased.refused(refusal)
            return False
        await self._make_remote(leased.topic, remote)
        return True

    async def _make_group(self, rule: RocketMqRule, group: str) -> None:
        """Make the group of a new rule; `latest` is when the bridge was first run, so that a topic made later is
        carried from its first message on."""
        if self._store.topology.group(group) is None:
            start = (to_rfc3339(self._begun_ms) or EARLIEST) if rule.start == LATEST else rule.start
            await self._store.topology.put_group(ConsumerGroup(group, MAX_ATTEMPTS, LEASE_MS // 1000, start))

    async def _make_remote(self, topic: str, remote: str) -> None:
        """Make the topic at the cluster, with as many queues and of the same type, unless it is there.  Raises
        RemoteError."""
        here = self._store.topology.topic(topic)
        if self._cluster.topology.topic(remote) is not None or here is None:
            return
        try:
            await self._cluster.topology.put_topic(Topic(remote, here.queues, here.type))
        except EntrepotError as refusal:
            raise RemoteError(f"topic {remote!r} cannot be made: {refusal.message}") from None

    # -- messages ----------------------------------------------------------------------------------------------------

    async def _carry(self, leased: LeasedConsumer, tickets: Sequence[Ticket], remote: str) -> None:
        now_ms, passed, going = self._clock.now_ms(), list[Ticket](), list[tuple[Ticket, Message]]()
        for ticket in tickets:
            message = ticket.message
            if is_expired(message, now_ms) or has_come_by(message, bridge_word(self._remote.name), self._mark):
                passed.append(ticket)
            else:
                going.append((ticket, sent(message, remote, self._remote_queue(message, remote), self._mark)))
        self._counters.ignored += len(passed)
        leased.acknowledge(passed)
        if going:
            await self._append(leased, [ticket for ticket, _ in going], [message for _, message in going])

    async def _append(self, leased: LeasedConsumer, tickets: list[Ticket], messages: list[Message]) -> None:
        """Append at the cluster, and settle each message by its answer.  Raises RemoteError where that is not known."""
        try:
            refusals = await self._cluster.messages.append(messages).wait(0, len(messages)) or [None] * len(messages)
        except EntrepotError as failure:
            self._counters.unknown += len(messages) if failure.code in UNANSWERED else 0
            leased.release(tickets)
            text = f"the cluster did not say what became of {len(messages)} messages, which are sent again"
            raise RemoteError(f"{text}: {failure.message}") from None
        except Exception as fault:  # noqa: BLE001 - a fault of one message: it becomes a dead letter, and the others go on
            await self._append_alone(leased, tickets, messages, fault)
            return
        done = [ticket for ticket, refusal in zip(tickets, refusals, strict=True) if refusal is None]
        self._counters.sent += len(done)
        leased.acknowledge(done)
        away = ""
        for ticket, refusal in zip(tickets, refusals, strict=True):
            if refusal is None:
                continue
            is_for_good = refusal.code in FOR_GOOD_WHATEVER_IS_CHANGED
            self._note(ticket.message, refusal, is_for_good=is_for_good)
            if is_for_good:
                leased.reject([ticket])
            else:
                leased.release([ticket], AGAIN_MS, reason="the cluster refused it for now")
            away = refusal.message if refusal.code in AWAY else away
        if away:
            raise RemoteError(away)

    async def _append_alone(
        self, leased: LeasedConsumer, tickets: list[Ticket], messages: list[Message], fault: Exception
    ) -> None:
        """Append each message by itself, as the handling of one of them failed; a single one is set aside."""
        if len(tickets) == 1:
            self._incidents.set_aside(PART, tickets[0].message, fault)
            self._counters.refused_out += 1
            leased.reject(tickets)
            return
        for ticket, message in zip(tickets, messages, strict=True):
            await self._append(leased, [ticket], [message])

    def _note(self, message: StoredMessage, refusal: EntrepotError, *, is_for_good: bool) -> None:
        self._counters.refused_out += is_for_good
        log.warning(
            "the cluster refuses a message of a bridge",
            bridge=self._remote.name,
            topic=message.topic,
            reason=refusal.message,
            becomes="a dead letter" if is_for_good else "tried again",
        )

    def _remote_queue(self, message: StoredMessage, remote: str) -> int:
        """Return the queue there of a queue here: always the same one while numbers of queues stay."""
        topology, cluster = self._store.topology, self._cluster.topology
        here, there = topology.topic(message.topic), cluster.topic(remote)
        if here is None or there is None:
            return -1
        ids = list(topology.queues(here).readable)
        place = ids.index(message.queue_id) if message.queue_id in ids else message.queue_id
        writable = cluster.queues(there).writable
        return writable[place % len(writable)] if writable else -1

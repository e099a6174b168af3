"""The store, put together out of its parts."""

from __future__ import annotations

from domain.clock import Clock
from domain.consumer_group import ConsumerGroup
from domain.errors import EntrepotError
from store_client.memory.consumption import Consumption
from store_client.memory.finder import Finder
from store_client.memory.key_values import KeyValues
from store_client.memory.messages import Messages
from store_client.memory.retry import Retry
from store_client.memory.state import State
from store_client.memory.timers import Timers
from store_client.memory.topology import Topology
from store_client.memory.transactions import Transactions


class MemoryStore:
    """Implements `domain.ports.Store`: each part gives its methods."""

    def __init__(
        self,
        clock: Clock,
        *,
        max_message_bytes: int = 4 << 20,
        group_defaults: ConsumerGroup | None = None,
        hold_back_limit: int = 32_768,
        check_after_ms: int = 6_000,
        check_interval_ms: int = 30_000,
        max_checks: int = 15,
    ) -> None:
        state = State(clock)
        self._timers = Timers(state)
        self._messages = Messages(state, self._timers, max_message_bytes)
        self._topology = Topology(state, group_defaults or ConsumerGroup("defaults"))
        self._consumption = Consumption(state, self._topology, Retry(state, hold_back_limit))
        self._transactions = Transactions(
            state,
            self._messages,
            self._timers,
            check_after_ms=check_after_ms,
            check_interval_ms=check_interval_ms,
            max_checks=max_checks,
        )
        self._topology.on_topic_dropped += [self._timers.drop_topic, self._transactions.drop_topic]
        self._take_methods(KeyValues(), Finder(state))

    def _take_methods(self, facts: KeyValues, finder: Finder) -> None:
        messages, topology, consumption = self._messages, self._topology, self._consumption
        self.append, self.when_relieved = messages.append, messages.when_relieved
        self.read, self.pull, self.tail = messages.read, messages.pull, messages.tail
        self.offset_at, self.bounds = messages.offset_at, messages.bounds

        self.pop, self.acknowledge, self.reject = consumption.pop, consumption.acknowledge, consumption.reject
        self.change_invisible_duration = consumption.change_invisible_duration
        self.reset_group, self.resend_dead_letters = consumption.reset_group, consumption.resend_dead_letters
        self.release_waiting = consumption.release_waiting

        self.topic, self.topics, self.topic_status = topology.topic, topology.topics, topology.topic_status
        self.put_topic, self.put_topics = topology.put_topic, topology.put_topics
        self.delete_topic, self.watch_topics = topology.delete_topic, topology.watch_topics
        self.group, self.groups, self.group_status = topology.group, topology.groups, topology.group_status
        self.put_group, self.delete_group = topology.put_group, topology.delete_group
        self.namespaces, self.put_namespace = topology.namespaces, topology.put_namespace
        self.delete_namespace = topology.delete_namespace

        self.get, self.scan, self.write, self.watch = facts.get, facts.scan, facts.write, facts.watch
        self.query, self.messages_by_id = finder.query, finder.messages_by_id
        self.message_at, self.message_consumers = finder.message_at, finder.message_consumers
        self.recall, self.retime = self._timers.recall, self._timers.retime
        self.timed_messages = self._timers.timed_messages
        self.append_half, self.take_checks = self._transactions.append_half, self._transactions.take_checks
        self.end_transactions = self._transactions.end_transactions

    @property
    def backlogged(self) -> bool:
        return self._messages.backlogged

    @property
    def failure(self) -> EntrepotError | None:
        return None

    async def close(self) -> None:
        self._timers.close()
        self._consumption.release_waiting()

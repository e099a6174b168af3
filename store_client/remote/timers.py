"""RemoteTimers: scheduled messages over several brokers."""

from __future__ import annotations

from typing import Final

from entrepot.domain.broker_of_queue import broker_of_place, local_place
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.timing import TimedMessage, TimerCursor
from entrepot.protocols.remoting import operations as wire
from entrepot.store_client.remote.asking import ask_all
from entrepot.store_client.remote.broker_client import BrokerClient, unavailable
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import rides

BEHIND_ALL: Final = (1 << 62) - 1


class RemoteTimers:
    """Implements `domain.ports.Timers`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @rides
    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        await self._at_one(wire.RECALL, topic, message_id, deliver_at_ms)

    @rides
    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        await self._at_one(wire.RETIME, topic, message_id, deliver_at_ms, new_deliver_at_ms)

    async def _at_one(self, operation: wire.Operation, topic: str, *arguments: object) -> None:
        """Ask all brokers; one of them has it.  If none does, raises that one is away rather than that it is
        missing."""
        answers = await ask_all(self._cluster.of_topic(topic), lambda c: c.ask(operation, topic, *arguments))
        refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
        if len(refusals) == len(answers):
            if self._cluster.absent_of(topic):
                refusals.append(unavailable(f"one that may have it of topic {topic!r} is away"))
            unknown = [refusal for refusal in refusals if refusal.code is Code.OUTCOME_UNKNOWN]  # it may have been done
            raise next((r for r in (*unknown, *refusals) if r.code != Code.OFFSET_NOT_FOUND), refusals[0])

    @rides
    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        brokers = (
            self._cluster.some_ready("timers cannot be listed") if topic is None else self._cluster.of_topic(topic)
        )
        found: list[TimedMessage] = []
        for client in brokers:
            cursor = None if after is None else _cursor_at(client, after)
            batch, times = await client.ask(wire.TIMED_MESSAGES, topic, cursor, limit)
            found += map(TimedMessage, client.decode(batch), times)
        found.sort(key=lambda timed: (timed.deliver_at_ms, timed.message.commit_log_offset))
        return found[:limit]


def _cursor_at(client: BrokerClient, after: TimerCursor) -> TimerCursor:
    """Return one broker's cursor: messages of one time are ordered by broker, then by place."""
    number = broker_of_place(after.commit_log_offset)
    if number == client.number:
        return TimerCursor(after.deliver_at_ms, local_place(after.commit_log_offset))
    return TimerCursor(after.deliver_at_ms, BEHIND_ALL if client.number < number else -1)

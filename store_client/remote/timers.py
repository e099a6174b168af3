"""RemoteTimers: scheduled messages over several brokers."""

from __future__ import annotations

from typing import Final

from entrepot.domain.broker_of_queue import broker_of_place, local_place
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.timing import TimedMessage, TimerCursor
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.row import Ask
from entrepot.store_client.remote.asking import ask_all
from entrepot.store_client.remote.broker_client import BrokerClient, unavailable
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import rides
from entrepot.store_client.remote.sent import sent

BEHIND_ALL: Final = (1 << 62) - 1


class RemoteTimers:
    """Implements `domain.ports.Timers`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def _at_one(self, asked: Ask[None]) -> None:
        """Ask all brokers; one of them has it.  If none does, raises that one is away rather than that it is
        missing."""
        topic: str = asked["topic"]
        answers = await ask_all(self._cluster.of_topic(topic), lambda client: client.ask(asked))
        refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
        if len(refusals) == len(answers):
            if self._cluster.absent_of(topic):
                refusals.append(unavailable(f"one that may have it of topic {topic!r} is away"))
            unknown = [refusal for refusal in refusals if refusal.code is Code.OUTCOME_UNKNOWN]  # it may have been done
            raise next((r for r in (*unknown, *refusals) if r.code != Code.OFFSET_NOT_FOUND), refusals[0])

    recall = sent(rows.RECALL, _at_one)
    retime = sent(rows.RETIME, _at_one)

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
            found += await client.ask(rows.TIMED_MESSAGES.ask(topic, after=cursor, limit=limit))
        found.sort(key=lambda timed: (timed.deliver_at_ms, timed.message.commit_log_offset))
        return found[:limit]


def _cursor_at(client: BrokerClient, after: TimerCursor) -> TimerCursor:
    """Return one broker's cursor: messages of one time are ordered by broker, then by place."""
    number = broker_of_place(after.commit_log_offset)
    if number == client.number:
        return TimerCursor(after.deliver_at_ms, local_place(after.commit_log_offset))
    return TimerCursor(after.deliver_at_ms, BEHIND_ALL if client.number < number else -1)

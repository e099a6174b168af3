"""RemoteTransactions: half messages over several brokers, and their ends."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.broker_of_queue import broker_of_place, local_place
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.transaction import HalfMessage, TransactionEnd
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.store_client.remote.appending import Appending
from entrepot.store_client.remote.asking import ask_all, raise_if_all_lost
from entrepot.store_client.remote.broker_client import unavailable
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import rides


class RemoteTransactions:
    """Implements `domain.ports.Transactions`."""

    def __init__(self, cluster: Cluster, appending: Appending) -> None:
        self._cluster, self._appending = cluster, appending

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        return self._appending.append(messages, wire.APPEND_HALF)

    @rides
    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        """Ask all brokers, since another gateway may have begun them; one broker has each."""
        brokers = self._cluster.some_ready("transactions cannot be ended")
        answers = await ask_all(brokers, lambda c: c.ask(rows.END_TRANSACTIONS.ask(ends)))
        raise_if_all_lost(answers)
        outcomes: list[EntrepotError | None] = []
        for at in range(len(ends)):
            told = [answer if isinstance(answer, EntrepotError) else answer[at] for _, answer in answers]
            if self._cluster.absent_of(ends[at].topic):
                told.append(unavailable("one that may have the transaction is away"))
            if any(outcome is None for outcome in told):
                outcomes.append(None)
            else:
                in_earnest = (o for o in told if o is not None and o.code != Code.INVALID_TRANSACTION_ID)
                outcomes.append(next(in_earnest, told[0]))
        return outcomes

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        for client in self._cluster.some_ready("transactions cannot be looked at"):
            if len(found) < max_messages:
                found += await client.ask(rows.TAKE_CHECKS.ask(topics, max_messages - len(found)))
        return found

    @rides
    async def half_messages(self, topic: str | None = None, *, after: int = -1, limit: int = 100) -> list[HalfMessage]:
        """Ask broker after broker: places are ordered by broker, then by the place there."""
        what = "half messages cannot be listed"
        brokers = self._cluster.some_ready(what) if topic is None else self._cluster.of_topic(topic)
        first = broker_of_place(max(after, 0))
        found: list[HalfMessage] = []
        for client in brokers:
            if client.number >= first and len(found) < limit:
                begin = local_place(after) if client.number == first and after >= 0 else -1
                found += await client.ask(rows.HALF_MESSAGES.ask(topic, after=begin, limit=limit - len(found)))
        return found

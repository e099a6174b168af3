"""RemoteConsumption: pop and settlement over several brokers; a receipt names its broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus
from entrepot.domain.delivery import Deliveries, Delivery, Receipt
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import Position
from entrepot.domain.receipt_handle import TAIL_TEXT_LENGTH, read_route
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.record_run import RecordRun
from entrepot.protocols.wire.row import Ask
from entrepot.store_client.remote.asking import ask_all
from entrepot.store_client.remote.broker_client import BrokerClient, unavailable
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.popping import Popping
from entrepot.store_client.remote.riding import rides
from entrepot.store_client.remote.sent import sent
from entrepot.store_client.remote.topology import RemoteTopology

MAX_REMEMBERED_ROUTES: Final = 10_000
"""Size of the cache of handle heads with their broker: handles of a topic, group and broker begin alike."""


class RemoteConsumption:
    """Implements `domain.ports.Consumption`.  `group_defaults`: definition of groups created by a pop."""

    def __init__(self, cluster: Cluster, topology: RemoteTopology, group_defaults: ConsumerGroup) -> None:
        self._cluster = cluster
        self._topology = topology
        self._group_defaults = group_defaults
        self._popping = Popping(cluster)
        self._routes: dict[str, str] = {}
        self.release_waiting = self._popping.release

    @rides
    async def pop(self, request: PopRequest) -> Deliveries:
        brokers = self._cluster.ready
        if request.topic in self._cluster.topics:
            await self._topology.ensure_group(request.group, self._group_defaults, brokers)
        return await self._popping.pop(request)

    async def _settled(self, asked: Ask[list[EntrepotError | None]]) -> list[EntrepotError | None]:
        """Return each receipt's outcome, from its broker.  A failure of a whole broker is the outcome of all its
        receipts, and is raised if there is no other broker."""
        receipts: Sequence[Receipt] = asked["receipts"]
        outcomes: list[EntrepotError | None] = [None] * len(receipts)
        by_broker: dict[BrokerClient, list[int]] = {}
        known: dict[int, BrokerClient] = {}
        for at, receipt in enumerate(receipts):
            try:
                client = self._broker_named(receipt) if isinstance(receipt, str) else self._broker_of(receipt, known)
                by_broker.setdefault(client, []).append(at)
            except EntrepotError as refusal:
                outcomes[at] = refusal.with_traceback(None)
        answers = await ask_all(
            list(by_broker),
            lambda client: client.ask(asked.with_("receipts", [receipts[at] for at in by_broker[client]])),
        )
        for client, told in answers:
            places = by_broker[client]
            if isinstance(told, EntrepotError):
                if len(places) == len(receipts):
                    raise told
                told = [told] * len(places)
            for at, outcome in zip(places, told, strict=True):
                outcomes[at] = outcome
        return outcomes

    acknowledge = sent(rows.ACKNOWLEDGE, _settled)
    change_invisible_duration = sent(rows.CHANGE_INVISIBLE_DURATION, _settled)
    reject = sent(rows.REJECT, _settled)

    def _broker_of(self, delivery: Delivery, known: dict[int, BrokerClient]) -> BrokerClient:
        """Return the broker of a delivery.  Raises INVALID_RECEIPT_HANDLE for an unknown broker."""
        if not isinstance(delivery.run, RecordRun):  # another gateway popped it: only its receipt handle is known
            return self._broker_named(delivery.receipt_handle)
        number = delivery.run.broker
        client = known.get(number) or self._cluster.of_number(number)
        if client is None:
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, f"the delivery is of broker {number}, not known here")
        known[number] = client
        return client

    def _broker_named(self, receipt: str) -> BrokerClient:
        """Return the broker of a receipt handle.  Raises INVALID_RECEIPT_HANDLE for an invalid one, or an unknown
        broker."""
        head = receipt[:-TAIL_TEXT_LENGTH]
        name = self._routes.get(head)
        if name is None:
            name = read_route(receipt).broker
            if len(self._routes) >= MAX_REMEMBERED_ROUTES:
                self._routes.clear()
            self._routes[head] = name
        found = [client for client in self._cluster.clients.values() if client.name == name]
        if not found:
            raise EntrepotError(
                Code.INVALID_RECEIPT_HANDLE, f"the receipt handle is of broker {name!r}, not known here"
            )
        return found[0]

    @rides
    async def _reset_at(self, queue_id: int, asked: Ask[GroupStatus]) -> None:
        await self._cluster.of_queue(asked["topic"], queue_id).ask(asked)

    async def reset_group(self, group: str, topic: str, position: Position, queue_id: int | None = None) -> GroupStatus:
        asked = rows.RESET_GROUP.ask(group, topic, position, queue_id)
        if queue_id is not None:
            await self._reset_at(queue_id, asked)
            return await self._topology.group_status(group)
        if self._cluster.absent_of(topic):
            raise unavailable(f"group {group!r} can be reset once all that have topic {topic!r} are back")
        answers = await ask_all(self._cluster.of_topic(topic), lambda client: client.ask(asked))
        for _, answer in answers:
            if isinstance(answer, EntrepotError):
                raise answer  # the group would go on from two positions
        return self._topology.status_of(group, answers)

    async def _resent(self, asked: Ask[list[EntrepotError | None]]) -> list[EntrepotError | None]:
        queue_id: int = asked["queue_id"]
        client = self._cluster.of_number(broker_of_queue(queue_id))
        if client is None:
            raise EntrepotError(Code.BAD_REQUEST, f"there is no queue {queue_id} of dead letters")
        return await client.ask(asked)

    resend_dead_letters = sent(rows.RESEND_DEAD_LETTERS, _resent)

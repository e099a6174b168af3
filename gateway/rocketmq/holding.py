"""Holding: messages of push consumers stay theirs while they live, at any gateway.

A push consumer asks for messages with `auto_renew` and never renews. So each message is popped with a lease, and the
gateway renews it while it hears of the client. A renewal leaves the receipt handle as it is, so any gateway may renew:
messages held for longer than a moment are also a key-value (`rocketmq/held/<client>`). The gateway that a client turns
to after its own has gone takes that over. A starting gateway renews the messages of all records before anybody can ask
for messages: their clients may have had no gateway to turn to. Several gateways may renew without harm. Only the owner
of the record may release a silent client's messages, so that a client that has moved loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import structlog

from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, MAX_SCAN, KeyValueChange
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket, by_consumer
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.names import CLIENT_NAMES

PREFIX: Final = "rocketmq/held/"
MAX_RECORDED: Final = 3000
"""Messages of one client in its record; further ones are renewed by this gateway alone."""
LOOKS_PER_LEASE: Final = 6
LONGEST_LOOK_SECONDS: Final = 1.0
LOOKED_AFTER_AT_ONCE: Final = 256
"""Clients looked after at once."""
SWEEP_LOOKS: Final = 60
STALE_LEASES: Final = 4
"""Age of a record, in leases, after which its client is gone, like its gateway."""

RELEASE_SECONDS: Final = 5.0
"""Longest wait of a goodbye for the release of the client's messages."""

log = structlog.get_logger(__name__)

Popped = Sequence[tuple[str, str, Sequence[Delivery]]]


class HeldRecord(msgspec.Struct, array_like=True):
    """The messages of one client: (receipt handle, topic, group, time of the pop in epoch milliseconds) each."""

    gateway: str
    at_ms: int
    messages: list[tuple[str, str, str, int]]


_DECODER: Final = msgspec.json.Decoder(HeldRecord)


class _Held(NamedTuple):
    ticket: Ticket
    popped_ms: int


@dataclass(slots=True)
class HeldClient:
    """A push consumer and its messages."""

    seen_ms: int
    receives: int = 0
    held: dict[str, _Held] = field(default_factory=dict)
    version: int = ABSENT
    recorded: frozenset[str] = frozenset()
    touched_ms: int = 0
    is_heard: bool = False
    """True once it has turned to this gateway; until then it is known by its record only."""


class Holding:
    """The push consumers that this gateway has heard of, and their messages."""

    def __init__(self, frontend: RocketMqFrontend) -> None:
        self._frontend, self._store, self._clock = frontend, frontend.store, frontend.clock
        settings = frontend.settings
        self._lease_ms = int(settings.lease_seconds * 1000)
        self._silence_ms = int(settings.silence_seconds * 1000)
        self._max_hold_ms = int(settings.max_hold_seconds * 1000)
        self._look_seconds = min(settings.lease_seconds / LOOKS_PER_LEASE, LONGEST_LOOK_SECONDS)
        self._clients: dict[str, HeldClient] = {}
        self._consumers: dict[tuple[str, str], LeasedConsumer] = {}
        """Renewers of the messages, by topic and group."""
        self._looking: asyncio.Task[None] | None = None
        self._looks = 0
        self._keeps = True
        """True if the store keeps key-values."""

    async def start(self) -> None:
        """Renew the messages of all records, and begin to look after them."""
        try:
            await self._renew_all()
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                log.warning("the leases of consumers were not renewed at the start", problem=error.message)
        self._looking = self._frontend.tasks.spawn(self._look())

    async def _renew_all(self) -> None:
        after = ""
        while facts := await self._store.key_values.scan(PREFIX, after=after, limit=MAX_SCAN):
            for fact in facts:
                client = self._client(CLIENT_NAMES.text(fact.key[len(PREFIX) :]))
                self._hold_recorded(client, _read(fact.value))
            after = facts[-1].key
        consumers = list(self._consumers.values())
        for consumer in consumers:
            consumer.leases.renew_due()
        for consumer in consumers:
            await consumer.settle()

    async def close(self) -> None:
        """Record all held messages, for the next gateway."""
        if self._looking is not None:
            self._looking.cancel()
        for client_id in list(self._clients):
            await self._record(client_id, age_ms=0)
        for client in self._clients.values():
            self._forget(client, list(client.held))

    @property
    def held(self) -> int:
        """Messages that clients of this gateway hold."""
        return sum(len(client.held) for client in self._clients.values())

    def held_by(self, client_id: str) -> int:
        """Messages that a client holds here."""
        client = self._clients.get(client_id)
        return 0 if client is None else len(client.held)

    # -- what clients do -----------------------------------------------------------------------------------------

    def seen(self, client_id: str) -> None:
        """Note that a consumer lives; for a new one, take over its messages of another gateway."""
        client = self._client(client_id)
        client.seen_ms = self._clock.now_ms()
        if not client.is_heard:
            client.is_heard = True
            self._frontend.tasks.spawn(self._adopt(client_id, client))

    def begin_receive(self, client_id: str) -> HeldClient | None:
        """Note a client's wait for messages: it is not silent until `end_receive` of the result."""
        client = self._clients.get(client_id)
        if client is not None:
            client.receives += 1
        return client

    def end_receive(self, client: HeldClient | None) -> None:
        """Note the end of a wait."""
        if client is not None:
            client.receives -= 1
            client.seen_ms = self._clock.now_ms()

    def hold(self, client_id: str, topic: str, popped: Popped) -> None:
        """Hold messages of a topic that a client was handed."""
        client, now_ms = self._client(client_id), self._clock.now_ms()
        for group, _, deliveries in popped:
            self._hold(client, topic, group, {delivery.receipt_handle: now_ms for delivery in deliveries})

    def _hold(
        self, client: HeldClient, topic: str, group: str, popped_ms: dict[str, int], *, is_due: bool = False
    ) -> None:
        self._forget(client, list(popped_ms))  # one that asked again with the same attempt id has the same handles
        for ticket in self._consumer(topic, group).adopt(list(popped_ms), is_due=is_due):
            ticket.member = client
            client.held[ticket.receipt_handle] = _Held(ticket, popped_ms[ticket.receipt_handle])

    def _hold_recorded(self, client: HeldClient, record: HeldRecord | None) -> None:
        """Hold a client's messages of another gateway, and renew them at once."""
        found: dict[tuple[str, str], dict[str, int]] = {}
        for handle, topic, group, popped_ms in () if record is None else record.messages:
            if handle not in client.held:
                found.setdefault((topic, group), {})[handle] = popped_ms
        for (topic, group), times in found.items():
            self._hold(client, topic, group, times, is_due=True)

    def forget(self, client_id: str, handles: Sequence[str]) -> None:
        """Forget messages that a client has settled, or whose time it sets itself."""
        client = self._clients.get(client_id)
        if client is not None and client.held:
            self._forget(client, handles)

    def _forget(self, client: HeldClient, handles: Sequence[str]) -> None:
        tickets = [client.held[handle].ticket for handle in handles if handle in client.held]
        for consumer, ended in by_consumer(tickets).items():
            consumer.forget(ended)

    def _consumer(self, topic: str, group: str) -> LeasedConsumer:
        consumer = self._consumers.get((topic, group))
        if consumer is None:

            def forget_idle() -> None:
                if self._consumers.get((topic, group)) is consumer:
                    del self._consumers[topic, group]

            consumer = self._consumers[topic, group] = LeasedConsumer(
                self._store, self._clock, topic, group, lease_ms=self._lease_ms, on_end=_ended, on_idle=forget_idle
            )
        return consumer

    async def goodbye(self, client_id: str) -> None:
        """End a client: release its messages, also those of another gateway."""
        try:
            [found] = await self._store.key_values.get([_key(client_id)])
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                raise
            found = None
        client = self._clients.pop(client_id, None) or HeldClient(self._clock.now_ms())
        if found is not None:
            self._hold_recorded(client, _read(found.value))
            await self._store.key_values.write([KeyValueChange(found.key, None)])
        await self._release(client)

    async def gone(self, client_id: str) -> None:
        """End a silent client: release its messages, unless it has moved."""
        client = self._clients.pop(client_id, None)
        if client is None:
            return
        is_ours = False
        try:
            is_ours = client.is_heard and (client.version == ABSENT or await self._disown(client_id, client))
        finally:
            if not is_ours:
                self._forget(client, list(client.held))
        await self._release(client)

    async def _release(self, client: HeldClient) -> None:
        """Release messages at once where possible; elsewhere their leases end."""
        consumers = by_consumer([held.ticket for held in client.held.values()])
        for consumer, tickets in consumers.items():
            consumer.release(tickets)
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                for consumer in consumers:
                    await consumer.settle_releases()
        except TimeoutError:
            log.warning("messages popped for a client that left stay invisible until their lease ends")

    # -- looking after it ----------------------------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            self._looks += 1
            clients = list(self._clients.items())
            for start in range(0, len(clients), LOOKED_AFTER_AT_ONCE):  # one whose broker is slow holds up few
                some = clients[start : start + LOOKED_AFTER_AT_ONCE]
                await asyncio.gather(*(self._look_after(client_id, client) for client_id, client in some))
            if self._looks % SWEEP_LOOKS == 0:
                try:
                    await self._sweep()
                except Exception:  # a fault of our own: looking after the others goes on
                    log.exception("old records of consumers were not swept")

    async def _look_after(self, client_id: str, client: HeldClient) -> None:
        try:
            await self._look_at(client_id, client)
        except EntrepotError as error:  # the store is away: the next look may find it
            log.warning("the leases of a consumer were not renewed", client=client_id, problem=error.message)
        except Exception:  # a fault of our own: the messages of all others are renewed all the same
            log.exception("the leases of a consumer were not renewed", client=client_id)

    async def _look_at(self, client_id: str, client: HeldClient) -> None:
        now_ms = self._clock.now_ms()
        if not client.receives and now_ms - client.seen_ms > self._silence_ms:
            await self.gone(client_id)
            return
        tired = [handle for handle, held in client.held.items() if now_ms - held.popped_ms > self._max_hold_ms]
        self._forget(client, tired)  # their leases end by themselves
        await self._record(client_id, age_ms=int(self._look_seconds * 1000))

    # -- the record ----------------------------------------------------------------------------------------------

    async def _record(self, client_id: str, age_ms: int) -> None:
        """Record the messages that a client has held for so long, if the record differs."""
        client = self._clients.get(client_id)
        if client is None or not self._keeps or not client.is_heard:
            return
        now_ms = self._clock.now_ms()
        old = [handle for handle, held in client.held.items() if now_ms - held.popped_ms >= age_ms][:MAX_RECORDED]
        is_stale = bool(old) and now_ms - client.touched_ms > self._lease_ms
        if frozenset(old) == client.recorded and not is_stale:
            return
        messages = [_recorded(client.held[handle]) for handle in old]
        record = HeldRecord(self._frontend.identity.incarnation, now_ms, messages)
        value = msgspec.json.encode(record) if old else None
        if value is None and client.version == ABSENT:
            client.recorded = frozenset()
            return
        try:
            version = await self._store.key_values.write([KeyValueChange(_key(client_id), value, client.version)])
        except EntrepotError as error:
            await self._not_written(client_id, client, error)
            return
        client.version = version if value is not None else ABSENT
        client.recorded, client.touched_ms = frozenset(old), now_ms

    async def _not_written(self, client_id: str, client: HeldClient, error: EntrepotError) -> None:
        if error.code is Code.UNSUPPORTED:
            self._keeps = False
        elif error.code is Code.PRECONDITION_FAILED:
            # another gateway has it: both renew; the last one to hear the client is the owner
            [found] = await self._store.key_values.get([_key(client_id)])
            client.version = ABSENT if found is None else found.version
        else:
            log.warning("could not record the messages that a consumer holds", client=client_id, problem=error.message)

    async def _adopt(self, client_id: str, client: HeldClient) -> None:
        """Take over a client's messages of another gateway, and own its record from now on."""
        try:
            [found] = await self._store.key_values.get([_key(client_id)])
        except EntrepotError as error:
            self._keeps = error.code is not Code.UNSUPPORTED
            client.is_heard = not self._keeps
            return
        if found is None:
            return
        client.version = found.version
        self._hold_recorded(client, _read(found.value))
        client.recorded = frozenset()

    async def _disown(self, client_id: str, client: HeldClient) -> bool:
        """Delete the record; True if it was this gateway's."""
        change = KeyValueChange(_key(client_id), None, client.version)
        return await if_unchanged(self._store.key_values.write([change])) is not None

    async def _sweep(self) -> None:
        """Delete records of clients that are gone together with their gateway: their leases are over."""
        if not self._keeps:
            return
        try:
            facts = await self._store.key_values.scan(PREFIX, limit=MAX_SCAN)
            limit_ms = self._clock.now_ms() - STALE_LEASES * self._lease_ms - self._silence_ms
            for fact in facts:
                record = _read(fact.value)
                if CLIENT_NAMES.text(fact.key[len(PREFIX) :]) in self._clients or (
                    record is not None and record.at_ms > limit_ms
                ):
                    continue
                await self._store.key_values.write([KeyValueChange(fact.key, None, fact.version)])
        except EntrepotError as error:
            log.warning("old records of consumers were not swept", problem=error.message)

    def _client(self, client_id: str) -> HeldClient:
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = HeldClient(self._clock.now_ms())
        return client


def _ended(tickets: Sequence[Ticket], is_back: bool) -> None:
    for ticket in tickets:
        ticket.member.held.pop(ticket.receipt_handle, None)


def _recorded(held: _Held) -> tuple[str, str, str, int]:
    of = held.ticket.consumer
    return held.ticket.receipt_handle, of.topic, of.group, held.popped_ms


def _key(client_id: str) -> str:
    return PREFIX + CLIENT_NAMES.name(client_id)


def _read(value: bytes) -> HeldRecord | None:
    try:
        return _DECODER.decode(value)
    except msgspec.DecodeError:
        return None

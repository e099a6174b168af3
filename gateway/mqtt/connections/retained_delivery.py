"""RetainedDelivery: retained messages for one connection's new subscriptions, at the client's pace.

Invariant: one task reads for a connection, and at most RETAINED_BATCH messages wait in memory.  A filter that is
subscribed to again while it waits is queued once, with its latest options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from entrepot.domain.errors import AWAY, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.routing.topic_filter import matches
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.yielding import with_pauses
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.outbox import Outbox
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.fan_out.audience import Grant, encoded
from entrepot.gateway.mqtt.sessions.record import SubscriptionRecord
from entrepot.gateway.mqtt.topics.names import SYS
from entrepot.protocols.mqtt.encoder import PublishTemplate

PART: Final = "mqtt retained"
"""The part of incidents of retained messages on their way to subscribers."""
RETAINED_BATCH: Final = 64
OWN_SECONDS: Final = 0.5
"""Longest wait of the client's own retained publish for the delivery of the message that it replaces, in seconds."""


class RetainedDelivery:
    """One connection's retained messages.  `subscriptions`: the current ones, by filter."""

    __slots__ = ("_announced", "_client", "_due", "_outbox", "_sent", "_services", "_subscriptions", "_wanted")

    def __init__(
        self,
        services: MqttServices,
        client: MqttClient,
        outbox: Outbox,
        subscriptions: Mapping[str, SubscriptionRecord],
    ) -> None:
        self._services, self._client, self._outbox, self._subscriptions = services, client, outbox, subscriptions
        self._wanted: dict[str, SubscriptionRecord] | None = None
        """Subscriptions to serve in order, by filter; None while no task reads."""
        self._announced: dict[str, float] | None = None
        """Filters announced, each with the deadline until which the client's own publishes wait for its delivery."""
        self._sent: asyncio.Future[None] | None = None
        self._due = 0
        """SUBSCRIBEs announced, whose retained messages are not asked for yet."""

    def announce(self, records: Iterable[SubscriptionRecord]) -> None:
        """Note subscriptions that `send` will serve.  Live messages from now on go after their retained ones, which
        may be older."""
        until = self._services.loop.time() + OWN_SECONDS
        announced = {record.filter: until for record in records}
        if announced:
            self._announced = {**(self._announced or {}), **announced}
            self._due += 1
            self._outbox.hold_back()

    async def passed(self, names: Sequence[str]) -> None:
        """Wait until retained messages of these names are sent to announced subscriptions."""
        with suppress(TimeoutError):
            while (until := self._awaited_until(names)) > self._services.loop.time():
                if self._sent is None:
                    self._sent = asyncio.get_running_loop().create_future()
                async with asyncio.timeout_at(until):
                    await asyncio.shield(self._sent)

    def _awaited_until(self, names: Sequence[str]) -> float:
        announced = (self._announced or {}).items() if self._client.machine.is_open else ()
        return max((until for each, until in announced if any(matches(each, name) for name in names)), default=0.0)

    def _note_sent(self, topic_filter: str) -> None:
        if self._announced is not None:
            self._announced.pop(topic_filter, None)
        if self._sent is not None:
            self._sent.set_result(None)
            self._sent = None

    def send(self, records: Iterable[SubscriptionRecord]) -> None:
        """Send the retained messages that match new subscriptions (3.3.1.3), of one SUBSCRIBE."""
        self._due -= 1
        wanted = {record.filter: record for record in records}
        if self._wanted is not None:
            self._wanted.update(wanted)
        elif wanted:
            self._wanted = wanted
            self._services.tasks.spawn(self._send_all(wanted))

    async def _send_all(self, wanted: dict[str, SubscriptionRecord]) -> None:
        try:
            while wanted and self._client.machine.is_open:
                record = wanted.pop(next(iter(wanted)))
                try:
                    await self._send(record)
                except Exception as fault:  # noqa: BLE001 - the other subscriptions get theirs
                    self._set_aside(record.filter, fault)
                if record.filter not in wanted:
                    self._note_sent(record.filter)
        finally:
            self._wanted = None
            if not self._due:
                self._outbox.go_on()

    async def _send(self, record: SubscriptionRecord) -> None:
        retained = self._services.retained
        if record.filter.startswith(SYS) or record.filter in ("#", "+/#"):
            await self._send_sys(record)
        async for names in with_pauses(retained.pages(record.filter)):
            for at in range(0, len(names), RETAINED_BATCH):
                if not await self._send_batch(record, names[at : at + RETAINED_BATCH]):
                    return

    async def _has_room(self, record: SubscriptionRecord) -> bool:
        """Wait until the outbox is empty; False where the subscription has ended by then."""
        await self._outbox.emptied()
        return self._client.machine.is_open and record.filter in self._subscriptions

    async def _send_batch(self, record: SubscriptionRecord, names: Sequence[str]) -> bool:
        """Send retained messages of some names; False where the subscription has ended or the store is away."""
        if not await self._has_room(record):
            return False
        try:
            messages = await self._read(names)
        except EntrepotError as error:
            self._set_aside(record.filter, error)
            return False
        self._deliver(record, messages)
        return True

    async def _read(self, names: Sequence[str]) -> Sequence[StoredMessage]:
        """Return the messages of the names. Names whose reading fails are set aside. Raises errors of a store that is
        away."""
        try:
            return await self._services.retained.read(names)
        except Exception as fault:
            if isinstance(fault, EntrepotError) and fault.code in AWAY:
                raise
            if len(names) == 1:
                self._set_aside(names[0], fault)
                return ()
        return [message for name in names for message in await self._read([name])]

    async def _send_sys(self, record: SubscriptionRecord) -> None:
        found = self._services.sys_messages(record.filter)
        if found and await self._has_room(record):
            self._deliver(record, found)

    def _deliver(self, record: SubscriptionRecord, messages: Sequence[StoredMessage]) -> None:
        encode = partial(self._form, record)
        forms = self._services.hub.incidents.encoded(PART, messages, encode, lambda message: message)
        self._outbox.deliver_retained(forms)
        self._client.flush()

    def _set_aside(self, place: str, fault: Exception) -> None:
        """Note a name or filter whose retained messages this client does not get."""
        reason, own = f"{type(fault).__name__}: {fault}", None if isinstance(fault, EntrepotError) else fault
        client_id = self._client.client_id
        self._services.hub.incidents.note(PART, Outcome.SET_ASIDE, reason, place=place, client=client_id, fault=own)

    def _form(
        self, record: SubscriptionRecord, message: StoredMessage
    ) -> tuple[PublishTemplate, StoredMessage, tuple[int, ...]]:
        identifiers = (record.identifier,) if record.identifier else ()
        grant = Grant(record.qos, True, identifiers)
        now_ms = self._services.clock.now_ms()
        unsaid = self._services.hub.incidents.unsaid
        template = encoded(message, grant, self._client.machine.version == 5, now_ms, unsaid, retain=True)
        return template, message, identifiers

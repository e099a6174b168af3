"""Subscribing: one connection's subscriptions of all kinds, and their retained messages.

SUBSCRIBE and UNSUBSCRIBE take effect at once, in the order of the packets.  SUBACK follows when later publishes reach
the client and the session's record is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.routing.topic_filter import is_valid_filter
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.outbox import Outbox
from entrepot.gateway.mqtt.connections.readers import Reader
from entrepot.gateway.mqtt.connections.retained_delivery import RetainedDelivery
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.connections.share_members import Membership, granted_qos
from entrepot.gateway.mqtt.fan_out.audience import QueueKey, SubscriptionOptions
from entrepot.gateway.mqtt.sessions.record import Cursors, SubscriptionRecord
from entrepot.gateway.mqtt.topics.names import REPLAY, SHARE, SYS, parse_replay, parse_share
from entrepot.protocols.mqtt.packets import Subscribe, Subscription, Unsubscribe
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode

MAX_FILTER_CHARACTERS: Final = 96 * 1024
"""Maximum characters of a client's filters, which must fit into its session's record; beyond it only short ones are
taken."""
SHORT_FILTER: Final = 96
NEVER_RETAINED: Final = 2
ONLY_IF_NEW: Final = 1
"""Retain handling (3.8.3.1)."""


class Subscribing:
    """One connection's subscriptions."""

    __slots__ = (
        "_client",
        "_outbox",
        "_services",
        "_when_settled",
        "filters",
        "reader",
        "records",
        "replays",
        "retained",
        "settling",
        "shares",
    )

    def __init__(self, services: MqttServices, client: MqttClient, outbox: Outbox) -> None:
        self._services, self._client, self._outbox = services, client, outbox
        outbox.on_room = self._has_room
        self.records: dict[str, SubscriptionRecord] = {}
        """All subscriptions, by filter as the client wrote it."""
        self.retained = RetainedDelivery(services, client, outbox, self.records)
        self.filters: dict[str, SubscriptionOptions] = {}
        self.reader = Reader(client, outbox, self.filters)
        self.shares: dict[str, Membership] | None = None
        self.replays: dict[str, Reader] | None = None
        self.settling = 0
        """Number of SUBSCRIBEs without full effect yet: a publish may not reach the client."""
        self._when_settled: asyncio.Future[None] | None = None

    # -- SUBSCRIBE -----------------------------------------------------------------------------------------------

    def change(self, packet: Subscribe | Unsubscribe) -> None:
        """Apply a SUBSCRIBE or UNSUBSCRIBE; its answer comes later."""
        if isinstance(packet, Subscribe):
            self._subscribe(packet)
        else:
            self._unsubscribe(packet)

    def _subscribe(self, packet: Subscribe) -> None:
        identifiers = packet.properties.get(PropertyId.SUBSCRIPTION_IDENTIFIER, [0])
        reasons: list[ReasonCode] = []
        retained: list[SubscriptionRecord] = []
        joins: list[tuple[int, Membership]] = []
        for place, wanted in enumerate(packet.subscriptions):
            refusal = self._refusal(wanted)
            if refusal is not None:
                self._services.counters.refuse(self._client, wanted.filter, refusal[1], refusal[0])
                reasons.append(refusal[0])
                continue
            is_new = wanted.filter not in self.records
            record = SubscriptionRecord(
                wanted.filter,
                wanted.qos,
                wanted.no_local or self._client.is_bridge,
                wanted.retain_as_published or self._client.is_bridge,
                wanted.retain_handling,
                identifiers[0],
            )
            member = self._add(record, is_new=is_new)
            if member is not None:
                joins.append((place, member))
            elif _brings_retained(wanted, is_new=is_new):
                retained.append(record)
            share = parse_share(wanted.filter) if wanted.filter.startswith(SHARE) else None
            reasons.append(ReasonCode(wanted.qos if share is None else granted_qos(share, wanted.qos)))
        self._outbox.holds += 1  # messages from now on follow SUBACK
        self.settling += 1
        self.retained.announce(retained)
        if joins:
            self._services.tasks.spawn(self._join(packet.packet_id, reasons, retained, joins))
        else:
            self._follow(packet.packet_id, reasons, retained)

    def _refusal(self, wanted: Subscription) -> tuple[ReasonCode, str] | None:
        """The reason to refuse a subscription, or None (3.9.3)."""
        services, text, invalid = self._services, wanted.filter, ReasonCode.TOPIC_FILTER_INVALID
        if not text.startswith((SHARE, REPLAY)) and not is_valid_filter(text):  # theirs are checked below
            return invalid, "it is not a topic filter"
        topic_filter, group = text, ""
        if text.startswith(SHARE):
            share = parse_share(text)
            if share is None or share.filter.startswith((SHARE, REPLAY, SYS)):
                return invalid, "it is not $share/<name>/<filter>"
            topic_filter, group = share.filter, share.name
        elif text.startswith(REPLAY):
            replay = parse_replay(text, services.clock.now_ms())
            if replay is None:
                return invalid, "it is not $replay/<from>/<filter>"
            topic_filter = replay.filter
        if topic_filter.count("/") >= services.settings.max_topic_levels:
            return invalid, "it has too many levels"
        if text not in self.records:
            if len(self.records) >= (most := services.limits.max_subscriptions):
                return ReasonCode.QUOTA_EXCEEDED, f"a client has at most {most} subscriptions"
            if len(text) > SHORT_FILTER and self._filters_are_full(text):
                return ReasonCode.QUOTA_EXCEEDED, f"filters of a client have at most {MAX_FILTER_CHARACTERS} characters"
        if not services.access.may_subscribe(self._client.principal, topic_filter, group):
            return ReasonCode.NOT_AUTHORIZED, "not authorized to subscribe"
        return None

    def _filters_are_full(self, text: str) -> bool:
        return len(text) + sum(map(len, self.records)) > MAX_FILTER_CHARACTERS

    def _add(self, record: SubscriptionRecord, *, is_new: bool, resumes: bool = False) -> Membership | None:
        text = record.filter
        self.records[text] = record
        tells_retained = self._client.machine.version == 5 or self._client.is_bridge  # 3.1.1: 3.3.1-9
        options = SubscriptionOptions(
            record.qos, record.no_local, record.retain_as_published and tells_retained, record.identifier
        )
        if text.startswith(SHARE):
            return self._share(text, options, is_new=is_new)
        if text.startswith(REPLAY):
            if is_new:
                self._replay(text, options, resumes=resumes)
            return None
        self.filters[text] = options
        if record.no_local:
            self._client.wants_no_local = True
        elif not is_new:
            self._look_at_no_local()
        self._services.hub.subscribe(self.reader, text, options, is_new=is_new)
        return None

    def _look_at_no_local(self) -> None:
        self._client.wants_no_local = any(options.no_local for options in self.filters.values())

    def _share(self, text: str, options: SubscriptionOptions, *, is_new: bool) -> Membership | None:
        if self.shares is None:
            self.shares = {}
        if not is_new:
            self.shares[text].grant(options)
            return None
        share = parse_share(text)
        assert share is not None
        member = self.shares[text] = Membership(self._services, self._client, self._outbox, share, options)
        return member

    def _replay(self, text: str, options: SubscriptionOptions, *, resumes: bool) -> None:
        hub, session = self._services.hub, self._client.session
        replay = parse_replay(text, self._services.clock.now_ms())
        assert replay is not None
        if self.replays is None:
            self.replays = {}
        reader = self.replays[text] = Reader(self._client, self._outbox, (replay.filter,), text)
        hub.subscribe(reader, replay.filter, options, is_new=True)
        if resumes and session is not None:
            hub.resume(reader, reader.topic_filters, session.restored_cursors(text), number_of=session.number_of)
        else:
            hub.resume(reader, reader.topic_filters, {}, beginning=replay.start, is_replay=True)

    async def _join(
        self,
        packet_id: int,
        reasons: list[ReasonCode],
        retained: list[SubscriptionRecord],
        joins: list[tuple[int, Membership]],
    ) -> None:
        for place, member in joins:
            refusal = await self._join_share(member)
            if refusal is not None:
                reasons[place] = refusal
        self._follow(packet_id, reasons, retained)

    async def _join_share(self, member: Membership) -> ReasonCode | None:
        shares, share = self._services.shares, member.share
        try:
            await shares.join(share.name, share.filter, member)
        except EntrepotError as error:
            text = f"{SHARE}{share.name}/{share.filter}"
            reason = _SHARE_REFUSALS.get(error.code, ReasonCode.UNSPECIFIED_ERROR)
            self._services.counters.refuse(self._client, text, error.message, reason)
            self.records.pop(text, None)
            if self.shares is not None and self.shares.pop(text, None) is member:
                member.leave()
            return reason
        if not self._client.machine.is_open or member not in (self.shares or {}).values():
            shares.leave(share.name, share.filter, member)  # it left meanwhile
        return None

    def _follow(self, packet_id: int, reasons: list[ReasonCode], retained: list[SubscriptionRecord]) -> None:
        def following() -> None:
            self._settle()
            self._record(partial(self._subscribed, packet_id, reasons, retained))

        self._services.hub.when_following(following)

    def _settle(self) -> None:
        self.settling -= 1
        if not self.settling and self._when_settled is not None:
            self._when_settled.set_result(None)
            self._when_settled = None

    async def settled(self) -> None:
        """Wait until all subscriptions have full effect."""
        while self.settling:
            if self._when_settled is None:
                self._when_settled = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._when_settled)

    def _subscribed(self, packet_id: int, reasons: list[ReasonCode], retained: list[SubscriptionRecord]) -> None:
        client, outbox = self._client, self._outbox
        if not client.machine.is_open:
            return
        client.machine.suback(packet_id, reasons)
        client.flush()
        outbox.holds -= 1
        if retained:
            self.retained.send(retained)
        outbox.drain()
        client.flush()

    def _record(self, done: Callable[[], None]) -> None:
        """Write the subscriptions to the session's record; `done` is called when it is durable."""
        session = self._client.session
        if session is not None:
            session.record.subscriptions = list(self.records.values())
            session.after_durable(done, record=True)

    # -- UNSUBSCRIBE ---------------------------------------------------------------------------------------------

    def _unsubscribe(self, packet: Unsubscribe) -> None:
        client = self._client
        reasons: list[ReasonCode] = []
        for text in packet.filters:
            if self.records.pop(text, None) is not None:
                self._remove(text)
                reasons.append(ReasonCode.SUCCESS)
            elif not is_valid_filter(text):
                reasons.append(ReasonCode.TOPIC_FILTER_INVALID)
            else:
                reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)

        def done() -> None:
            if client.machine.is_open:
                client.machine.unsuback(packet.packet_id, reasons)
                client.flush()

        self._record(done)

    def _remove(self, text: str) -> None:
        hub, client = self._services.hub, self._client
        if text.startswith(SHARE):
            (self.shares or {}).pop(text).leave()
        elif text.startswith(REPLAY):
            self._leave((self.replays or {}).pop(text))
            if client.session is not None:
                client.session.forget_replay(text)
        else:
            self.filters.pop(text, None)
            self._look_at_no_local()
            hub.unsubscribe(self.reader, text)

    def _leave(self, reader: Reader) -> None:
        hub = self._services.hub
        reader.lagging = None
        for topic_filter in reader.topic_filters:
            hub.unsubscribe(reader, topic_filter)
        hub.leave(reader)

    def ask_again(self) -> None:
        """End subscriptions that the client may no longer have, after a change of its rights."""
        services, client = self._services, self._client
        now_ms = services.clock.now_ms()
        for text in list(self.records):
            topic_filter, group = text, ""
            if text.startswith(SHARE) and (share := parse_share(text)) is not None:
                topic_filter, group = share.filter, share.name
            elif text.startswith(REPLAY) and (replay := parse_replay(text, now_ms)) is not None:
                topic_filter = replay.filter
            if not services.access.may_subscribe(client.principal, topic_filter, group):
                del self.records[text]
                self._remove(text)
                services.counters.refuse(client, text, "the right to it was revoked")
                self._record(lambda: None)

    # -- continuing and leaving a session --------------------------------------------------------------------------

    def restore(self) -> None:
        """Restore the subscriptions of a continued session, each from its read position."""
        session, services = self._client.session, self._services
        assert session is not None
        for record in session.record.subscriptions:
            member = self._add(record, is_new=True, resumes=True)
            if member is not None:
                services.tasks.spawn(self._join_again(member))
        if self.filters:
            cursors = session.restored_cursors("")
            services.hub.resume(self.reader, self.filters, cursors, number_of=session.number_of)

    async def _join_again(self, member: Membership) -> None:
        await self._join_share(member)

    def positions(self) -> tuple[Cursors, dict[str, Cursors]]:
        """Read positions of the session, for its record."""
        return self._positions(self.reader), {
            name: self._positions(reader) for name, reader in (self.replays or {}).items()
        }

    def _positions(self, reader: Reader) -> Cursors:
        services, session = self._services, self._client.session
        if not reader.topic_filters:
            return {}
        found: dict[QueueKey, int] = {}
        if session is not None:  # queues that are away now keep their places
            kept, topology = session.restored_cursors(reader.replay), services.store.topology
            found = {key: at for key, at in kept.items() if topology.topic(key[0]) is not None}
        found.update(services.hub.positions(reader.topic_filters))
        found.update(reader.lagging or {})
        for key, offset in self._outbox.first_waiting(reader.replay).items():
            found[key] = min(found.get(key, offset), offset)
        cursors: Cursors = {}
        for (topic, queue_id), offset in found.items():
            cursors.setdefault(topic, {})[queue_id] = offset
        return cursors

    def close(self) -> None:
        """End all subscriptions, because the connection is over."""
        for reader in (self.reader, *(self.replays or {}).values()):
            self._leave(reader)
        for member in (self.shares or {}).values():
            member.leave()
        self.filters.clear()
        self.shares = self.replays = None

    def _has_room(self) -> None:
        """Continue readers and shares, because nothing waits to be sent."""
        services = self._services
        for reader in (self.reader, *(self.replays or {}).values()):
            if reader.lagging:
                services.hub.catch_up(reader)
        for member in (self.shares or {}).values():
            services.shares.has_room(member.share.name, member.share.filter, member)


def _brings_retained(wanted: Subscription, *, is_new: bool) -> bool:
    """True if the subscription, which is not a share, is answered with retained messages (3.8.3.1)."""
    if wanted.retain_handling == NEVER_RETAINED or wanted.filter.startswith(REPLAY):
        return False
    return is_new or wanted.retain_handling != ONLY_IF_NEW


_SHARE_REFUSALS: Final = {
    Code.ILLEGAL_CONSUMER_GROUP: ReasonCode.TOPIC_FILTER_INVALID,
    Code.ILLEGAL_FILTER_EXPRESSION: ReasonCode.TOPIC_FILTER_INVALID,
    Code.FORBIDDEN: ReasonCode.NOT_AUTHORIZED,
    Code.TOO_MANY_REQUESTS: ReasonCode.QUOTA_EXCEEDED,
}
"""Reason codes of SUBACK; any other error is an unspecified one."""

"""MqttConversation: one MQTT connection, from its first byte to the last record of its session.

It only dispatches.  The machine (`protocols.mqtt.connection`) decodes, `connecting` gets the session; `publishing`,
`subscribing` and `outbox` do the work of each direction (ADR 6). Invariant: a connection ends once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import structlog

from entrepot.domain.callbacks import call_each
from entrepot.domain.errors import EntrepotError
from entrepot.gateway.messaging.ticket import Ticket, acknowledge_all
from entrepot.gateway.mqtt.connections.admission import Pace
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.connecting import Connecting
from entrepot.gateway.mqtt.connections.departing import hand_on, leave, note_end
from entrepot.gateway.mqtt.connections.history import CONNECTION_LOST
from entrepot.gateway.mqtt.connections.ordering import Later, Ordering, filters_of
from entrepot.gateway.mqtt.connections.outbox import Outbox
from entrepot.gateway.mqtt.connections.publishing import Publishing
from entrepot.gateway.mqtt.connections.registry import ClientRegistry
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.connections.subscribing import Subscribing
from entrepot.gateway.mqtt.sessions.record import OutgoingRecord
from entrepot.gateway.mqtt.sessions.session import Session, released
from entrepot.gateway.transport.driver import Driver
from entrepot.protocols.mqtt.connection import ServerConnection
from entrepot.protocols.mqtt.connection_events import Acknowledged, Closing, Event, Publishes, Received, Released
from entrepot.protocols.mqtt.errors import REASON_OF_CODE
from entrepot.protocols.mqtt.packets import Auth, Connect, Subscribe, Unsubscribe
from entrepot.protocols.mqtt.reason_codes import ReasonCode

log = structlog.get_logger(__name__)

MAX_WAITING_BYTES: Final = 64 * 1024
"""Bytes after an undecided CONNECT; with more, reading pauses."""

_UNDECIDED: Final = "CONNECT is not decided"
"""Reasons to pause reading."""


class Connections(Protocol):
    """A connection's view of its front end."""

    registry: ClientRegistry[MqttConversation]

    def opened(self, conversation: MqttConversation) -> None:
        """Note an accepted socket."""

    def closed(self, conversation: MqttConversation) -> None:
        """Note a closed socket."""

    def refusal(self, client: MqttClient, connect: Connect) -> tuple[ReasonCode, str] | None:
        """The reason to refuse a CONNECT, or None."""


class MqttConversation:
    """One MQTT connection.  Implements `gateway.driver.Conversation`.  `ordering`: None while no event waits for its
    turn."""

    __slots__ = (
        "_connecting",
        "_connections",
        "_expires_at",
        "_is_ended",
        "_is_gone",
        "_pace",
        "_services",
        "_when_gone",
        "client",
        "machine",
        "ordering",
        "outbox",
        "publishing",
        "subscribing",
        "taken_epoch",
    )

    def __init__(self, services: MqttServices, connections: Connections) -> None:
        self._services, self._connections = services, connections
        self.machine = ServerConnection(services.limits, services.loop.time(), services.counters.packets)
        self.client = MqttClient(self.machine, self.close)
        self.outbox = Outbox(services, self.client)
        self.subscribing = Subscribing(services, self.client, self.outbox)
        self.publishing = Publishing(services, self.client, self.subscribing.retained)
        self.ordering: Ordering | None = None
        self.taken_epoch = 0
        self._pace: Pace | None = None
        self._connecting: Connecting | None = None
        self._expires_at = float("inf")
        self._is_ended = self._is_gone = False
        self._when_gone: list[Callable[[], None]] | None = None

    # -- from the driver -----------------------------------------------------------------------------------------

    def connected(self, driver: Driver) -> None:
        self.client.driver = driver
        self.client.peer = driver.peer
        self._connections.opened(self)

    def received(self, data: bytes, now: float) -> None:
        self.client.bytes_in += len(data)
        for event in self.machine.receive_data(data, now):
            self._handle(event)
        if self.machine.waiting > MAX_WAITING_BYTES and self.client.driver is not None:
            self.client.driver.pause_reading(_UNDECIDED)

    def data_to_send(self) -> bytes:
        data = self.machine.data_to_send()
        if data:
            self.client.bytes_out += len(data)
            if self.client.observe is not None:
                self.client.observe(data)
        return data

    def deadline(self) -> float:
        driver = self.client.driver
        if driver is not None and driver.is_paused and self.machine.is_open:
            return self._expires_at
        return min(self.machine.deadline(), self._expires_at)

    def timed_out(self, now: float) -> None:
        if now >= self._expires_at:
            self.close(ReasonCode.NOT_AUTHORIZED, "what the client was let in by is over")
            return
        for event in self.machine.handle_timeout(now):
            self._handle(event)

    def resumed(self, now: float) -> None:
        self.machine.note_alive(now)

    def writable(self) -> None:
        self.outbox.drain()

    def overburdened(self) -> None:
        self.close(ReasonCode.SERVER_BUSY, "clients that have not logged in send too much")

    def lost(self) -> None:
        self.machine.lost()
        self.end(Closing(ReasonCode.UNSPECIFIED_ERROR, CONNECTION_LOST, is_clients=True))
        self._connections.closed(self)
        self.client.driver = None
        self._let_go()

    # -- events --------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if type(event) is Publishes:
            if self._pace is not None and not self._pace.keeps(event.packets, self.client, self._services.loop):
                self.close(ReasonCode.MESSAGE_RATE_TOO_HIGH, "the client publishes far more than it may")
                return
            self._services.counters.count_publishes(self.client, self.machine.version, event.packets)
            if self.ordering is None and not self.subscribing.settling:
                self.publishing.take(event.packets)
            else:
                self._put_off(event)
        elif isinstance(event, Acknowledged):
            self._acknowledged(event.held)
        elif isinstance(event, Received):
            self._received(event.packet_ids)
        elif isinstance(event, Released):
            self._released(event.packet_ids)
        elif isinstance(event, Subscribe | Unsubscribe):
            if self.ordering is None and not self.publishing.on_the_way(filters_of(event)):
                self.subscribing.change(event)
            else:
                self._put_off(event)
        elif isinstance(event, Connect):
            self._connect(event)
        elif isinstance(event, Auth):
            self._authenticate(event)
        elif isinstance(event, Closing):
            self.end(event)

    def _put_off(self, event: Later) -> None:
        """Queue an event after the ones before it."""
        if self.ordering is None:
            self.ordering = Ordering(self._services, self.client, self.publishing, self.subscribing, self._ordered)
        self.ordering.put_off(event)

    def _ordered(self) -> None:
        self.ordering = None

    def _connect(self, connect: Connect) -> None:
        self._services.traces.arrived(self.client, connect)
        self.client.keep_alive, self.client.is_bridge = connect.keep_alive, connect.is_bridge
        self._connecting = Connecting(self._services, self._connections.registry, self, connect)
        self._connecting.start()

    def _authenticate(self, packet: Auth) -> None:
        if self._connecting is not None:
            self._connecting.authenticate(packet)

    def refusal(self, connect: Connect) -> tuple[ReasonCode, str] | None:
        """The reason for the gateway to refuse this CONNECT now, or None."""
        return self._connections.refusal(self.client, connect)

    def accepted(self, session: Session, resends: list[bytes], expires_at: float) -> None:
        """Go on after CONNACK: resend unacknowledged packets, then handle the events after CONNECT."""
        services, client = self._services, self.client
        now = services.loop.time()
        self._pace = services.admission.pace_of(client.principal, now)
        if client.driver is not None:
            client.driver.admitted()
        if resends:
            self.outbox.send_again(resends)
        if session.is_present:
            self.subscribing.restore()
        session.positions = self.subscribing.positions
        self._expires_at = expires_at
        self._resume_reading(_UNDECIDED)
        for event in self.machine.go_on():
            self._handle(event)
        if client.driver is not None and self.deadline() < now + services.limits.connect_timeout_seconds:
            client.driver.deadline_moved()
        client.flush()

    def _acknowledged(self, held: list[object]) -> None:
        session = self.client.session
        if self.subscribing.shares is not None:
            acknowledge_all([each for each in held if isinstance(each, Ticket)])
        if session is not None and session.persists and any(isinstance(each, OutgoingRecord) for each in held):
            session.note_finished()
        self.outbox.drain()

    def _received(self, packet_ids: list[int]) -> None:
        """Send PUBREL, once PUBREC is durable in the record; else the message would be resent as a new one."""
        session, window = self.client.session, self.machine.window
        for packet_id in packet_ids:
            held = window.held[packet_id]
            if isinstance(held, OutgoingRecord):
                window.held[packet_id] = released(held)
        packet = self.machine.release(packet_ids)
        if session is not None:
            session.after_durable(partial(self._send, packet), window=True)

    def _released(self, packet_ids: list[int]) -> None:
        """Send PUBCOMP, once the identifiers are deleted from the record; else they would count as used when they come
        again."""
        session = self.client.session
        if session is None:
            return
        if session.message_ids:
            for packet_id in packet_ids:
                session.message_ids.pop(packet_id, None)
                session.doubtful.discard(packet_id)
        session.after_durable(partial(self._send, self.machine.complete(packet_ids)), window=True)

    def _send(self, packet: bytes) -> None:
        self.machine.send(packet)
        self.client.flush()

    def _resume_reading(self, reason: str) -> None:
        if self.client.driver is not None:
            self.client.driver.resume_reading(reason)

    # -- the end -------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Disconnect the client because the server stops."""
        reference = self._services.settings.server_reference
        if self.machine.is_closed:
            return
        if reference:
            self.end(self.machine.close(ReasonCode.USE_ANOTHER_SERVER, "the server is shutting down", reference))
        else:
            self.end(self.machine.close(ReasonCode.SERVER_SHUTTING_DOWN, "the server is shutting down"))

    def close(
        self, reason: ReasonCode, text: str, *, publishes_will: bool = True, session_expiry: int | None = None
    ) -> None:
        """End the connection from the server's side.  `session_expiry`: upper limit of its session's expiry, in
        seconds."""
        if not self.machine.is_closed:
            closing = self.machine.close(reason, text)
            closing.publishes_will = publishes_will
            closing.session_expiry = session_expiry
            self.end(closing)

    def kick(self, *, ends_session: bool = False) -> None:
        """Disconnect the client on an operator's order."""
        self.close(
            ReasonCode.ADMINISTRATIVE_ACTION,
            "an operator ended the connection",
            session_expiry=0 if ends_session else None,
        )

    def take_over(self, epoch: int | None = None) -> None:
        """Yield the client id to another connection (3.1.4-3); `epoch`: that of the session's record on another
        gateway."""
        if epoch is not None:
            self.taken_epoch = max(self.taken_epoch, epoch)
            if self.client.session is None or self.client.session.record.epoch >= epoch:
                return  # an earlier session's, or too early: it is checked once the session is open
        self._give_up("another connection took this client id", is_fenced=epoch is not None)

    def fenced(self) -> None:
        """Stop writing to the session, because another gateway has it."""
        self.publishing.give_up()
        self._give_up("another gateway took this client id", is_fenced=True)

    def unwritable(self, reason: EntrepotError) -> None:
        """End the connection, because its session cannot be written as it is."""
        if self.client.session is not None and self.client.session.is_fenced:
            self.publishing.give_up()
        self.close(REASON_OF_CODE[reason.code], reason.message)

    def _give_up(self, text: str, *, is_fenced: bool) -> None:
        machine = self.machine
        # CONNACK has no such code (table 3-1); SERVER_BUSY lets an unaccepted client try again
        closing = Closing(ReasonCode.SESSION_TAKEN_OVER if machine.is_open else ReasonCode.SERVER_BUSY, text)
        if not machine.is_closed:
            closing = machine.close(closing.reason, closing.text)
        self.end(closing, is_taken=True, is_fenced=is_fenced)

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call back once the connection's last write to the session's record is durable."""
        if self._is_gone:
            callback()
        else:
            self._when_gone = [*(self._when_gone or ()), callback]

    def gone(self) -> None:
        """Release the session and the client id to the next owner."""
        self._is_gone = True
        self._services.admission.leave(self.client)
        self._connections.registry.leave(self)
        told, self._when_gone = self._when_gone, None
        for fault in call_each(told or ()):
            log.error("a callback of a session's end failed", client_id=self.client.client_id, exc_info=fault)
        self._let_go()

    def _let_go(self) -> None:
        """Break reference cycles, once socket and session are gone, so that memory is freed without a garbage
        collection.  Late calls of a part meet a closed conversation."""
        if not self._is_gone or self.client.driver is not None:
            return
        self._connecting = self._pace = None
        self.outbox.close()
        self.publishing.let_go()
        self.client.close = _ignore
        self.client.traced_by = self.client.observe = self.machine.observe = None
        if self.client.session is not None:
            self.client.session.let_go()

    def end(self, closing: Closing, *, is_taken: bool = False, is_fenced: bool = False) -> None:
        """End the connection, once, whichever side ended it."""
        if self._is_ended:
            return
        self._is_ended = True
        note_end(self._services, self.client, closing, is_taken=is_taken)
        if self.ordering is not None:
            self.ordering.finish()
        session = self.client.session
        if session is not None:
            self._leave(session)
            if is_taken:  # unanswered publishes come again on the next connection
                self.publishing.give_up()
            self._depart(session, closing, is_taken=is_taken, is_fenced=is_fenced)
        elif self._connecting is None or self._connecting.is_over:
            self.gone()
        if self.client.driver is not None:
            self.client.driver.close()

    def _depart(self, session: Session, closing: Closing, *, is_taken: bool, is_fenced: bool) -> None:
        """Write the connection's end to the session's record, or leave that to the next owner."""
        services = self._services
        if is_fenced:
            self.gone()
        elif is_taken:
            services.tasks.spawn(hand_on(self.publishing, session, self.gone))
        else:
            if closing.session_expiry is not None:
                session.record.expiry_seconds = min(closing.session_expiry, services.max_session_expiry_seconds)
            self._leave_to_record(session, keeps_will=closing.publishes_will)

    def depart_unseen(self, session: Session) -> None:
        """Leave a session that was opened after the connection ended."""
        self._leave_to_record(session, keeps_will=True)

    def _leave_to_record(self, session: Session, *, keeps_will: bool) -> None:
        work = leave(self._services, self.publishing, session, self.gone, keeps_will=keeps_will)
        self._services.tasks.spawn(work)

    def _leave(self, session: Session) -> None:
        """Stop receiving, after noting the session's read positions."""
        if session.persists:
            cursors = self.subscribing.positions()
            session.positions = lambda: cursors
        self.subscribing.close()
        self.outbox.close()


def _ignore(reason: ReasonCode, text: str) -> None:
    """Do nothing: the close function of a connection that is over."""

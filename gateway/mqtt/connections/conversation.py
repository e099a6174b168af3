"""MqttConversation: one MQTT connection's side of things, from its first byte to what becomes of its session.

It decides nothing by itself: the machine (`protocols.mqtt.connection`) says what the bytes mean, `connecting` gets the
session, `publishing`, `subscribing` and `outbox` do the work of each direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import structlog

from domain.access.model import Principal
from gateway.driver import Driver
from gateway.messaging.ticket import Ticket, acknowledge_all
from gateway.mqtt.connections.admission import Pace
from gateway.mqtt.connections.connecting import Connecting
from gateway.mqtt.connections.ordering import Ordering, deal_with, filters_of, put_off
from gateway.mqtt.connections.outbox import Outbox
from gateway.mqtt.connections.publishing import Publishing
from gateway.mqtt.connections.subscribing import Subscribing
from gateway.mqtt.connections.traces import Trace
from gateway.mqtt.fan_out.audience import QueueKey, Run
from gateway.mqtt.sessions.record import OutgoingRecord
from gateway.mqtt.sessions.session import Session, released
from protocols.mqtt.connection import ServerConnection
from protocols.mqtt.connection_events import Acknowledged, Closing, Event, Publishes, Received, Released
from protocols.mqtt.packets import Auth, Connect, Publish, Subscribe, Unsubscribe
from protocols.mqtt.reason_codes import ReasonCode

if TYPE_CHECKING:
    from gateway.mqtt.frontend import MqttFrontend

MAX_WAITING_BYTES = 64 * 1024
"""Of what comes behind a CONNECT that is not decided: with more, no more is read."""

log = structlog.get_logger(__name__)


class MqttConversation:
    """Implements `gateway.driver.Conversation` and `gateway.mqtt.fan_out.audience.Subscriber`."""

    __slots__ = (
        "_connecting",
        "_expires_at",
        "_is_ended",
        "_is_gone",
        "_when_gone",
        "bytes_in",
        "bytes_out",
        "client_id",
        "connected_at_ms",
        "counted_user",
        "driver",
        "dropped",
        "frontend",
        "keep_alive",
        "lagging",
        "machine",
        "messages_in",
        "messages_out",
        "ordering",
        "outbox",
        "pace",
        "peer",
        "principal",
        "publishing",
        "resumed_at",
        "session",
        "subscribing",
        "taken_epoch",
        "trace",
    )

    def __init__(self, frontend: MqttFrontend, now: float) -> None:
        self.frontend = frontend
        self.machine = ServerConnection(frontend.limits, now, frontend.counters.packets)
        self.outbox = Outbox(self)
        self.publishing = Publishing(self)
        self.subscribing = Subscribing(self)
        self.driver: Driver | None = None
        self.session: Session | None = None
        self.principal: Principal | None = None
        self.client_id = ""
        self.peer = ""
        self.keep_alive = 0
        self.counted_user: str | None = None
        self.pace: Pace | None = None
        self.trace: Trace | None = None
        self.ordering: Ordering | None = None
        self.connected_at_ms = 0
        self.taken_epoch = 0
        self.bytes_in = self.bytes_out = 0
        self.messages_in = self.messages_out = self.dropped = 0
        self.lagging: dict[QueueKey, int] | None = None
        self.resumed_at: dict[QueueKey, int] | None = None
        self._connecting: Connecting | None = None
        self._expires_at = float("inf")
        self._is_ended = self._is_gone = False
        self._when_gone: list[Callable[[], None]] | None = None

    # -- from the driver -----------------------------------------------------------------------------------------

    def connected(self, driver: Driver) -> None:
        self.driver = driver
        self.peer = driver.peer
        self.frontend.opened(self)

    def received(self, data: bytes, now: float) -> None:
        self.bytes_in += len(data)
        for event in self.machine.receive_data(data, now):
            self._handle(event)
        if self.machine.waiting > MAX_WAITING_BYTES and self.driver is not None:
            self.driver.pause_reading()

    def data_to_send(self) -> bytes:
        data = self.machine.data_to_send()
        if data:
            self.bytes_out += len(data)
            if self.trace is not None:
                self.trace.sent(self, data)
        return data

    def deadline(self) -> float:
        if self.driver is not None and self.driver.is_paused and self.machine.is_open:
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
        self.end(Closing(ReasonCode.UNSPECIFIED_ERROR, "the connection was lost", is_clients=True))
        self.frontend.closed(self)
        self.driver = None
        self._let_go()

    # -- events --------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if type(event) is Publishes:
            if self.pace is not None and not self._keeps_pace(self.pace, event.packets):
                return
            self.frontend.counters.count_publishes(self, event.packets)
            if self.ordering is None and not self.subscribing.settling:
                self.publishing.take(event.packets)
            else:
                put_off(self, event)
        elif isinstance(event, Acknowledged):
            self._acknowledged(event.held)
        elif isinstance(event, Received):
            self._received(event.packet_ids)
        elif isinstance(event, Released):
            self._released(event.packet_ids)
        elif isinstance(event, Subscribe | Unsubscribe):
            if self.ordering is None and not self.publishing.on_the_way(filters_of(event)):
                deal_with(self, event)
            else:
                put_off(self, event)
        elif isinstance(event, Connect):
            self._connect(event)
        elif isinstance(event, Auth):
            self._authenticate(event)
        elif isinstance(event, Closing):
            self.end(event)

    def _keeps_pace(self, pace: Pace, packets: list[Publish]) -> bool:
        """Read no more for as long as the client's rates want it; False where it is far beyond them, and gone."""
        now = self.frontend.time()
        wait = pace.spend(packets, now)
        if wait is None:
            self.close(ReasonCode.MESSAGE_RATE_TOO_HIGH, "the client publishes far more than it may")
            return False
        if wait and self.driver is not None:
            pace.holds_until = now + wait
            if not pace.is_holding:
                pace.is_holding = True
                self.driver.pause_reading()
                self.frontend.call_later(wait, self._look_at_pace, pace)
        return True

    def _look_at_pace(self, pace: Pace) -> None:
        left = pace.holds_until - self.frontend.time()
        if left > 0:  # more came of the same read
            self.frontend.call_later(left, self._look_at_pace, pace)
            return
        pace.is_holding = False
        self.resume_reading()

    def _connect(self, connect: Connect) -> None:
        self.frontend.traces.arrived(self, connect)
        self.keep_alive = connect.keep_alive
        self._connecting = Connecting(self, connect)
        self._connecting.start()

    def _authenticate(self, packet: Auth) -> None:
        if self._connecting is not None:
            self._connecting.authenticate(packet)

    def accepted(self, expires_at: float, now: float) -> None:
        """CONNECT is accepted: what came behind it is next."""
        self._expires_at = expires_at
        self.resume_reading()
        for event in self.machine.go_on():
            self._handle(event)
        if self.driver is not None and self.deadline() < now + self.frontend.limits.connect_timeout_seconds:
            self.driver.deadline_moved()
        self.flush()

    def _acknowledged(self, held: list[object]) -> None:
        session = self.session
        if self.subscribing.shares is not None:
            acknowledge_all([each for each in held if isinstance(each, Ticket)])
        if session is not None and session.persists and any(isinstance(each, OutgoingRecord) for each in held):
            session.note_finished()
        self.outbox.drain()

    def _received(self, packet_ids: list[int]) -> None:
        """PUBREL, once the record says that PUBREC came: or the message would be sent again, and be a new one."""
        session, window = self.session, self.machine.window
        for packet_id in packet_ids:
            held = window.held[packet_id]
            if isinstance(held, OutgoingRecord):
                window.held[packet_id] = released(held)
        packet = self.machine.release(packet_ids)
        if session is not None:
            session.after_durable(partial(self._send, packet), window=True)

    def _released(self, packet_ids: list[int]) -> None:
        """PUBCOMP, once the record has forgotten the identifiers: or they would be taken for used when they come
        again."""
        session = self.session
        if session is None:
            return
        if session.message_ids:
            for packet_id in packet_ids:
                session.message_ids.pop(packet_id, None)
                session.doubtful.discard(packet_id)
        session.after_durable(partial(self._send, self.machine.complete(packet_ids)), window=True)

    def _send(self, packet: bytes) -> None:
        self.machine.send(packet)
        self.flush()

    # -- deliveries ----------------------------------------------------------------------------------------------

    @property
    def user(self) -> str:
        """Who it was authenticated as; empty for nobody."""
        return "" if self.principal is None or self.principal.is_anonymous else self.principal.name

    @property
    def version(self) -> int:
        return self.machine.version

    @property
    def topic_filters(self) -> Iterable[str]:
        return self.subscribing.filters

    @property
    def wants_no_local(self) -> bool:
        """Whether it must be known, of what this client publishes, that it did."""
        return self.subscribing.has_no_local

    @property
    def has_backlog(self) -> bool:
        return self.outbox.has_backlog

    def deliver(self, run: Run) -> int:
        return self.outbox.deliver(run)

    def has_room(self) -> None:
        """Nothing waits to be sent: who was behind reads on, and shares may give more."""
        hub = self.frontend.hub
        if self.lagging:
            hub.catch_up(self)
        subscribing = self.subscribing
        if subscribing.replays:
            for reader in subscribing.replays.values():
                if reader.lagging:
                    hub.catch_up(reader)
        if subscribing.shares:
            for member in subscribing.shares.values():
                self.frontend.shares.has_room(member.share.name, member.share.filter, member)

    def flush(self) -> None:
        if self.driver is not None:
            self.driver.flush()

    def resume_reading(self) -> None:
        """Read on, unless there is another reason not to."""
        is_held = self.publishing.is_paused or (self.pace is not None and self.pace.is_holding)
        is_held |= self.ordering is not None and self.ordering.is_full
        if self.driver is not None and not is_held:
            self.driver.resume_reading()

    # -- the end -------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """The server stops."""
        reference = self.frontend.server_reference
        if self.machine.is_closed:
            return
        if reference:
            self.end(self.machine.close(ReasonCode.USE_ANOTHER_SERVER, "the server is shutting down", reference))
        else:
            self.end(self.machine.close(ReasonCode.SERVER_SHUTTING_DOWN, "the server is shutting down"))

    def close(
        self, reason: ReasonCode, text: str, *, publishes_will: bool = True, session_expiry: int | None = None
    ) -> None:
        """End the connection from the server's side.  `session_expiry`: how long its session lasts then, at most."""
        if not self.machine.is_closed:
            closing = self.machine.close(reason, text)
            closing.publishes_will = publishes_will
            closing.session_expiry = session_expiry
            self.end(closing)

    def kick(self, *, ends_session: bool = False) -> None:
        """An operator wants the client to go."""
        self.close(
            ReasonCode.ADMINISTRATIVE_ACTION,
            "an operator ended the connection",
            session_expiry=0 if ends_session else None,
        )

    def take_over(self, epoch: int | None = None) -> None:
        """Another connection has this client id now (3.1.4-3); `epoch`: on another gateway, as its record says."""
        if epoch is not None:
            self.taken_epoch = max(self.taken_epoch, epoch)
            if self.session is None or self.session.record.epoch >= epoch:
                return  # told of an earlier session, or too early: it is looked at when the session is there
        self._give_up("another connection took this client id", is_fenced=epoch is not None)

    def fenced(self) -> None:
        """Another gateway has the session: nothing of it is ours to write any more."""
        self.publishing.give_up()
        self._give_up("another gateway took this client id", is_fenced=True)

    def _give_up(self, text: str, *, is_fenced: bool) -> None:
        machine = self.machine
        # CONNACK has no word for it (table 3-1): who is not accepted yet may try again
        closing = Closing(ReasonCode.SESSION_TAKEN_OVER if machine.is_open else ReasonCode.SERVER_BUSY, text)
        if not machine.is_closed:
            closing = machine.close(closing.reason, closing.text)
        self.end(closing, is_taken=True, is_fenced=is_fenced)

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call back once what is left of this connection in the session's record is durable."""
        if self._is_gone:
            callback()
        else:
            self._when_gone = [*(self._when_gone or ()), callback]

    def gone(self) -> None:
        """The session is somebody else's to have."""
        self._is_gone = True
        self.frontend.unregister(self)
        told, self._when_gone = self._when_gone, None
        for callback in told or ():
            callback()
        self._let_go()

    def _let_go(self) -> None:
        """Part from what refers back, once neither socket nor session is left: all of it is freed at once then, and
        need not wait for a collection.  Late calls of a part meet a conversation that is over."""
        if not self._is_gone or self.driver is not None:
            return
        departed = self.frontend.departed
        for part in (self.outbox, self.publishing, self.subscribing):
            part.let_go(departed)
        self._connecting = self.pace = self.trace = None
        self.machine.observe = None
        if self.session is not None:
            self.session.let_go()

    def end(self, closing: Closing, *, is_taken: bool = False, is_fenced: bool = False) -> None:
        """The connection is over, whoever ended it: once."""
        if self._is_ended:
            return
        self._is_ended = True
        if not closing.is_clients:
            log.info(
                "connection closed by the server",
                seldom=f"mqtt {closing.reason.name}",
                protocol="mqtt",
                client_id=self.client_id,
                peer=self.peer,
                reason=closing.reason.name,
                text=closing.text,
            )
        if self.ordering is not None:
            self.ordering.finish()
        session = self.session
        if session is not None:
            self._leave(session)
            if is_taken:  # what was not answered is published again by the connection that comes now
                self.publishing.give_up()
            self.frontend.depart(self, session, closing, is_taken=is_taken, is_fenced=is_fenced)
        elif self._connecting is None or self._connecting.is_over:
            self.gone()
        if self.driver is not None:
            self.driver.close()

    def _leave(self, session: Session) -> None:
        """Stop receiving; where the session had read to is known before."""
        if session.persists:
            cursors = self.subscribing.positions()
            session.positions = lambda: cursors
        self.subscribing.close()
        self.lagging = None
        self.outbox.close()

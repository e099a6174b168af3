"""Outbox: messages to one client: live, catch-up, retained and shared ones.

Above QoS 0 a message needs room in the client's window.  Without room it waits here, up to a limit of messages and of
bytes, and beyond that in the log.  No more is written at once than may wait for the socket.  For a persistent session,
nothing above QoS 0 is sent before its record is durable, so that any gateway can resend it with its identifier.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from entrepot.domain.message import StoredMessage
from entrepot.gateway.mqtt.connections.backlog import Backlog, Waiting
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.fan_out.audience import QueueKey, Run
from entrepot.gateway.mqtt.sessions.record import SENT, OutgoingRecord
from entrepot.gateway.transport.driver import Driver
from entrepot.protocols.mqtt.encoder import PublishTemplate

NOT_IN_A_QUEUE = -1
"""Queue id of a retained message in flight, which lies in the key-values under its name."""


class Outbox:
    """One client's output.  `holds`: number of reasons to pause sending, such as a SUBACK that must come first.
    `on_room`: called when nothing waits any more."""

    __slots__ = (
        "_backlog",
        "_client",
        "_empty",
        "_not_durable",
        "_resends",
        "_services",
        "holds",
        "on_room",
    )

    def __init__(self, services: MqttServices, client: MqttClient) -> None:
        self._services, self._client = services, client
        self.on_room: Callable[[], None] | None = None
        self._backlog: Backlog | None = None
        self._not_durable = 0
        """Bytes of packets waiting for their record."""
        self._resends: deque[bytes] | None = None
        self._empty: list[asyncio.Future[None]] | None = None
        self.holds = 0

    @property
    def has_backlog(self) -> bool:
        """True if a live message has to wait."""
        return self.is_busy or (self._backlog is not None and self._backlog.is_holding)

    @property
    def is_busy(self) -> bool:
        """True if also a message has to wait that goes before live ones: a retained one, or one of a share."""
        if (self._backlog is not None and self._backlog.first is not None) or self._resends or self.holds > 0:
            return True
        return self._not_durable > 0 and self._is_journal_behind()

    def _is_journal_behind(self) -> bool:
        """True if as much waits for its record as may wait for the socket."""
        driver = self._client.driver
        return driver is not None and self._not_durable >= driver.write_limit

    @property
    def waiting(self) -> int:
        """Number of waiting messages."""
        return len(self._backlog or ()) + len(self._resends or ())

    @property
    def waiting_bytes(self) -> tuple[int, int]:
        """Bytes of messages that wait for room, and of packets that wait for their record."""
        return 0 if self._backlog is None else self._backlog.size_bytes, self._not_durable

    # -- what comes from the log -------------------------------------------------------------------------------------

    def deliver(self, run: Run, replay: str = "") -> int:
        """Send or queue messages; return the number of those accepted, from the beginning of the run."""
        client = self._client
        machine, driver = client.machine, client.driver
        if driver is None or not machine.is_open:
            return len(run.messages)
        if run.size > driver.write_limit and len(run.messages) > 1:
            return self._deliver_in_pieces(run, driver, replay)
        if run.data is not None and not self.has_backlog:
            if driver.is_congested:
                self._services.counters.drop(client, len(run.messages))
            elif not machine.has_aliases and run.largest <= machine.max_packet_to_client:
                machine.send(run.data)
                client.messages_out += len(run.messages)
            else:
                for template in run.templates:
                    self.send_plain(template)
            return len(run.messages)
        sent = 0
        if not self.has_backlog and not driver.is_congested:
            sent = self._send_run(run, replay)
            if sent == len(run.messages):
                return sent
        return sent + self._queue(run, sent, replay)

    def _deliver_in_pieces(self, run: Run, driver: Driver, replay: str) -> int:
        """Send a run larger than the socket's buffer in pieces, checking the socket after each."""
        taken = 0
        for piece in run.pieces(driver.write_limit):
            count = self.deliver(piece, replay)
            taken += count
            self._client.flush()
            if count < len(piece.messages):
                break
        return taken

    def send_plain(self, template: PublishTemplate) -> None:
        packet = self._client.machine.deliver(template)
        if packet is None:
            self._services.counters.pass_over(self._client, template.size)
            return
        self._client.machine.send(packet)
        self._client.messages_out += 1

    def _send_run(self, run: Run, replay: str) -> int:
        """Send as many as the window has room for, with none waiting before them."""
        client = self._client
        session = client.session
        if session is not None and session.persists:
            return self._send_kept(run, replay)
        machine = client.machine
        window, room, at = machine.window, machine.window.room, 0
        largest = machine.max_packet_to_client
        if machine.has_aliases or run.largest > largest:
            for template in run.templates:
                if template.qos and window.room <= 0:
                    return at
                self.send_plain(template)
                at += 1
            return at
        if run.qos and len(run.templates) <= room:
            first = window.take_run(run.qos, len(run.templates))
            if first:
                machine.send(run.packets_from(first))
                client.messages_out += len(run.templates)
                return len(run.templates)
        send, take = machine.send, window.take
        for template in run.templates:
            if template.qos:
                if not room:
                    break
                room -= 1
                send(template.packet(take(template.qos, None)))
            else:
                send(template.head)
            at += 1
        client.messages_out += at
        return at

    def _send_kept(self, run: Run, replay: str) -> int:
        sent = self._send_kept_run(run, replay)
        if sent:
            return sent
        packets: list[bytes] = []
        at = 0
        window = self._client.machine.window
        for template, message in zip(run.templates, run.messages, strict=True):
            if template.qos and window.room <= 0:
                break
            at += 1
            retain = bool(template.head[0] & 1)
            packet = self.take_kept(Waiting(template, message, replay, True, run.identifiers, retain))
            if packet is not None:
                packets.append(packet)
        self._send_durable(packets)
        return at

    def _send_kept_run(self, run: Run, replay: str) -> int:
        """Send a uniform run at once: one QoS, with room and consecutive identifiers.  Return 0 if it is not such a
        run."""
        machine, session = self._client.machine, self._client.session
        count = len(run.templates)
        if not run.qos or count > machine.window.room or machine.has_aliases:
            return 0
        if run.largest > machine.max_packet_to_client:
            return 0
        first = machine.window.take_run(run.qos, count)
        if not first:
            return 0
        assert session is not None
        qos, identifiers = run.qos, run.identifiers
        machine.window.held.update(
            (
                packet_id,
                OutgoingRecord(
                    packet_id,
                    message.topic,
                    message.queue_id,
                    message.queue_offset,
                    qos,
                    SENT,
                    bool(template.head[0] & 1),
                    identifiers,
                ),
            )
            for packet_id, (message, template) in enumerate(zip(run.messages, run.templates, strict=True), first)
        )
        last = run.messages[-1]
        session.moved(replay, last.topic, last.queue_id, last.queue_offset + 1)
        self._send_durable([run.packets_from(first)])
        return count

    def take_kept(self, waiting: Waiting) -> bytes | None:
        """Put a message in the window of a persistent session."""
        template, message = waiting.template, waiting.message
        machine, session = self._client.machine, self._client.session
        assert session is not None
        if waiting.is_stored:
            session.moved(waiting.replay, message.topic, message.queue_id, message.queue_offset + 1)
        packet = machine.deliver(template, is_sent_next=False)
        if packet is None:
            self._services.counters.pass_over(self._client, template.size)
        if packet is None or not template.qos:
            return packet
        packet_id = machine.window.next_id
        stored = (message.topic, message.queue_id, message.queue_offset)
        place = stored if waiting.is_stored else (message.sub_topic, NOT_IN_A_QUEUE, 0)
        machine.window.held[packet_id] = OutgoingRecord(
            packet_id, *place, template.qos, retain=waiting.retain, identifiers=waiting.identifiers
        )
        return packet

    def _send_durable(self, packets: list[bytes]) -> None:
        session = self._client.session
        assert session is not None
        if packets:
            size = sum(map(len, packets))
            self._not_durable += size
            session.after_durable(partial(self._release, packets, size), window=True)

    def send_held(self, packet: bytes) -> None:
        """Send a packet that waited elsewhere for its record."""
        self._not_durable += len(packet)
        self._release([packet], len(packet))

    def _release(self, packets: list[bytes], size: int) -> None:
        was_behind = self._is_journal_behind()
        self._not_durable -= size
        send = self._client.machine.send
        for packet in packets:
            send(packet)
        self._client.messages_out += len(packets)
        self._client.flush()
        if self._client.driver is not None:
            self._client.driver.delivered()
        if was_behind and not self._is_journal_behind():
            self.drain()

    def _queue(self, run: Run, start: int, replay: str) -> int:
        """Queue the rest as far as there is room; drop messages of QoS 0 instead."""
        client, backlog, settings = self._client, self._waiting_ones(), self._services.settings
        most, room = settings.max_queued_messages, settings.max_queued_bytes
        dropped, at = 0, start
        is_congested = client.driver is not None and client.driver.is_congested
        for template, message in zip(run.templates[start:], run.messages[start:], strict=True):
            is_full = not backlog.has_room(most, room, template.size)
            if is_full and backlog.is_holding:  # better out of order with retained messages than lost
                backlog = self._let_go(backlog)
                is_full = not backlog.has_room(most, room, template.size)
            if not template.qos and (is_congested or is_full):
                dropped += 1
            elif is_full:
                break
            else:
                retain = bool(template.head[0] & 1)
                backlog.add(Waiting(template, message, replay, True, run.identifiers, retain))
            at += 1
        if dropped:
            self._services.counters.drop(client, dropped)
        return at - start

    def _waiting_ones(self) -> Backlog:
        if self._backlog is None:
            self._backlog = Backlog()
        return self._backlog

    # -- retained and shared messages -----------------------------------------------------------------------------

    def hold_back(self) -> None:
        """Let live messages wait for retained ones, up to the limit of those that may wait."""
        self._waiting_ones().hold_back()

    def go_on(self) -> None:
        """Send live messages again: no retained ones are to come."""
        if self._backlog is not None:
            self._backlog.let_go()
        self.drain()
        self._client.flush()

    def _let_go(self, backlog: Backlog) -> Backlog:
        backlog.let_go()
        if not self.holds:
            self._send_waiting()
        self._services.loop.call_soon(self.go_on)  # who waits for room is told later: a delivery is under way
        return self._waiting_ones()

    def deliver_retained(self, messages: Sequence[tuple[PublishTemplate, StoredMessage, tuple[int, ...]]]) -> None:
        """Send or queue retained messages, each with its template and subscription identifiers.  None is dropped: the
        caller awaits `emptied` in between."""
        if not self._client.machine.is_open:
            return
        backlog = self._waiting_ones()
        for template, message, identifiers in messages:
            backlog.add_retained(Waiting(template, message, "", False, identifiers, True))
        self.drain()

    async def emptied(self) -> None:
        """Wait until nothing waits here but live messages after retained ones, or the connection is over."""
        while self.is_busy and self._client.machine.is_open:
            future = asyncio.get_running_loop().create_future()
            self._empty = [*(self._empty or ()), future]
            await future

    # -- the backlog -------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Send waiting messages as far as there is room."""
        client = self._client
        machine, driver = client.machine, client.driver
        if driver is None or not machine.is_open or self.holds:
            return
        self._send_waiting()
        if not self.is_busy:
            if self._empty is not None:
                self._wake()
            if self.on_room is not None:
                self.on_room()

    def _send_waiting(self) -> None:
        self._send_again()
        backlog = self._backlog
        if backlog is not None:
            if not self._resends:
                self._drain_backlog(backlog)
            if not backlog and not backlog.is_holding:
                self._backlog = None

    def _drain_backlog(self, backlog: Backlog) -> None:
        client = self._client
        machine, driver, session = client.machine, client.driver, client.session
        assert driver is not None
        is_kept = session is not None and session.persists
        durable: list[bytes] = []
        while (waiting := backlog.first) is not None and not driver.is_congested:
            if waiting.template.qos and machine.window.room <= 0:
                break
            backlog.take()
            if is_kept and (waiting.template.qos or durable):
                packet = self.take_kept(waiting)
                if packet is not None:
                    durable.append(packet)
            else:
                self.send_plain(waiting.template)
        if durable:
            self._send_durable(durable)

    def _wake(self) -> None:
        waiting, self._empty = self._empty, None
        for future in waiting or ():
            if not future.done():
                future.set_result(None)

    def send_again(self, packets: list[bytes]) -> None:
        """Resend packets that an earlier connection left unacknowledged, in order, within the client's receive
        maximum."""
        self._resends = deque(packets)
        self._send_again()

    def _send_again(self) -> None:
        resends = self._resends
        if resends is None:
            return
        window = self._client.machine.window
        room = window.maximum - (len(window.held) - len(resends))
        while resends and room > 0:
            self._client.machine.send(resends.popleft())
            self._client.messages_out += 1
            room -= 1
        if not resends:
            self._resends = None

    def first_waiting(self, replay: str) -> dict[QueueKey, int]:
        """Offset of the first waiting message above QoS 0 in each queue of one reader."""
        return {} if self._backlog is None else self._backlog.first_offsets(replay)

    def close(self) -> None:
        """Drop all waiting messages, because the connection is over."""
        self._backlog = self._resends = self.on_room = None
        self._wake()

"""Connecting: from CONNECT to CONNACK: authentication, limits, and the client's session.

Nothing but AUTH is sent before CONNACK (3.2.0-1), and CONNACK reports durable state only.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Any, Final, Protocol

import structlog

from entrepot.domain.access.model import Principal
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage, place_of_message
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.mqtt.connections.accepted_publish import refusal_of
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.counters import PART as COUNTED_AS
from entrepot.gateway.mqtt.connections.outbox import NOT_IN_A_QUEUE
from entrepot.gateway.mqtt.connections.registry import ClientRegistry
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.fan_out.audience import Grant, encoded
from entrepot.gateway.mqtt.sessions.opening import Arrival
from entrepot.gateway.mqtt.sessions.record import NEVER_EXPIRES, RELEASED, OutgoingRecord, WillRecord
from entrepot.gateway.mqtt.sessions.session import Session
from entrepot.gateway.mqtt.shares.pump import PART
from entrepot.gateway.security.scram import ScramExchange
from entrepot.protocols.mqtt.connection_events import Closing
from entrepot.protocols.mqtt.outgoing import RESTORED
from entrepot.protocols.mqtt.packets import Auth, Connect, Publish
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode

SCRAM: Final = "SCRAM-SHA-256"
"""The one method of enhanced authentication."""

log = structlog.get_logger(__name__)

_REFUSALS: Final = {
    Code.UNAUTHORIZED: ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    Code.FORBIDDEN: ReasonCode.NOT_AUTHORIZED,
    Code.TOO_MANY_REQUESTS: ReasonCode.SERVER_BUSY,
    Code.STORAGE_FULL: ReasonCode.QUOTA_EXCEEDED,
}
"""Reason codes of CONNACK; any other error means that the server is unavailable."""


MAX_CLIENT_ID_BYTES: Final = 1024


class Connection(Protocol):
    """CONNECT's view of its connection."""

    client: MqttClient
    taken_epoch: int
    """Epoch of the session at the gateway that has taken it over; 0 for none."""

    def refusal(self, connect: Connect) -> tuple[ReasonCode, str] | None:
        """The reason for the gateway to refuse this CONNECT now, or None."""

    def accepted(self, session: Session, resends: list[bytes], expires_at: float) -> None:
        """Note that CONNACK is sent.  `resends`: packets that an earlier connection left unacknowledged."""

    def end(self, closing: Closing) -> None:
        """End the connection."""

    def gone(self) -> None:
        """Note that nothing of the connection is left to be written."""

    def depart_unseen(self, session: Session) -> None:
        """Leave a session that was opened after the connection ended."""

    def fenced(self) -> None:
        """Note that another gateway has the session."""

    def unwritable(self, reason: EntrepotError) -> None:
        """Note that the session cannot be written as it is."""


class Connecting:
    """The CONNECT of one connection."""

    __slots__ = (
        "_client",
        "_connect",
        "_connection",
        "_exchange",
        "_final",
        "_is_again",
        "_registry",
        "_services",
        "is_over",
    )

    def __init__(
        self, services: MqttServices, registry: ClientRegistry[Any], connection: Connection, connect: Connect
    ) -> None:
        self._services, self._registry, self._connection = services, registry, connection
        self._client = connection.client
        self._connect = connect
        self._exchange: ScramExchange | None = None
        self._final: bytes | None = None
        self._is_again = False
        self.is_over = False

    def start(self) -> None:
        """Begin with CONNECT; its answer comes later."""
        refusal = self._refusal()
        if refusal is not None:
            self._refuse(*refusal)
            return
        if self._client.machine.method is not None:
            self._begin_exchange()
        else:
            self._services.tasks.spawn(self._decide(None))

    def _refusal(self) -> tuple[ReasonCode, str] | None:
        """The reason to refuse CONNECT, whoever the client is; or None."""
        connect = self._connect
        if not connect.client_id and connect.version < 5 and (connect.version == 3 or not connect.clean_start):
            return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "an empty client id needs a clean session"  # 3.1.3-8
        if len(connect.client_id.encode()) > MAX_CLIENT_ID_BYTES:
            return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "the client id is too long"
        method = self._client.machine.method
        if method is not None and method != SCRAM:
            return ReasonCode.BAD_AUTHENTICATION_METHOD, f"{SCRAM} is the method there is"
        return self._connection.refusal(connect)

    def _will_problem(self, principal: Principal) -> tuple[ReasonCode, str] | None:
        """The reason why the client may not publish its will, or None."""
        will = self._connect.will
        if will is None:
            return None
        as_publish = Publish(will.topic, will.payload, will.qos, 0, will.retain, False, will.properties)
        return refusal_of(self._services, principal, as_publish)

    def _refuse(self, reason: ReasonCode, text: str) -> None:
        self.is_over = True
        services, machine = self._services, self._client.machine
        if not machine.is_closed:
            reference = services.settings.server_reference if reason == ReasonCode.USE_ANOTHER_SERVER else ""
            services.counters.connects[machine.version, reason.name.lower()] += 1
            services.history.refused(self._client, self._connect, reason, text)
            self._connection.end(machine.refuse(reason, text, reference))
        self._connection.gone()

    def _refuse_will(self, reason: ReasonCode, text: str) -> None:
        connect, incidents = self._connect, self._services.sender.incidents
        name = "" if connect.will is None else connect.will.topic
        what = f"{reason.name}: the will: {text}"
        incidents.note(COUNTED_AS, Outcome.REFUSED, what, place=name, client=connect.client_id)
        self._refuse(reason, text)

    # -- authentication ------------------------------------------------------------------------------------------

    def _begin_exchange(self) -> None:
        self._exchange = self._new_exchange()
        data = self._connect.properties.get(PropertyId.AUTHENTICATION_DATA)
        if data is None:
            self._challenge(None)
        else:
            self._step(data)

    def _new_exchange(self) -> ScramExchange:
        access = self._services.access
        return access.exchange(access.credentials(self._client, self._connect))

    def authenticate(self, packet: Auth) -> None:
        """Handle the client's AUTH: a step of CONNECT's exchange, or a re-authentication (4.12.1)."""
        if packet.reason == ReasonCode.RE_AUTHENTICATE:
            self._is_again = True
            self._exchange = self._new_exchange()
        self._step(packet.properties.get(PropertyId.AUTHENTICATION_DATA, b""))

    def _step(self, data: bytes) -> None:
        client, exchange = self._client, self._exchange
        if exchange is None:
            self._fail(ReasonCode.PROTOCOL_ERROR, "AUTH where no exchange is under way")
            return
        try:
            answer, principal = exchange.step(data)
        except EntrepotError as error:
            self._fail(ReasonCode.NOT_AUTHORIZED, error.message)
            return
        if principal is None:
            self._challenge(answer)
            return
        self._exchange = None
        if not self._is_again:
            self._final = answer
            self._services.tasks.spawn(self._decide(principal))
        elif client.principal is None or principal.name != client.principal.name:
            self._fail(ReasonCode.NOT_AUTHORIZED, "the client authenticated as somebody else")
        else:
            client.principal = principal
            if not client.machine.authenticated_again(answer):
                self._fail(ReasonCode.PACKET_TOO_LARGE, "AUTH is larger than the client takes")

    def _challenge(self, data: bytes | None) -> None:
        if self._client.machine.challenge(data):
            self._client.flush()
        else:
            self._fail(ReasonCode.PACKET_TOO_LARGE, "AUTH is larger than the client takes")

    def _fail(self, reason: ReasonCode, text: str) -> None:
        if self._is_again or self.is_over:
            self._client.close(reason, text)
        else:
            self._refuse(reason, text)

    # -- the session ---------------------------------------------------------------------------------------------

    async def _decide(self, principal: Principal | None) -> None:
        client, connect, services = self._client, self._connect, self._services
        session: Session | None = None
        try:
            if principal is None:
                principal = await services.access.authenticate(client, connect)
            client.principal = principal
            will, problem = _will_record(connect), self._will_problem(principal)
            if problem is not None and connect.version == 5:  # CONNACK has a code for it (table 3-1)
                self._refuse_will(*problem)
                return
            client.client_id = connect.client_id or f"entrepot-{secrets.token_hex(10)}"  # 3.1.3-6
            replaced = self._registry.of(client.client_id)
            refused = services.admission.enter(client, principal, None if replaced is None else replaced.client)
            if refused is not None:
                self._refuse(*refused)
                return
            if will is not None and problem is not None:  # version 3: refused, it would come again for ever
                services.counters.refuse(client, will.topic, f"the will: {problem[1]}", problem[0])
                will = None
            await self._registry.claim(self._connection)
            # also for a connection that is gone by now: the one it took over has left the session to it
            session = await services.sessions.open(
                Arrival(
                    client.client_id,
                    connect.version,
                    connect.clean_start,
                    self._expiry(),
                    will,
                    client.user,
                    client.peer,
                )
            )
            await self._accept(session)
        except EntrepotError as error:
            kind = f"mqtt {error.code.name}"
            log.info("a connection was refused", seldom=kind, client_id=connect.client_id[:80], reason=error.message)
            self._refuse(_REFUSALS.get(error.code, ReasonCode.SERVER_UNAVAILABLE), error.message)
        except Exception as error:
            kind = type(error).__name__
            log.exception("a CONNECT could not be decided", seldom=kind, client_id=connect.client_id[:80])
            self._refuse(ReasonCode.UNSPECIFIED_ERROR, "CONNECT could not be decided")
        finally:
            self.is_over = True
            if client.machine.is_closed and client.session is None:
                if session is None:
                    self._connection.gone()
                else:
                    self._connection.depart_unseen(session)

    def _expiry(self) -> int:
        """Session expiry interval, in seconds."""
        connect, most = self._connect, self._services.max_session_expiry_seconds
        if connect.version < 5:
            return 0 if connect.clean_start else most
        wanted: int = connect.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL, 0)
        return min(wanted, most)

    async def _accept(self, session: Session) -> None:
        connection, connect, services = self._connection, self._connect, self._services
        resends = await self._resends(session)
        machine = self._client.machine
        if machine.is_closed:
            return
        self._client.session = session
        if connection.taken_epoch > session.record.epoch:
            connection.fenced()
            return
        session.on_fenced, session.on_refused = connection.fenced, connection.unwritable
        session.window = machine.window
        closing = machine.accept(connect, session.is_present and connect.version > 3, self._granted(session))
        if closing is not None:
            closing.publishes_will = False  # 3.1.2-8: a will needs an accepted connection
            closing.session_expiry = None if session.is_present else 0
            services.counters.connects[machine.version, closing.reason.name.lower()] += 1
            connection.end(closing)
            return
        services.counters.connects[machine.version, "accepted"] += 1
        self._client.connected_at_ms = session.record.connected_at_ms
        services.history.connected(self._client, is_session_present=session.is_present)
        window, restored = machine.window, session.restored
        window.next_id = restored.next_id
        if session.message_ids:
            machine.incoming = dict.fromkeys(session.message_ids, RESTORED)
        packets: list[bytes] = []
        for record, packet in resends:
            window.held[record.packet_id] = record
            if record.state == RELEASED:
                window.released.add(record.packet_id)
            elif record.qos == 2:
                window.unreceived.add(record.packet_id)
            if packet:
                packets.append(packet)
            else:
                window.maximum += 1  # withheld: what is not sent takes no room of the client
        connection.accepted(session, packets, services.access.expires_at(self._client))

    def _granted(self, session: Session) -> dict[PropertyId, Any]:
        """CONNACK properties for values that the client did not ask for, or not like that."""
        connect, client_id = self._connect, self._client.client_id
        granted: dict[PropertyId, Any] = {}
        if not connect.client_id:
            granted[PropertyId.ASSIGNED_CLIENT_IDENTIFIER] = client_id
        expiry = session.record.expiry_seconds
        if connect.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL, 0) != expiry:
            granted[PropertyId.SESSION_EXPIRY_INTERVAL] = expiry
        if connect.properties.get(PropertyId.REQUEST_RESPONSE_INFORMATION):
            prefix = self._services.settings.response_topic_prefix
            if prefix:
                granted[PropertyId.RESPONSE_INFORMATION] = f"{prefix}/{client_id}"
        if self._final is not None:
            granted[PropertyId.AUTHENTICATION_DATA] = self._final
        return granted

    # -- unacknowledged packets of an earlier connection --------------------------------------------------------------

    async def _resends(self, session: Session) -> list[tuple[OutgoingRecord, bytes]]:
        """Return in-flight records with their packets to resend, in sending order (4.4.0-1), without those whose
        message is gone. The packet of a withheld one is empty."""
        outgoing = session.restored.outgoing
        if not outgoing:
            return []
        packets = await asyncio.gather(*(self._resend(record) for record in outgoing))
        return [(record, packet) for record, packet in zip(outgoing, packets, strict=True) if packet is not None]

    async def _resend(self, record: OutgoingRecord) -> bytes | None:
        machine = self._client.machine
        if record.state == RELEASED:
            return machine.release([record.packet_id])
        message = await self._message(record)
        if message is None:
            return None
        grant = Grant(record.qos, True, record.identifiers)
        now_ms = self._services.clock.now_ms()
        unsaid, again = self._services.hub.incidents.unsaid, replace(message, qos=record.qos)
        template = encoded(again, grant, machine.version == 5, now_ms, unsaid, retain=record.retain)
        if template.size <= machine.max_packet_to_client:
            return template.packet_again(record.packet_id)
        return self._withheld(message, template.size) if record.is_shared else None

    def _withheld(self, message: StoredMessage, size: int) -> bytes:
        """Nothing to send: the session keeps the message for a connection with larger packets. Discarding it, as other
        messages (3.1.2-25), would lose it, since no other member of its share may have it (4.8.2-5)."""
        limit = self._client.machine.max_packet_to_client
        reason = f"a PUBLISH of {size} bytes exceeds the client's Maximum Packet Size of {limit}: its session keeps it"
        place, client_id = place_of_message(message), self._client.client_id
        self._services.hub.incidents.note(PART, Outcome.SET_ASIDE, reason, place=place, client=client_id)
        return b""

    async def _message(self, record: OutgoingRecord) -> StoredMessage | None:
        services = self._services
        try:
            if record.queue_id == NOT_IN_A_QUEUE:
                found: list[StoredMessage] = list(await services.retained.read([record.topic]))
            else:
                found = await services.store.messages.read(record.topic, record.queue_id, record.queue_offset, 1)
        except EntrepotError as error:
            if error.code in (Code.TOPIC_NOT_FOUND, Code.ILLEGAL_OFFSET, Code.MESSAGE_CORRUPTED):
                if services.may_come(record.topic, record.queue_id):
                    text = f"queue {record.queue_id} of topic {record.topic!r} is not known yet"
                    raise EntrepotError(Code.UNAVAILABLE, text) from error
                log.warning("a message in flight is gone", topic=record.topic, problem=error.message)
                return None
            raise
        return found[0] if found else None


def _will_record(connect: Connect) -> WillRecord | None:
    will = connect.will
    if will is None:
        return None
    properties = {int(key): value for key, value in will.properties.items() if key != PropertyId.WILL_DELAY_INTERVAL}
    delay: int = will.properties.get(PropertyId.WILL_DELAY_INTERVAL, 0)
    return WillRecord(will.topic, will.payload, will.qos, will.retain, properties, min(delay, NEVER_EXPIRES))

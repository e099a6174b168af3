"""MQTT sessions of all gateways, connected or not: list, show, end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.gateway.operations.local_views.mqtt import (
    MAX_LIMIT,
    MAX_TEXT,
    SubscribedFilter,
    required_mqtt,
    subscribed_filter,
    version_name,
)
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Continued, Flag, PlainName, Query, Shown, Time, shown_as
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.gateway.mqtt.connections.conversation import MqttConversation
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.mqtt.sessions.record import SessionRecord

MAX_CURSOR: Final = 2000
END_SECONDS: Final = 10.0
"""Longest wait for a durable end of a connection, in seconds."""
_TIME: Final = "2026-12-01T08:00:00.000Z"


class SessionShown(Shown, frozen=True):
    """An MQTT session of any gateway"""

    id: str
    user: str | None
    version: str
    connected: bool
    gateway: str | None
    address: str | None
    connected_since: Time | None
    disconnected_since: Time | None
    session_expiry: int
    expires_at: Time | None
    subscription_count: int
    will: str | None
    will_at: Time | None


shown_as(
    SessionShown(
        "line-1",
        "bob",
        "5.0",
        True,
        "gateway-1",
        "192.0.2.7:40112",
        _TIME,
        _TIME,
        session_expiry=3600,
        expires_at=_TIME,
        subscription_count=2,
        will="factory/line1/gone",
        will_at=_TIME,
    )
)


class WholeSessionShown(SessionShown, frozen=True):
    """The same with its subscriptions, and how many messages are on their way"""

    in_flight: int
    half_received: int
    subscriptions: list[SubscribedFilter]


class SessionsAsked(Query, frozen=True):
    prefix: Annotated[
        str,
        Meta(max_length=MAX_TEXT, description="Prefix of the client ids"),
        Flag("Prefix of the client ids."),
    ] = ""
    connected: Annotated[
        bool | None,
        Meta(description="Only sessions with a connection, or only those without"),
        Flag("List only sessions with a connection, or without.", name="--connected/--away"),
    ] = None
    after: Annotated[
        str,
        Meta(max_length=MAX_CURSOR, description="Value of `next` in an earlier list, to continue there"),
        Flag("Last client id of an earlier list, to continue there."),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Flag("Maximum number of sessions.")] = 100


_COLUMNS: Final = ("id", "user", "version", "connected", "gateway", "expiresAt", "subscriptionCount", "will")
SESSIONS: Final = Noun("sessions", "/sessions", "session", "MQTT sessions, connected or not.")


class Sessions:
    """The operations of sessions."""

    def __init__(self, mqtt: MqttFrontend | None) -> None:
        self._mqtt = mqtt

    @SESSIONS.get(
        "",
        "listSessions",
        "List sessions of all gateways, connected or not",
        cluster(Action.LIST),
        shows={"next": "line-2"},
        words=Words(
            "list",
            "List sessions of all gateways.",
            columns=_COLUMNS,
            continued_by="--after",
        ),
    )
    async def listed(self, query: SessionsAsked) -> Continued[SessionShown]:
        operations = required_mqtt(self._mqtt).session_operations
        found, more = await operations.list(query.after, query.limit, query.prefix, connected=query.connected)
        return Continued([SessionShown(**_head(record)) for record in found], more)

    @SESSIONS.get(
        "/{id}",
        "getSession",
        "Get a session with its subscriptions",
        cluster(Action.GET),
        shows={"inFlight": 1, "halfReceived": 0},
    )
    async def show(self, id_: PlainName) -> WholeSessionShown:
        operations = required_mqtt(self._mqtt).session_operations
        record = await operations.get(id_)
        if record is None:
            raise _missing(id_)
        outgoing, incoming = await operations.in_flight(id_)
        subscriptions = [subscribed_filter(each) for each in record.subscriptions]
        return WholeSessionShown(
            **_head(record), in_flight=outgoing, half_received=incoming, subscriptions=subscriptions
        )

    @SESSIONS.delete(
        "/{id}",
        "endSession",
        "Delete a session; a connected client is disconnected",
        cluster(Action.UPDATE),
        words=Words(
            "delete",
            "Delete a session: the client loses its waiting messages. Asks for confirmation.",
            outcome="session {id} ended",
            confirm="End the session of {id}?",
            shown_as={"id": "CLIENT"},
            keyed={"id": "session"},
        ),
    )
    async def end(self, id_: PlainName, asked: Asked) -> None:
        mqtt = required_mqtt(self._mqtt)
        here = mqtt.registry.of(id_)
        if here is None and await mqtt.session_operations.get(id_) is None:
            raise _missing(id_)
        if here is not None:
            await _end_here(here)
        owner = await mqtt.session_operations.end(id_)
        if owner is not None:  # another gateway's, or the client has just come back
            await mqtt.session_operations.kick(id_, owner, ends=True)
        asked.tell(f"MQTT session {id_}")


async def _end_here(conversation: MqttConversation) -> None:
    """Disconnect a client of this gateway and end its session.  Raises UNAVAILABLE after END_SECONDS."""
    import asyncio  # no command pays for it

    gone = asyncio.Event()
    conversation.when_gone(gone.set)
    conversation.kick(ends_session=True)
    try:
        async with asyncio.timeout(END_SECONDS):
            await gone.wait()
    except TimeoutError:
        raise EntrepotError(Code.UNAVAILABLE, "the session's end is not durable yet: try again") from None


def _missing(client_id: str) -> MissingError:
    return MissingError("session-not-found", "There is no such session", f"{client_id[:80]!r} has no session")


def _head(record: SessionRecord) -> dict[str, Any]:
    """Return the fields that a list shows of a session, too."""
    return {
        "id": record.client_id,
        "user": record.user or None,
        "version": version_name(record.version),
        "connected": bool(record.owner),
        "gateway": record.owner or None,
        "address": record.source or None,
        "connected_since": time_shape(record.connected_at_ms) if record.owner else None,
        "disconnected_since": time_shape(record.disconnected_at_ms) if not record.owner else None,
        "session_expiry": record.expiry_seconds,
        "expires_at": time_shape(min(record.expires_at_ms, MAX_EPOCH_MS)),
        "subscription_count": len(record.subscriptions),
        "will": None if record.will is None else record.will.topic,
        "will_at": time_shape(record.will_at_ms),
    }

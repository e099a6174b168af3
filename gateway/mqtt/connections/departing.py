"""Departing: a session's update after its connection has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.publishing import Publishing
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.sessions.lifecycle import depart
from entrepot.gateway.mqtt.sessions.session import Session
from entrepot.protocols.mqtt.connection_events import Closing

log = structlog.get_logger(__name__)


def note_end(services: MqttServices, client: MqttClient, closing: Closing, *, is_taken: bool) -> None:
    """Log and note the end of a connection."""
    if client.session is not None:
        services.history.ended(client, closing, is_taken=is_taken)
    if not closing.is_clients:
        log.info(
            "connection closed by the server",
            seldom=f"mqtt {closing.reason.name}",
            protocol="mqtt",
            client_id=client.client_id,
            peer=client.peer,
            reason=closing.reason.name,
            text=closing.text,
        )


async def hand_on(publishing: Publishing, session: Session, gone: Callable[[], None]) -> None:
    """Leave a session to the connection that takes it over.  `gone`: called once it may have the session."""
    await publishing.settle()
    session.end(gone, deletes=False)


async def leave(
    services: MqttServices, publishing: Publishing, session: Session, gone: Callable[[], None], *, keeps_will: bool
) -> None:
    """Write the connection's end to the session's record; publish a will that is due."""
    await publishing.settle()
    record = session.record
    will = depart(record, services.clock.now_ms(), keeps_will=keeps_will)
    if will is None:
        session.end(gone, deletes=not record.expiry_seconds)
        return
    wills, ended = services.sessions.wills, asyncio.Event()
    moved = wills.moved(session.name, record, will)
    session.end(ended.set, deletes=not record.expiry_seconds, moved=moved)
    await ended.wait()
    try:
        if not session.is_kept:
            await wills.publish_unmoved(record, will)
        elif not session.is_fenced:  # a fenced session's will belongs to its new owner
            await wills.publish([moved])
    finally:
        gone()

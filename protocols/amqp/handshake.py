"""The handshake's agreements: capabilities and limits."""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.protocols.amqp.connection_events import ConnectionLimits, Greeting
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.field_table import FieldTable
from entrepot.protocols.amqp.frames import FRAME_MIN_SIZE
from entrepot.protocols.amqp.methods_connection import ConnectionStart, ConnectionTune, ConnectionTuneOk
from entrepot.protocols.amqp.reply_codes import ReplyCode


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities that a client declares; a server must not use the others."""

    authentication_failure_close: bool = False
    connection_blocked: bool = False
    consumer_cancel_notify: bool = False


def capabilities_of(client_properties: FieldTable) -> Capabilities:
    """Return the client's capabilities; anything but true counts as absent."""
    given = client_properties.get("capabilities")
    if not isinstance(given, dict):
        return Capabilities()
    return Capabilities(
        authentication_failure_close=given.get("authentication_failure_close") is True,
        connection_blocked=given.get("connection.blocked") is True,
        consumer_cancel_notify=given.get("consumer_cancel_notify") is True,
    )


def start(greeting: Greeting) -> ConnectionStart:
    return ConnectionStart(0, 9, greeting.server_properties, greeting.mechanisms.encode(), greeting.locales.encode())


def offer(limits: ConnectionLimits) -> ConnectionTune:
    return ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_seconds)


@dataclass(frozen=True, slots=True)
class Tuned:
    """The limits in force.  `heartbeat_seconds` 0 = none."""

    channel_max: int
    frame_max: int
    heartbeat_seconds: int


def negotiate(limits: ConnectionLimits, wanted: ConnectionTuneOk) -> Tuned:
    """Return the limits after the client's answer: its lower values, ours where it has 0, and its heartbeat.  Raises
    NOT_ALLOWED for a frame_max above ours or below the minimum of every peer (4.2.3)."""
    frame_max = wanted.frame_max or limits.frame_max
    if frame_max > limits.frame_max:
        how = f"greater than the maximum allowed value ({limits.frame_max})"
    elif frame_max < FRAME_MIN_SIZE:
        how = f"lower than the minimum allowed value ({FRAME_MIN_SIZE})"
    else:
        channel_max = min(wanted.channel_max or limits.channel_max, limits.channel_max)
        return Tuned(channel_max, frame_max, wanted.heartbeat)
    text = f"negotiated frame_max = {frame_max} is {how}"
    raise AmqpError(ReplyCode.NOT_ALLOWED, text, wanted.class_id, wanted.method_id)

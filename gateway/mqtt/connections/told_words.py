"""Words in which operators are told of a client: kinds of events, and what a message in flight waits for."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """Kind of event in the life of a client."""

    CONNECTED = "connected"
    REFUSED = "refused"  # its CONNECT
    DENIED = "denied"  # a publish or subscription
    DISCONNECTED = "disconnected"  # by the client
    LOST = "lost"  # without a goodbye
    CLOSED = "closed"  # by the server
    TAKEN_OVER = "taken-over"  # by another connection of its client id


class Stage(StrEnum):
    """The client's answer that is due."""

    PUBLISHED = "PUBACK or PUBREC is due"
    RELEASED = "PUBCOMP is due"

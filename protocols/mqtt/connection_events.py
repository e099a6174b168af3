"""Events of a `ServerConnection`, and its limits."""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.protocols.mqtt.packets import Auth, Connect, Publish, Subscribe, Unsubscribe
from entrepot.protocols.mqtt.reason_codes import ReasonCode


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a connection.  Times in seconds."""

    max_packet_size_bytes: int = 4_259_840
    max_connect_size_bytes: int = 65_536
    receive_maximum: int = 1024
    max_inflight_messages: int = 1024
    keep_alive_max_seconds: int = 65_535
    connect_timeout_seconds: float = 10.0
    max_subscriptions: int = 1000
    topic_alias_maximum: int = 0
    """Aliases of each direction; 0 = none."""


@dataclass(slots=True)
class Publishes:
    """A run of PUBLISH packets, without repeated ones of QoS 2."""

    packets: list[Publish]


@dataclass(slots=True)
class Acknowledged:
    """Deliveries ended by PUBACK, PUBCOMP or a refusal: the window has room again.  `held`: the objects kept for
    them."""

    held: list[object]


@dataclass(slots=True)
class Received:
    """The client's receipt of QoS 2 messages (PUBREC): PUBREL is due."""

    packet_ids: list[int]


@dataclass(slots=True)
class Released:
    """The client's release of QoS 2 messages (PUBREL): PUBCOMP is due."""

    packet_ids: list[int]


@dataclass(slots=True)
class Closing:
    """The end of the connection.  `publishes_will`: the will is published (3.14.4-3: except after a normal DISCONNECT).
    `session_expiry`: a session expiry interval other than CONNECT's, in seconds (3.14.2.2.2)."""

    reason: ReasonCode
    text: str
    publishes_will: bool = True
    is_clients: bool = False
    session_expiry: int | None = None


Event = Connect | Publishes | Acknowledged | Received | Released | Subscribe | Unsubscribe | Auth | Closing

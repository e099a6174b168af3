"""The control packets as values (MQTT 5.0 chapter 3).  One is made per packet on the hottest path, hence `slots` and
no freezing; treat them as values all the same.  In versions 3 and 4 properties and most reason codes keep their
defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from entrepot.protocols.mqtt.properties import EMPTY, Properties
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode

BRIDGE_BIT: Final = 0x80
"""Bit of CONNECT's protocol level for a bridge, before version 5."""


@dataclass(slots=True)
class Will:
    """The message to publish when the connection ends badly (3.1.2.5)."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = EMPTY


@dataclass(slots=True)
class Connect:
    """A client's first packet (3.1).  `version` is the protocol level: 3, 4 or 5.  `is_bridge`: the client says that it
    is a bridge, in the level's highest bit, as mosquitto's bridges do in 3.1 and 3.1.1."""

    client_id: str
    version: int = 5
    clean_start: bool = True
    keep_alive: int = 0
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = EMPTY
    is_bridge: bool = False


@dataclass(slots=True)
class Connack:
    """The server's answer to CONNECT (3.2); the kind of `reason` is that of the version."""

    session_present: bool = False
    reason: ReasonCode | ConnectReturnCode = ReasonCode.SUCCESS
    properties: Properties = EMPTY


@dataclass(slots=True)
class Publish:
    """An application message (3.3).  `packet_id` is 0 at QoS 0."""

    topic: str
    payload: bytes
    qos: int = 0
    packet_id: int = 0
    retain: bool = False
    dup: bool = False
    properties: Properties = EMPTY


@dataclass(slots=True)
class Puback:
    """Answer to a PUBLISH of QoS 1 (3.4)."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = EMPTY


@dataclass(slots=True)
class Pubacks:
    """Several successive PUBACKs of success as one; not a packet of the specification."""

    packet_ids: list[int]


@dataclass(slots=True)
class Pubrec:
    """First answer to a PUBLISH of QoS 2 (3.5)."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = EMPTY


@dataclass(slots=True)
class Pubrel:
    """Answer to PUBREC (3.6)."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = EMPTY


@dataclass(slots=True)
class Pubcomp:
    """Answer to PUBREL, the last packet of QoS 2 (3.7)."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = EMPTY


@dataclass(slots=True)
class Subscription:
    """One filter of a SUBSCRIBE with its options (3.8.3.1).  The filter's syntax is not checked by the codec."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


@dataclass(slots=True)
class Subscribe:
    """A request for messages (3.8)."""

    packet_id: int
    subscriptions: list[Subscription]
    properties: Properties = EMPTY


@dataclass(slots=True)
class Suback:
    """Answer to SUBSCRIBE, one reason per filter in its order (3.9)."""

    packet_id: int
    reasons: list[ReasonCode]
    properties: Properties = EMPTY


@dataclass(slots=True)
class Unsubscribe:
    """A request to end subscriptions (3.10)."""

    packet_id: int
    filters: list[str]
    properties: Properties = EMPTY


@dataclass(slots=True)
class Unsuback:
    """Answer to UNSUBSCRIBE (3.11).  `reasons` is empty in versions 3 and 4."""

    packet_id: int
    reasons: list[ReasonCode]
    properties: Properties = EMPTY


@dataclass(slots=True)
class Pingreq:
    """A client's sign of life (3.12)."""


@dataclass(slots=True)
class Pingresp:
    """Answer to PINGREQ (3.13)."""


@dataclass(slots=True)
class Disconnect:
    """The last packet of a connection (3.14)."""

    reason: ReasonCode = ReasonCode.NORMAL_DISCONNECTION
    properties: Properties = EMPTY


@dataclass(slots=True)
class Auth:
    """A step of an extended authentication exchange (3.15), version 5 only."""

    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = EMPTY


Acknowledgement: TypeAlias = Puback | Pubrec | Pubrel | Pubcomp
Packet: TypeAlias = (
    Pubacks
    | Connect
    | Connack
    | Publish
    | Acknowledgement
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)

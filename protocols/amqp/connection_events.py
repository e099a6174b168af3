"""Events of a `ServerConnection`, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.field_table import FieldTable
from entrepot.protocols.amqp.method_codec import AmqpMethod


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a connection.  Times in seconds."""

    channel_max: int = 2047
    """Most channels open at once."""
    frame_max: int = 131_072
    heartbeat_seconds: int = 60
    """Heartbeat interval offered to the client, which decides.  0 = none."""
    max_message_size_bytes: int = 16 << 20
    max_assembly_bytes: int = 64 << 20
    """Limit of partly received bodies, of all channels together."""
    handshake_frame_max: int = 16_384
    """Largest frame before tuning: room for a token."""
    handshake_timeout_seconds: float = 10.0
    """Limit from the first byte to `connection.open`."""
    closing_timeout_seconds: float = 10.0
    """Longest wait for the other side's acknowledgement of the end."""


EARLY_MAX_BYTES: Final = 64 << 10
"""Most bytes kept while the caller has not decided on a login or a virtual host."""
EARLY_MAX_FRAMES: Final = 64
"""Most frames before a virtual host is open: the login has four, and heartbeats may come between."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """The contents of `connection.start`.  Mechanisms and locales are separated by spaces."""

    server_properties: FieldTable = field(default_factory=dict)
    mechanisms: str = "PLAIN AMQPLAIN"
    locales: str = "en_US"


class Publish(NamedTuple):
    """A message as published by the client."""

    exchange: str
    routing_key: str
    mandatory: bool
    header: ContentHeader
    body: bytes


Settlement: TypeAlias = tuple[int, int, bool, bool]
"""Method number (`ACK`, `REJECT`, `NACK`), delivery tag, multiple, requeue."""

ACK, REJECT, NACK = 80, 90, 120


@dataclass(slots=True)
class Login:
    """The client's first response (`connection.start-ok`).  Answer: `challenge`, `authenticated` or `refuse`."""

    mechanism: str
    response: bytes = field(repr=False)
    client_properties: FieldTable
    locale: str


@dataclass(slots=True)
class LoginContinues:
    """The response to a challenge.  Answered as `Login`."""

    response: bytes = field(repr=False)


@dataclass(slots=True)
class Open:
    """The client's request for a virtual host.  Answer: `opened` or `close`."""

    virtual_host: str


@dataclass(slots=True)
class ChannelOpened:
    """A channel was opened, and the client told."""

    channel: int


@dataclass(slots=True)
class ChannelClosed:
    """A channel was closed, and takes no more frames.  Answer the client's close with `close_channel_ok`; the server's
    was told to the client already."""

    channel: int
    is_clients: bool
    reply_code: int
    text: str


@dataclass(slots=True)
class Publishes:
    """A run of messages on one channel."""

    channel: int
    publishes: list[Publish]


@dataclass(slots=True)
class Acks:
    """A run of acknowledgements and rejections on one channel, in order."""

    channel: int
    settlements: list[Settlement]


@dataclass(slots=True)
class Method:
    """Any other method.  On channel 0: `connection.update-secret`."""

    channel: int
    method: AmqpMethod


@dataclass(slots=True)
class Closing:
    """The end of the connection: all channels are gone, and no event but `Closed` follows.  `is_final`: the socket may
    be shut once the bytes are out.  Else wait for `Closed`; the client's close is answered by `close_ok`, and is final
    then."""

    reply_code: int
    text: str
    is_clients: bool = False
    is_final: bool = False


@dataclass(slots=True)
class Closed:
    """The end of the wait for the other side's acknowledgement: the socket may be shut."""


Event: TypeAlias = (
    Login | LoginContinues | Open | ChannelOpened | ChannelClosed | Publishes | Acks | Method | Closing | Closed
)

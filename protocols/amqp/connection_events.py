"""What a `ServerConnection` tells of, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from protocols.amqp.content import ContentHeader
from protocols.amqp.field_table import FieldTable
from protocols.amqp.method_codec import AmqpMethod


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Named limits of a connection.  Times in seconds."""

    channel_max: int = 2047
    """Channels that are open at once."""
    frame_max: int = 131_072
    heartbeat_seconds: int = 60
    """What is offered; the client decides.  0 = none."""
    max_message_size_bytes: int = 16 << 20
    max_assembly_bytes: int = 64 << 20
    """Bodies that have not come as a whole yet, of all channels together."""
    handshake_frame_max: int = 16_384
    """Before the client's limits are known: room for a token."""
    handshake_timeout_seconds: float = 10.0
    """From the first byte to `connection.open`."""
    closing_timeout_seconds: float = 10.0
    """Wait for the other side's part in the end of the connection."""


EARLY_MAX_BYTES: Final = 64 << 10
"""Bytes that may come while the caller has not decided on a login or a virtual host."""
EARLY_MAX_FRAMES: Final = 64
"""Frames that may be looked at before a virtual host is open: the login's are four, heartbeats may be between."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What `connection.start` says.  Mechanisms and locales are separated by spaces."""

    server_properties: FieldTable = field(default_factory=dict)
    mechanisms: str = "PLAIN AMQPLAIN"
    locales: str = "en_US"


class Publish(NamedTuple):
    """A message as the client published it."""

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
    """The client's first response (`connection.start-ok`).  Answered by `challenge`, `authenticated` or `refuse`."""

    mechanism: str
    response: bytes = field(repr=False)
    client_properties: FieldTable
    locale: str


@dataclass(slots=True)
class LoginContinues:
    """The response to a challenge.  Answered like `Login`."""

    response: bytes = field(repr=False)


@dataclass(slots=True)
class Open:
    """The client wants a virtual host.  Answered by `opened`, or by `close` where it may not have it."""

    virtual_host: str


@dataclass(slots=True)
class ChannelOpened:
    """A channel is open, and the client is told so."""

    channel: int


@dataclass(slots=True)
class ChannelClosed:
    """A channel is over, and nothing is sent on it.  The client's end is answered by `close_channel_ok`; another one
    was the machine's, which has told the client."""

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
    """A run of acknowledgements and refusals on one channel, in order."""

    channel: int
    settlements: list[Settlement]


@dataclass(slots=True)
class Method:
    """Any other method.  On channel 0: `connection.update-secret`."""

    channel: int
    method: AmqpMethod


@dataclass(slots=True)
class Closing:
    """The connection's business is over: all channels are gone with it, and no event comes but `Closed`.

    `is_final`: the socket may be shut when the bytes are out.  Else `Closed` says when; the client's end is answered by
    `close_ok`, and is final then.
    """

    reply_code: int
    text: str
    is_clients: bool = False
    is_final: bool = False


@dataclass(slots=True)
class Closed:
    """Both sides know of the end, or the other one did not say so in time: the socket may be shut."""


Event: TypeAlias = (
    Login | LoginContinues | Open | ChannelOpened | ChannelClosed | Publishes | Acks | Method | Closing | Closed
)

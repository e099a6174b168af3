"""Methods of the connection and of channels (classes 10 and 20)."""

from __future__ import annotations

from dataclasses import dataclass, field

from entrepot.protocols.amqp.method_codec import (
    BOTH,
    CLIENT,
    SERVER,
    AmqpMethod,
    Bit,
    Long,
    LongString,
    Octet,
    Short,
    ShortString,
    Table,
    method,
)


@method(10, 10, "connection.start", SERVER)
@dataclass(slots=True)
class ConnectionStart(AmqpMethod):
    """The server's properties, and its mechanisms and locales, each separated by spaces."""

    version_major: Octet = 0
    version_minor: Octet = 0
    server_properties: Table = field(default_factory=dict)
    mechanisms: LongString = b""
    locales: LongString = b""


@method(10, 11, "connection.start-ok", CLIENT)
@dataclass(slots=True)
class ConnectionStartOk(AmqpMethod):
    """The client's properties, its chosen mechanism, and its first response."""

    client_properties: Table = field(default_factory=dict)
    mechanism: ShortString = ""
    response: LongString = field(default=b"", repr=False)
    locale: ShortString = ""


@method(10, 20, "connection.secure", SERVER)
@dataclass(slots=True)
class ConnectionSecure(AmqpMethod):
    """A challenge of the mechanism."""

    challenge: LongString = b""


@method(10, 21, "connection.secure-ok", CLIENT)
@dataclass(slots=True)
class ConnectionSecureOk(AmqpMethod):
    """The response to a challenge."""

    response: LongString = field(default=b"", repr=False)


@method(10, 30, "connection.tune", SERVER)
@dataclass(slots=True)
class ConnectionTune(AmqpMethod):
    """The limits offered by the server; the heartbeat in seconds."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method(10, 31, "connection.tune-ok", CLIENT)
@dataclass(slots=True)
class ConnectionTuneOk(AmqpMethod):
    """The client's limits; 0 = no wish."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method(
    10,
    40,
    "connection.open",
    CLIENT,
    after=(
        "shortstr",
        "bit",
    ),
)
@dataclass(slots=True)
class ConnectionOpen(AmqpMethod):
    """The client's request for a virtual host."""

    virtual_host: ShortString = ""


@method(10, 41, "connection.open-ok", SERVER, after=("shortstr",))
@dataclass(slots=True)
class ConnectionOpenOk(AmqpMethod):
    """The virtual host is open."""


@method(10, 50, "connection.close", BOTH)
@dataclass(slots=True)
class ConnectionClose(AmqpMethod):
    """The end of the connection, and the method that was refused, if any."""

    reply_code: Short = 0
    reply_text: ShortString = ""
    failed_class_id: Short = 0
    failed_method_id: Short = 0


@method(10, 51, "connection.close-ok", BOTH)
@dataclass(slots=True)
class ConnectionCloseOk(AmqpMethod):
    """The other side acknowledges the end."""


@method(10, 60, "connection.blocked", SERVER)
@dataclass(slots=True)
class ConnectionBlocked(AmqpMethod):
    """Publishing waits until further notice (RabbitMQ)."""

    reason: ShortString = ""


@method(10, 61, "connection.unblocked", SERVER)
@dataclass(slots=True)
class ConnectionUnblocked(AmqpMethod):
    """Publishing goes on (RabbitMQ)."""


@method(10, 70, "connection.update-secret", CLIENT)
@dataclass(slots=True)
class ConnectionUpdateSecret(AmqpMethod):
    """A new secret, such as a fresh token (RabbitMQ)."""

    new_secret: LongString = field(default=b"", repr=False)
    reason: ShortString = ""


@method(10, 71, "connection.update-secret-ok", SERVER)
@dataclass(slots=True)
class ConnectionUpdateSecretOk(AmqpMethod):
    """The new secret is in force."""


@method(20, 10, "channel.open", CLIENT, after=("shortstr",))
@dataclass(slots=True)
class ChannelOpen(AmqpMethod):
    """Open the channel with the frame's number."""


@method(20, 11, "channel.open-ok", SERVER, after=("longstr",))
@dataclass(slots=True)
class ChannelOpenOk(AmqpMethod):
    """The channel is open."""


@method(20, 20, "channel.flow", BOTH)
@dataclass(slots=True)
class ChannelFlow(AmqpMethod):
    """Flow control: content may be sent on the channel if `active`."""

    active: Bit = False


@method(20, 21, "channel.flow-ok", BOTH)
@dataclass(slots=True)
class ChannelFlowOk(AmqpMethod):
    """The state of flow control."""

    active: Bit = False


@method(20, 40, "channel.close", BOTH)
@dataclass(slots=True)
class ChannelClose(AmqpMethod):
    """The end of the channel, and the method that was refused, if any."""

    reply_code: Short = 0
    reply_text: ShortString = ""
    failed_class_id: Short = 0
    failed_method_id: Short = 0


@method(20, 41, "channel.close-ok", BOTH)
@dataclass(slots=True)
class ChannelCloseOk(AmqpMethod):
    """The other side acknowledges the end."""

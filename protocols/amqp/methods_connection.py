"""Methods of the connection and of channels (classes 10 and 20)."""

from __future__ import annotations

from dataclasses import field
from typing import Final

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
    plain_method,
)


@method(10, 10, SERVER)
class ConnectionStart(AmqpMethod):
    """The server's properties, and its mechanisms and locales, each separated by spaces."""

    version_major: Octet = 0
    version_minor: Octet = 0
    server_properties: Table = field(default_factory=dict)
    mechanisms: LongString = b""
    locales: LongString = b""


@method(10, 11, CLIENT)
class ConnectionStartOk(AmqpMethod):
    """The client's properties, its chosen mechanism, and its first response."""

    client_properties: Table = field(default_factory=dict)
    mechanism: ShortString = ""
    response: LongString = field(default=b"", repr=False)
    locale: ShortString = ""


@method(10, 20, SERVER)
class ConnectionSecure(AmqpMethod):
    """A challenge of the mechanism."""

    challenge: LongString = b""


@method(10, 21, CLIENT)
class ConnectionSecureOk(AmqpMethod):
    """The response to a challenge."""

    response: LongString = field(default=b"", repr=False)


@method(10, 30, SERVER)
class ConnectionTune(AmqpMethod):
    """The limits offered by the server; the heartbeat in seconds."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method(10, 31, CLIENT)
class ConnectionTuneOk(AmqpMethod):
    """The client's limits; 0 = no wish."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method(10, 40, CLIENT, after=("shortstr", "bit"))
class ConnectionOpen(AmqpMethod):
    """The client's request for a virtual host."""

    virtual_host: ShortString = ""


@method(10, 50, BOTH)
class ConnectionClose(AmqpMethod):
    """The end of the connection, and the method that was refused, if any."""

    reply_code: Short = 0
    reply_text: ShortString = ""
    failed_class_id: Short = 0
    failed_method_id: Short = 0


@method(10, 60, SERVER)
class ConnectionBlocked(AmqpMethod):
    """Publishing waits until further notice (RabbitMQ)."""

    reason: ShortString = ""


@method(10, 70, CLIENT)
class ConnectionUpdateSecret(AmqpMethod):
    """A new secret, such as a fresh token (RabbitMQ)."""

    new_secret: LongString = field(default=b"", repr=False)
    reason: ShortString = ""


@method(20, 20, BOTH)
class ChannelFlow(AmqpMethod):
    """Flow control: content may be sent on the channel if `active`."""

    active: Bit = False


@method(20, 21, BOTH)
class ChannelFlowOk(AmqpMethod):
    """The state of flow control."""

    active: Bit = False


@method(20, 40, BOTH)
class ChannelClose(AmqpMethod):
    """The end of the channel, and the method that was refused, if any."""

    reply_code: Short = 0
    reply_text: ShortString = ""
    failed_class_id: Short = 0
    failed_method_id: Short = 0


ConnectionOpenOk: Final = plain_method(10, 41, SERVER, "ConnectionOpenOk", after=("shortstr",))
ConnectionCloseOk: Final = plain_method(10, 51, BOTH, "ConnectionCloseOk")
ConnectionUnblocked: Final = plain_method(10, 61, SERVER, "ConnectionUnblocked")
ConnectionUpdateSecretOk: Final = plain_method(10, 71, SERVER, "ConnectionUpdateSecretOk")
ChannelOpen: Final = plain_method(20, 10, CLIENT, "ChannelOpen", after=("shortstr",))
ChannelOpenOk: Final = plain_method(20, 11, SERVER, "ChannelOpenOk", after=("longstr",))
ChannelCloseOk: Final = plain_method(20, 41, BOTH, "ChannelCloseOk")

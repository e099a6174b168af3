"""Bytes that a server must refuse, on a connection that is open and has channel 1, with the reply code for them.

The rows of the connection's own errors are those that RabbitMQ gives.
"""

from __future__ import annotations

from struct import pack
from typing import NamedTuple

from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.delivery import content_frames
from entrepot.protocols.amqp.frames import BODY, HEADER, METHOD, frame, header_payload
from entrepot.protocols.amqp.methods_basic import BasicAck, BasicDeliver, BasicPublish
from entrepot.protocols.amqp.methods_connection import (
    ChannelCloseOk,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTune,
)
from entrepot.protocols.amqp.methods_topology import QueueDeclare, QueueDeclareOk
from entrepot.protocols.amqp.reply_codes import ReplyCode as R
from tests.support.amqp.machine import LIMITS, published, said


class Bad(NamedTuple):
    """`class_id` and `method_id` are what the goodbye names."""

    name: str
    wire: bytes
    code: R
    class_id: int = 0
    method_id: int = 0


PUBLISH = said(1, BasicPublish("e", "k"))
PROPERTIES = b"\0\0"


def header(size: int, properties: bytes = PROPERTIES, class_id: int = 60) -> bytes:
    payload = pack(">HHQ", class_id, 0, size) + properties
    return frame(HEADER, 1, payload)


def body(payload: bytes) -> bytes:
    return frame(BODY, 1, payload)


def raw(index: int, arguments: bytes, channel: int = 1) -> bytes:
    return frame(METHOD, channel, pack(">I", index) + arguments)


def table(content: bytes) -> bytes:
    """queue.declare with the content of a table."""
    return raw(50 << 16 | 10, b"\0\0\0\0" + pack(">I", len(content)) + content)


def deep(count: int) -> bytes:
    content = b""
    for _ in range(count):
        content = b"\x01kF" + pack(">I", len(content)) + content
    return content


DECLARE = (50, 10)
FRAMING = [
    Bad("bad frame end", said(1, BasicAck(1))[:-1] + b"\xcd", R.FRAME_ERROR),
    Bad("bad frame end of a publish", PUBLISH[:-1] + b"\0" + header(0), R.FRAME_ERROR),
    Bad("bad frame end of a header", PUBLISH + header(0)[:-1] + b"\0", R.FRAME_ERROR),
    Bad("bad frame end of a body", PUBLISH + header(1) + body(b"x")[:-1] + b"\0", R.FRAME_ERROR),
    Bad("frame above frame_max as the body of a message", PUBLISH + header(LIMITS.frame_max + 1)
        + body(bytes(LIMITS.frame_max + 1)), R.FRAME_ERROR),
    Bad("unknown frame type", frame(4, 1, b""), R.FRAME_ERROR),
    Bad("frame type 0", frame(0, 0, b""), R.FRAME_ERROR),
    Bad("frame above frame_max", frame(BODY, 1, bytes(LIMITS.frame_max + 1)), R.FRAME_ERROR),
    Bad("head of an endless frame", b"\x01\0\x01\xff\xff\xff\xff\0", R.FRAME_ERROR),
    Bad("HTTP", b"GET / HTTP/1.1\r\n\r\n", R.FRAME_ERROR),
    Bad("heartbeat with a payload", frame(8, 0, b"x"), R.FRAME_ERROR),
    Bad("heartbeat on a channel", frame(8, 1, b""), R.UNEXPECTED_FRAME),
    Bad("method frame of three octets", frame(METHOD, 1, b"\0\x3c\0"), R.FRAME_ERROR),
    Bad("empty method frame", frame(METHOD, 1, b""), R.FRAME_ERROR),
]  # fmt: skip
METHODS = [
    Bad("unknown method", raw(60 << 16 | 42, b""), R.COMMAND_INVALID, 60, 42),
    Bad("unknown class", raw(99 << 16 | 1, b"abc"), R.COMMAND_INVALID, 99, 1),
    Bad("unknown class on channel 0", raw(99 << 16 | 1, b"abc", 0), R.COMMAND_INVALID, 99, 1),
    Bad("a server's method", said(1, QueueDeclareOk("q", 1, 1)), R.COMMAND_INVALID, 50, 11),
    Bad("a server's method with content", said(1, BasicDeliver("c", 1)), R.COMMAND_INVALID, 60, 60),
    Bad("close-ok that nobody waits for", said(1, ChannelCloseOk()), R.COMMAND_INVALID, 20, 41),
    Bad("a method of the connection on a channel", said(1, ConnectionOpen("/")), R.COMMAND_INVALID, 10, 40),
    Bad("arguments missing", raw(50 << 16 | 10, b"\0\0\x05abc"), R.FRAME_ERROR, *DECLARE),
    Bad("octets behind the arguments", said(1, BasicAck(1))[:6] + b"\x0e" + said(1, BasicAck(1))[7:-1] + b"\0\xce",
        R.FRAME_ERROR, 60, 80),
    Bad("ack without its bits", raw(60 << 16 | 80, bytes(8)), R.FRAME_ERROR, 60, 80),
    Bad("publish without its bits", raw(60 << 16 | 40, b"\0\0\x01e\x01k"), R.FRAME_ERROR, 60, 40),
    Bad("name that is not UTF-8", raw(50 << 16 | 10, b"\0\0\x01\xff\0\0\0\0\0"), R.FRAME_ERROR, *DECLARE),
    Bad("exchange that is not UTF-8", raw(60 << 16 | 40, b"\0\0\x01\xff\0\0") + header(0), R.FRAME_ERROR, 60, 40),
    Bad("immediate", said(1, BasicPublish("e", "k", immediate=True)), R.NOT_IMPLEMENTED, 60, 40),
    Bad("immediate, as a whole", said(1, BasicPublish("e", immediate=True)) + header(0), R.NOT_IMPLEMENTED, 60, 40),
]  # fmt: skip
TABLES = [
    Bad("table longer than its frame", raw(50 << 16 | 10, b"\0\0\0\0\0\0\0\x09\x01kt\1"), R.FRAME_ERROR, *DECLARE),
    Bad("table of 4 GiB", raw(50 << 16 | 10, b"\0\0\0\0\xff\xff\xff\xff\x01kt\1"), R.FRAME_ERROR, *DECLARE),
    Bad("key without value", table(b"\x01k"), R.FRAME_ERROR, *DECLARE),
    Bad("key longer than its table", table(b"\xffkt\1"), R.FRAME_ERROR, *DECLARE),
    Bad("key that is not UTF-8", table(b"\x01\xffV"), R.FRAME_ERROR, *DECLARE),
    Bad("unknown type", table(b"\x01kZ"), R.FRAME_ERROR, *DECLARE),
    Bad("type 0", table(b"\x01k\0"), R.FRAME_ERROR, *DECLARE),
    Bad("number that ends early", table(b"\x01kI\0\0\0"), R.FRAME_ERROR, *DECLARE),
    Bad("string longer than its table", table(b"\x01kS\0\0\0\x05abc"), R.FRAME_ERROR, *DECLARE),
    Bad("string of 4 GiB", table(b"\x01kS\xff\xff\xff\xffabc"), R.FRAME_ERROR, *DECLARE),
    Bad("array longer than its table", table(b"\x01kA\0\0\0\x05V"), R.FRAME_ERROR, *DECLARE),
    Bad("array that ends within a value", table(b"\x01kA\0\0\0\x02It"), R.FRAME_ERROR, *DECLARE),
    Bad("array of an unknown type", table(b"\x01kA\0\0\0\x01\xff"), R.FRAME_ERROR, *DECLARE),
    Bad("inner table longer than it may be", table(b"\x01kF\0\0\0\x04\x01a"), R.FRAME_ERROR, *DECLARE),
    Bad("tables too deep", table(deep(40)), R.FRAME_ERROR, *DECLARE),
    Bad("arrays too deep", table(b"\x01k" + b"".join(b"A" + pack(">I", 5 * (99 - at)) for at in range(100))),
        R.FRAME_ERROR, *DECLARE),
]  # fmt: skip
CHANNELS = [
    Bad("method on a channel that is not open", said(2, QueueDeclare("q")), R.CHANNEL_ERROR, *DECLARE),
    Bad("publish on a channel that is not open", published(2, "e", "k", b"x"), R.CHANNEL_ERROR, 60, 40),
    Bad("ack on a channel that is not open", said(2, BasicAck(1)), R.CHANNEL_ERROR, 60, 80),
    Bad("content on a channel that is not open", content_frames(2, PROPERTIES, b"x", 4096), R.CHANNEL_ERROR),
    Bad("channel.open twice", said(1, ChannelOpen()), R.CHANNEL_ERROR, 20, 10),
    Bad("channel.open on channel 0", said(0, ChannelOpen()), R.CHANNEL_ERROR, 20, 10),
    Bad("queue.declare on channel 0", said(0, QueueDeclare("q")), R.CHANNEL_ERROR, *DECLARE),
    Bad("publish on channel 0", said(0, BasicPublish("e", "k")), R.CHANNEL_ERROR, 60, 40),
    Bad("a message on channel 0", published(0, "e", "k", b"x"), R.CHANNEL_ERROR, 60, 40),
    Bad("start-ok again", said(0, ConnectionStartOk()), R.CHANNEL_ERROR, 10, 11),
    Bad("connection.open again", said(0, ConnectionOpen("/")), R.CHANNEL_ERROR, 10, 40),
    Bad("a server's method of the connection", said(0, ConnectionTune()), R.CHANNEL_ERROR, 10, 30),
    Bad("channels above channel_max", b"".join(said(at, ChannelOpen()) for at in (9, 8, 7, 6)), R.NOT_ALLOWED, 20, 10),
]
CONTENT = [
    Bad("header without method", header(0), R.UNEXPECTED_FRAME),
    Bad("body without method", body(b"x"), R.UNEXPECTED_FRAME),
    Bad("content on channel 0", frame(BODY, 0, b"x"), R.UNEXPECTED_FRAME),
    Bad("body instead of a header", PUBLISH + body(b"x"), R.UNEXPECTED_FRAME),
    Bad("second header", PUBLISH + header(1) + header(1), R.UNEXPECTED_FRAME),
    Bad("method instead of a header", PUBLISH + said(1, QueueDeclare("q")), R.UNEXPECTED_FRAME),
    Bad("ack instead of a header", PUBLISH + said(1, BasicAck(1)), R.UNEXPECTED_FRAME),
    Bad("publish instead of a header", PUBLISH + PUBLISH, R.UNEXPECTED_FRAME),
    Bad("method instead of a body", PUBLISH + header(1) + said(1, QueueDeclare("q")), R.UNEXPECTED_FRAME),
    Bad("message instead of a body", PUBLISH + header(1) + published(1, "e", "k", b"x"), R.UNEXPECTED_FRAME),
    Bad("header of another class", PUBLISH + header(0, class_id=50), R.UNEXPECTED_FRAME),
    Bad("more body than announced", PUBLISH + header(3) + body(b"ab") + body(b"cd"), R.FRAME_ERROR, 60, 40),
    Bad("more body than announced at once", PUBLISH + header(3) + body(b"abcd"), R.FRAME_ERROR, 60, 40),
    Bad("header that ends within its size", PUBLISH + frame(HEADER, 1, header_payload(b"", 0)[:-1]), R.FRAME_ERROR, 60,
        40),
    Bad("header that ends within its flags", PUBLISH + header(0, b"\0"), R.FRAME_ERROR, 60),
    Bad("flags that basic has not", PUBLISH + header(0, b"\x80\x01\x01a"), R.FRAME_ERROR, 60),
    Bad("endless flags", PUBLISH + header(0, b"\xff\xff" * 50), R.FRAME_ERROR, 60),
    Bad("property that is not there", PUBLISH + header(0, b"\x80\x00"), R.FRAME_ERROR, 60),
    Bad("property that ends early", PUBLISH + header(0, b"\x80\x00\x05a"), R.FRAME_ERROR, 60),
    Bad("timestamp that ends early", PUBLISH + header(0, b"\x00\x40" + bytes(7)), R.FRAME_ERROR, 60),
    Bad("octets behind the properties", PUBLISH + header(0, b"\0\0x"), R.FRAME_ERROR, 60),
    Bad("bad headers", PUBLISH + header(0, b"\x20\0\0\0\0\3\1kZ"), R.FRAME_ERROR, 60),
    Bad("headers with a bad key", PUBLISH + header(0, b"\x20\0\0\0\0\3\1\xffV"), R.FRAME_ERROR, 60),
    Bad("headers too deep", PUBLISH + header(0, b"\x20\0" + pack(">I", len(deep(40))) + deep(40)), R.FRAME_ERROR, 60),
]  # fmt: skip
ALL = FRAMING + METHODS + TABLES + CHANNELS + CONTENT

SOUND = ContentHeader.of(content_type="text/plain", headers={"k": [1, "é", None]}, delivery_mode=2)
"""What a message before the bad bytes has."""

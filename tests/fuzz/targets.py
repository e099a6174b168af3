"""What is fuzzed: for each parser one function of bytes, which raises nothing unless the parser is at fault."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from entrepot.broker.consume.progress import decode_ops
from entrepot.broker.store import record
from entrepot.domain.errors import EntrepotError
from entrepot.domain.event_filters.event_filter_json import parse_event_filters
from entrepot.domain.expression.cesql.expression import compile_cesql
from entrepot.domain.expression.cesql.tokens import CesqlParseError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import Message as DomainMessage
from entrepot.domain.recall_handle import RecallHandle
from entrepot.domain.receipt_handle import read_index, read_route
from entrepot.gateway.mqtt.topics.names import parse_delayed, parse_replay, parse_share
from entrepot.protocols.amqp.errors import FrameError
from entrepot.protocols.amqp.field_table import decode_table
from entrepot.protocols.cloudevents import http
from entrepot.protocols.cloudevents.errors import CloudEventError
from entrepot.protocols.cloudevents.webhook import consent_of, retry_after_seconds
from entrepot.protocols.grpc.head import CallRefusedError, NotGrpcError, call_head
from entrepot.protocols.grpc.messages import ENCODINGS, MessageError, MessageReader, framed
from entrepot.protocols.grpc.status import Status, trailers
from entrepot.protocols.http2 import huffman
from entrepot.protocols.http2.events import Closing, Event, RequestReceived
from entrepot.protocols.http2.frames import (
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    WINDOW_UPDATE,
    frame,
    number_frame,
    settings_frame,
)
from entrepot.protocols.http2.hpack import TABLE_BYTES, HeaderListTooLargeError, HpackDecoder, HpackError
from entrepot.protocols.http2.huffman import HuffmanError
from entrepot.protocols.http2.request import RequestHead
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connect, Publish, Subscribe, Subscription
from entrepot.protocols.proxy.header import MalformedProxyHeaderError, parse_header
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import WireError
from entrepot.protocols.rocketmq.filters import filter_of
from entrepot.protocols.rocketmq.headers import parse_authorization
from entrepot.protocols.rocketmq.names import Namespaces
from entrepot.protocols.rocketmq.published import PublishLimits, published
from entrepot.protocols.rocketmq.remoting import dialect
from entrepot.protocols.rocketmq.remoting import frames as rocketmq_frames
from entrepot.protocols.rocketmq.remoting.receipts import PopReceipt
from entrepot.protocols.rocketmq.remoting.records import (
    Record,
    decode_batch,
    decode_records,
    encode_batch,
    encode_record,
)
from entrepot.protocols.wire.frames import FrameReader, RemotingError
from entrepot.protocols.wire.message_batch import decode_messages, decode_runs, decode_stored
from entrepot.protocols.wire.stored_record import RECORD_MAGIC, InvalidRecordError
from tests.fuzz.desync_corpus import CORPUS
from tests.support.amqp.machine import CHANNEL, HANDSHAKE, opened_machine
from tests.support.amqp.machine import Machine as AmqpMachine
from tests.support.http.machine import HttpMachine, Outcome, Run
from tests.support.http2.peer import Peer as Http2Peer
from tests.support.http2.peer import data as data_of
from tests.support.http2.peer import head as head_of
from tests.support.mqtt.machine import Machine as MqttMachine
from tests.support.rocketmq.sdk.messages import from_wire
from tests.wire.amqp.test_amqp_fuzz import assert_one_end

MAX_STEP: Final = 64
NOW_MS: Final = 1_700_000_000_000
REFUSALS: Final = (EntrepotError, CloudEventError, WireError, RemotingError)


def mqtt(data: bytes) -> None:
    """A conversation: the first byte says how far it is and how it is cut into reads."""
    head, data = data[:1], data[1:]
    machine = MqttMachine()
    version, step = (0, 4, 5)[head[0] % 3] if head else 0, head[0] % MAX_STEP + 1 if head else 1
    if version:
        machine.feed(encode(Connect("c", version), version))
    for at in range(0, len(data), step):
        machine.read(machine.feed(data[at : at + step]))
    assert machine.connection.is_closed == (machine.closing is not None)


def amqp(data: bytes) -> None:
    """A conversation, begun or not."""
    head, data = data[:1], data[1:]
    machine = opened_machine() if head and head[0] & 1 else AmqpMachine()
    step = head[0] // 2 % MAX_STEP + 1 if head else 1
    for at in range(0, len(data), step):
        machine.feed(data[at : at + step])
    assert_one_end(machine.events)
    with contextlib.suppress(FrameError):
        decode_table(data, 0, len(data))


def http2(data: bytes) -> None:
    """A connection: the first byte says how far it is, how it is cut, and what room its answers have."""
    head, data = data[:1], data[1:]
    first = head[0] if head else 0
    peer, step = Http2Peer(is_greeted=bool(first & 1), room=first), first // 2 % MAX_STEP + 1
    machine, events = peer.machine, list[Event]()
    for at in range(0, len(data), step):
        for event in peer.feed(data[at : at + step]):
            events.append(event)
            if isinstance(event, RequestReceived):
                machine.answer(event.stream, b"\x88", bytes(first), b"\x88")
        if not at % 3:
            events += machine.allow(first)
        peer.sent()
    closings = [event for event in events if isinstance(event, Closing)]
    assert len(closings) == machine.is_closed
    assert not closings or events[-1] is closings[0]
    assert machine.waiting_bytes >= 0


def hpack(data: bytes) -> None:
    """Blocks of one connection, a line each; and a string in Huffman's code."""
    tables = HpackDecoder(1024)
    with contextlib.suppress(HpackError):
        for block in data.split(b"\n"):
            with contextlib.suppress(HeaderListTooLargeError):
                fields = tables.decode(block)
                assert sum(map(len, sum(fields, ()))) <= 1024
            assert tables.size <= TABLE_BYTES
    with contextlib.suppress(HuffmanError):
        huffman.decode(data)


def grpc(data: bytes) -> None:
    """Messages of a call: the first byte says how they are compressed and cut.  And a request's head by line."""
    head, data = data[:1], data[1:]
    first = head[0] if head else 0
    reader, step = MessageReader(ENCODINGS[first % 3], 256), first // 3 % MAX_STEP + 1
    with contextlib.suppress(MessageError):
        for at in range(0, len(data), step):
            assert all(len(message) <= 256 for message in reader.feed(data[at : at + step]))
            assert reader.held <= 256 + 5
    fields = dict(line.partition(b":")[::2] for line in data.split(b"\n"))
    with contextlib.suppress(NotGrpcError, CallRefusedError):
        call_head(RequestHead(b"POST", b"/", {**fields, b"content-type": b"application/grpc"}, 0))
    assert decode_status(trailers(Status.UNKNOWN, data.decode("utf-8", "replace")))


def decode_status(block: bytes) -> bool:
    return HpackDecoder(1 << 16).decode(block)[0] == (b"grpc-status", b"2")


def http_requests(data: bytes) -> None:
    """A connection: the first byte says how it is cut, which changes nothing but what comes with a handshake."""
    head, data = data[:1], data[1:]
    step, in_turn = (head[0] // 2 % MAX_STEP + 1, bool(head[0] & 1)) if head else (1, True)
    ways = [[data], [data[at : at + step] for at in range(0, len(data), step)]]
    whole, cut = HttpMachine().outcomes(ways, in_turn=in_turn)
    if b"websocket" in data.lower():
        return
    assert _done(cut) == _done(whole)


def _done(outcome: Outcome) -> tuple[list[Run], list[int], bool]:
    """What was run and how it was answered. Of several faults any may be told, and before one a body be asked for."""
    assert len(outcome.run) <= len(outcome.statuses)
    told = [min(status, 400) for status in outcome.statuses if status != 100]
    return outcome.run, told, outcome.is_closed


def proxy(data: bytes) -> None:
    """A header of version 1 or 2."""
    try:
        found = parse_header(data)
    except MalformedProxyHeaderError:
        return
    assert found is None or 0 < found[1] <= len(data)


def remoting(data: bytes) -> None:
    """Frames, and what they carry."""
    for read in (
        FrameReader(1 << 16).read,
        decode_messages,
        lambda raw: decode_stored(raw, 3),
        lambda raw: decode_runs(raw, 3),
    ):
        with contextlib.suppress(RemotingError):
            read(data)


def records(data: bytes) -> None:
    """What lies in a commit log."""
    for raw in (data, RECORD_MAGIC + data):
        with contextlib.suppress(InvalidRecordError):
            record.decode_header(raw, 0, 0)
    with contextlib.suppress(ValueError, struct.error):
        decode_ops(data)


def cloudevents(data: bytes) -> None:
    """A request: headers by line, an empty line, the body."""
    head, _, body = data.partition(b"\n\n")
    headers = [(name.lower(), value) for name, _, value in (line.partition(b":") for line in head.split(b"\n"))]
    made: list[Any] = []
    for read in (
        lambda: made.append(http.from_binary(headers, body)),
        lambda: made.append(http.from_structured(body, dict(headers).get(b"content-type", b""))),
        lambda: made.append(http.from_structured(data)),
        lambda: made.extend(http.from_batch(data)),
        lambda: made.append(http.from_structured(data, b"application/cloudevents+protobuf")),
        lambda: made.extend(http.from_batch(data, b"application/cloudevents-batch+protobuf")),
    ):
        with contextlib.suppress(*REFUSALS):
            read()
    for event in made:
        http.to_binary(event)
        assert http.from_structured(http.to_structured(event)[1]) is not None
    text = data.decode("latin-1")
    retry_after_seconds(text, NOW_MS / 1000)
    consent_of({"webhook-allowed-origin": text, "webhook-allowed-rate": text}, "entrepot.example")


def filters(data: bytes) -> None:
    """Expressions of every kind; what is one can be asked."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(CesqlParseError):
        compile_cesql(text).evaluate({"type": "t", "a": "1"})
    message = DomainMessage("t", b"", "t/a", tag="A", properties=(("a", "1"),))
    for kind in FilterKind:
        with contextlib.suppress(EntrepotError):
            compile_filter(FilterExpression(kind, text)).matches(message)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    with contextlib.suppress(EntrepotError):
        parse_event_filters(document)


def rocketmq(data: bytes) -> None:
    """Messages and questions of RocketMQ's clients, and their signatures."""
    wire = _message(v2.Message, data)
    if wire is not None:
        accepted = frozenset((v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION, v2.LITE, v2.PRIORITY))
        with contextlib.suppress(*REFUSALS):
            published(wire, "t", PublishLimits(), accepted)
        with contextlib.suppress(*REFUSALS):
            from_wire(wire, Namespaces())
    expression = _message(v2.FilterExpression, data)
    if expression is not None:
        with contextlib.suppress(*REFUSALS):
            filter_of(expression)
    parse_authorization(data.decode("latin-1"))


def rocketmq_remoting(data: bytes) -> None:
    """Answers of a cluster's brokers and name servers."""
    for read in (rocketmq_frames.FrameReader().receive, decode_records, decode_batch, dialect.read):
        with contextlib.suppress(EntrepotError):
            read(data)
    with contextlib.suppress(EntrepotError):
        PopReceipt.parse(data.decode("latin-1"))


def names(data: bytes) -> None:
    """Names and handles that clients give back."""
    text = data.decode("utf-8", "replace")
    for read in (read_route, RecallHandle.decode, read_index):
        with contextlib.suppress(EntrepotError, ValueError):
            read(text)
    parse_share("$share/" + text)
    parse_replay("$replay/" + text, NOW_MS)
    parse_delayed("$delayed/" + text)


def _message(kind: type[Any], data: bytes) -> Any:
    found: Message = kind()
    try:
        found.ParseFromString(data)
    except DecodeError:
        return None
    return found


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    function.__name__: function
    for function in (
        mqtt,
        amqp,
        grpc,
        hpack,
        http2,
        http_requests,
        proxy,
        remoting,
        records,
        cloudevents,
        filters,
        rocketmq,
        rocketmq_remoting,
        names,
    )
}

EVENT: Final = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2026-01-01T00:00:00Z","data":{"a":[1]}}'
SEEDS: Final[dict[str, list[bytes]]] = {
    "mqtt": [
        b"\x02" + encode(Publish("a/b", b"x", 2, 7), 5) + encode(Subscribe(3, [Subscription("a/#", 1)]), 5),
        b"\x01" + encode(Publish("a", b"x", 1, 7), 4),
        b"\x00" + encode(Connect("c", 5, properties={}), 5),
    ],
    "amqp": [b"\x00" + HANDSHAKE + CHANNEL, b"\x01" + CHANNEL],
    "http2": [
        b"\xf1" + head_of(1) + data_of(1, b"body", is_last=True) + head_of(3, is_last=True),
        b"\x10" + PREFACE + settings_frame((4, 9)) + head_of(1, is_last=True) + number_frame(WINDOW_UPDATE, 1, 99),
        b"\x7f" + frame(PING, 0, 0, bytes(8)) + number_frame(RST_STREAM, 1, 8) + frame(HEADERS, 0, 1, b"\x82"),
    ],
    "hpack": [
        bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff0a828684be5886a8eb10649cbf0a3fe101"),
        bytes.fromhex("488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"),
    ],
    "grpc": [
        b"\x01" + framed(b"one") + framed(b""),
        b"\x21\x01\0\0\0\x1d" + zlib.compress(b"x" * 300),
        b"\0grpc-timeout:5S",
    ],
    "http_requests": [b"\x0b" + case.sent for table in CORPUS.values() for case in table.values()],
    "proxy": [b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)],
    "cloudevents": [EVENT, b"[" + EVENT + b"]", b"ce-specversion:1.0\nce-id:1\nce-source:/s\nce-type:t\n\nbody"],
    "filters": [
        b"type = 't' AND (a IN (1, 2) OR EXISTS b) AND NOT c LIKE 'x%'",
        b"a BETWEEN 1 AND 2 OR b IS NOT NULL",
        b'[{"any":[{"exact":{"type":"t"}},{"not":{"prefix":{"a":"b"}}},{"sql":"TRUE"}]}]',
        b"A || B",
        b"a/+/#",
    ],
    "rocketmq": [
        v2.Message(body=b"x", system_properties=v2.SystemProperties(message_id="01" * 17)).SerializeToString(),
        b"MQv2-HMAC-SHA1 Credential=a, SignedHeaders=x-mq-date-time, Signature=00",
    ],
    "rocketmq_remoting": [
        rocketmq_frames.encode(rocketmq_frames.Frame(310, 1, {"a": "b"}, b"body")),
        encode_record(Record("t", 0, 1, 2, b"body", {"TAGS": "a"}, born_host="::1", host="1.2.3.4", port=9)),
        encode_batch([(b"a", "x\x011\x02"), (b"", "")]),
        b'{"t":{{"queueId":0}:{"maxOffset":2}},"a":{0:"x"}}',
        b"0 1 2 3 1 broker 4 5 6",
    ],
    "names": [b"-2h/a/#", b"earliest/a", b"group/a/+/b", b"10/a"],
}
"""What mutations begin with."""

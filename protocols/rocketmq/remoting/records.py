"""Records of RocketMQ's commit log, as pulls, pops and look-ups bring them: one after the other, big-endian.

    total size 4, magic 4, CRC of the body 4, queue id 4, flag 4, queue offset 8, commit-log offset 8, sysFlag 4,
    born time 8, born host, store time 8, store host, reconsume times 4, prepared offset 8,
    body length 4 and body, topic length (1; 2 in version 2) and topic, properties length 2 and properties

A host has 4 or 16 bytes and a port of 4, as sysFlag tells.  A record is found by the size of the one before it, so one
that cannot be read leaves the others readable.  It stands among them with its fault.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

import zstandard
from lz4.frame import LZ4FrameDecompressor

from entrepot.domain.errors import CorruptedError, EntrepotError
from entrepot.protocols.rocketmq.remoting import property_text

COMPRESSED, BORN_IPV6, STORE_IPV6, INNER_BATCH = 0x1, 0x10, 0x20, 0xC0
HALF, COMMITTED, ROLLED_BACK = 0x4, 0x8, 0xC
MAX_BODY_BYTES: Final = 16 << 20
"""Longest body after inflating: an answer has 32 records of a few bytes that may each grow so far.  Producers of
RocketMQ refuse more than 4 MiB before they compress."""

REMEMBERED_ADDRESSES: Final = 1024
"""Texts of addresses that are kept: those of brokers and gateways recur."""
_V1, _V2 = 0xDAA320A7, 0xDAA320AB
_SIZE: Final = struct.Struct(">I")
_LEAST: Final = 64
"""Fewer bytes than any record has."""
_HEAD: Final = struct.Struct(">IIIiiqqiq")
"""From the size to the born time."""
_PORT: Final = struct.Struct(">i")
_TIME: Final = struct.Struct(">q")
_REST: Final = struct.Struct(">iq")
_LENGTH: Final = struct.Struct(">I")
_SHORT: Final = struct.Struct(">H")
_INNER: Final = struct.Struct(">IIIiI")
"""Total size, magic, CRC, flag and body length of a message within a batch."""
_CRC_MASK: Final = 0x7FFFFFFF
_TYPE_SHIFT, _TYPE_MASK = 8, 0x7
COMPRESSION: Final = COMPRESSED | _TYPE_MASK << _TYPE_SHIFT
"""Bits of sysFlag that tell how a body is compressed."""
_ZSTD_STEP: Final = 256
"""Bytes inflated at a time: a block of 3 bytes may be 128 KiB."""
_MAX_WINDOW: Final = 8 << 20
_INNER_COUNT, _INNER_FIRST = "INNER_NUM", "INNER_BASE"


@dataclass(slots=True)
class Record:
    """A stored message.  `host` and `port` are those of the broker that stored it; `fault`: why it cannot be served, or
    empty.  A record with a fault has the places that could be read."""

    topic: str = ""
    queue_id: int = 0
    queue_offset: int = 0
    commit_log_offset: int = 0
    body: bytes = b""
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    sys_flag: int = 0
    born_time_ms: int = 0
    born_host: str = ""
    store_time_ms: int = 0
    host: str = ""
    port: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0
    fault: str = ""


def decode_records(data: bytes) -> list[Record]:
    """Return the records of a body, those within batches one by one.  Raises MESSAGE_CORRUPTED where their sizes do not
    add up: nothing behind that place is found."""
    found: list[Record] = []
    at = 0
    while at < len(data):
        if at + _LEAST > len(data):
            raise CorruptedError(f"{len(data) - at} bytes cannot be a record of RocketMQ")
        (size,) = _SIZE.unpack_from(data, at)
        if not _LEAST <= size <= len(data) - at:
            raise CorruptedError(f"a record of RocketMQ says that it has {size} bytes of {len(data) - at}")
        record = _decoded(data[at : at + size])
        found += _unwrapped(record) if record.sys_flag & INNER_BATCH == INNER_BATCH and not record.fault else [record]
        at += size
    return found


def _decoded(data: bytes) -> Record:
    _, magic, crc, queue_id, flag, queue_offset, place, sys_flag, born_ms = _HEAD.unpack_from(data)
    record = Record("", queue_id, queue_offset, place, flag=flag, sys_flag=sys_flag, born_time_ms=born_ms)
    try:
        if magic not in (_V1, _V2):
            raise ValueError(f"its magic is {magic:08X}")
        _read_rest(record, data, crc, has_short_topic=magic == _V1)
    except (ValueError, IndexError, struct.error) as error:
        record.fault = f"a record of RocketMQ cannot be read: {error}"
    return record


def _read_rest(record: Record, data: bytes, crc: int, *, has_short_topic: bool) -> None:
    at = _HEAD.size
    record.born_host, _, at = _host(data, at, is_long=bool(record.sys_flag & BORN_IPV6))
    (record.store_time_ms,) = _TIME.unpack_from(data, at)
    record.host, record.port, at = _host(data, at + _TIME.size, is_long=bool(record.sys_flag & STORE_IPV6))
    record.reconsume_times, record.prepared_offset = _REST.unpack_from(data, at)
    at += _REST.size
    record.body, at = _sized(data, at + _LENGTH.size, _LENGTH.unpack_from(data, at)[0])
    if has_short_topic:
        topic, at = _sized(data, at + 1, data[at])
    else:
        topic, at = _sized(data, at + _SHORT.size, _SHORT.unpack_from(data, at)[0])
    record.topic = topic.decode()
    properties, _ = _sized(data, at + _SHORT.size, _SHORT.unpack_from(data, at)[0])
    record.properties = property_text.decode(properties.decode())
    if crc and crc & _CRC_MASK != zlib.crc32(record.body) & _CRC_MASK:
        raise ValueError("its body fails its checksum")


def _host(data: bytes, at: int, *, is_long: bool) -> tuple[str, int, int]:
    size = 16 if is_long else 4
    (port,) = _PORT.unpack_from(data, at + size)
    return _address(data[at : at + size]), port, at + size + _PORT.size


@lru_cache(maxsize=REMEMBERED_ADDRESSES)
def _address(raw: bytes) -> str:
    return str(ip_address(raw))


def _sized(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise ValueError("it is cut off")
    return data[at : at + size], at + size


def encode_record(record: Record) -> bytes:
    """Return the bytes of a record, in version 1 where its topic is short enough."""
    topic = record.topic.encode()
    properties = property_text.encode(record.properties).encode()
    born, store = ip_address(record.born_host or "0.0.0.0"), ip_address(record.host or "0.0.0.0")
    is_short = len(topic) <= 127
    sys_flag = record.sys_flag & ~(BORN_IPV6 | STORE_IPV6)
    sys_flag |= BORN_IPV6 * (born.version == 6) | STORE_IPV6 * (store.version == 6)
    rest = b"".join(
        (
            *(born.packed, _PORT.pack(0), _TIME.pack(record.store_time_ms)),
            *(store.packed, _PORT.pack(record.port), _REST.pack(record.reconsume_times, record.prepared_offset)),
            *(_LENGTH.pack(len(record.body)), record.body),
            *((bytes((len(topic),)) if is_short else _SHORT.pack(len(topic))), topic),
            *(_SHORT.pack(len(properties)), properties),
        )
    )
    head = _HEAD.pack(
        *(_HEAD.size + len(rest), _V1 if is_short else _V2, zlib.crc32(record.body) & _CRC_MASK),
        *(record.queue_id, record.flag, record.queue_offset, record.commit_log_offset, sys_flag, record.born_time_ms),
    )
    return head + rest


# -- batches -----------------------------------------------------------------------------------------------------------


def encode_batch(messages: Sequence[tuple[bytes, str]]) -> bytes:
    """Return the body of SEND_BATCH_MESSAGE: bodies with the texts of their properties.  Inner messages may have no
    body, which single ones may not."""
    parts: list[bytes] = []
    for body, properties in messages:
        text = properties.encode()
        size = _INNER.size + len(body) + _SHORT.size + len(text)
        parts += (_INNER.pack(size, 0, 0, 0, len(body)), body, _SHORT.pack(len(text)), text)
    return b"".join(parts)


def decode_batch(data: bytes) -> list[tuple[bytes, dict[str, str]]]:
    """Return the bodies and properties of a batch.  Raises MESSAGE_CORRUPTED."""
    found: list[tuple[bytes, dict[str, str]]] = []
    at = 0
    try:
        while at < len(data):
            size, _, _, _, length = _INNER.unpack_from(data, at)
            body, behind = _sized(data, at + _INNER.size, length)
            text, behind = _sized(data, behind + _SHORT.size, _SHORT.unpack_from(data, behind)[0])
            if behind != at + size:
                raise ValueError("sizes that do not add up")
            found.append((body, property_text.decode(text.decode())))
            at = behind
    except (ValueError, struct.error) as error:
        raise CorruptedError(f"a batch of RocketMQ cannot be read: {error}") from error
    return found


def _unwrapped(record: Record) -> list[Record]:
    """Return the messages of a record that holds a batch (topics of the type BatchCQ)."""
    try:
        first = int(record.properties.get(_INNER_FIRST, record.queue_offset))
        inner = decode_batch(inflated(record))
    except (ValueError, EntrepotError) as error:
        record.fault = f"a batch of RocketMQ cannot be read: {error}"
        return [record]
    shared = {name: value for name, value in record.properties.items() if name not in (_INNER_COUNT, _INNER_FIRST)}
    flags = record.sys_flag & ~(INNER_BATCH | COMPRESSED)
    return [
        replace(record, body=body, properties={**shared, **own}, queue_offset=first + index, sys_flag=flags)
        for index, (body, own) in enumerate(inner)
    ]


# -- compression -------------------------------------------------------------------------------------------------------


def inflated(record: Record, max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the producer's body (sysFlag: zlib, LZ4 frames or zstd).  Raises MESSAGE_CORRUPTED for one that cannot be
    inflated, or is too long."""
    if not record.sys_flag & COMPRESSED:
        return record.body
    inflate = _INFLATE.get(record.sys_flag >> _TYPE_SHIFT & _TYPE_MASK)
    if inflate is None:
        raise CorruptedError("the body is compressed in a way that is not known here")
    try:
        found = inflate(record.body, max_bytes + 1)
    except (ValueError, RuntimeError, zlib.error, zstandard.ZstdError) as error:
        raise CorruptedError(f"a body that says to be compressed is not: {error}") from error
    if len(found) > max_bytes:
        raise CorruptedError(f"the body has more than {max_bytes} bytes when it is inflated")
    return found


def _of_zlib(body: bytes, most: int) -> bytes:
    inflater = zlib.decompressobj()
    found = inflater.decompress(body, most)
    if len(found) < most and not inflater.eof:
        raise ValueError("it is cut off")
    return found


def _of_lz4(body: bytes, most: int) -> bytes:
    inflater = LZ4FrameDecompressor()
    found: bytes = inflater.decompress(body, most)
    if len(found) < most and not inflater.eof:
        raise ValueError("it is cut off")
    return found


def _of_zstd(body: bytes, most: int) -> bytes:
    """A frame need not tell its length, and one that is cut off ends like a whole one: its last block has a mark."""
    found, inflater = io.BytesIO(), zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()
    for at in range(0, len(body), _ZSTD_STEP):
        found.write(inflater.decompress(body[at : at + _ZSTD_STEP]))
        if found.tell() >= most or inflater.eof:
            break
    if found.tell() < most and not inflater.eof:
        raise ValueError("it is cut off")
    return found.getvalue()[:most]


_INFLATE: Final = {0: _of_zlib, 1: _of_lz4, 2: _of_zstd, 3: _of_zlib}

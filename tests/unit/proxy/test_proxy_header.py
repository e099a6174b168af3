"""PROXY headers: what is one, what is not, and that nothing in between is taken for one."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from google_crc32c import value as crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.protocols.proxy import (
    MAX_HEADER_BYTES,
    MalformedProxyHeaderError,
    ProxyHeader,
    ProxyTls,
    begins_header,
    parse_header,
)
from entrepot.protocols.proxy.layout import SIGNATURE
from tests.support.cases import cases

V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6).map(str)
PORT = st.integers(0, 65_535)
PAIRS = st.one_of(st.tuples(V4, V4), st.tuples(V6, V6))
NAME = st.text(max_size=40)


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!BH", kind, len(value)) + value


def tls_tlv(client: int, verify: int, *parts: bytes) -> bytes:
    return tlv(0x20, struct.pack("!BI", client, verify) + b"".join(parts))


def binary(source: tuple[str, int], destination: tuple[str, int], *tlvs: bytes, command: int = 1) -> bytes:
    hosts = [ipaddress.ip_address(source[0]), ipaddress.ip_address(destination[0])]
    body = hosts[0].packed + hosts[1].packed + struct.pack("!HH", source[1], destination[1]) + b"".join(tlvs)
    return SIGNATURE + struct.pack("!BBH", 0x20 | command, 0x11 if hosts[0].version == 4 else 0x21, len(body)) + body


def text(source: tuple[str, int], destination: tuple[str, int]) -> bytes:
    family = "TCP6" if ":" in source[0] else "TCP4"
    return f"PROXY {family} {source[0]} {destination[0]} {source[1]} {destination[1]}\r\n".encode()


@given(PAIRS, PORT, PORT, st.sampled_from([text, binary]), st.binary(max_size=30))
def test_every_header_comes_out_as_it_went_in(pair, port, other_port, encode, rest) -> None:
    source, destination = (pair[0], port), (pair[1], other_port)
    wire = encode(source, destination)
    assert parse_header(wire + rest) == (ProxyHeader(source, destination), len(wire))
    assert begins_header(wire)


@given(PAIRS, PORT, st.sampled_from([text, binary]))
def test_a_header_that_is_not_all_there_needs_more(pair, port, encode) -> None:
    wire = encode((pair[0], port), (pair[1], 0))
    assert [parse_header(wire[:size]) for size in range(len(wire))] == [None] * len(wire)


@given(st.binary(max_size=80), st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"]))
@example(b"", b"")
def test_any_bytes_are_a_header_or_refused_or_too_few(data: bytes, start: bytes) -> None:
    wire = start + data
    try:
        parsed = parse_header(wire)
    except MalformedProxyHeaderError:
        return
    if parsed is None:
        assert len(wire) < MAX_HEADER_BYTES
    else:
        header, size = parsed
        assert 0 < size <= len(wire)
        assert parse_header(wire[:size]) == (header, size)


@given(st.data(), PAIRS, PORT)
def test_a_changed_byte_never_makes_it_longer_than_its_limit(data, pair, port) -> None:
    wire = bytearray(binary((pair[0], port), (pair[1], 1), tlv(2, b"host")))
    wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    try:
        parsed = parse_header(bytes(wire))
    except MalformedProxyHeaderError:
        return
    assert parsed is None or parsed[1] <= MAX_HEADER_BYTES


@given(NAME, NAME)
def test_extensions_of_version_2(name: str, host: str) -> None:
    ours, theirs = ("1.2.3.4", 5), ("6.7.8.9", 10)
    wire = binary(
        ours,
        theirs,
        tlv(0xEA, b"own"),
        tlv(2, host.encode()),
        tls_tlv(0x07, 0, tlv(0x22, name.encode()), tlv(0x21, b"x")),
    )
    assert parse_header(wire) == (ProxyHeader(ours, theirs, ProxyTls(name), host), len(wire))


@cases(
    "client, verify, expected",
    [
        (0x01 | 0x02, 0, ProxyTls("me")),
        (0x01 | 0x04, 0, ProxyTls("me")),
        (0x01 | 0x02, 1, ProxyTls()),  # not verified
        (0x01, 0, ProxyTls()),  # no certificate was shown
        (0x02, 0, None),  # no TLS at all
    ],
)
def test_a_name_counts_only_if_its_certificate_was_shown_and_verified(client, verify, expected) -> None:
    wire = binary(("1.2.3.4", 5), ("6.7.8.9", 10), tls_tlv(client, verify, tlv(0x22, b"me")))
    parsed = parse_header(wire)
    assert parsed is not None
    assert parsed[0].tls == expected


def test_the_checksum_is_checked() -> None:
    wire = binary(("1.2.3.4", 5), ("6.7.8.9", 10), tlv(2, b"a"), tlv(3, bytes(4)))
    right = wire[:-4] + crc32c(wire).to_bytes(4, "big")
    assert parse_header(right) is not None
    with pytest.raises(MalformedProxyHeaderError):
        parse_header(wire[:-4] + (crc32c(wire) ^ 1).to_bytes(4, "big"))


@cases(
    "wire",
    [
        b"PROXY UNKNOWN\r\n",
        b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n",
        SIGNATURE + b"\x20\x00\x00\x00",
        SIGNATURE + b"\x20\x11\x00\x05abcde",  # LOCAL: the rest is passed over
        SIGNATURE + b"\x21\x00\x00\x00",  # UNSPEC
        SIGNATURE + b"\x21\x00\x00\x04" + tlv(4, b"x"),
        SIGNATURE + b"\x21\x31\x00\xd8" + bytes(216),  # UNIX
        SIGNATURE + b"\x21\x12\x00\x0c" + bytes(12),  # UDP
    ],
)
def test_headers_that_name_nobody(wire: bytes) -> None:
    assert parse_header(wire + b"rest") == (ProxyHeader(), len(wire))


@cases(
    "wire",
    [
        b"\x10\x0e",
        b"PUT / HTTP/1.1\r\n",
        b"PROXY\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n",
        b"PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n",
        b"PROXY TCP4 1.2.3.04 5.6.7.8 1 2\r\n",
        b"PROXY TCP4 ::1 ::2 1 2\r\n",
        b"PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n",
        b"PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n",
        b"PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n",
        b"PROXY UNKNOWN" + b"x" * 100 + b"\r\n",
        SIGNATURE[:-1] + b"X" + b"\x21\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x11\x11\x00\x0c" + bytes(12),  # version 1
        SIGNATURE + b"\x22\x11\x00\x0c" + bytes(12),  # command 2
        SIGNATURE + b"\x21\x13\x00\x0c" + bytes(12),  # transport 3
        SIGNATURE + b"\x21\x41\x00\x0c" + bytes(12),  # family 4
        SIGNATURE + b"\x21\x11\x00\x0b" + bytes(11),
        SIGNATURE + b"\x21\x11\xff\xff",
        SIGNATURE + b"\x21\x11\x00\x0e" + bytes(14),  # half an extension
        SIGNATURE + b"\x21\x11\x00\x0f" + bytes(12) + b"\x01\x00\x01",  # longer than the header
        SIGNATURE + b"\x21\x11\x00\x13" + bytes(12) + tlv(0x20, bytes(4)),
        SIGNATURE + b"\x21\x11\x00\x10" + bytes(12) + tlv(2, b"\xff"),
    ],
)
def test_what_is_no_header_is_refused(wire: bytes) -> None:
    with pytest.raises(MalformedProxyHeaderError):
        parse_header(wire)


@cases(
    "begin, is_header",
    [
        (b"PROXY TCP4 ", True),
        (b"PROX", True),
        (b"P", True),
        (SIGNATURE + b"\x21", True),
        (SIGNATURE[:5], True),
        (b"PRI * HTTP/2.0\r\n", False),
        (b"PR\x00", False),
        (b"\x0d\x0a\x00", False),
        (b"\x10\x0d", False),
    ],
)
def test_the_begin_of_a_header_and_of_http2(begin: bytes, is_header: bool):
    assert begins_header(begin) is is_header

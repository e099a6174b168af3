"""Parser of PROXY headers, for both versions.  The first byte decides if a stream begins with a header: no served
protocol begins with one of the two.  Invariant: a header is bounded (`MAX_HEADER_BYTES`), and any invalid one is
refused as a whole."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from google_crc32c import value as crc32c

from entrepot.protocols.proxy.layout import (
    CLIENT_CERTIFICATES,
    CLIENT_SSL,
    COMMAND_LOCAL,
    COMMAND_PROXY,
    FIXED_BYTES,
    KNOWN_FAMILIES,
    MAX_HEADER_BYTES,
    MAX_V1_BYTES,
    SIGNATURE,
    SUBTYPE_SSL_CN,
    TCP4,
    TCP6,
    TYPE_AUTHORITY,
    TYPE_CRC32C,
    TYPE_SSL,
    VERSION,
)

Address = tuple[str, int]
_V1_START = b"PROXY"
_TLV = struct.Struct("!BH")
_SSL = struct.Struct("!BI")


class MalformedProxyHeaderError(Exception):
    """The bytes begin like a header and are invalid."""


@dataclass(frozen=True, slots=True)
class ProxyTls:
    """The client's TLS connection to the proxy.  `common_name`: that of its certificate; empty without a verified
    one."""

    common_name: str = ""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """A proxy's header.  Without `source` the proxy speaks for itself (LOCAL), or does not name the client."""

    source: Address | None = None
    destination: Address | None = None
    tls: ProxyTls | None = None
    """None if the client did not come by TLS, or the proxy does not say."""
    authority: str = ""
    """Host name that the client asked for (SNI)."""


def begins_header(data: bytes) -> bool:
    """True if a stream with these first bytes, at least one, begins with a header.  HTTP/2 begins with a `P`, too."""
    return any(data[: len(start)] == start[: len(data)] for start in (SIGNATURE, _V1_START))


def parse_header(data: bytes) -> tuple[ProxyHeader, int] | None:
    """Return the header of a stream and its size in bytes; None while more bytes are needed.  Raises
    MalformedProxyHeaderError."""
    if data[:1] == _V1_START[:1]:
        return _parse_text(data)
    if data[:1] == SIGNATURE[:1]:
        return _parse_binary(data)
    if data:
        raise MalformedProxyHeaderError("there is no PROXY header")
    return None


# -- version 1: text -------------------------------------------------------------------------------------------------


def _parse_text(data: bytes) -> tuple[ProxyHeader, int] | None:
    line, end, _ = data[:MAX_V1_BYTES].partition(b"\r\n")
    if not end:
        if len(data) >= MAX_V1_BYTES or not (_V1_START + b" ").startswith(data[: len(_V1_START) + 1]):
            raise MalformedProxyHeaderError("a text header without an end")
        return None
    words = line.split(b" ")
    if words[:2] == [_V1_START, b"UNKNOWN"]:
        return ProxyHeader(), len(line) + 2
    if len(words) != 6 or words[0] != _V1_START or words[1] not in (b"TCP4", b"TCP6"):
        raise MalformedProxyHeaderError("a text header that says nothing known")
    version = 4 if words[1] == b"TCP4" else 6
    source = _address(words[2], version), _port(words[4])
    destination = _address(words[3], version), _port(words[5])
    return ProxyHeader(source, destination), len(line) + 2


def _address(word: bytes, version: int) -> str:
    try:
        address = ipaddress.ip_address(word.decode("ascii"))
    except ValueError as error:
        raise MalformedProxyHeaderError("no address where one belongs") from error
    if address.version != version or b"%" in word:
        raise MalformedProxyHeaderError("an address of another family")
    return str(address)


def _port(word: bytes) -> int:
    if not (word.isdigit() and len(word) <= 5 and int(word) < 65_536 and (word == b"0" or word[:1] != b"0")):
        raise MalformedProxyHeaderError("no port where one belongs")
    return int(word)


# -- version 2: binary -----------------------------------------------------------------------------------------------


def _parse_binary(data: bytes) -> tuple[ProxyHeader, int] | None:
    start = data[: len(SIGNATURE)]
    if not SIGNATURE.startswith(start):
        raise MalformedProxyHeaderError("the signature is wrong")
    if len(data) < FIXED_BYTES:
        return None
    version, command, family = data[12] >> 4, data[12] & 0x0F, data[13]
    size = FIXED_BYTES + int.from_bytes(data[14:16], "big")
    if version != VERSION or command not in (COMMAND_LOCAL, COMMAND_PROXY):
        raise MalformedProxyHeaderError(f"version {version}, command {command}")
    if size > MAX_HEADER_BYTES:
        raise MalformedProxyHeaderError(f"a header of {size} bytes")
    if len(data) < size:
        return None
    if command == COMMAND_LOCAL:
        return ProxyHeader(), size  # the rest is to be skipped (2.2)
    addresses = KNOWN_FAMILIES.get(family)
    if addresses is None or size < FIXED_BYTES + addresses:
        raise MalformedProxyHeaderError(f"address family {family:#x} with {size - FIXED_BYTES} bytes")
    source, destination = _binary_addresses(family, data[FIXED_BYTES : FIXED_BYTES + addresses])
    tls, authority = _extensions(data[:size], FIXED_BYTES + addresses)
    return ProxyHeader(source, destination, tls, authority), size


def _binary_addresses(family: int, data: bytes) -> tuple[Address | None, Address | None]:
    if family not in (TCP4, TCP6):
        return None, None  # UDP, UNIX, or unspecified
    width = 4 if family == TCP4 else 16
    ports = struct.unpack_from("!HH", data, 2 * width)
    hosts = (str(ipaddress.ip_address(data[:width])), str(ipaddress.ip_address(data[width : 2 * width])))
    return (hosts[0], ports[0]), (hosts[1], ports[1])


def _extensions(header: bytes, start: int) -> tuple[ProxyTls | None, str]:
    tls, authority = None, ""
    for kind, at, size in _type_length_values(header, start, len(header)):
        if kind == TYPE_CRC32C:
            _check_sum(header, at, size)
        elif kind == TYPE_AUTHORITY:
            authority = _text(header[at : at + size])
        elif kind == TYPE_SSL:
            tls = _tls(header, at, size)
    return tls, authority


def _tls(header: bytes, at: int, size: int) -> ProxyTls | None:
    if size < _SSL.size:
        raise MalformedProxyHeaderError("a TLS extension that is too short")
    client, unverified = _SSL.unpack_from(header, at)
    common_name = ""
    for kind, place, length in _type_length_values(header, at + _SSL.size, at + size):
        if kind == SUBTYPE_SSL_CN:
            common_name = _text(header[place : place + length])
    if not client & CLIENT_SSL:
        return None
    return ProxyTls(common_name if client & CLIENT_CERTIFICATES and not unverified else "")


def _type_length_values(header: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (type, start of the value, its length) of each extension."""
    while at < end:
        if end - at < _TLV.size:
            raise MalformedProxyHeaderError("an extension without a length")
        kind, size = _TLV.unpack_from(header, at)
        at += _TLV.size
        if size > end - at:
            raise MalformedProxyHeaderError("an extension longer than its header")
        yield kind, at, size
        at += size


def _check_sum(header: bytes, at: int, size: int) -> None:
    if size != 4 or crc32c(header[:at] + bytes(4) + header[at + 4 :]) != int.from_bytes(header[at : at + 4], "big"):
        raise MalformedProxyHeaderError("the checksum does not match")


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedProxyHeaderError("text that is not UTF-8") from error

"""Constants of the PROXY protocol (HAProxy's proxy-protocol.txt)."""

from __future__ import annotations

from typing import Final

MAX_V1_BYTES: Final = 107
"""Longest text header, with its line end (2.1)."""
MAX_HEADER_BYTES: Final = 4096
"""Longest accepted binary header: addresses and some extensions.  The format allows 65551."""

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
FIXED_BYTES: Final = 16
"""Signature, version and command, family, length."""

VERSION: Final = 2
COMMAND_LOCAL: Final = 0
COMMAND_PROXY: Final = 1

TCP4: Final = 0x11
TCP6: Final = 0x21
KNOWN_FAMILIES: Final = {0x00: 0, TCP4: 12, 0x12: 12, TCP6: 36, 0x22: 36, 0x31: 216, 0x32: 216}
"""Bytes of the two addresses, by family and transport."""

TYPE_AUTHORITY: Final = 0x02
TYPE_CRC32C: Final = 0x03
TYPE_SSL: Final = 0x20
SUBTYPE_SSL_CN: Final = 0x22
CLIENT_SSL: Final = 0x01
CLIENT_CERTIFICATES: Final = 0x02 | 0x04
"""A certificate was shown on this connection, or in the TLS session that it resumes."""

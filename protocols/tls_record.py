"""The beginning of a TLS connection, as a port sees it that takes plaintext, too."""

from __future__ import annotations

from typing import Final

HANDSHAKE: Final = 0x16
"""First byte of a record with a ClientHello (RFC 8446, 5.1: `ContentType.handshake`)."""

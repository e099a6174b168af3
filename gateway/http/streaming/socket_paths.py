"""Paths of the WebSockets for events: `/topics/{topic}/eventsubscriptions/{group}:stream`, and those of namespaces."""

from __future__ import annotations

from typing import Final

SUFFIX: Final = b":stream"


def place_in(raw_path: bytes) -> tuple[bytes | None, bytes, bytes] | None:
    """Namespace, topic and group of a raw path, with or without a query; None for another path."""
    raw_path = raw_path.partition(b"?")[0]
    if not raw_path.endswith(SUFFIX):
        return None
    parts = raw_path[: -len(SUFFIX)].split(b"/")
    namespace = None
    if len(parts) == 7 and parts[1] == b"namespaces":
        namespace, parts = parts[2], [parts[0], *parts[3:]]
    if len(parts) != 5 or parts[0] or parts[1] != b"topics" or parts[3] != b"eventsubscriptions":
        return None
    return namespace, parts[2], parts[4]

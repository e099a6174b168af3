"""Records for MQTT subscribers: the PUBLISH of a message without properties is cut out of its record, without
decoding."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.encoder import PublishTemplate, publish_head
from entrepot.protocols.mqtt.properties import EMPTY
from entrepot.protocols.wire.stored_record import name_and_body

KEPT_HEADS: Final = 4096
KEPT_NAME_BYTES: Final = 512
"""Limits of the cache of heads, shared by all connections: entries, and bytes of a name.  A full cache is cleared."""

_heads: Final[dict[tuple[bytes, int, int], bytes]] = {}
"""Heads by name, bytes after the packet identifier, and QoS."""


def template_of_record(record: bytes, most_qos: int, version: int) -> PublishTemplate | None:
    """Return the PUBLISH (3.3) of a checked record, at `most_qos` at most; None for a message with properties."""
    found = name_and_body(record)
    if found is None:
        return None
    name, payload, qos = found
    if qos > most_qos:
        qos = most_qos
    tail, aliasable = payload, None
    if version == 5:
        tail, aliasable = b"\0" + payload, (name.decode(), payload, False, EMPTY)
    head = _heads.get((name, len(tail), qos)) or _encode_head(name, len(tail), qos)
    if not qos:
        return PublishTemplate(head + tail, b"", 0, aliasable)
    return PublishTemplate(head, tail, qos, aliasable)


def _encode_head(name: bytes, tail_bytes: int, qos: int) -> bytes:
    head = publish_head(0x30 | qos << 1, name, tail_bytes + (2 if qos else 0))
    if len(name) <= KEPT_NAME_BYTES:
        if len(_heads) >= KEPT_HEADS:
            _heads.clear()
        _heads[name, tail_bytes, qos] = head
    return head

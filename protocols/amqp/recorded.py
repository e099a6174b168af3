"""Records for AMQP consumers: the consumer's bytes are cut out of the record, without decoding it.  A record of an AMQP
message has the publisher's bytes in its properties (`mapping.origin`).  Applications repeat them, so decoded properties
are cached."""

from __future__ import annotations

from typing import Final

from entrepot.domain.message import SystemProperty
from entrepot.protocols.amqp.delivery import ContentTemplate, route_end
from entrepot.protocols.amqp.mapping import read_origin
from entrepot.protocols.wire.stored_record import decode_properties, properties_and_body

KEPT_ENTRIES: Final = 4096
KEPT_BYTES: Final = 512
"""Limits of the cache, shared by all connections: entries, and bytes of each entry.  A full cache is cleared."""

_kept: Final[dict[bytes, tuple[bytes, bytes]]] = {}
"""By a record's properties: the end of the method frame, and the content header's properties."""


def template_of_record(record: bytes) -> ContentTemplate | None:
    """Return the message of a checked record; None if it is not from AMQP."""
    properties, body = properties_and_body(record)
    known = _kept.get(properties)
    if known is None:
        if not properties:
            return None
        origin = decode_properties(properties)[0].get(SystemProperty.AMQP)
        if not isinstance(origin, bytes):
            return None
        exchange, routing_key, header = read_origin(origin)
        known = route_end(exchange, routing_key), header
        if len(properties) <= KEPT_BYTES:
            if len(_kept) >= KEPT_ENTRIES:
                _kept.clear()
            _kept[properties] = known
    return ContentTemplate(*known, body)

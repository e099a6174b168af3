"""Records for AMQP consumers: what they get of a message is cut out of its record, which is not decoded.

A message that came by AMQP has in its properties what its publisher said (`mapping.origin`), byte for byte.
Applications say the same again and again: what was read of some properties is kept.
"""

from __future__ import annotations

from typing import Final

from domain.message import SystemProperty
from protocols.amqp.delivery import ContentTemplate, route_end
from protocols.amqp.mapping import read_origin
from protocols.remoting.stored_record import decode_properties, properties_and_body

KEPT_ENTRIES: Final = 4096
KEPT_BYTES: Final = 512
"""Properties that are kept, of all connections together: so many, each of so many bytes at most.  All are forgotten
when there is no room."""

_kept: Final[dict[bytes, tuple[bytes, bytes]]] = {}
"""By a record's properties: the end of the method frame, and the content header's properties."""


def template_of_record(record: bytes) -> ContentTemplate | None:
    """The message of a checked record; None where it came by another door."""
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

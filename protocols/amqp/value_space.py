"""The value space of AMQP consumers: rows of `domain.value_space` (AMQP 0-9-1, 4.2.5 and 4.2.6.1).

They hold for messages of other protocols, and for what a queue adds.  An AMQP publisher's own properties reach
consumers byte for byte.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.value_space import Number, Rule, Space, Text, Whole
from entrepot.protocols.amqp.field_table import MAX_SHORT_STRING_BYTES
from entrepot.protocols.amqp.frames import CONTENT_HEAD_BYTES, FRAME_OVERHEAD

_AMQP: Final = "amqp"

USUAL_FRAME_MAX: Final = 131_072
"""The frame_max of most clients, and this server's default: a content header is never cut, so it ends there."""

ROUTING_KEY: Final = Text(_AMQP, "routing key", MAX_SHORT_STRING_BYTES, Rule.SHORTENED)
HEADER_NAME: Final = Text(
    _AMQP,
    "name of a header",
    MAX_SHORT_STRING_BYTES,
    Rule.SHORTENED,
    max_characters=128,
    also="of names that become equal the last one stays",
)
CONTENT_TYPE: Final = Text(_AMQP, "content-type", MAX_SHORT_STRING_BYTES, Rule.LEFT_OUT)
REPLY_TO: Final = Text(_AMQP, "reply-to", MAX_SHORT_STRING_BYTES, Rule.LEFT_OUT)
CORRELATION_ID: Final = Text(_AMQP, "correlation-id", MAX_SHORT_STRING_BYTES, Rule.LEFT_OUT)
PRIORITY: Final = Number(_AMQP, "priority", 0, 255)
TIMESTAMP: Final = Number(_AMQP, "timestamp", 0, (1 << 63) - 1)
PROPERTIES: Final = Whole(
    _AMQP,
    "all properties",
    USUAL_FRAME_MAX - FRAME_OVERHEAD - CONTENT_HEAD_BYTES,
    also="first goes what the queue would add, of `x-death` the oldest entries, then the longest header",
)

SPACES: Final[tuple[Space, ...]] = (
    ROUTING_KEY,
    HEADER_NAME,
    CONTENT_TYPE,
    REPLY_TO,
    CORRELATION_ID,
    PRIORITY,
    TIMESTAMP,
    PROPERTIES,
)

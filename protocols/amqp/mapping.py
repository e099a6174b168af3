"""AMQP messages to the domain's.

| AMQP                                | message                                                          |
|-------------------------------------|------------------------------------------------------------------|
| exchange, routing key, properties   | system amqp, byte for byte, as an AMQP consumer gets it          |
| header BCC                          | system amqp_bcc; a consumer does not get it                      |
| body                                | body                                                             |
| content-type                        | system content_type                                              |
| correlation-id, reply-to            | system correlation_id (bytes), reply_to                          |
| expiration                          | system expires_at_ms                                             |
| priority                            | system priority                                                  |
| headers that are text or numbers    | properties                                                       |
| headers `cloudEvents:x`, `cloudEvents_x` | property `ce_x`                                             |

The way back to AMQP consumers is `consumed`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from entrepot.domain.message import Destinations, Message, Properties, PropertyValue, SystemProperty, SystemValue
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.field_table import FieldTable, FieldValue, decode_table, encode_table

MQTT_EXCHANGE: Final = "amq.topic"
"""The exchange whose routing keys are MQTT's topic names."""
CE_PREFIX: Final = "ce_"
CE_HEADERS: Final = ("cloudEvents:", "cloudEvents_")
PROTOCOL: Final = "amqp"
CC: Final = "CC"
BCC: Final = "BCC"
"""Headers with further routing keys."""


def to_message(publish: Publish, destinations: Destinations, sub_topic: str, filter_hash: int, now_ms: int) -> Message:
    """Return the message of a publish to `destinations`.  Raises ValueError for an expiration that is not a number."""
    header = publish.header
    system: dict[str, SystemValue] = {SystemProperty.AMQP: origin(publish.exchange, publish.routing_key, header)}
    properties: Properties = ()
    if header.is_told_elsewhere:
        properties = _note_well_known(header, system, now_ms)
    topic, queue_id = destinations[0]
    return Message(
        topic,
        publish.body,
        sub_topic,
        queue_id,
        2,
        "",
        (),
        "",
        b"",
        now_ms,
        filter_hash,
        properties,
        system,
        destinations[1:],
    )


def _note_well_known(header: ContentHeader, system: dict[str, SystemValue], now_ms: int) -> Properties:
    if header.content_type is not None:
        system[SystemProperty.CONTENT_TYPE] = header.content_type
    if header.correlation_id is not None:
        system[SystemProperty.CORRELATION_ID] = header.correlation_id.encode()
    if header.reply_to is not None:
        system[SystemProperty.REPLY_TO] = header.reply_to
    if header.priority is not None:
        system[SystemProperty.PRIORITY] = str(header.priority)
    if header.expiration is not None:
        system[SystemProperty.EXPIRES_AT_MS] = now_ms + expiration_ms(header.expiration)
    headers = header.headers
    return tuple(_user_properties(headers)) if headers else ()


def expiration_ms(text: str) -> int:
    """Return the milliseconds of the property `expiration`.  Raises ValueError unless it is a number from 0 on."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"invalid expiration {text[:40]!r}")
    return int(text)


def _user_properties(headers: FieldTable) -> list[tuple[str, PropertyValue]]:
    found: list[tuple[str, PropertyValue]] = []
    for name, value in headers.items():
        plain = _plain(value)
        if plain is not None:
            for prefix in CE_HEADERS:
                if name.startswith(prefix):
                    name = CE_PREFIX + name[len(prefix) :]
            found.append((name, plain))
    return found


def _plain(value: FieldValue) -> PropertyValue | None:
    """Return a value that other protocols can express, or None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    return value if isinstance(value, str | bytes) else None


def origin(exchange: str, routing_key: str, header: ContentHeader) -> bytes:
    """Return the value of `SystemProperty.AMQP`: two short strings, and the content header's flags and properties."""
    source, key = exchange.encode(), routing_key.encode()
    return b"%c%b%c%b%b" % (len(source), source, len(key), key, header.data)


def without_bcc(publish: Publish) -> Publish:
    """Return the publish without its BCC header, as consumers get it."""
    headers = publish.header.headers or {}
    if BCC not in headers:
        return publish
    kept = {name: value for name, value in headers.items() if name != BCC}
    return publish._replace(header=publish.header.replaced(headers=kept))


def further_keys(header: ContentHeader, name: str) -> list[str]:
    """Return the routing keys of the header CC or BCC. An invalid header has none."""
    more = (header.headers or {}).get(name)
    return [key for key in more if isinstance(key, str)] if isinstance(more, list) else []


def bcc_of(keys: list[str]) -> bytes:
    """Return the value of `SystemProperty.AMQP_BCC`: a table with the keys."""
    return encode_table({BCC: list(keys)})


def read_bcc(message: Message) -> list[str]:
    """Return the routing keys of the BCC header that a message was published with."""
    kept = message.system.get(SystemProperty.AMQP_BCC)
    if not isinstance(kept, bytes):
        return []
    keys = decode_table(kept, 0, len(kept))[0].get(BCC)
    return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


def read_origin(kept: bytes) -> tuple[str, str, bytes]:
    """Reverse `origin`: return exchange, routing key and properties."""
    middle = 1 + kept[0]
    end = middle + 1 + kept[middle]
    return kept[1:middle].decode(), kept[middle + 1 : end].decode(), kept[end:]

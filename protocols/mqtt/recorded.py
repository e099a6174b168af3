"""Records for MQTT subscribers: the PUBLISH of a message that has nothing but a name and a payload is cut out of its
record, which is not decoded."""

from __future__ import annotations

from protocols.mqtt.encoder import PublishTemplate
from protocols.mqtt.properties import EMPTY
from protocols.mqtt.wire import write_varint
from protocols.remoting.stored_record import name_and_body


def template_of_record(record: bytes, most_qos: int, version: int) -> PublishTemplate | None:
    """The PUBLISH (3.3) of a checked record, at `most_qos` at most; None where the message has properties."""
    found = name_and_body(record)
    if found is None:
        return None
    name, payload, qos = found
    qos = min(qos, most_qos)
    is_five = version == 5
    tail = b"\0" + payload if is_five else payload
    size = len(name) + 2
    aliasable = (name.decode(), payload, False, EMPTY) if is_five else None
    if not qos:
        head = b"\x30%b%b%b%b" % (write_varint(size + len(tail)), len(name).to_bytes(2), name, tail)
        return PublishTemplate(head, b"", 0, aliasable)
    head = b"%c%b%b%b" % (0x30 | qos << 1, write_varint(size + 2 + len(tail)), len(name).to_bytes(2), name)
    return PublishTemplate(head, tail, qos, aliasable)

"""The parts of a stored message that each door cannot say: the doors' own encoders are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.domain.names import split_name
from entrepot.gateway.operations.journey.shapes import UnsaidShown
from entrepot.protocols.amqp.consumed import origin_of
from entrepot.protocols.cloudevents.mapping import to_event
from entrepot.protocols.mqtt.mapping import to_properties

if TYPE_CHECKING:
    from entrepot.domain.message import Message, StoredMessage
    from entrepot.domain.value_space import Unsaid


def unsaid_of(message: StoredMessage, default_type: str, now_ms: int) -> list[UnsaidShown]:
    """Return each value that a protocol's consumers get otherwise, or not at all (docs/cross-protocol.md)."""
    found: list[Unsaid] = []

    def tell(_message: Message, unsaid: Unsaid) -> None:
        found.append(unsaid)

    to_properties(message, now_ms, tell)
    origin_of(message, tell)
    to_event(message, split_name(message.topic)[0], default_type, tell)
    return [UnsaidShown(each.protocol, each.kind, each.name or None, each.rule) for each in dict.fromkeys(found)]

"""A stored message with its content, as operations show it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, UnsetType

from entrepot.domain.names import split_name
from entrepot.gateway.operations.nouns.message_head import HEAD, MessageShown, head_of
from entrepot.gateway.operations.row.shapes import Part, shown_as

if TYPE_CHECKING:
    from entrepot.domain.message import Place, PropertyValue
    from entrepot.gateway.operations.row.masking import Shown


class Property(Part, frozen=True):
    """A property of a message.  Names may repeat; `base64`: of a value that is not text."""

    name: str
    value: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET


class FullPlace(Part, frozen=True):
    topic: str
    namespace: str
    queue_id: int
    queue_offset: int


class FullMessageShown(MessageShown, frozen=True, kw_only=True):
    """All that is kept of a message"""

    qos: int
    properties: list[Property]
    system_properties: list[Property]
    places: list[FullPlace]
    body: str | None
    text: str | None
    is_masked: bool


_PROPERTY: Final = Property("unit", "celsius", "Yw==")
shown_as(_PROPERTY)
shown_as(
    FullMessageShown(
        **HEAD,
        queue_offset=41,
        qos=1,
        properties=[_PROPERTY],
        system_properties=[_PROPERTY],
        places=[FullPlace("orders", "default", 2, 41)],
        body="bm93",
        text="now",
        is_masked=False,
    )
)


def full_fields(shown: Shown) -> dict[str, Any]:
    """Return the fields of a whole message by name, as far as it is shown."""
    message = shown.message
    own = (message.topic, message.queue_id, message.queue_offset)
    places = [own, *(place for place in message.further_places if place != own)]
    return {
        **head_of(message),
        "queue_offset": message.queue_offset,
        "qos": message.qos,
        "properties": properties_shown(shown.properties),
        "system_properties": properties_shown(shown.system.items()),
        "places": [_place(place) for place in places],
        "body": None if shown.body is None else b64encode(shown.body).decode("ascii"),
        "text": _text(shown.body),
        "is_masked": shown.is_masked,
    }


def full_shown(shown: Shown) -> FullMessageShown:
    """Return a whole message, as far as it is shown."""
    return FullMessageShown(**full_fields(shown))


def properties_shown(properties: Iterable[tuple[str, PropertyValue]]) -> list[Property]:
    """Return properties; values may be bytes."""
    return [
        Property(name, value) if isinstance(value, str) else Property(name, base64=b64encode(value).decode("ascii"))
        for name, value in properties
    ]


def _place(place: Place) -> FullPlace:
    namespace, topic = split_name(place[0])
    return FullPlace(topic, namespace, place[1], place[2])


def _text(body: bytes | None) -> str | None:
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError:
        return None

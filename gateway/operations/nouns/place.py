"""A place in the log, as operations show it.  The offset is a text: JavaScript's numbers end at 2^53."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.domain.names import split_name
from entrepot.gateway.operations.row.shapes import Part

if TYPE_CHECKING:
    from entrepot.domain.message import Place


class PlaceShown(Part, frozen=True):
    topic: str
    namespace: str
    queue_id: int
    offset: str


def place_shown(place: Place) -> PlaceShown:
    """Return a place as it is shown."""
    namespace, topic = split_name(place[0])
    return PlaceShown(topic, namespace, place[1], str(place[2]))

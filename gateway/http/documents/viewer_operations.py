"""Operations that look at messages without consuming."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.documents.operation import Answer, Operation, Operations
from entrepot.gateway.http.documents.shapes import Shape
from entrepot.gateway.http.streaming.server_sent_events import MEDIA_TYPE
from entrepot.gateway.operations.operation import PREFIX

_EVENTS: Final = Shape({"type": "string"}, 'event: leftOut\ndata: {"count":12}\n\n')
_OF_TOPIC: Final = f"{PREFIX}/topics/{{name}}"
VIEWER_OPERATIONS: Final[Operations] = {
    ("GET", f"{_OF_TOPIC}:watch"): Operation(
        "watchMessages",
        {
            200: Answer(
                "Server-sent events: `begun`, `message`, and at the end of a second `leftOut` with a `count`",
                _EVENTS,
                MEDIA_TYPE,
            )
        },
    ),
}

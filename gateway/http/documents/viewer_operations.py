"""Operations that look at messages and groups without consuming."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.documents.operation import Answer, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Choice, Maybe, Shape
from entrepot.gateway.http.streaming.server_sent_events import MEDIA_TYPE
from entrepot.gateway.operations.operation import PREFIX

ID: Final = "019AF2C4A48D1549BA4F1FC100000000"
_EVENTS: Final = Shape({"type": "string"}, 'event: leftOut\ndata: {"count":12}\n\n')
_PLACE: Final = {"topic": "factory", "namespace": "default", "queueId": 2, "offset": "41"}
_OF_TOPIC: Final = f"{PREFIX}/topics/{{name}}"
VIEWER_OPERATIONS: Final[Operations] = {
    ("POST", f"{PREFIX}/messages:try"): Operation(
        "tryMessage",
        answers(
            {"door": Choice(("http", "mqtt", "amqp", "rocketmq")), "id": Maybe(ID), "routed": True, "places": [_PLACE]},
            "Durable: where it lies",
        ),
        example={"door": "mqtt", "name": "factory/line1/temp", "payload": "21.5", "qos": 1},
        description="Conversion, checks and rights are those of the protocol's clients.",
    ),
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

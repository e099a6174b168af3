"""Operations that look at messages and groups without consuming."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.documents.operation import Answer, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Choice, Maybe, Shape, listed, named, time
from entrepot.gateway.http.streaming.server_sent_events import MEDIA_TYPE

ID: Final = "019AF2C4A48D1549BA4F1FC100000000"
_PROPERTY: Final = {"name": "unit", "value?": "celsius", "base64?": "Yw=="}
_VIEWED: Final = named(
    "ViewedMessage",
    "A message as the caller may see it. Contents are null where `isHidden` is true",
    {
        "id": ID,
        "topic": "orders",
        "namespace": "default",
        "queueId": 2,
        "offset": "41",
        "bornTime": Maybe(time()),
        "storeTime": Maybe(time()),
        "size": 3,
        "keys": Maybe(["7"]),
        "tag": Maybe(""),
        "subTopic": Maybe("orders"),
        "messageGroup": Maybe(""),
        "properties": Maybe([_PROPERTY]),
        "systemProperties": Maybe([_PROPERTY]),
        "body": Maybe("bm93"),
        "isCut": False,
        "isHidden": False,
        "isMasked": False,
    },
)
_BODY: Final = Shape({"type": "string", "format": "binary"}, "now")
_EVENTS: Final = Shape({"type": "string"}, 'event: leftOut\ndata: {"count":12}\n\n')
_PLACE: Final = {"topic": "factory", "namespace": "default", "queueId": 2, "offset": "41"}
_OF_TOPIC: Final = f"{PREFIX}/topics/{{name}}"
VIEWER_OPERATIONS: Final[Operations] = {
    ("GET", f"{_OF_TOPIC}/messages"): Operation(
        "viewMessages",
        answers(
            listed(_VIEWED, next=Maybe("41"), lookedAt=32, minOffset=Maybe("0"), maxOffset=Maybe("44")),
            "The messages, and where to go on: `offset` of a queue, else `cursor`",
        ),
        description="Nothing is consumed. Keys, properties and bodies need SUB on the whole topic, and so do searches.",
    ),
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
    ("GET", f"{_OF_TOPIC}/messages/{{queue}}/{{offset}}"): Operation("viewMessage", answers(_VIEWED)),
    ("GET", f"{_OF_TOPIC}/messages/{{queue}}/{{offset}}/body"): Operation(
        "downloadBody", {200: Answer("The whole body, as a file", _BODY, "application/octet-stream")}
    ),
}

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
_ANSWERED: Final = {"asked": 2, "answered": 1, "missing": [{"name": "broker-1", "reason": "no answer within 1.5 s"}]}
_QUEUE_LAG: Final = {
    "topic": "orders",
    "queueId": 0,
    "committedOffset": "41",
    "maxOffset": "44",
    "inFlight": "1",
    "lag": "3",
    "lagSeconds": Maybe(12.5),
    "oldestTime": Maybe(time()),
}
_CONSUMER: Final = {
    "door": Choice(("amqp", "member", "mqtt", "rocketmq", "webhook", "websocket")),
    "client": "line-1",
    "user": Maybe("bob"),
    "address": Maybe("127.0.0.1"),
    "topics": ["orders"],
    "queues": Maybe([0]),
    "held": Maybe(1),
    "detail": Maybe("$share/workers/orders/#"),
    "gateway": Maybe("host-1:8080"),
}
_GATEWAYS: Final = {"asked": 2, "answered": 1, "missing": [{"name": "host-2:8080", "reason": "no answer within 1.5 s"}]}
_OF_GROUP: Final = f"{PREFIX}/groups/{{name}}"
_BODY: Final = Shape({"type": "string", "format": "binary"}, "now")
_EVENTS: Final = Shape({"type": "string"}, 'event: leftOut\ndata: {"count":12}\n\n')
_PLACE: Final = {"topic": "factory", "namespace": "default", "queueId": 2, "offset": "41"}
_OF_TOPIC: Final = f"{PREFIX}/topics/{{name}}"
VIEWER_OPERATIONS: Final[Operations] = {
    ("GET", f"{_OF_GROUP}/lag"): Operation(
        "getGroupLag",
        answers(
            listed(
                _QUEUE_LAG,
                next=Maybe("orders:0"),
                lag=Maybe("3"),
                inFlight=Maybe("1"),
                isComplete=True,
                answered=_ANSWERED,
            )
        ),
        description="Seconds are the age of the oldest unsettled message, and null while nobody tells it.",
    ),
    ("GET", f"{_OF_GROUP}/consumers"): Operation(
        "listGroupConsumers",
        answers(listed(_CONSUMER, isCut=False, answered=_GATEWAYS)),
        description="`gateway` is null for members and webhooks, which are of no one gateway.",
    ),
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

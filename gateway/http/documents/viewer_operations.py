"""Operations that look at messages and groups without consuming."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.documents.operation import Answer, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Maybe, Shape, listed, named, time

_PROPERTY: Final = {"name": "unit", "value?": "celsius", "base64?": "Yw=="}
_VIEWED: Final = named(
    "ViewedMessage",
    "A message as the caller may see it. Contents are null where `isHidden` is true",
    {
        "id": "019AF2C4A48D1549BA4F1FC100000000",
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
    ("GET", f"{_OF_TOPIC}/messages/{{queue}}/{{offset}}"): Operation("viewMessage", answers(_VIEWED)),
    ("GET", f"{_OF_TOPIC}/messages/{{queue}}/{{offset}}/body"): Operation(
        "downloadBody", {200: Answer("The whole body, as a file", _BODY, "application/octet-stream")}
    ),
}

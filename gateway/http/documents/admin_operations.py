"""Operations of the administration that are no rows of the table yet: dead letters, messages."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.admin.dead_letters import NDJSON
from entrepot.gateway.http.admin.messages import STATES
from entrepot.gateway.http.documents.event_operations import REFUSAL
from entrepot.gateway.http.documents.operation import Answer, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import (
    Choice,
    Maybe,
    Shape,
    listed,
    members_of,
    named,
    of_shown,
    time,
)
from entrepot.gateway.operations.message_head import MessageShown

ID: Final = "019AF2C4A48D1549BA4F1FC100000000"

_HEAD: Final = members_of(MessageShown)
_PROPERTY: Final = {"name": "unit", "value?": "celsius", "base64?": "Yw=="}
_CONTENT: Final = {
    "qos": 1,
    "properties": [_PROPERTY],
    "systemProperties": [_PROPERTY],
    "places": [{"topic": "orders", "namespace": "default", "queueId": 2, "queueOffset": 41}],
    "body": Maybe("bm93"),
    "text": Maybe("now"),
    "isMasked": False,
}
_MESSAGE: Final = of_shown(MessageShown)
_FULL: Final = named("FullMessage", "All that is kept of a message", {**_HEAD, **_CONTENT})
_ORIGIN: Final = {"topic": "orders", "namespace": "default", "queueId": Maybe(2), "queueOffset": Maybe(41)}
_LETTER_HEAD: Final = {
    "offset": 3,
    "reason": Maybe("rejected"),
    "time": Maybe(time()),
    "attempts": Maybe(16),
    "origin": Maybe({**_ORIGIN, "id": Maybe(ID)}),
}
_LETTER: Final = named("DeadLetter", "A message that was given up, and why", {**_LETTER_HEAD, **_HEAD})
_REASON: Final = {
    "reason": "rejected",
    "count": 2,
    "firstOffset": "3",
    "oldest": Maybe(time()),
    "newest": Maybe(time()),
}
_LINES: Final = Shape(
    {"type": "string", "description": "A JSON object for each line: a dead letter with its content"},
    '{"offset": 3, "reason": "rejected", "body": "bm93"}\n',
)
_NEXT: Final = Maybe("AAAB")
_DEAD: Final = f"{PREFIX}/groups/{{name}}/dead-letters"

TOPIC_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/topics/{{name}}/queues/{{queue}}/messages"): Operation(
        "pullMessages", answers(listed(_FULL, nextOffset=42, minOffset=0, maxOffset=44))
    ),
}
GROUP_OPERATIONS: Final[Operations] = {
    ("GET", _DEAD): Operation("listDeadLetters", answers(listed(_LETTER, next=Maybe(35)))),
    ("POST", f"{_DEAD}:resend"): Operation(
        "resendDeadLetters",
        answers({"resentOffsets": [3, 4], "failedOffsets": [{"offset": 7, "error": REFUSAL}], "next?": Maybe(35)}),
        example={"offsets": [3, 4]},
        description="`reason` chooses among the next 10,000 letters; `next` is the `fromOffset` of the next call.",
    ),
    ("POST", f"{_DEAD}:delete"): Operation(
        "deleteDeadLetters",
        answers({"deleted": 2, "failedOffsets": [{"offset": 7, "error": REFUSAL}], "next": Maybe(35)}),
        example={"reason": "rejected"},
        description="They are shown and resent no more. With `all` their topic is deleted, with its messages.",
    ),
    ("GET", f"{_DEAD}:reasons"): Operation(
        "countDeadLetters",
        answers(
            listed(
                {
                    "reason": "rejected",
                    "count": 2,
                    "firstOffset": "3",
                    "oldest": Maybe(time()),
                    "newest": Maybe(time()),
                },
                next=Maybe("10003"),
                lookedAt=10_000,
                total=12_000,
                isComplete=False,
            )
        ),
        description="Counts of the letters looked at; `total` has deleted ones in it.",
    ),
    ("GET", f"{_DEAD}:export"): Operation("exportDeadLetters", {200: Answer("All of them", _LINES, NDJSON)}),
}
MESSAGE_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/messages"): Operation("queryMessages", answers(listed(_MESSAGE, next=_NEXT))),
    ("GET", f"{PREFIX}/messages/{{id}}"): Operation("getMessage", answers({**_HEAD, **_CONTENT, "others": 0})),
    ("GET", f"{PREFIX}/messages/{{id}}/consumers"): Operation(
        "listMessageConsumers",
        answers(listed({"group": "workers", "state": Choice(tuple(STATES.values())), "attempts": 1})),
    ),
}
ADMIN_OPERATIONS: Final[Operations] = {**TOPIC_OPERATIONS, **GROUP_OPERATIONS, **MESSAGE_OPERATIONS}

"""Operations of the administration: topics, groups, messages, timers; `operator_operations.py` has the rest."""

from __future__ import annotations

from typing import Final

from entrepot.domain.allocation import AllocationStrategy
from entrepot.gateway.http.admin.common import PREFIX, schema_of
from entrepot.gateway.http.admin.dead_letters import NDJSON
from entrepot.gateway.http.admin.messages import STATES
from entrepot.gateway.http.admin.tiering import Accepting, Attaching, Restoring
from entrepot.gateway.http.documents.event_operations import REFUSAL
from entrepot.gateway.http.documents.operation import GONE, Answer, Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import (
    Anything,
    Choice,
    Maybe,
    Shape,
    listed,
    named,
    of_shown,
    time,
)
from entrepot.gateway.operations.topics import TableTopicShown

ID: Final = "019AF2C4A48D1549BA4F1FC100000000"
HANDLE: Final = "AQAAAZrxqmUAB29yZGVycwAB"

_TABLE_TOPIC: Final = of_shown(TableTopicShown)
_TIERING: Final = named(
    "Tiering",
    "How far a topic of one broker has come in the object store; queue ids are that broker's own",
    {
        "topic": "orders",
        "namespace": "default",
        "table": "orders/4f1c2a9e8b7d6c5a-0",
        "uploaded": [{"queueId": 0, "nextOffset": 41}],
        "lagMessages": 3,
        "segments": 2,
        "bytes": 65_536,
        "missingMessages": 300,
        "missing": [{"queueId": 0, "firstOffset": 300, "nextOffset": 600}],
        "problem": Maybe("the object store is away"),
    },
)
_RULE_FIELDS: Final = {
    "dedupSeconds": 600,
    "dataschema": Maybe("https://schemas.example/reading"),
    "onInvalid": Choice(("refuse", "divert")),
    "divertTo": Maybe("misfits"),
}
_RULES: Final = named(
    "EventRules",
    "What a topic asks of its events",
    {**_RULE_FIELDS, "schema": Maybe(Anything({"type": "object", "required": ["celsius"]}))},
)
_LISTED_RULES: Final = named(
    "ListedEventRules",
    "What a topic asks of its events, without its schema",
    {"topic": "factory", **_RULE_FIELDS, "schemaBytes": 120},
)
_ASSIGNMENT: Final = named(
    "Assignment",
    "The queues of a member, of this generation",
    {
        "generation": 2,
        "strategy": Choice(tuple(AllocationStrategy)),
        "members": ["line-1"],
        "leaseSeconds": 30.0,
        "queues": [{"queueId": 0, "committedOffset": 41, "maxOffset": 44}],
    },
)
_MEMBER: Final = {"member": "line-1", "queues": [0, 1], "leaseSeconds": 30.0, "expiresAt": time()}

_HEAD: Final = {
    "id": ID,
    "topic": "orders",
    "namespace": "default",
    "queueId": 2,
    "queueOffset": 41,
    "keys": ["7"],
    "tag": "",
    "subTopic": "orders",
    "messageGroup": "",
    "bornTime": Maybe(time()),
    "storeTime": Maybe(time()),
    "size": 3,
    "commitLogOffset": 8113,
}
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
_MESSAGE: Final = named("Message", "What tells one message from another", _HEAD)
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
_TIMER: Final = named(
    "Timer",
    "A message that waits for its time",
    {
        "handle": HANDLE,
        "deliverAt": time("2026-12-24T18:00:00.000Z"),
        **{name: value for name, value in _HEAD.items() if name != "queueOffset"},
    },
)
_HALF: Final = named(
    "HalfMessage",
    "A message that waits for its producer's commit",
    {
        "transactionId": Maybe("7F0000010001"),
        "checks": 1,
        "nextCheckAt": Maybe(time()),
        "ageSeconds": 8.5,
        "producer": Maybe("10.0.0.7"),
        **{name: value for name, value in _HEAD.items() if name != "queueOffset"},
    },
)
_NEXT: Final = Maybe("AAAB")
_DEAD: Final = f"{PREFIX}/groups/{{name}}/dead-letters"
_OF_GROUP: Final = f"{PREFIX}/groups/{{name}}/topics/{{topic}}"
_OFFSET: Final = {"queueId": 0, "offset": 44}

TOPIC_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/tiering"): Operation("listTiering", answers(listed(_TIERING))),
    ("POST", f"{PREFIX}/topics/{{name}}:restore"): Operation(
        "restoreTopic",
        {201: Answer("It is there", _TABLE_TOPIC)},
        body=Shape(schema_of(Restoring), {"tierSeconds": 31_536_000}),
    ),
    ("POST", f"{PREFIX}/tiering:attach"): Operation(
        "attachTable",
        {201: Answer("It is there", _TABLE_TOPIC)},
        body=Shape(schema_of(Attaching), {"url": "s3://their-bucket/entrepot", "table": "orders/4f1c2a9e8b7d6c5a-0"}),
    ),
    ("POST", f"{PREFIX}/tiering:accept"): Operation(
        "acceptTables",
        answers({"accepted": Maybe("telemetry")}),
        body=Shape(schema_of(Accepting), {"topic": "telemetry"}),
    ),
    ("GET", f"{PREFIX}/event-rules"): Operation(
        "listEventRules", answers(listed(_LISTED_RULES, next=Maybe("factory")))
    ),
    ("GET", f"{PREFIX}/topics/{{name}}/event-rules"): Operation("getEventRules", answers(_RULES)),
    ("PUT", f"{PREFIX}/topics/{{name}}/event-rules"): Operation(
        "putEventRules", answers(_RULES), example={"dedupSeconds": 600, "schema": {"type": "object"}}
    ),
    ("DELETE", f"{PREFIX}/topics/{{name}}/event-rules"): Operation("deleteEventRules", GONE),
    ("GET", f"{PREFIX}/topics/{{name}}/queues/{{queue}}/messages"): Operation(
        "pullMessages", answers(listed(_FULL, nextOffset=42, minOffset=0, maxOffset=44))
    ),
}
GROUP_OPERATIONS: Final[Operations] = {
    ("POST", f"{_OF_GROUP}/members/{{member}}"): Operation(
        "heartbeatMember", answers(_ASSIGNMENT), example={"leaseSeconds": 30, "strategy": "AVERAGED"}
    ),
    ("DELETE", f"{_OF_GROUP}/members/{{member}}"): Operation("removeMember", GONE),
    ("GET", f"{_OF_GROUP}/members"): Operation(
        "listMembers", answers(listed(_MEMBER, generation=2, strategy=Maybe(Choice(tuple(AllocationStrategy)))))
    ),
    ("POST", f"{_OF_GROUP}/offsets"): Operation(
        "commitOffsets",
        answers(listed({"queueId": 0, "committedOffset": 44})),
        example={"member": "line-1", "generation": 2, "offsets": [_OFFSET]},
    ),
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
    ("GET", f"{PREFIX}/timers"): Operation("listTimers", answers(listed(_TIMER, next=_NEXT))),
    ("DELETE", f"{PREFIX}/timers/{{handle}}"): Operation("recallMessage", GONE),
    ("PUT", f"{PREFIX}/timers/{{handle}}"): Operation(
        "retimeMessage",
        answers({"handle": HANDLE, "deliverAt": time()}),
        example={"deliverAt": "2026-12-25T08:00:00Z"},
    ),
    ("GET", f"{PREFIX}/transactions"): Operation("listTransactions", answers(listed(_HALF, next=Maybe("8113")))),
}
ADMIN_OPERATIONS: Final[Operations] = {**TOPIC_OPERATIONS, **GROUP_OPERATIONS, **MESSAGE_OPERATIONS}

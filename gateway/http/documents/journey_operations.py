"""Operations that tell where a message went: its journey."""

from __future__ import annotations

from typing import Final

from entrepot.domain.journey.model import JourneyKind, LaneKind
from entrepot.domain.value_space import Rule
from entrepot.gateway.http.admin.journeys.looking_up import By
from entrepot.gateway.http.documents.operation import Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Choice, Maybe, named, time
from entrepot.gateway.operations.message_head import HEAD
from entrepot.gateway.operations.messages import STATES
from entrepot.gateway.operations.operation import PREFIX

_PLACE: Final = {"topic": "orders", "namespace": "default", "queueId": 2, "offset": "41"}
_JOURNEY_MESSAGE: Final = {
    "at": "298771104882",
    "id": HEAD["id"],
    "place": _PLACE,
    "subTopic": "orders/shop-17",
    "tag": "",
    "messageGroup": "",
    "qos": 1,
    "bornTime": Maybe(time()),
    "storeTime": time(),
    "size": 301,
}
_JOURNEY_HOP: Final = {
    "kind": Choice(tuple(kind.value for kind in JourneyKind)),
    "isKnown": True,
    "time": Maybe(time()),
    "lane": "group/billing",
    "door": Maybe("mqtt"),
    "client": Maybe("webhook billing at gw-1:8080"),
    "gateway": Maybe("gw-1:8080"),
    "broker": Maybe("broker-1"),
    "epoch": Maybe("42"),
    "place": Maybe(_PLACE),
    "group": Maybe("billing"),
    "attempt": Maybe(2),
    "outcome": Maybe("HTTP 503, next try after 1.9 s"),
    "detail": Maybe("HTTP 503, next try after 1.9 s"),
}
_LANE: Final = {
    "id": "group/billing",
    "kind": Choice(tuple(kind.value for kind in LaneKind)),
    "name": "billing",
    "detail": Maybe("https://billing.example/in"),
}
_JOURNEY: Final = named(
    "Journey",
    "The hops of a message; those with a time first, in its order, and last what is not known",
    {
        "by": Choice(tuple(By)),
        "message": Maybe(_JOURNEY_MESSAGE),
        "names": Maybe(
            {
                "event": {"source": Maybe("/line1"), "id": Maybe("7"), "type": Maybe("reading")},
                "keys": ["7"],
                "correlationData": Maybe({"value?": "9f1c02aa", "base64?": "/w=="}),
                "amqpMessageId": Maybe("m-1"),
                "traceparent": Maybe("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            }
        ),
        "unsaid": [
            {
                "protocol": "amqp",
                "kind": "routing key",
                "name": Maybe("a header"),
                "fate": Choice(tuple(rule.value for rule in Rule)),
            }
        ],
        "candidates": [_JOURNEY_MESSAGE],
        "searched": Maybe({"topics": 1, "messages": 250, "bytes": 65_536, "until": Maybe(time()), "isComplete": True}),
        "lanes": [_LANE],
        "hops": [_JOURNEY_HOP],
        "known": 14,
        "unknown": 1,
        "hidden": {"hops": 0, "reason": Maybe("it takes GET or SUB on the group or the topic that they are about")},
        "groups": [
            {"group": "workers", "place": _PLACE, "state": Choice(tuple(STATES.values())), "attempts": 1},
        ],
        "storage": [
            {
                "place": _PLACE,
                "logOffset": "298771104882",
                "broker": Maybe("broker-1"),
                "epoch": Maybe("42"),
                "replicas": ["r0", "r1"],
                "lacking": ["r2"],
                "table": Maybe("topics/default/orders/broker-1"),
                "problem": Maybe("broker-1 is away"),
            }
        ],
        "cutCopies": 0,
        "missing": [{"name": "broker-2", "reason": "it is away"}],
    },
)
JOURNEY_OPERATIONS: Final[Operations] = {
    ("GET", f"{PREFIX}/journeys"): Operation("getJourney", answers(_JOURNEY)),
}

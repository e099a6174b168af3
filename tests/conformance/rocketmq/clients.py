"""Conversations about clients: routes, assignments, settings, heartbeats, and calls that few make."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.rocketmq.conversation import Conversation, Step
from tests.conformance.rocketmq.requests import GROUP, PRODUCER, PUSH, SIMPLE, TOPIC, settings

_AT: Final = {"scheme": "IPv4", "addresses": [{"host": "127.0.0.1", "port": 8081}]}


def _route(topic: Any = TOPIC, endpoints: Any = _AT) -> Step:
    return Step("QueryRoute", {"topic": topic, "endpoints": endpoints})


def _assigned(topic: Any = TOPIC, group: Any = GROUP) -> Step:
    return Step("QueryAssignment", {"topic": topic, "group": group, "endpoints": _AT})


def _beat(kind: str, **others: Any) -> Step:
    return Step("Heartbeat", {"client_type": kind, **others})


ROUTES: Final = (
    *(
        Conversation(f"a route of a {kind} topic", (_route(),), kind)
        for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "LITE", "PRIORITY")
    ),
    Conversation(
        "a route for Java 5.0.8", (_route(),), headers={"x-mq-language": "JAVA", "x-mq-client-version": "5.0.8"}
    ),
    Conversation(
        "a route for Java 5.2.1", (_route(),), headers={"x-mq-language": "JAVA", "x-mq-client-version": "5.2.1"}
    ),
    Conversation("a route in a namespace", (_route({"name": "$topic", "resource_namespace": "team"}),)),
    Conversation("a route of no topic", (_route({"name": ""}),)),
    Conversation("a route of a bad name", (_route({"name": "a.b"}),)),
    Conversation("a route of a topic that is not there", (_route({"name": "$topic-none"}),)),
    Conversation("a route of a system topic", (_route({"name": "TBW102"}),)),
    Conversation("a route without endpoints", (_route(endpoints={}),)),
    Conversation("an assignment", (_assigned(),)),
    Conversation("an assignment of an ordered group", (_assigned(),), fifo=True),
    Conversation("an assignment of no topic", (_assigned({"name": ""}),)),
    Conversation("an assignment without a group", (_assigned(group={"name": ""}),)),
    Conversation("an assignment of a topic that is not there", (_assigned({"name": "$topic-none"}),)),
)

_BACKOFF: Final = {"max_attempts": 3, "exponential_backoff": {"initial": "1s", "max": "2s", "multiplier": 2}}
_NEW: Final = settings("PUSH_CONSUMER", subscription={"group": {"name": "$group-new"}})
CLIENTS: Final = (
    Conversation("a producer's settings", (PRODUCER,)),
    Conversation("a simple consumer's settings", (SIMPLE,)),
    Conversation("a push consumer's settings", (PUSH,)),
    Conversation("an ordered push consumer's settings", (PUSH,), fifo=True),
    Conversation("settings of a group of three attempts", (PUSH,), max_attempts=3),
    Conversation("settings of a group that nobody made", (_NEW,)),
    Conversation("settings that say a backoff", (settings("PRODUCER", publishing={}, backoff_policy=_BACKOFF),)),
    Conversation("settings of nothing", (settings("PRODUCER"),)),
    Conversation("settings of a bad topic", (settings("PRODUCER", publishing={"topics": [{"name": "a.b"}]}),)),
    Conversation("settings without a group", (settings("SIMPLE_CONSUMER", subscription={}),)),
    Conversation("a producer's heartbeat", (PRODUCER, _beat("PRODUCER"))),
    Conversation("a consumer's heartbeat", (SIMPLE, _beat("SIMPLE_CONSUMER", group=GROUP))),
    Conversation("a heartbeat without settings", (_beat("PRODUCER"),)),
    Conversation("a consumer's heartbeat without a group", (SIMPLE, _beat("SIMPLE_CONSUMER"))),
    Conversation("a heartbeat of a bad group", (SIMPLE, _beat("SIMPLE_CONSUMER", group={"name": "a.b"}))),
    Conversation("a heartbeat of no type", (PRODUCER, _beat("CLIENT_TYPE_UNSPECIFIED"))),
    Conversation("a goodbye", (PRODUCER, Step("NotifyClientTermination", {}))),
    Conversation("a consumer's goodbye", (SIMPLE, Step("NotifyClientTermination", {"group": GROUP}))),
    Conversation("a goodbye without settings", (Step("NotifyClientTermination", {}),)),
    Conversation("no client id", (_route(),), headers={"x-mq-client-id": ""}),
)

_QUEUE: Final = {"topic": TOPIC, "id": 0}
RARE: Final = (
    Conversation("PullMessage", (Step("PullMessage", {"group": GROUP, "message_queue": _QUEUE, "batch_size": 1}),)),
    Conversation("GetOffset", (Step("GetOffset", {"group": GROUP, "message_queue": _QUEUE}),)),
    Conversation("QueryOffset", (Step("QueryOffset", {"message_queue": _QUEUE}),)),
    Conversation("UpdateOffset", (Step("UpdateOffset", {"group": GROUP, "message_queue": _QUEUE, "offset": 0}),)),
    Conversation(
        "a lite subscription without settings",
        (Step("SyncLiteSubscription", {"topic": TOPIC, "group": GROUP, "lite_topic_set": ["l"]}),),
        "LITE",
    ),
)

ABOUT_CLIENTS: Final = (*ROUTES, *CLIENTS, *RARE)

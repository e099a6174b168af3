"""Conversations of producers: what is taken, as which type, and what is refused with which code."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.rocketmq.conversation import Conversation, Step
from tests.conformance.rocketmq.requests import SIMPLE, TOPIC, message, receive, send

TAKEN_NAMES: Final = ("__x", "__SHARDINGKEY", "TRACE_CONTEXT", "REDIRECT", "CHECK_IMMUNITY_TIME_IN_SECONDS")
REFUSED_NAMES: Final = ("KEYS", "TAGS", "__BORNHOST", "__CRC32#", "__LITE_TOPIC", "_SYS_MSG_PRIORITY_", "ORIGIN_GROUP")
SYSTEM_TOPICS: Final = (
    *("TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_anything"),
    *("BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "CHECKPOINT_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"),
)


def _sent(name: str, *messages: dict[str, Any], message_type: str = "MIXED") -> Conversation:
    return Conversation(name, (send(*messages),), message_type)


def _there(name: str, *messages: dict[str, Any], message_type: str = "MIXED") -> Conversation:
    """Sent, and received where it was taken."""
    return Conversation(name, (SIMPLE, send(*messages), receive(polls=6)), message_type)


FIELDS: Final = (
    _there("a message with all its fields", message(tag="A", keys=["k1", "k2"], properties={"p": "v"}, born_host="h")),
    _there("user properties with Unicode", message(properties={"é": "ü 漢", "blank": " "})),
    _there("a property with no value", message(properties={"p": ""})),
    _sent("a property with no name", message(properties={"": "v"})),
    _sent("a blank name of a property", message(properties={" ": "v"})),
    _there("a trace context", message(trace_context="00-abc-def-01")),
    _there("a message of no type", message(message_type=None)),
    _there("a message of no encoding", message(body_encoding=None)),
    _sent("no message id", message(message_id=None)),
    _sent("a short message id", message(message_id="x")),
    _sent("an empty body", message(body=b"")),
    _sent("the largest body", message(body=b"x" * (4 << 20))),
    _sent("too large a body", message(body=b"x" * ((4 << 20) + 1))),
    _sent("a wrong digest", message(body_digest={"type": "MD5", "checksum": "00"})),
    _sent("gzip that is none", message(body_encoding="GZIP")),
    _sent("a control character in the name of a property", message(properties={"a\x01b": "v"})),
    _sent("a control character in the value of a property", message(properties={"p": "a\x02b"})),
    _sent("a line feed in a property", message(properties={"p": "a\nb"})),
    _sent("a C1 control character in a property", message(properties={"p": "a\x85b"})),
    _sent("129 properties", message(properties={f"p{number}": "v" for number in range(129)})),
    _sent("16 KiB of properties", message(properties={"p": "v" * 16384})),
    _sent("a tag with a bar", message(tag="a|b")),
    _sent("a blank tag", message(tag=" ")),
    _sent("a tag with a control character", message(tag="a\tb")),
    _sent("an empty tag", message(tag="")),
    _sent("a blank key", message(keys=[" "])),
    _sent("an empty key", message(keys=[""])),
    _sent("a key with a control character", message(keys=["a\x01"])),
    _there("a key with a space", message(keys=["a b"])),
    *(_there(f"a property named {name}", message(properties={name: "7"})) for name in TAKEN_NAMES),
    *(_sent(f"a property named {name}", message(properties={name: "v"})) for name in REFUSED_NAMES),
)

TYPES: Final = (
    _there("a message group", message(message_group="g", message_type="FIFO"), message_type="FIFO"),
    _there("a message group said to be NORMAL", message(message_group="g"), message_type="FIFO"),
    _there("a message group said to be NORMAL, any type", message(message_group="g")),
    _sent("a message group, the topic is NORMAL", message(message_group="g"), message_type="NORMAL"),
    _sent("NORMAL, the topic is FIFO", message(), message_type="FIFO"),
    _there("FIFO without a message group", message(message_type="FIFO")),
    _sent("FIFO without a message group, the topic is FIFO", message(message_type="FIFO"), message_type="FIFO"),
    _there("DELAY without a time", message(message_type="DELAY")),
    _there("a time said to be NORMAL", message(delivery_timestamp="$in 1s")),
    _there("a delivery time", message(delivery_timestamp="$in 1s", message_type="DELAY")),
    _there("PRIORITY without a priority", message(message_type="PRIORITY")),
    _there("LITE without a lite topic", message(message_type="LITE")),
    _there("a type that is none", message(message_type=99)),
    _there("a delivery time that has passed", message(delivery_timestamp="$in -60s", message_type="DELAY")),
    _sent("a delivery time in two days", message(delivery_timestamp="$in 172800s", message_type="DELAY")),
    _there("a group and a time", message(delivery_timestamp="$in 1s", message_group="g", message_type="DELAY")),
    _there(
        "a group and a time, said to be FIFO",
        message(delivery_timestamp="$in 1s", message_group="g"),
    ),
    _sent("a group and a transaction", message(message_group="g", message_type="TRANSACTION")),
    _sent("a time and a transaction", message(delivery_timestamp="$in 5s", message_type="TRANSACTION")),
    _there("a priority", message(priority=1, message_type="PRIORITY"), message_type="PRIORITY"),
    _there("a priority said to be NORMAL", message(priority=1), message_type="PRIORITY"),
    _sent("a priority, any type", message(priority=1, message_type="PRIORITY")),
    _sent("a negative priority", message(priority=-1, message_type="PRIORITY"), message_type="PRIORITY"),
    _sent("NORMAL, the topic is PRIORITY", message(), message_type="PRIORITY"),
    _sent("a lite topic, the topic is LITE", message(lite_topic="l", message_type="LITE"), message_type="LITE"),
    _sent("a lite topic said to be NORMAL", message(lite_topic="l"), message_type="LITE"),
    _sent("a lite topic that is *", message(lite_topic="*", message_type="LITE"), message_type="LITE"),
    _sent("a lite topic with a dot", message(lite_topic="a.b", message_type="LITE"), message_type="LITE"),
    _sent("a lite topic, any type", message(lite_topic="l", message_type="LITE")),
    _sent("a transaction, the topic is NORMAL", message(message_type="TRANSACTION"), message_type="NORMAL"),
    _sent("a long recovery time", message(message_type="TRANSACTION", orphaned_transaction_recovery_duration="7200s")),
    _sent("a blank message group", message(message_group=" ", message_type="FIFO")),
    _sent("a message group of 64 bytes", message(message_group="g" * 64, message_type="FIFO")),
    _sent("a message group with a control character", message(message_group="a\x01", message_type="FIFO")),
)

_SECOND: Final = message(message_id="$id2")
_SECOND_BAD: Final = message(message_id="$id2", tag="a|b")
BATCHES: Final = (
    Conversation("no message", (send(),)),
    _there("two messages", message(), message(message_id="$id2")),
    Conversation("two messages, the second is bad", (SIMPLE, send(message(), _SECOND_BAD), receive(polls=1))),
    Conversation("two messages, the first is bad", (SIMPLE, send(message(body=b""), _SECOND), receive(polls=1))),
    _sent("one message twice", message(), message()),
    _sent("a half message and another", message(message_type="TRANSACTION"), _SECOND),
    _sent("two topics", message(), message(topic={"name": "other"})),
    _sent("two message groups", message(message_group="g"), message(message_id="$id2", message_group="h")),
)

NAMES: Final = (
    _sent("to no topic", message(topic={"name": ""})),
    _sent("to a topic with a dot", message(topic={"name": "a.b"})),
    _sent("to a topic of 128 characters", message(topic={"name": "t" * 128})),
    _sent("to a topic that is not there", message(topic={"name": "$topic-none"})),
    _sent("to a topic of a namespace", message(topic={"name": "$topic", "resource_namespace": "team"})),
    _sent("to a topic with a bar", message(topic={"name": "a|b"})),
    _sent("to a topic of Unicode", message(topic={"name": "é"})),
    _sent("to dead letters", message(topic={"name": "%DLQ%nobody"})),
    _sent("to a retry topic", message(topic={"name": "%RETRY%nobody"})),
    *(_sent(f"to {name}", message(topic={"name": name})) for name in SYSTEM_TOPICS),
)

_END: Final = {"topic": TOPIC, "message_id": "$id1", "source": "SOURCE_CLIENT"}


def _end(resolution: str, transaction_id: str = "$sent.entries.0.transaction_id") -> Step:
    return Step("EndTransaction", {**_END, "transaction_id": transaction_id, "resolution": resolution})


_LATER: Final = message(delivery_timestamp="$in 600s", message_type="DELAY")
_RECALL: Final = Step("RecallMessage", {"topic": TOPIC, "recall_handle": "$sent.entries.0.recall_handle"})
_HALF: Final = send(message(message_type="TRANSACTION"))
LATER: Final = (
    Conversation("a transaction", (SIMPLE, _HALF, _end("COMMIT"), receive())),
    Conversation("a transaction ended twice", (_HALF, _end("COMMIT"), _end("COMMIT"))),
    Conversation("a transaction committed, then rolled back", (_HALF, _end("COMMIT"), _end("ROLLBACK"))),
    Conversation("a transaction rolled back", (_HALF, _end("ROLLBACK"))),
    Conversation("an unknown transaction", (_end("COMMIT", "nonsense"),)),
    Conversation("a transaction with no resolution", (_HALF, _end("TRANSACTION_RESOLUTION_UNSPECIFIED"))),
    Conversation("a recall", (send(_LATER), _RECALL)),
    Conversation("a recall sent again", (send(_LATER), _RECALL, _RECALL)),
    Conversation("a recall of nonsense", (Step("RecallMessage", {"topic": TOPIC, "recall_handle": "nonsense"}),)),
    Conversation("a recall of nothing", (Step("RecallMessage", {"topic": TOPIC}),)),
)

PRODUCING: Final = (*FIELDS, *TYPES, *BATCHES, *NAMES, *LATER)

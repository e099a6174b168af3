"""Steps that many conversations share, and the requests they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.rocketmq.conversation import Step

TOPIC: Final = {"name": "$topic"}
GROUP: Final = {"name": "$group"}
BODY: Final = b"body"
FIRST: Final = "$got.messages.0.system_properties"
HANDLE: Final = f"{FIRST}.receipt_handle"


def message(*, topic: Any = TOPIC, body: bytes = BODY, properties: Any = None, **system: Any) -> dict[str, Any]:
    """A message as clients send it, with other system properties; None leaves one out."""
    usual = {"message_id": "$id1", "body_encoding": "IDENTITY", "message_type": "NORMAL", **system}
    said = {name: value for name, value in usual.items() if value is not None}
    return {"topic": topic, "body": body, "user_properties": properties or {}, "system_properties": said}


def send(*messages: Mapping[str, Any], name: str = "sent") -> Step:
    return Step("SendMessage", {"messages": list(messages)}, name)


def receive(
    *,
    tag: str = "*",
    sql: str = "",
    seconds: int = 30,
    wait: str = "1s",
    polls: int = 8,
    **others: Any,
) -> Step:
    """Receive messages that become invisible for so long. `polls`: 1 where none is to come."""
    wanted = {"type": "SQL", "expression": sql} if sql else {"type": "TAG", "expression": tag}
    request: dict[str, Any] = {
        "group": GROUP,
        "message_queue": {"topic": TOPIC, "id": -1},
        "filter_expression": wanted,
        "batch_size": 16,
        "invisible_duration": f"{seconds}s",
        "long_polling_timeout": wait,
        **others,
    }
    return Step("ReceiveMessage", {key: each for key, each in request.items() if each is not None}, "got", polls)


def acknowledge(*handles: str, topic: Any = TOPIC, group: Any = GROUP, message_id: str = "$id1") -> Step:
    entries = [{"message_id": message_id, "receipt_handle": handle} for handle in handles]
    return Step("AckMessage", {"group": group, "topic": topic, "entries": entries})


def change(handle: str = HANDLE, seconds: int = 30, *, name: str = "changed", group: Any = GROUP) -> Step:
    request = {"group": group, "topic": TOPIC, "receipt_handle": handle, "message_id": "$id1"}
    return Step("ChangeInvisibleDuration", {**request, "invisible_duration": f"{seconds}s"}, name)


def forward(handle: str = HANDLE) -> Step:
    """To the dead letters."""
    request = {"group": GROUP, "topic": TOPIC, "receipt_handle": handle, "message_id": "$id1"}
    return Step("ForwardMessageToDeadLetterQueue", {**request, "delivery_attempt": 1, "max_delivery_attempts": 17})


def settings(kind: str, **about: Any) -> Step:
    """The description of a client on its Telemetry stream, and the answer."""
    agent = {"language": "PYTHON", "version": "5.1", "hostname": "here"}
    said = {"client_type": kind, "user_agent": agent, "request_timeout": "3s", **about}
    return Step("Telemetry", {"settings": said}, "settings")


SIMPLE: Final = settings("SIMPLE_CONSUMER", subscription={"group": GROUP, "subscriptions": [{"topic": TOPIC}]})
PUSH: Final = settings("PUSH_CONSUMER", subscription={"group": GROUP, "subscriptions": [{"topic": TOPIC}]})
PRODUCER: Final = settings("PRODUCER", publishing={"topics": [TOPIC], "max_body_size": 100})

"""Conversations of consumers: receiving, settling, dead letters, and what is refused."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.rocketmq.conversation import Conversation, Step
from tests.conformance.rocketmq.requests import (
    HANDLE,
    SIMPLE,
    acknowledge,
    change,
    forward,
    message,
    receive,
    send,
)

_SENT: Final = (SIMPLE, send(message(tag="A", properties={"n": "1"})))
_GOT: Final = (*_SENT, receive())
_CHANGED: Final = "$changed.receipt_handle"


def _at_once(name: str, **others: Any) -> Conversation:
    """One receive, with nothing there."""
    return Conversation(name, (SIMPLE, receive(polls=1, wait="0s", **others)))


_NO_TOPIC: Final[dict[str, Any]] = {"message_queue": {"topic": {"name": "$topic-none"}, "id": -1}}

RECEIVING: Final = (
    _at_once("nothing there"),
    Conversation("a tag that matches", (*_SENT, receive(tag="A"))),
    Conversation("one of two tags", (*_SENT, receive(tag="B || A"))),
    Conversation("a tag that does not match", (*_SENT, receive(tag="B", polls=1))),
    Conversation("SQL that matches", (*_SENT, receive(sql="n = '1'"))),
    _at_once("SQL that is none", sql="n = = 1"),
    _at_once("no expression", filter_expression=None),
    _at_once("an expression of nothing", tag=""),
    _at_once("an invisible time of 1 s", seconds=1),
    _at_once("no invisible time", invisible_duration=None),
    _at_once("an invisible time of 13 h", seconds=46_800),
    _at_once("a batch of 0", batch_size=0),
    _at_once("a batch of -1", batch_size=-1),
    _at_once("a batch of 33", batch_size=33),
    _at_once("an attempt id", attempt_id="a"),
    _at_once("a filter of no type", filter_expression={"type": 9, "expression": "*"}),
    _at_once("a tag expression of bars", tag="|| ||"),
    _at_once("a negative polling time", long_polling_timeout="-1s"),
    _at_once("no topic", message_queue={"id": -1}),
    _at_once("no group", group={"name": ""}),
    _at_once("a group with a dot", group={"name": "a.b"}),
    _at_once("a group of 121 characters", group={"name": "g" * 121}),
    _at_once("a system group", group={"name": "CID_RMQ_SYS_x"}),
    _at_once("a topic that is not there", **_NO_TOPIC),
    _at_once("a system topic", message_queue={"topic": {"name": "TBW102"}, "id": -1}),
    Conversation("without settings", (send(message()), receive())),
    Conversation("an ordered group", (SIMPLE, send(message(message_group="g")), receive()), fifo=True),
    Conversation(
        "a redelivery, and another tag",
        (*_SENT, receive(tag="A"), change(seconds=1), receive(tag="B", polls=2), receive(tag="A", polls=2)),
    ),
    Conversation(
        "a redelivery, and SQL that does not match",
        (*_SENT, receive(sql="n = '1'"), change(seconds=1), receive(sql="n = '2'", polls=2)),
    ),
    Conversation("a redelivery", (*_GOT, change(seconds=1), receive())),
    Conversation(
        "two deliveries at most",
        (*_GOT, change(seconds=1), receive(), change(seconds=1), receive(polls=2)),
        max_attempts=2,
    ),
)

SETTLING: Final = (
    Conversation("an acknowledgement", (*_GOT, acknowledge(HANDLE))),
    Conversation("an acknowledgement sent again", (*_GOT, acknowledge(HANDLE), acknowledge(HANDLE))),
    Conversation("an acknowledgement of nonsense", (acknowledge("nonsense"),)),
    Conversation("an acknowledgement of nothing", (acknowledge(""),)),
    Conversation("no acknowledgement", (acknowledge(),)),
    Conversation("two acknowledgements, one of nonsense", (*_GOT, acknowledge(HANDLE, "nonsense"))),
    Conversation("an acknowledgement by another group", (*_GOT, acknowledge(HANDLE, group={"name": "another"}))),
    Conversation("an acknowledgement with another message id", (*_GOT, acknowledge(HANDLE, message_id="$id2"))),
    Conversation("a change", (*_GOT, change(), acknowledge(_CHANGED))),
    Conversation("a change sent again", (*_GOT, change(), change())),
    Conversation("an acknowledgement of the handle before a change", (*_GOT, change(), acknowledge(HANDLE))),
    Conversation("a change after an acknowledgement", (*_GOT, acknowledge(HANDLE), change())),
    Conversation("a negative change", (*_GOT, change(seconds=-1))),
    Conversation("an acknowledgement of another topic", (*_GOT, acknowledge(HANDLE, topic={"name": "$topic-none"}))),
    Conversation("a change to 0 sent again", (*_GOT, change(seconds=0), change(seconds=0))),
    Conversation("an acknowledgement after a change to 0", (*_GOT, change(seconds=0), acknowledge(HANDLE))),
    Conversation("a change to 0", (*_GOT, change(seconds=0))),
    Conversation("a change to 13 h", (*_GOT, change(seconds=46_800))),
    Conversation("a change of nonsense", (change("nonsense"),)),
    Conversation("a change by another group", (*_GOT, change(group={"name": "another"}))),
)

_DEAD: Final = {"name": "%DLQ%$group"}
DEAD_LETTERS: Final = (
    Conversation("a dead letter", (*_GOT, forward())),
    Conversation("a dead letter sent again", (*_GOT, forward(), forward())),
    Conversation("a dead letter of nonsense", (forward("nonsense"),)),
    Conversation("a dead letter after an acknowledgement", (*_GOT, acknowledge(HANDLE), forward())),
    Conversation("an acknowledgement after a dead letter", (*_GOT, forward(), acknowledge(HANDLE))),
    Conversation("a dead letter received", (*_GOT, forward(), receive(message_queue={"topic": _DEAD, "id": -1}))),
    Conversation("a route of dead letters", (*_GOT, forward(), Step("QueryRoute", {"topic": _DEAD}))),
)

CONSUMING: Final = (*RECEIVING, *SETTLING, *DEAD_LETTERS)

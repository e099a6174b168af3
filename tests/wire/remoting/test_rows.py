"""The rows of the store's ports: their bytes are those of the releases before, and each side reads the other's.

`recorded_calls.json` was written by the version before there were rows.  A change of it is a change of the wire.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from entrepot.domain.broker_of_queue import first_place, first_queue
from entrepot.domain.definitions.consumer_group import GroupStatus, UnsettledBytes
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Pulled
from entrepot.domain.query import MessagePage
from entrepot.domain.tiering import TableTopic
from entrepot.domain.timing import TimedMessage
from entrepot.domain.topic import QueueBounds, TopicStatus
from entrepot.domain.transaction import HalfMessage
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.all_operations import OPERATIONS
from entrepot.protocols.wire.frames import RemotingError
from entrepot.protocols.wire.row import Ask, Row
from entrepot.protocols.wire.values import encode
from tests.wire.remoting import recorded_values as v

RECORDED: Final = json.loads((Path(__file__).parent / "recorded_calls.json").read_text())
NUMBER: Final = 3
QUEUE: Final = first_queue(NUMBER) + 1
PLACE: Final = first_place(NUMBER) + 77
OUTCOMES: Final = [None, v.REFUSAL]


class Broker:
    """The third of several brokers, or a slave of it."""

    number, may_lag = NUMBER, False


HERE: Final = replace(v.MESSAGE, queue_id=QUEUE, commit_log_offset=PLACE)
BOUNDS: Final = replace(v.BOUNDS, queue_id=QUEUE)
PROGRESS: Final = GroupStatus(v.GROUP, [replace(v.GROUP_STATUS.progress[0], queue_id=QUEUE)])
STATUS: Final = TopicStatus(v.TOPIC, [BOUNDS])
VERSION: Final = first_place(NUMBER) + 12
# Per recorded call: the request, its arguments at the broker, the broker's answer, and the gateway's.
CALLS: Final[dict[str, tuple[Ask[Any], tuple[Any, ...], Any, Any]]] = {
    "read": (rows.READ.ask("t", QUEUE, 5, 10), ("t", 1, 5, 10), [v.MESSAGE], [HERE]),
    "pull": (
        rows.PULL.ask("t", QUEUE, 5, 10, v.FILTER),
        ("t", 1, 5, 10, v.FILTER),
        Pulled([v.MESSAGE], 6, 0, 9),
        Pulled([HERE], 6, 0, 9),
    ),
    "matching_offsets": (
        rows.MATCHING_OFFSETS.ask("t", QUEUE, "a/+", 5, 10),
        ("t", 1, "a/+", 5, 10),
        ([5, 7], 9),
        ([5, 7], 9),
    ),
    "offset_at": (rows.OFFSET_AT.ask("t", QUEUE, v.POSITION), ("t", 1, v.POSITION), 17, 17),
    "bounds": (rows.BOUNDS.ask("t"), ("t",), [v.BOUNDS], [BOUNDS]),
    "records": (rows.RECORDS.ask("t", QUEUE, 5, 9, 1000), ("t", 1, 5, 9, 1000, None), b"run", b"run"),
    "bytes_between": (rows.BYTES_BETWEEN.ask("t", QUEUE, 5, 9), ("t", 1, 5, 9), 4096, 4096),
    "acknowledge": (
        rows.ACKNOWLEDGE.ask("t", "g", [v.HANDLE, v.PLACES], may_wait=True),  # type: ignore[list-item]
        ("t", "g", [v.HANDLE, v.PLACES], True),
        OUTCOMES,
        OUTCOMES,
    ),
    "change_invisible_duration": (
        rows.CHANGE_INVISIBLE_DURATION.ask("t", "g", [v.HANDLE], 500, release=True, reason="why"),
        ("t", "g", [v.HANDLE], 500, True, False, "why"),
        [None],
        [None],
    ),
    "change_invisible_duration without a reason": (
        rows.CHANGE_INVISIBLE_DURATION.ask("t", "g", [v.HANDLE], None, release=False, suspend=True),
        ("t", "g", [v.HANDLE], None, False, True, ""),
        [None],
        [None],
    ),
    "reject": (rows.REJECT.ask("t", "g", [v.HANDLE]), ("t", "g", [v.HANDLE], "rejected"), [None], [None]),
    "reset_group": (
        rows.RESET_GROUP.ask("g", "t", v.POSITION, QUEUE),
        ("g", "t", v.POSITION, 1),
        v.GROUP_STATUS,
        PROGRESS,
    ),
    "reset_group of all queues": (
        rows.RESET_GROUP.ask("g", "t", v.POSITION),
        ("g", "t", v.POSITION, None),
        v.GROUP_STATUS,
        PROGRESS,
    ),
    "resend_dead_letters": (
        rows.RESEND_DEAD_LETTERS.ask("g", (4, 5), QUEUE),
        ("g", [4, 5], 1),
        OUTCOMES,
        OUTCOMES,
    ),
    "put_topics": (rows.PUT_TOPICS.ask([v.TOPIC]), ([v.TOPIC],), [None], [None]),
    "delete_topic": (rows.DELETE_TOPIC.ask("t", 7), ("t", 7), None, None),
    "topic_status": (rows.TOPIC_STATUS.ask("t"), ("t",), v.TOPIC_STATUS, STATUS),
    "put_namespace": (rows.PUT_NAMESPACE.ask("n", 7), ("n", 7), None, None),
    "delete_namespace": (rows.DELETE_NAMESPACE.ask("n", 7), ("n", 7), None, None),
    "put_group": (rows.PUT_GROUP.ask(v.GROUP), (v.GROUP,), None, None),
    "delete_group": (rows.DELETE_GROUP.ask("g", 7), ("g", 7), None, None),
    "group_status": (rows.GROUP_STATUS.ask("g"), ("g",), v.GROUP_STATUS, PROGRESS),
    "topic_statuses": (rows.TOPIC_STATUSES.ask(["t", "u"]), (["t", "u"],), [v.TOPIC_STATUS], [STATUS]),
    "group_statuses": (rows.GROUP_STATUSES.ask(("g", "h")), (["g", "h"],), [v.GROUP_STATUS], [PROGRESS]),
    "unsettled_bytes": (
        rows.UNSETTLED_BYTES.ask("g", "t"),
        ("g", "t"),
        UnsettledBytes(30, 12),
        UnsettledBytes(30, 12),
    ),
    "get": (rows.GET.ask(["k", "l"]), (["k", "l"],), [v.KEY_VALUE, None], [KeyValue("k", b"v", VERSION), None]),
    "scan": (rows.SCAN.ask("k", limit=100), ("k", "", 100), [v.KEY_VALUE], [KeyValue("k", b"v", VERSION)]),
    "write": (rows.WRITE.ask([v.CHANGE]), ([v.CHANGE],), 12, VERSION),
    "query": (rows.QUERY.ask(v.QUERY), (v.QUERY,), MessagePage([v.MESSAGE], "9"), MessagePage([HERE], "9")),
    "messages_by_id": (rows.MESSAGES_BY_ID.ask(b"id", everywhere=True), (b"id",), [v.MESSAGE], [HERE]),
    "message_at": (rows.MESSAGE_AT.ask(PLACE), (77,), v.MESSAGE, HERE),
    "message_consumers": (rows.MESSAGE_CONSUMERS.ask(HERE), (v.MESSAGE,), [v.CONSUMER], [v.CONSUMER]),
    "message_trace": (rows.MESSAGE_TRACE.ask(b"id"), (b"id",), [v.HOP], [replace(v.HOP, queue_id=QUEUE)]),
    "record_origin": (rows.RECORD_ORIGIN.ask(PLACE), (77,), v.ORIGIN, v.ORIGIN),
    "recall": (rows.RECALL.ask("t", b"id", 500), ("t", b"id", 500), None, None),
    "retime": (rows.RETIME.ask("t", b"id", 500, 900), ("t", b"id", 500, 900), None, None),
    "timed_messages": (
        rows.TIMED_MESSAGES.ask("t", after=v.CURSOR, limit=10),
        ("t", v.CURSOR, 10),
        [TimedMessage(v.MESSAGE, 500)],
        [TimedMessage(HERE, 500)],
    ),
    "end_transactions": (rows.END_TRANSACTIONS.ask([v.END]), ([v.END],), [None], [None]),
    "take_checks": (rows.TAKE_CHECKS.ask(["t"], 10), (["t"], 10), [v.MESSAGE], [HERE]),
    "half_messages": (
        rows.HALF_MESSAGES.ask(after=77, limit=10),
        (None, 77, 10),
        [HalfMessage(v.MESSAGE, 500, 2)],
        [HalfMessage(HERE, 500, 2)],
    ),
    "measure": (
        rows.MEASURE.ask(),
        (),
        ({"append": v.HISTOGRAM}, {"half_messages": 2.0}, None),
        ({"append": v.HISTOGRAM}, {"half_messages": 2.0}, None),
    ),
    "tiering": (rows.TIERING.ask(), (), [v.TIER], [v.TIER]),
    "pins": (rows.PINS.ask(), (), [v.PIN], [replace(v.PIN, queue_id=QUEUE)]),
    "restore": (
        rows.RESTORE_TOPIC.ask(v.RESTORE),
        (v.RESTORE,),
        v.TABLE_TOPIC,
        TableTopic(v.TOPIC, "tables/t", [BOUNDS]),
    ),
    "attach": (
        rows.ATTACH_TOPIC.ask(v.ATTACH),
        (v.ATTACH,),
        v.TABLE_TOPIC,
        TableTopic(v.TOPIC, "tables/t", [BOUNDS]),
    ),
    "look": (rows.LOOK_AT_TABLE.ask(v.ATTACH), (v.ATTACH,), v.SEEN, v.SEEN),
    "accept": (rows.ACCEPT_TABLE.ask("t"), ("t",), None, None),
}


async def answered(row: Row[..., Any], payload: bytes, answer: Any) -> tuple[tuple[Any, ...], bytes]:
    """The arguments that a port's method gets at the broker, and the bytes of its answer."""
    got: list[Any] = []

    async def method(*arguments: Any, **named: Any) -> Any:
        assert list(row.parameters[len(arguments) :]) == list(named)
        got.extend((*arguments, *named.values()))
        return answer

    assert row.arguments is not None
    told = await row.served_by(method)(*row.arguments.decode(payload))
    return tuple(got), told if isinstance(told, bytes) else encode(told)


def said(value: object) -> str:
    """Its text: refusals and histograms have no equality."""
    return re.sub(r" at 0x\w+", "", repr(value))


def test_every_row_is_recorded():
    recorded = {each["number"] for each in RECORDED.values()}
    assert recorded == {each.number for each in OPERATIONS.values() if isinstance(each, Row)}
    assert RECORDED.keys() == {*CALLS, "pop"}


@pytest.mark.parametrize("name", CALLS)
async def test_each_side_has_the_bytes_of_before_and_reads_the_others(name: str):
    asked, arguments, told, found = CALLS[name]
    row, recorded = asked.row, RECORDED[name]
    assert (row.number, row.is_idempotent, sorted(row.callers)) == (
        recorded["number"],
        recorded["again"],
        recorded["callers"],
    )
    assert asked.payload().hex() == recorded["request"]
    got, payload = await answered(row, asked.payload(), told)
    assert said(got) == said(arguments)
    assert payload.hex() == recorded["answer"]
    assert said(row.read(payload, Broker())) == said(found)


async def test_a_pop_answers_with_the_runs_of_before():
    asked = rows.POP.ask(v.POP)
    recorded = RECORDED["pop"]
    assert asked.payload().hex() == recorded["request"]
    got, payload = await answered(rows.POP, asked.payload(), v.DELIVERIES)
    assert (got, payload.hex()) == ((v.POP,), recorded["answer"])
    [delivery] = rows.POP.read(payload, Broker())
    assert (delivery.message.queue_id, delivery.message.commit_log_offset) == (QUEUE, PLACE)


def test_a_slave_says_that_it_may_lag():
    class Slave:
        number, may_lag = 0, True

    [bounds] = rows.BOUNDS.read(encode([v.BOUNDS]), Slave())
    assert bounds == QueueBounds(1, 0, 9, may_lag=True)


def test_a_request_is_a_value():
    asked = rows.REJECT.ask("t", "g", ["a", "b"], "why")
    assert (asked["topic"], asked["reason"]) == ("t", "why")
    part = asked.with_("receipts", ["b"])
    assert part.arguments == ("t", "g", ["b"], "why")
    assert asked["receipts"] == ["a", "b"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: rows.POP.ask("t", "g"),  # type: ignore[call-arg,arg-type]
        lambda: rows.ACKNOWLEDGE.ask("t", "g", [], may_wat=True),  # type: ignore[call-arg]
        lambda: rows.CHANGE_INVISIBLE_DURATION.ask("t", "g", [], None),  # type: ignore[call-arg]
    ],
)
def test_a_wrong_call_is_none(wrong: Callable[[], object]):
    """The type checker finds each of them, too: else their comments would be in vain."""
    with pytest.raises(TypeError):
        wrong()


@pytest.mark.parametrize("messages", [[], [v.MESSAGE, v.MESSAGE]])
async def test_one_message_is_asked_about_and_one_answered(messages: list[StoredMessage]):
    _, batch = await answered(rows.MESSAGES_BY_ID, rows.MESSAGES_BY_ID.ask(b"id").payload(), messages)
    with pytest.raises(RemotingError, match="one message is asked about"):
        await answered(rows.MESSAGE_CONSUMERS, encode((batch,)), [])
    with pytest.raises(RemotingError, match="one message is the answer"):
        rows.MESSAGE_AT.read(batch, Broker())


def test_a_reason_too_long_is_cut():
    asked = rows.CHANGE_INVISIBLE_DURATION.ask("t", "g", [], None, release=True, reason="x" * 1000)
    assert rows.CHANGE_INVISIBLE_DURATION.arguments is not None
    assert rows.CHANGE_INVISIBLE_DURATION.arguments.decode(asked.payload())[-1] == "x" * 300


def test_a_refusal_in_an_answer_is_one():
    [none, refusal] = rows.REJECT.read(encode(OUTCOMES), Broker())
    assert none is None
    assert isinstance(refusal, EntrepotError)
    assert refusal.code == Code.INVALID_RECEIPT_HANDLE

"""The operations of the store's ports over the wire (`row`), each written once.  Numbers are fixed for ever."""

from __future__ import annotations

from typing import Final

from entrepot.domain.ports import (
    Condition,
    Consumption,
    KeyValues,
    MessageFinder,
    MessageReader,
    Timers,
    Topology,
    Transactions,
)
from entrepot.domain.tiering import TierTables
from entrepot.protocols.wire import forms as form
from entrepot.protocols.wire.operation import ANYBODY
from entrepot.protocols.wire.row import row
from entrepot.protocols.wire.served import Measured, RecordReader, RevisedDefinitions

# -- messages --------------------------------------------------------------------------------------------------------
READ: Final = row(10, MessageReader.read, again=True, callers=ANYBODY, queue_id=form.QUEUE, answer=form.MESSAGES)
PULL: Final = row(11, MessageReader.pull, again=True, queue_id=form.QUEUE, answer=form.PULLED)
MATCHING_OFFSETS: Final = row(12, MessageReader.matching_offsets, again=True, queue_id=form.QUEUE)
OFFSET_AT: Final = row(13, MessageReader.offset_at, again=True, callers=ANYBODY, queue_id=form.QUEUE)
BOUNDS: Final = row(14, MessageReader.bounds, again=True, callers=ANYBODY, answer=form.BOUNDS)
RECORDS: Final = row(16, RecordReader.records, again=True, callers=ANYBODY, queue_id=form.QUEUE, answer=form.RECORDS)
BYTES_BETWEEN: Final = row(17, RecordReader.bytes_between, again=True, callers=ANYBODY, queue_id=form.QUEUE)
MESSAGES: Final = (READ, PULL, MATCHING_OFFSETS, OFFSET_AT, BOUNDS)
RECORD_READS: Final = (RECORDS, BYTES_BETWEEN)

# -- consumption -----------------------------------------------------------------------------------------------------
ACKNOWLEDGE: Final = row(21, Consumption.acknowledge, receipts=form.RECEIPTS)
CHANGE_INVISIBLE_DURATION: Final = row(
    22, Consumption.change_invisible_duration, added=["reason"], receipts=form.RECEIPTS, reason=form.REASON
)
REJECT: Final = row(23, Consumption.reject, receipts=form.RECEIPTS)
RESET_GROUP: Final = row(
    24, Consumption.reset_group, callers=ANYBODY, queue_id=form.QUEUE_OR_ALL, answer=form.GROUP_STATUS
)
RESEND_DEAD_LETTERS: Final = row(25, Consumption.resend_dead_letters, queue_id=form.QUEUE)
POP: Final = row(28, Consumption.pop, answer=form.RUNS)
CONSUMPTION: Final = (ACKNOWLEDGE, CHANGE_INVISIBLE_DURATION, REJECT, RESET_GROUP, RESEND_DEAD_LETTERS, POP)

# -- topology --------------------------------------------------------------------------------------------------------
PUT_TOPICS: Final = row(30, RevisedDefinitions.put_topics, again=True, callers=ANYBODY)
DELETE_TOPIC: Final = row(31, RevisedDefinitions.delete_topic)
PUT_NAMESPACE: Final = row(33, RevisedDefinitions.put_namespace, again=True)
DELETE_NAMESPACE: Final = row(34, RevisedDefinitions.delete_namespace)
PUT_GROUP: Final = row(35, RevisedDefinitions.put_group, again=True, callers=ANYBODY)
DELETE_GROUP: Final = row(36, RevisedDefinitions.delete_group)
DEFINITIONS: Final = (PUT_TOPICS, DELETE_TOPIC, PUT_NAMESPACE, DELETE_NAMESPACE, PUT_GROUP, DELETE_GROUP)

TOPIC_STATUS: Final = row(32, Topology.topic_status, again=True, callers=ANYBODY, answer=form.TOPIC_STATUS)
GROUP_STATUS: Final = row(37, Topology.group_status, again=True, callers=ANYBODY, answer=form.GROUP_STATUS)
TOPIC_STATUSES: Final = row(38, Topology.topic_statuses, again=True, callers=ANYBODY, answer=form.TOPIC_STATUSES)
GROUP_STATUSES: Final = row(39, Topology.group_statuses, again=True, callers=ANYBODY, answer=form.GROUP_STATUSES)
UNSETTLED_BYTES: Final = row(132, Topology.unsettled_bytes, again=True)
STATUSES: Final = (TOPIC_STATUS, GROUP_STATUS, TOPIC_STATUSES, GROUP_STATUSES, UNSETTLED_BYTES)

# -- key-values ------------------------------------------------------------------------------------------------------
GET: Final = row(40, KeyValues.get, again=True, callers=ANYBODY, keys=lambda asked: asked[0], answer=form.KEY_VALUES)
SCAN: Final = row(41, KeyValues.scan, again=True, callers=ANYBODY, keys=lambda asked: asked[:1], answer=form.SCANNED)
SCAN_BYTES: Final = 16 << 20
"""Size at which a scan's answer ends before its limit, with the value that exceeds it."""
WRITE: Final = row(
    42, KeyValues.write, callers=ANYBODY, keys=lambda asked: [each.key for each in asked[0]], answer=form.VERSION
)
KEY_VALUES: Final = (GET, SCAN, WRITE)

# -- finder ----------------------------------------------------------------------------------------------------------
QUERY: Final = row(50, MessageFinder.query, again=True, answer=form.PAGE)
MESSAGES_BY_ID: Final = row(
    51, MessageFinder.messages_by_id, again=True, callers=ANYBODY, kept=["everywhere"], answer=form.MESSAGES
)
MESSAGE_AT: Final = row(52, MessageFinder.message_at, again=True, commit_log_offset=form.PLACE, answer=form.MESSAGE)
MESSAGE_CONSUMERS: Final = row(53, MessageFinder.message_consumers, again=True, message=form.MESSAGE_THERE)
MESSAGE_TRACE: Final = row(54, MessageFinder.message_trace, again=True, answer=form.HOPS)
RECORD_ORIGIN: Final = row(55, MessageFinder.record_origin, again=True, commit_log_offset=form.PLACE)
SEARCH: Final = (QUERY, MESSAGES_BY_ID, MESSAGE_AT)
"""Rows that a slave answers, too."""
FINDER: Final = (MESSAGE_CONSUMERS, MESSAGE_TRACE, RECORD_ORIGIN)

# -- timers and transactions -----------------------------------------------------------------------------------------
RECALL: Final = row(60, Timers.recall)
RETIME: Final = row(61, Timers.retime)
TIMED_MESSAGES: Final = row(62, Timers.timed_messages, again=True, answer=form.TIMED)
TIMERS: Final = (RECALL, RETIME, TIMED_MESSAGES)

END_TRANSACTIONS: Final = row(63, Transactions.end_transactions)
TAKE_CHECKS: Final = row(64, Transactions.take_checks, answer=form.MESSAGES)
HALF_MESSAGES: Final = row(65, Transactions.half_messages, again=True, answer=form.HALVES)
TRANSACTIONS: Final = (END_TRANSACTIONS, TAKE_CHECKS, HALF_MESSAGES)

# -- condition and tier ----------------------------------------------------------------------------------------------
MEASURE: Final = row(71, Measured.measure, again=True)
PINS: Final = row(79, Condition.pins, again=True, answer=form.PINS)
TIERING: Final = row(121, Condition.tiering, again=True, callers=ANYBODY)
CONDITION: Final = (PINS, TIERING)

RESTORE_TOPIC: Final = row(128, TierTables.restore, name="restore_topic", answer=form.TABLE_TOPIC)
ATTACH_TOPIC: Final = row(129, TierTables.attach, name="attach_topic", answer=form.TABLE_TOPIC)
ACCEPT_TABLE: Final = row(130, TierTables.accept, name="accept_table", again=True)
LOOK_AT_TABLE: Final = row(131, TierTables.look, name="look_at_table", again=True)
TABLES: Final = (RESTORE_TOPIC, ATTACH_TOPIC, ACCEPT_TABLE, LOOK_AT_TABLE)

"""Rows into messages: `df.write.format("entrepot")` and `df.writeStream.format("entrepot")`.

Every message gets an id made of the writer, the batch, the partition and the row's place in it. Before its first
message, a task records the part that it is about to write. If that was recorded before, it finds the end of the earlier
attempt, and goes on from there. So a repeated batch is in the topic once. Rows of a partition must come in the same
order again, as Spark's do when it replays a batch. Two simultaneous attempts (speculation) are not told apart.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.ingest_job import WRITTEN_PREFIX
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message, ordering_key
from entrepot.domain.names import check_topic_name, split_name
from entrepot.domain.routing.queue_selector import queue_for_key
from entrepot.domain.topic import Topic
from entrepot.spark_ingest.source.options import OptionError, check_names, read_location
from entrepot.spark_ingest.source.spark_api import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from entrepot.spark_ingest.source.stores import store_of
from entrepot.store_client.blocking import ROCKETMQ_IS_READ_ONLY, StoreLocation

CHUNK_ROWS: Final = 500
TEXT_COLUMNS: Final = ("topic", "sub_topic", "tag", "message_group")
COLUMNS: Final = (*TEXT_COLUMNS, "body", "keys", "properties")
_BUSY: Final = frozenset((Code.TOO_MANY_REQUESTS, Code.STORAGE_FULL, Code.UNAVAILABLE))


@dataclass
class Written(WriterCommitMessage):
    """The messages of one task."""

    rows: int


@dataclass(frozen=True)
class WritePlan:
    """The plan for every task; `topic` is that of rows without one of their own."""

    location: StoreLocation
    topic: str
    writer: str


def write_plan(options: Mapping[str, str], schema: StructType, writer: str) -> WritePlan:
    """Check the options. Raises OptionError."""
    check_names(options)
    found = {name.lower(): value for name, value in options.items()}
    columns = schema.names
    unknown = [name for name in columns if name not in COLUMNS]
    if "body" not in columns or unknown:
        text = f"{unknown[0]!r} is none of them" if unknown else "there is no body"
        raise OptionError(f"rows to be written have the columns body and, as wanted, {', '.join(COLUMNS)}: {text}")
    topic = found.get("topic", found.get("path", ""))
    if not topic and "topic" not in columns:
        raise OptionError("which topic? Give the option topic, or a column topic")
    if topic:
        try:
            check_topic_name(split_name(topic)[1])
        except EntrepotError as error:
            raise OptionError(f"topic: {error.message}") from error
    location = read_location(options)
    if location.rocketmq:
        raise OptionError(ROCKETMQ_IS_READ_ONLY)
    return WritePlan(location, topic, found.get("writerid", "") or writer)


class BatchWriter(DataSourceArrowWriter):
    """One write of a table. With the option `writerId` a repeated write writes nothing again."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._own_id = uuid.uuid4().hex
        self._plan = write_plan(options, schema, self._own_id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(self._plan, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Forget the marks: every task's messages are durable, and ids of a write are not used again."""
        if self._plan.writer == self._own_id:
            store_of(self._plan.location).write(
                [KeyValueChange(_mark(self._own_id, partition), None) for partition in range(len(messages))]
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: readers may have seen the tasks' messages, and a repeated write does not repeat them."""


class StreamWriter(DataSourceStreamArrowWriter):
    """The end of a stream; each batch of a query is written once, however often Spark tries."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._plan = write_plan(options, schema, "")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = batch = None
        if context is not None:
            query = context.getLocalProperty("sql.streaming.queryId")
            batch = context.getLocalProperty("streaming.sql.batchId")
        if batch is None or query is None:
            raise OptionError("Spark does not tell which batch of which query this is: write from foreachBatch")
        plan = WritePlan(self._plan.location, self._plan.topic, self._plan.writer or query)
        return _write(plan, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: every task's messages are durable already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: Spark runs the batch again, and its tasks go on from there."""


def _write(plan: WritePlan, batch: int, iterator: Iterator[pa.RecordBatch]) -> Written:
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    part = _Part(plan, batch, partition)
    for records in iterator:
        for first in range(0, records.num_rows, CHUNK_ROWS):
            part.write(records.slice(first, CHUNK_ROWS))
    return Written(part.rows)


def _mark(writer: str, partition: int) -> str:
    return f"{WRITTEN_PREFIX}{writer}/{partition}"


class _Part:
    """One task's writing: chunks of rows, one after the other, each durable before the next."""

    def __init__(self, plan: WritePlan, batch: int, partition: int) -> None:
        self._plan = plan
        self._store = store_of(plan.location)
        self._mark, self._batch = _mark(plan.writer, partition), str(batch).encode()
        self._seed = f"{plan.writer}/{batch}/{partition}"
        self._turn = 0
        self._queues: dict[str, list[int]] = {}
        self._is_again = not self._begin()
        self.rows = 0

    def _begin(self) -> bool:
        """Record that this part is about to be written; True if it was not recorded before."""
        known = self._store.get([self._mark])[0]
        if known is not None and known.value == self._batch:
            return False
        try:
            self._store.write([KeyValueChange(self._mark, self._batch)])
        except EntrepotError as error:
            if error.code is not Code.OUTCOME_UNKNOWN:
                raise
        return True

    def write(self, records: pa.RecordBatch) -> None:
        """Append the missing rest of a chunk."""
        messages = self._messages(records)
        self.rows += len(messages)
        if self._is_again:
            if self._is_there(messages[-1]):
                return  # a chunk begins when the one before it is there
            self._is_again = False
            messages = [message for message in messages if not self._is_there(message)]
        self._append(messages)

    def _is_there(self, message: Message) -> bool:
        return any(found.topic == message.topic for found in self._store.messages_by_id(message.message_id))

    def _append(self, messages: list[Message]) -> None:
        deadline = time.monotonic() + self._plan.location.seconds
        while messages:
            try:
                refusals = self._store.append(messages)
            except EntrepotError as error:
                if error.code not in (Code.OUTCOME_UNKNOWN, Code.UNAVAILABLE) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
                messages = [message for message in messages if not self._is_there(message)]
                continue
            final = [error for error in refusals if error is not None and error.code not in _BUSY]
            if final:
                raise final[0]
            messages = [message for message, error in zip(messages, refusals, strict=True) if error is not None]
            if messages:
                if time.monotonic() > deadline:
                    raise next(error for error in refusals if error is not None)
                time.sleep(0.2)

    def _messages(self, records: pa.RecordBatch) -> list[Message]:
        now_ms = time.time_ns() // 1_000_000
        columns: dict[str, list[Any]] = {
            name: records.column(name).to_pylist() for name in records.schema.names if name in COLUMNS
        }
        found = []
        for at in range(records.num_rows):
            row = {name: values[at] for name, values in columns.items()}
            topic = row.get("topic") or self._plan.topic
            if not topic or row["body"] is None:
                raise OptionError("a row without a topic or without a body cannot be a message")
            message = Message(
                topic,
                row["body"].encode() if isinstance(row["body"], str) else row["body"],
                row.get("sub_topic") or split_name(topic)[1],
                tag=row.get("tag") or "",
                message_group=row.get("message_group") or "",
                keys=_keys(row.get("keys")),
                properties=tuple((name, value or "") for name, value in row.get("properties") or ()),
                message_id=blake2b(f"{self._seed}/{self.rows + at}".encode(), digest_size=16).digest(),
                born_time_ms=now_ms,
            )
            message.filter_hash = filter_hash(message.sub_topic, message.tag)
            message.queue_id = self._queue(message)
            found.append(message)
        return found

    def _queue(self, message: Message) -> int:
        queues = self._queues.get(message.topic)
        if queues is None:
            topic = self._store.topic(message.topic)
            if topic is None:
                check_topic_name(split_name(message.topic)[1])
                topic = self._store.put_topic(Topic(message.topic))
            queues = self._queues[message.topic] = self._store.queues(topic)
        key = ordering_key(message)
        if key:
            return queue_for_key(key, queues)
        self._turn += 1
        return queues[self._turn % len(queues)]


def _keys(value: Any) -> tuple[str, ...]:
    if not value:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)

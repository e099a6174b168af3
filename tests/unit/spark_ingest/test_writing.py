"""A task of the sink that runs again writes what its first attempt did not, and nothing twice."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.spark_ingest.source import writing
from entrepot.spark_ingest.source.writing import WritePlan
from entrepot.store_client.blocking import StoreLocation
from tests.support.cases import cases

PLAN = WritePlan(StoreLocation(brokers=("127.0.0.1:1",)), "t", "writer")
ROWS = pa.record_batch({"body": [b"%d" % number for number in range(10)]})


class DiedError(Exception):
    """The task, in the middle of an append."""


class OneTopic:
    """A store whose appends end after so many messages, once."""

    def __init__(self, dies_after: int) -> None:
        self.messages: list[Message] = []
        self._dies_after: int | None = dies_after
        self._values: dict[str, bytes] = {}

    def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        return [KeyValue(key, self._values[key], 1) if key in self._values else None for key in keys]

    def write(self, changes: Sequence[KeyValueChange]) -> None:
        self._values.update({change.key: change.value for change in changes if change.value is not None})

    def messages_by_id(self, message_id: bytes) -> list[Message]:
        return [each for each in self.messages if each.message_id == message_id]

    def topic(self, name: str) -> Topic:
        return Topic(name)

    def queues(self, topic: Topic) -> list[int]:
        return [0, 1]

    def append(self, messages: Sequence[Message]) -> list[EntrepotError | None]:
        for each in messages:
            if len(self.messages) == self._dies_after:
                self._dies_after = None
                raise DiedError
            self.messages.append(each)
        return [None] * len(messages)


@cases("dies_after", range(10))
def test_a_task_goes_on_where_it_died(monkeypatch: pytest.MonkeyPatch, dies_after: int) -> None:
    store = OneTopic(dies_after)
    monkeypatch.setattr(writing, "store_of", lambda location: store)
    monkeypatch.setattr(writing, "CHUNK_ROWS", 4)
    with pytest.raises(DiedError):
        writing._write(PLAN, 3, iter([ROWS]))
    assert writing._write(PLAN, 3, iter([ROWS])).rows == 10
    assert [each.body for each in store.messages] == ROWS.column("body").to_pylist()


def test_another_batch_of_the_same_rows_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    store = OneTopic(-1)
    monkeypatch.setattr(writing, "store_of", lambda location: store)
    for batch in (3, 4):
        writing._write(PLAN, batch, iter([ROWS]))
    assert len(store.messages) == 20

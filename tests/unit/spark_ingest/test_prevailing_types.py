"""The type of a column that is found in samples: most messages decide, whichever comes first."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, cast

import pytest

from entrepot.domain.message import StoredMessage
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.wire.records import RecordRun, decode_run
from entrepot.spark_ingest.source.options import read_options
from entrepot.spark_ingest.source.schemas import MAX_COLUMNS, _kinds, _prevailing, inferred_fields
from entrepot.store_client.blocking import BlockingReader
from tests.tiered.uploads.model_broker import run_of

TOPIC = "plant"


@pytest.mark.parametrize(
    ("kinds", "prevailing"),
    [
        ({"string": 1, "bigint": 900}, "bigint"),
        ({"bigint": 1, "string": 900}, "string"),
        ({"bigint": 900, "double": 1}, "double"),
        ({"": 900, "bigint": 1}, "bigint"),
        ({"string": 1, "bigint": 500, "double": 400}, "double"),
        ({"struct<`a`: bigint>": 9, "struct<`a`: bigint, `b`: bigint>": 1}, "struct<`a`: bigint, `b`: bigint>"),
        ({"": 3}, ""),
    ],
)
def test_most_values_decide(kinds: dict[str, int], prevailing: str) -> None:
    assert _prevailing(Counter(kinds)) == prevailing


def test_odd_bodies_of_a_sample() -> None:
    assert _kinds({"n": 2**63 - 1, "m": 2**63, "k": -(2**63), "j": -(2**63) - 1, "`": 1, "": 1}) == {
        "n": "bigint",
        "m": "double",
        "k": "bigint",
        "j": "double",
    }
    holds_itself: list[object] = []
    holds_itself.append(holds_itself)
    assert _kinds({"n": holds_itself}) == {} and _kinds([1]) == {} and _kinds(None) == {}


def test_a_deep_value_has_no_column_and_those_beside_it_do() -> None:
    deep: object = 1
    for _ in range(100):
        deep = {"in": deep}
    assert _kinds({"n": 1, "deep": deep, "beside": {"x": 1.5, "deep": deep}, "list": [[deep]]}) == {
        "n": "bigint",
        "beside": "struct<`x`: double>",
    }
    many: object = [1] * 10
    for _ in range(7):
        many = [many] * 10  # ten million values, as CBOR's sharing makes them
    assert _kinds({"n": 1, "many": many}) == {"n": "bigint"}


class _Sample:
    """A reader of one queue with some bodies."""

    def __init__(self, bodies: list[bytes]) -> None:
        self._bodies = bodies

    def bounds(self, topic: str) -> list[QueueBounds]:
        return [QueueBounds(0, 0, len(self._bodies))]

    def records(self, topic: str, queue_id: int, *rest: Any) -> RecordRun:
        return decode_run(run_of([message_of(at, body) for at, body in enumerate(self._bodies)], len(self._bodies)))


def message_of(at: int, body: bytes) -> StoredMessage:
    return StoredMessage(TOPIC, body, queue_id=0, queue_offset=at, commit_log_offset=200 * at)


def test_names_that_are_data_do_not_all_become_columns() -> None:
    """A body of 5,000 fields made 5,013 columns."""
    wide = [json.dumps({f"sensor-{at}": 1} | {"n": at}).encode() for at in range(900)]
    wide.append(json.dumps({f"f{number}": {"x": 1, "y": 2} for number in range(5_000)}).encode())
    options = read_options({"servers": "http://127.0.0.1:1", "subscribe": TOPIC, "parse": "json"})
    found = inferred_fields(cast("BlockingReader", _Sample(wide)), [TOPIC], options)
    assert found["n"] == "bigint" and len(found) == MAX_COLUMNS
    assert sum(max(1, kind.count("`") // 2) for kind in found.values()) <= MAX_COLUMNS


def test_names_that_differ_only_in_case_are_one_column() -> None:
    """Spark refuses a table with both."""
    bodies = [b'{"temp": 1}', b'{"Temp": 2, "o": {"x": 1, "X": 2}}', b'{"Temp": 3}', b'{"temp": 1, "Temp": 4}']
    options = read_options({"servers": "http://127.0.0.1:1", "subscribe": TOPIC, "parse": "json"})
    found = inferred_fields(cast("BlockingReader", _Sample(bodies)), [TOPIC], options)
    assert found == {"Temp": "bigint", "o": "struct<`x`: bigint>"}
    assert inferred_fields(cast("BlockingReader", _Sample(bodies[:1])), [TOPIC], options) == {"temp": "bigint"}

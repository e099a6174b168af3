"""The record of a Spark job in the store: what it says comes back, and it stays small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.journey import ingest_record
from entrepot.domain.journey.ingest_record import MAX_BATCHES, IngestBatch, IngestRecord, decode_record
from entrepot.spark_ingest.job.recording import ranges_of
from tests.support.cases import cases

offsets = st.integers(0, 2**62)
ranges = st.dictionaries(
    st.text(max_size=5), st.dictionaries(st.integers(0, 99_999), st.tuples(offsets, offsets), min_size=1), max_size=3
)
batches = st.builds(IngestBatch, st.integers(0, 2**31), st.text(max_size=4), offsets, ranges)


@given(st.text(max_size=9), st.lists(batches, max_size=5, unique_by=lambda each: each.batch))
def test_a_record_comes_back(table: str, added: list[IngestBatch]):
    record = IngestRecord(table, "delta")
    for each in added:
        record = record.with_batch(each)
    assert decode_record(record.encode()) == record


def test_a_place_is_found_in_its_batch_alone():
    record = IngestRecord("t", "delta", (IngestBatch(0, "1", 5, {"a": {0: (0, 10)}}),))
    record = record.with_batch(IngestBatch(1, "2", 6, {"a": {0: (10, 20), 1: (0, 1)}}))
    found = [[each.batch for each in record.at(("a", queue, at))] for queue, at in ((0, 9), (0, 10), (0, 20), (1, 0))]
    assert found == [[0], [1], [], [1]]
    assert record.at(("b", 0, 0)) == []
    again = record.with_batch(IngestBatch(1, "3", 7, {"a": {0: (10, 20)}}))
    assert [each.version for each in again.at(("a", 0, 15))] == ["3"], "a repeated batch is there once"


def test_it_stays_within_its_limits(monkeypatch: pytest.MonkeyPatch):
    record = IngestRecord("t", "delta")
    for number in range(MAX_BATCHES + 7):
        record = record.with_batch(IngestBatch(number, "", 0, {"a": {0: (number, number + 1)}}))
    assert len(record.batches) == MAX_BATCHES and record.batches[0].batch == 7
    monkeypatch.setattr(ingest_record, "MAX_BYTES", 2_000)
    value = record.encode()
    assert len(value) <= 2_000
    assert decode_record(value).batches[-1].batch == MAX_BATCHES + 6, "the newest stay"


@cases("value", [b"", b"[]", b"{}", b'{"table": 1, "format": "x", "batches": [1]}', b'{"batches": null}', b"\xff"])
def test_what_is_no_record_is_refused(value: bytes):
    with pytest.raises(ValueError):
        decode_record(value)


def test_the_offsets_of_a_batch_are_those_of_the_checkpoint(tmp_path: Path):
    (tmp_path / "offsets").mkdir()
    for batch, end in ((3, {"a": {"0": 10, "1": 5}}), (4, {"a": {"0": 12, "1": 5}, "b": {"0": 2}})):
        (tmp_path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
    assert ranges_of(tmp_path, 4) == {"a": {0: (10, 12)}, "b": {0: (0, 2)}}
    assert ranges_of(tmp_path, 3) == {"a": {0: (0, 10), 1: (0, 5)}}
    assert ranges_of(tmp_path, 9) == {}

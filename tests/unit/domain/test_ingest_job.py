"""Reports of Spark jobs, as they are stored and read again."""

from __future__ import annotations

import json

import pytest

from entrepot.domain.ingest_job import MAX_QUEUES, MAX_TEXT, IngestJob, JobState, decode_job, encode_job
from tests.support.cases import cases

JOB = IngestJob("/lake/t", "delta", JobState.FAILED, "h", 7, 3, 6, 9, 1.5, "41", "no", 30.0, {"t": {"0": 4, "11": 5}})


def test_a_report_is_read_as_it_was_written() -> None:
    assert decode_job(encode_job(JOB)) == JOB
    later = {**json.loads(encode_job(JOB)), "more": 1}
    assert decode_job(json.dumps(later).encode()) == JOB


def test_a_report_is_small() -> None:
    many = {str(queue): 2**62 for queue in range(MAX_QUEUES)}
    long = IngestJob("x" * 10_000, "delta", JobState.RUNNING, "h", 0, reason="y" * 10_000, end={"t": many})
    assert decode_job(encode_job(long)).end == {"t": many}
    assert len(decode_job(encode_job(long)).reason) == MAX_TEXT
    more = IngestJob("t", "delta", JobState.RUNNING, "h", 0, end={"t": many, "u": {"0": 1}})
    assert decode_job(encode_job(more)).end == {}


@cases(
    "value",
    [b"", b"{", b"[]", b"null", b"{}", b'{"state": "odd"}', encode_job(JOB).replace(b'"11"', b'"x"'),
     encode_job(JOB).replace(b'"batch": 3', b'"batch": "x"'),
     *(encode_job(JOB).replace(b'"at_ms": 7', b'"at_ms": ' + odd) for odd in (b"1e400", b"1e30", b"NaN", b"-9e18e")),
     *(encode_job(JOB).replace(b"30.0", odd) for odd in (b"1" + b"0" * 400, b"NaN", b"Infinity", b"1e30")),
     encode_job(JOB).replace(b'"11": 5', b'"11": 1e30'), b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_report(value: bytes) -> None:
    with pytest.raises(ValueError):
        decode_job(value)


def test_a_text_that_nobody_can_show_is_read_all_the_same() -> None:
    told = decode_job(encode_job(JOB).replace(b'"/lake/t"', rb'"\ud800"').replace(b'{"t":', rb'{"\udfff":'))
    assert (told.table, told.end) == ("?", {"?": {"0": 4, "11": 5}})

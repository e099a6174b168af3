"""Corrupted messages on their way up: they wait for a replica, become places, and stop nothing."""

from __future__ import annotations

import pytest
from google_crc32c import value as crc32c

from entrepot.broker.cold.reads import CorruptedRowError
from entrepot.broker.tiered.columns import is_corrupted, to_messages
from entrepot.broker.tiered.merging import LEAST_SEGMENTS
from entrepot.broker.tiered.record_rows import rows_of_run
from entrepot.broker.tiered.upload.uploader import HEAL_SECONDS
from entrepot.broker.tiered.verification import verify
from entrepot.domain.errors import Code
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.records import RecordColumns, decode_run
from tests.support.tiered.rows import record_of, run_of
from tests.tiered.uploads.model_broker import ModelTopic
from tests.tiered.uploads.test_uploader import MIDNIGHT, Bench, offsets


def corrupted_bench(*offsets: int) -> tuple[Bench, ModelTopic]:
    """Ten messages each of two queues, of which those of some offsets of the first one are corrupted."""
    bench = Bench()
    topic = bench.topic(queues=2)
    for queue_id in (0, 1):
        bench.publish(topic, *range(MIDNIGHT, MIDNIGHT + 10), queue_id=queue_id)
    topic.corrupted = {(0, offset) for offset in offsets}
    return bench, topic


@pytest.mark.parametrize("corrupted", [(4,), (0,), (9,), (3, 4, 7), tuple(range(10))])
def test_a_corrupted_message_that_nobody_has_is_a_place(corrupted: tuple[int, ...]) -> None:
    """Its offset alone is an error, at once and after merging, with a filter or without one; verification tells."""
    bench, topic = corrupted_bench(*corrupted)
    bench.upload()
    told = bench.broker.progress[topic.root]
    assert (told.ends, told.problem) == ({0: 10, 1: 10}, "")
    cold = bench.cold(topic)
    everything = compile_filter(FilterExpression(FilterKind.TAG, "odd || even || seldom"))
    for wanted in (None, everything):
        for offset in range(10):
            if offset in corrupted:
                with pytest.raises(CorruptedRowError, match=f"message {offset} of queue 0 is corrupted") as error:
                    cold.read(0, offset, 100, wanted)
                assert error.value.code is Code.MESSAGE_CORRUPTED and error.value.queue_offset == offset
                continue
            page = cold.read(0, offset, 100, wanted)
            end = next((each for each in corrupted if each > offset), 10)
            assert page.messages == topic.queues[0][offset:end] and page.next_offset == end
    assert offsets(cold, 1) == list(range(10)), "another queue goes on"
    assert cold.since(0, MIDNIGHT) == min(set(range(10)) - set(corrupted), default=10)
    verdict = verify(bench.objects, topic.root, bench.clock, is_full=True)
    assert verdict.problems == [] and verdict.rows_read == 20
    assert f"{len(corrupted)} messages were corrupted on the disk" in " ".join(verdict.notes)


def test_segments_with_corrupted_messages_are_merged() -> None:
    bench, topic = corrupted_bench(3)
    bench.upload()
    for number in range(10, 10 + LEAST_SEGMENTS):
        bench.publish(topic, MIDNIGHT + number)
        topic.corrupted.add((0, number))
        bench.clock.advance(1)
        bench.upload()
    assert len(bench.table(topic).snapshot.files) < LEAST_SEGMENTS, "housekeeping has merged them"
    assert verify(bench.objects, topic.root, bench.clock, is_full=True).problems == []
    with pytest.raises(CorruptedRowError):
        bench.cold(topic).read(0, 12, 1)


def test_a_corrupted_message_waits_for_a_replica_and_no_longer_than_it_may() -> None:
    bench, topic = corrupted_bench(4)
    bench.broker.healing = False
    bench.upload()
    assert bench.broker.progress[topic.root].ends == {0: 4, 1: 10}, "what precedes it does not wait"
    bench.uploader.round()
    bench.steady += 31.0
    asked = bench.broker.heals
    assert not bench.uploader.round() and bench.broker.heals == asked + 1, "nor is it asked for without a pause"
    bench.steady += HEAL_SECONDS / 2
    bench.upload()
    assert bench.broker.progress[topic.root].ends == {0: 4, 1: 10}
    bench.steady += HEAL_SECONDS / 2
    bench.upload()
    assert bench.broker.progress[topic.root].ends == {0: 10, 1: 10}


def test_a_healed_message_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, topic = corrupted_bench(4)
    broker = bench.broker

    def heal(place: int) -> bool:
        [found] = [each for each in topic.queues[0] if each.commit_log_offset == place]
        topic.corrupted.discard((0, found.queue_offset))
        return True

    monkeypatch.setattr(broker, "heal", heal)
    bench.upload()
    bench.check(topic)
    assert bench.broker.progress[topic.root].ends == {0: 10, 1: 10}


def test_what_is_whole_and_yet_unreadable_is_a_place_too() -> None:
    """No broker writes such records; if one did, its topic would go on."""
    odd = StoredMessage("t", b"body", queue_id=0, message_id=b"i", queue_offset=1, properties=(("a", "1"),))
    record = record_of(odd)
    for before, after in ((b"\xa1a\xa11", b"\xc1a\xa11"), (b"\xa1a\xa11", b"\xa1a\xc0\xc0"), (b"t", b"\xff")):
        content = record[8:].replace(before, after, 1)
        broken = record[:4] + crc32c(content).to_bytes(4, "big") + content
        run = decode_run(run_of([(odd, broken)]))
        columns = RecordColumns(run)
        assert not columns.corrupted
        rows = rows_of_run(run, columns, 0, 0)
        assert is_corrupted(rows).all() and rows.column("queue_offset").to_pylist() == [1] and to_messages(rows) == []


def test_a_segment_that_cannot_be_merged_stops_nothing_else() -> None:
    """Retention goes on, so do uploads; the problem stays until the segment is whole again, or has expired."""
    bench = Bench()
    topic = bench.topic(retention_ms=20 * 3_600_000)
    for _ in range(LEAST_SEGMENTS - 1):
        bench.publish(topic, bench.clock.now_ms())
        bench.upload()
        bench.clock.advance(1000)
    path = f"{topic.root}/{next(iter(bench.table(topic).snapshot.files))}"
    data = bench.memory.get(path)
    bench.memory.overwrite(path, b"x" * len(data))
    for _ in range(3):
        bench.publish(topic, bench.clock.now_ms())
        bench.upload()
        bench.clock.advance(1000)
        progress = bench.broker.progress[topic.root]
    assert "segments are not merged" in progress.problem and not progress.is_stuck
    assert progress.ends == {0: LEAST_SEGMENTS + 2}
    bench.clock.advance(30 * 3_600_000)
    bench.steady += 3600.0
    bench.upload()
    assert len(bench.table(topic).snapshot.files) == 0, "all of it has expired"
    bench.steady += 3600.0
    bench.upload()
    assert not bench.broker.progress[topic.root].problem

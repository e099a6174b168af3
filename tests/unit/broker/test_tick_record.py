"""TICK records: what a step applied one by one is what is read back, as ranges or as a bitmap."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.consume.consumption_op import ConsumptionOp
from entrepot.broker.consume.progress import Progress, decode_ops, encode_op
from entrepot.broker.consume.tick_record import BITMAP, MAX_TICK_BYTES, TickWriter, ranges_of, read_tick
from entrepot.broker.rows.changed_rows import ChangedRows

PLACES = [("g", "t", 0), ("g", "t", 1), ("g", "\u00fc", 0), ("h", "t", 0)]
SPREAD = [
    ConsumptionOp.DELIVER,
    ConsumptionOp.SETTLE,
    ConsumptionOp.SETTLE,
    ConsumptionOp.RENEW,
    ConsumptionOp.RELEASE,
    ConsumptionOp.UNCOUNT,
]
POINTS = [ConsumptionOp.SKIP, ConsumptionOp.HOLD, ConsumptionOp.TRIM]
RANGES = st.tuples(st.integers(0, 60), st.integers(1, 40)).map(lambda found: range(found[0], sum(found)))
SCATTERED = st.sets(st.integers(0, 90), min_size=1, max_size=30).map(sorted)
AT_A_POINT = st.integers(0, 90).map(lambda at: [at])
OPS = st.tuples(st.sampled_from(SPREAD), RANGES | SCATTERED) | st.tuples(st.sampled_from(POINTS), AT_A_POINT)
HISTORY = st.lists(st.tuples(st.sampled_from(PLACES), OPS, st.sampled_from([0, 5_000, 5_001])), min_size=1, max_size=25)


Place = tuple[str, str, int]
Op = tuple[ConsumptionOp, Sequence[int]]


def begun() -> Progress:
    progress = Progress(ChangedRows())
    for group, topic, queue_id in PLACES:
        progress.apply(encode_op(ConsumptionOp.START, group, topic, queue_id, [0]), 1, 0)
    return progress


def state(progress: Progress) -> dict[object, object]:
    return {
        (key, queue_id): (window.row(0), window.unsettled, window.frontier, window.base)
        for key, windows in progress.windows.items()
        for queue_id, window in windows.items()
    }


@given(HISTORY)
def test_a_tick_does_what_its_operations_did_one_by_one(history: list[tuple[Place, Op, int]]):
    alone, live, read = begun(), begun(), begun()
    tick = TickWriter()
    for place, (op, chosen), deadline in history:
        window = live.windows[place[:2]][place[2]]
        offsets = [each for each in chosen if each >= window.base] if op is ConsumptionOp.DELIVER else chosen
        if not offsets:
            continue  # nobody claims what is settled
        alone.apply(encode_op(op, *place, offsets, deadline), 100, 7)
        live.change(op, *place, offsets, deadline, 100, 7)
        before, most = tick.size, tick.most(*place[:2], len(ranges_of(offsets)))
        tick.add(op, *place, ranges_of(offsets), deadline)
        assert tick.size <= before + most
    payload = tick.encode()
    assert len(payload) <= tick.size
    read.apply(payload, 100, 7)
    assert state(read) == state(live) == state(alone)
    for found in decode_ops(payload):
        assert (found.group, found.topic, found.queue_id) in PLACES


def test_an_attempt_is_one_operation_however_many_ranges_it_has():
    live, read = begun(), begun()
    tick = TickWriter()
    for op, topic in ((ConsumptionOp.DELIVER, "t"), (ConsumptionOp.ATTEMPT, "t\0mine")):
        live.change(op, "g", topic, 0, [0, 1, 5], 9_000, 100, 7)
        tick.add(op, "g", topic, 0, ranges_of([0, 1, 5]), 9_000)
    read.apply(tick.encode(), 100, 7)
    window = read.windows["g", "t"][0]
    assert window.offsets_of_try("mine", 8_000) == [0, 1, 5]
    assert state(read) == state(live)


def test_points_one_behind_the_other_are_not_a_range():
    for op in POINTS:
        live, read = begun(), begun()
        tick = TickWriter()
        for at in (5, 6, 7):
            live.change(op, "g", "t", 0, [at], 0, 100, 7)
            tick.add(op, "g", "t", 0, [(at, 1)], 0)
        read.apply(tick.encode(), 100, 7)
        assert read.windows["g", "t"][0].frontier == 7
        assert state(read) == state(live)


def test_neighbours_become_one_range_and_scattered_settlements_a_bitmap():
    tick = TickWriter()
    for first in range(0, 320, 32):  # ten consumers' claims of one queue
        tick.add(ConsumptionOp.DELIVER, "g", "t", 0, [(first, 32)], 5_000)
    for first in range(0, 320, 2):
        tick.add(ConsumptionOp.SETTLE, "g", "t", 0, [(first, 1)], 0)
    payload = tick.encode()
    assert len(payload) < 120, "less than a byte for each message, names included"
    delivered, settled = read_tick(payload)
    assert delivered.offsets == range(320)
    assert settled.offsets == list(range(0, 320, 2))
    assert payload.count(bytes((ConsumptionOp.SETTLE | BITMAP,))) == 1


def test_other_bytes_are_refused_in_two_ways_and_never_read_on_for_ever():
    tick = TickWriter()
    tick.add(ConsumptionOp.SETTLE, "group", "topic", 3, [(7, 2), (11, 1)], 0)
    payload = tick.encode()
    for end in range(1, len(payload)):
        with contextlib.suppress(ValueError, struct.error):
            assert not list(read_tick(payload[:end])), "a payload that ends where its names do"


@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(data: bytes):
    with contextlib.suppress(ValueError, struct.error):
        for found in read_tick(bytes((ConsumptionOp.TICK,)) + data):
            assert len(found.offsets) > 0


def test_a_step_beyond_one_record_is_several():
    assert TickWriter().most("g" * 255, "t" * 255, 1) < MAX_TICK_BYTES

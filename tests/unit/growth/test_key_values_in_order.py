"""Key-values are scanned in order, at a cost that does not grow with their number; and stated again in short steps."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.metadata import key_values
from entrepot.broker.metadata.key_values import KeyValueTable, encode_write
from entrepot.broker.retention import restatement
from entrepot.broker.retention.restatement import Restatements
from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.domain.key_value import KeyValueChange

KEYS = st.text("ab/é", min_size=1, max_size=4)
WRITES = st.lists(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=2)), min_size=1, max_size=5), max_size=20)


class CountedKey(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    compared: ClassVar[int] = 0

    def __lt__(self, other: str) -> bool:
        CountedKey.compared += 1
        return str.__lt__(self, other)


@given(writes=WRITES, prefix=st.text("ab/", max_size=2), after=st.text("ab/é", max_size=4), limit=st.integers(-1, 5))
def test_a_scan_returns_what_is_there_in_order(writes, prefix, after, limit):
    table, known = KeyValueTable(ChangedRows()), {}
    for at, write in enumerate(writes):
        table.apply(encode_write([KeyValueChange(key, value) for key, value in write]), at, 0)
        for key, value in write:
            known[key] = (value, at + 1)
        there = sorted((key, *row) for key, row in known.items() if row[0] is not None)
        wanted = [row for row in there if row[0].startswith(prefix) and row[0] > after][: max(limit, 0)]
        assert [(fact.key, fact.value, fact.version) for fact in table.scan(prefix, after, limit)] == wanted
        assert [fact.key for fact in table.scan("", "", 1000)] == [row[0] for row in there]


def _compared(count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Comparisons of keys in two hundred new keys, a scan after each, and their removal, among others."""
    table = KeyValueTable(ChangedRows())
    for number in range(count):
        table.restore(b"k" + f"session/{number:07}".encode(), bytes(8))
    assert len(table.scan("session/", "", 500)) == min(count, 500)
    monkeypatch.setattr(key_values, "_decode", lambda payload: payload)
    CountedKey.compared = 0
    for value in (b"", None):
        for number in range(200):
            key = CountedKey(f"session/{number * count // 200:07}+")
            table.apply([(key, value)], number + 1, 0)  # type: ignore[arg-type]
            table.scan("gateway/", "", 500)
    monkeypatch.undo()
    return CountedKey.compared


def test_a_new_key_is_compared_as_often_among_a_hundred_times_as_many(monkeypatch):
    few, many = _compared(1_000, monkeypatch), _compared(100_000, monkeypatch)
    assert many <= 2 * few, (few, many)


def test_a_step_of_restatement_looks_at_some_rows_only():
    table = KeyValueTable(ChangedRows())
    for number in range(5_000):
        table.restore(b"k%07d" % number, (number + 1).to_bytes(8, "big"))
    records: list[bytes] = []
    steps = sum(1 for _ in Restatements({b"k": table}).say_again(10, lambda: 5_000, records.append))
    assert len(records) == 1, "ten rows are from before the end, and one record has them"
    assert [key for key, _ in restatement.decode_rows(records[0])] == [b"k%07d" % number for number in range(10)]
    assert steps == 5_000 // restatement.STEP_ROWS
    table.restate(b"k0000003", bytes(8), 5_000)
    again: list[bytes] = []
    for _ in Restatements({b"k": table}).say_again(10, lambda: 5_000, again.append):
        pass
    assert b"k0000003" not in dict(restatement.decode_rows(again[0]))


def test_a_key_that_goes_between_two_steps_is_not_stated():
    table = KeyValueTable(ChangedRows())
    for number in range(3):
        table.restore(b"k%d" % number, (1).to_bytes(8, "big"))
    rows = table.stale_rows(10, 10)
    assert next(rows) is not None
    table.apply(encode_write([KeyValueChange("1", None)]), 20, 0)
    assert [row and row[0] for row in rows] == [None, b"k2"]

"""Rules of key-values: each key is a register whose versions only grow, and a condition holds when it is written."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import TypeAlias

from tests.history.operations import Get, Write
from tests.history.record import Record, Violation

Access: TypeAlias = Get | Write


def check_key_values(record: Record) -> Iterator[Violation]:
    """Values are unique: what has one was written by one write."""
    accesses: dict[str, list[Access]] = defaultdict(list)
    for each in record.operations:
        if isinstance(each, Get | Write):
            accesses[each.key].append(each)
    for found in accesses.values():
        answered = [each for each in found if each.is_ok]
        writes = {each.value: each for each in found if isinstance(each, Write)}
        yield from _values(answered, writes)
        yield from _versions(answered)
        yield from _conditions(answered)


def _values(answered: list[Access], writes: dict[str, Write]) -> Iterator[Violation]:
    """A version is of one value, which was written."""
    by_version: dict[int, Access] = {}
    for each in answered:
        if not each.version:
            continue
        first = by_version.setdefault(each.version, each)
        if first.value != each.value:
            yield Violation("value", f"{each.key}: version {each.version} has two values", (first, each))
        write = writes.get(each.value)
        if write is None or not write.may_be_done or each.is_before(write):
            yield Violation("value", f"{each.key}: {each.value!r} was not written", (each,))
        elif write.is_ok and write.version != each.version:
            yield Violation("value", f"{each.key}: {each.value!r} has two versions", (write, each))


def _versions(answered: list[Access]) -> Iterator[Violation]:
    """Nobody learns of a version after a later one was told."""
    by_time = sorted(answered, key=lambda each: each.ended)
    ended = [each.ended for each in by_time]
    highest = list(accumulate((each.version for each in by_time), max))
    for each in answered:
        known = bisect_left(ended, each.begun)
        told = highest[known - 1] if known else 0
        if each.version < told or (isinstance(each, Write) and each.version == told):
            yield Violation("version", f"{each.key}: version {each.version} after {told} was told", (each,))


def _conditions(answered: list[Access]) -> Iterator[Violation]:
    """Between the version that a write expected and its own there is none."""
    versions = sorted({each.version for each in answered})
    for each in answered:
        if isinstance(each, Write) and each.expected is not None:
            before = versions[bisect_left(versions, each.version) - 1] if versions[0] < each.version else 0
            if before > each.expected:
                text = f"{each.key}: written in place of version {each.expected}, where {before} was"
                yield Violation("condition", text, (each,))

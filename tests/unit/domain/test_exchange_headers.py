"""Headers exchanges: cases as RabbitMQ decides them, and all bindings against a reading of the rules."""

from __future__ import annotations

import datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.headers import HeadersTable
from entrepot.domain.exchanges.table import RoutedMessage
from tests.support.cases import cases
from tests.unit.domain.routing_model import headers_match

NOON = datetime.datetime(2026, 4, 1, 12, tzinfo=datetime.UTC)


def matching(table: HeadersTable, headers: dict[str, object]) -> set[str]:
    found = table.match(RoutedMessage(("",), lambda: headers, dict))
    return {queue for destinations in found for queue in destinations.queues}


def is_match(arguments: dict[str, object], headers: dict[str, object]) -> bool:
    table = HeadersTable()
    table.add(Binding("x", "q", arguments=arguments))
    return matching(table, headers) == {"q"}


@cases(
    "arguments, headers, expected",
    [
        # all, which is what no x-match means
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1}, False),
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 3}, False),
        ({"a": 1}, {"a": 1}, True),
        ({}, {}, True),
        ({"x-match": "all"}, {"a": 1}, True),
        # any
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"b": 1, "a": 2}, False),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1}, {}, False),
        # headers that begin with x-
        ({"x-match": "all", "a": 1, "x-b": 2}, {"a": 1}, True),
        ({"x-match": "any", "x-b": 2}, {"x-b": 2}, False),
        ({"x-match": "all-with-x", "a": 1, "x-b": 2}, {"a": 1}, False),
        ({"x-match": "all-with-x", "a": 1, "x-b": 2}, {"a": 1, "x-b": 2}, True),
        ({"x-match": "any-with-x", "x-b": 2}, {"x-b": 2}, True),
        ({"x-match": "all-with-x"}, {"x-match": "other"}, True),
        # void: it is there
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"b": 1}, False),
        ({"a": 1}, {"a": None}, False),
        ({"x-match": "any", "a": None, "b": 1}, {"a": 0}, True),
        # types
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": 0}, {"a": False}, False),
        ({"a": "text"}, {"a": b"text"}, True),
        ({"a": b"\xff"}, {"a": b"\xff"}, True),
        ({"a": b"\xff"}, {"a": b"\xfe"}, False),
        ({"a": NOON}, {"a": NOON}, True),
        ({"a": NOON}, {"a": int(NOON.timestamp())}, True),
        ({"a": Decimal("1.0")}, {"a": Decimal("1.0")}, True),
        ({"a": Decimal("1.0")}, {"a": Decimal("1.00")}, False),
        ({"a": [1, "b"]}, {"a": [1, "b"]}, True),
        ({"a": [1, "b"]}, {"a": ["b", 1]}, False),
        ({"a": {"b": [True]}}, {"a": {"b": [True]}}, True),
        ({"a": {"b": [True]}}, {"a": {"b": [1]}}, False),
    ],
)
def test_one_binding(arguments, headers, expected):
    assert is_match(arguments, headers) is expected


names = st.sampled_from(["a", "b", "c", "x-d"])
values = st.one_of(st.integers(0, 2), st.booleans(), st.sampled_from(["s", 1.0, 2.5]))
tables = st.dictionaries(names, values, max_size=4)
bindings = st.tuples(
    st.sampled_from([{}, *({"x-match": match} for match in ("all", "any", "all-with-x", "any-with-x"))]),
    st.dictionaries(names, st.none() | values, max_size=4),
).map(lambda both: {**both[0], **both[1]})


@given(st.lists(bindings, max_size=15), st.lists(tables, min_size=1, max_size=4), st.data())
def test_many_bindings(arguments, messages, data):
    table = HeadersTable()
    all_of_them = {f"q{number}": Binding("x", f"q{number}", arguments=each) for number, each in enumerate(arguments)}
    for binding in all_of_them.values():
        table.add(binding)
    gone = data.draw(st.sets(st.sampled_from(sorted(all_of_them)))) if all_of_them else set()
    for queue in gone:
        table.remove(all_of_them[queue])
    for headers in messages:
        expected = {
            queue
            for queue, binding in all_of_them.items()
            if queue not in gone and headers_match(binding.arguments, headers)
        }
        assert matching(table, headers) == expected


def test_an_empty_table_does_not_ask_for_the_headers():
    def headers():
        raise AssertionError

    assert HeadersTable().match(RoutedMessage(("",), headers, dict)) == []


def test_an_empty_table_has_nothing_left_of_what_was_in_it():
    table = HeadersTable()
    added = [
        Binding("x", "q", arguments=each)
        for each in ({"a": 1}, {"a": None, "b": 2}, {"x-match": "any", "a": 1, "b": None}, {}, {"x-match": "any"})
    ]
    for binding in added:
        table.add(binding)
    for binding in added:
        table.remove(binding)
    assert (table._matchers, table._index, table._always) == ({}, {}, {})

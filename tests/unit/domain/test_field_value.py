"""Values of field tables: equality, types and texts as RabbitMQ has them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.field_value import (
    argument_inequivalence,
    atom,
    comparable,
    table_identity,
    term,
    text_of,
    type_name,
)
from tests.support.cases import cases


class Seconds(int):
    """As a decoder marks timestamps."""


NOON = datetime.datetime(2026, 4, 1, 12, tzinfo=datetime.UTC)
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary())
values = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(values, values)
def test_comparables_are_equal_only_if_values_are(one, other):
    if comparable(one) == comparable(other):
        assert hash(comparable(one)) == hash(comparable(other))
        assert one == other or isinstance(one, bytes | list | dict) or isinstance(other, bytes), "text may be bytes"
    if type(one) is type(other) and one == other and not isinstance(one, dict | list):
        assert comparable(one) == comparable(other)


@given(st.dictionaries(st.text(), values, max_size=5))
def test_the_order_of_a_table_of_arguments_does_not_matter(table):
    assert table_identity(dict(reversed(table.items()))) == table_identity(table)


@cases(
    "value, name, text",
    [
        (True, "bool", "true"),
        (5, "signedint", "5"),
        (1 << 31, "long", "2147483648"),
        (-(1 << 31), "signedint", "-2147483648"),
        (Seconds(5), "timestamp", "5"),
        (NOON, "timestamp", str(int(NOON.timestamp()))),
        (1.5, "double", "1.5"),
        (Decimal("1.5"), "decimal", "1.5"),
        ("a", "longstr", '<<"a">>'),
        (b"a", "longstr", '<<"a">>'),
        (None, "void", "undefined"),
        ({"a": 1}, "table", '[{<<"a">>,signedint,1}]'),
        ([1, "b"], "array", '[{signedint,1},{longstr,<<"b">>}]'),
    ],
)
def test_types_and_texts(value, name, text):
    assert (type_name(value), term(value)) == (name, text)


@cases(
    "one, other, same",
    [
        ({"a": 5}, {"a": 5}, True),
        ({"a": 5}, {"a": Seconds(5)}, False),
        ({"a": 5}, {"a": 5.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {}, False),
        ({"a": "b"}, {"a": b"b"}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1.0}}, False),
    ],
)
def test_identity_of_tables_is_of_types_too(one, other, same):
    assert (table_identity(one) == table_identity(other)) is same
    assert (argument_inequivalence("a", "it", one, other) is None) is same


def test_a_timestamp_equals_its_seconds():
    assert comparable(Seconds(5)) == comparable(5)
    assert comparable(NOON) == comparable(int(NOON.timestamp()))


def test_what_no_table_holds_is_an_error():
    with pytest.raises(TypeError, match="object is not a type of field values"):
        comparable(object())


def test_atoms_are_quoted_where_they_have_to_be():
    assert (atom("topic"), atom("x-random"), atom("Topic")) == ("topic", "'x-random'", "'Topic'")


def test_text_is_what_a_longstr_says():
    assert (text_of("é"), text_of("é".encode()), text_of(b"\xff"), text_of(1)) == ("é", "é", "\udcff", None)

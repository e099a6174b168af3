"""Compiled filters of every kind: sub-topics, hashes, the cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import (
    ALTERNATIVES,
    MAX_SUB_TOPIC_FILTERS,
    FilterExpression,
    FilterKind,
    MessageFilter,
    compile_filter,
)
from entrepot.domain.filter_hash import filter_hash, sub_topic_hash
from entrepot.domain.message import Message
from entrepot.domain.routing.topic_filter import MAX_LEVELS, MAX_TOPIC_BYTES, is_valid_filter
from tests.support.cases import cases


def sub_topic_filter(text: str) -> MessageFilter:
    return compile_filter(FilterExpression(FilterKind.SUB_TOPIC, text))


@cases(
    "text, sub_topic, expected",
    [
        ("factory/line1/temp", "factory/line1/temp", True),
        ("factory/line1/temp", "factory/line1", False),
        ("factory/+/temp", "factory/line1/temp", True),
        ("factory/+/temp", "factory/line1/speed", False),
        ("factory/#", "factory/line1/temp", True),
        ("factory/#", "factory", True),
        ("+/line1/temp", "factory/line1/temp", True),
        ("#", "factory/line1", True),
        ("#", "$SYS/uptime", False),
        ("+/uptime", "$SYS/uptime", False),
        ("$SYS/#", "$SYS/uptime", True),
        ("$SYS/uptime", "$SYS/uptime", True),
        ("/", "/", True),
        ("orders", "", True),
        ("+", "", True),
        ("#", "", True),
        ("orders/#", "", True),
        ("orders/x", "", False),
        ("other", "", False),
    ],
)
def test_sub_topics(text: str, sub_topic: str, expected: bool) -> None:
    wanted = sub_topic_filter(text)
    message = Message("orders", b"", sub_topic=sub_topic)
    assert wanted.matches(message) is expected
    assert wanted.may_match(filter_hash(sub_topic, "tag")) >= expected
    assert not wanted.accepts_all
    assert wanted.exact_sub_topic == (None if "+" in text or "#" in text else text)


def test_an_exact_name_is_told_by_its_hash() -> None:
    wanted = sub_topic_filter("orders/eu")
    assert wanted.may_match(filter_hash("orders/eu", "red"))
    assert not wanted.may_match(filter_hash("orders/us", "red"))
    assert not wanted.may_match(filter_hash("", "red"))  # a topic's own name has one level
    assert sub_topic_filter("orders").may_match(filter_hash("", "red"))
    assert sub_topic_filter("orders").may_match(sub_topic_hash("orders"))


@cases(
    "text, position",
    [
        ("", 1),
        ("a/b+/c", 4),
        ("#a", 1),
        ("a/#/b", 3),
        ("a/##", 3),
        ("a\0b+/c", 2),
        ("a\0", 1),
        ("\0", 1),
        ("\0".join(["a"] * (MAX_SUB_TOPIC_FILTERS + 1)), 1),
        ("/" * MAX_LEVELS, MAX_LEVELS + 1),
        ("é" * MAX_TOPIC_BYTES, MAX_TOPIC_BYTES // 2 + 1),
        ("a/\udfff", 3),
    ],
)
def test_what_is_no_topic_filter(text: str, position: int) -> None:
    with pytest.raises(EntrepotError) as refused:
        sub_topic_filter(text)
    assert refused.value.code == Code.ILLEGAL_FILTER_EXPRESSION
    assert f"at position {position}:" in refused.value.message
    assert len(refused.value.message) < 300


@given(st.text(max_size=20) | st.text("ab+#/$\0", max_size=12))
def test_topic_filters_are_refused_exactly_if_mqtt_refuses_them(text: str) -> None:
    if all(map(is_valid_filter, text.split(ALTERNATIVES))):
        sub_topic_filter(text)
        return
    with pytest.raises(EntrepotError) as refused:
        sub_topic_filter(text)
    assert refused.value.code == Code.ILLEGAL_FILTER_EXPRESSION


LEVEL = st.sampled_from(["orders", "a", "b", "$x"])
NAME = st.lists(LEVEL, max_size=3).map("/".join)
EXPRESSIONS = st.one_of(
    st.builds(
        FilterExpression,
        st.just(FilterKind.TAG),
        st.lists(st.sampled_from(["a", "b", "größe", "*", ""]), max_size=4).map(" || ".join),
    ),
    st.builds(
        FilterExpression,
        st.just(FilterKind.SUB_TOPIC),
        st.lists(LEVEL | st.just("+"), max_size=3).map("/".join) | NAME.map(lambda name: f"{name}/#".lstrip("/")),
    ),
    st.builds(
        FilterExpression,
        st.just(FilterKind.SQL92),
        st.sampled_from(["TAGS = 'a'", "TAGS IS NULL", "p = 1", "TRUE", "NOT TAGS IN ('a')"]),
    ),
)


@given(EXPRESSIONS, NAME, st.sampled_from(["", "a", "b", "größe", "*"]), st.sampled_from(["0", "1"]))
def test_what_matches_may_match(expression: FilterExpression, sub_topic: str, tag: str, value: str) -> None:
    try:
        wanted = compile_filter(expression)
    except EntrepotError:
        return
    message = Message("orders", b"", sub_topic=sub_topic, tag=tag, properties=(("p", value),))
    message.filter_hash = filter_hash(sub_topic, tag)
    if wanted.matches(message):
        assert wanted.may_match(message.filter_hash)
    elif wanted.accepts_all:
        raise AssertionError("a filter that accepts all refused one")


@cases("kind", FilterKind)
def test_an_expression_is_compiled_once(kind: FilterKind) -> None:
    expression = FilterExpression(kind, "abc")
    compiled = compile_filter(expression)
    assert compile_filter(FilterExpression(kind, "abc")) is compiled
    assert compiled.expression == expression
    assert "abc" in repr(compiled)
